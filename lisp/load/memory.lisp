;;;; Counts foreign memory by system while an image is prepared for saving. A saved core contains
;;;; the pointers that MAKE-ALIEN and similar functions return, but not the memory.

(in-package :steelbank)

(defparameter *counted-functions*
  '("malloc" "calloc" "realloc" "aligned_alloc" "posix_memalign" "strdup" "strndup" "mmap" "munmap"
    "free")
  "The C library's memory functions for which the shim provides counting replacements.")

;; The index of a system is the number under which the shim counts its memory. Number 0 is for
;; memory that belongs to no system.
(sb-ext:define-load-time-global *memory-owners* nil
  "A vector of system names while memory is counted; NIL at other times.")

(defun count-foreign-memory ()
  "Start counting the memory that Lisp code allocates from the C library."
  (setf *memory-owners* (make-array 1 :initial-element nil :adjustable t :fill-pointer t)
        *foreign-substitutes*
        (loop for name in *counted-functions*
              collect (cons name (concatenate 'string "steelbank_counted_" name))))
  (relink-foreign-functions *counted-functions*))

(defun stop-counting-foreign-memory ()
  "Stop counting foreign memory."
  (when *memory-owners*
    (setf *memory-owners* nil
          *foreign-substitutes* '())
    (relink-foreign-functions *counted-functions*)))

(defun attribute-foreign-memory (number)
  "Attribute the foreign memory that is allocated from now on to the owner NUMBER."
  (sb-alien:alien-funcall
   (sb-alien:extern-alien "steelbank_own_memory" (function sb-alien:void (sb-alien:signed 64)))
   number))

(sb-ext:define-load-time-global *memory-owner* 0
  "The number to which allocations are currently attributed.")

(defun call-as-memory-owner (name function)
  "Call FUNCTION, and attribute the foreign memory that it allocates to the system NAME."
  (if (null *memory-owners*)
      (funcall function)
      (let ((before *memory-owner*)
            (number (or (position name *memory-owners* :test #'equal)
                        (vector-push-extend name *memory-owners*))))
        (attribute-foreign-memory (setf *memory-owner* number))
        (multiple-value-prog1 (funcall function)
          (attribute-foreign-memory (setf *memory-owner* before))))))

(defun held-memory (number)
  "Return the octets of foreign memory that the owner NUMBER still holds."
  (sb-alien:alien-funcall
   (sb-alien:extern-alien "steelbank_held_memory"
                          (function (sb-alien:signed 64) (sb-alien:signed 64))) number))

(defun held-foreign-memory ()
  "Return a sentence for each system, or code outside systems, that still holds foreign memory."
  (loop for name across (or *memory-owners* #())
        for number from 0
        for size = (held-memory number)
        when (plusp size)
          collect (format nil "~:[Loaded code~;System ~:*~A~] holds ~D byte~:P of foreign memory, ~
                               which cannot be saved in a snapshot." name size)))
