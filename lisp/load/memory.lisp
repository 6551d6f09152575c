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

(defun held-blocks ()
  "Return the blocks of foreign memory that are still allocated, as lists of address, size, owner."
  (flet ((list-blocks (words count)
           (sb-sys:with-pinned-objects (words)
             (sb-alien:alien-funcall
              (sb-alien:extern-alien "steelbank_held_blocks"
                                     (function (sb-alien:signed 64) sb-sys:system-area-pointer
                                               (sb-alien:signed 64)))
              (sb-sys:vector-sap words) count))))
    (let* ((none (make-array 0 :element-type '(unsigned-byte 64)))
           (count (list-blocks none 0))
           (words (make-array (* 3 count) :element-type '(unsigned-byte 64))))
      (loop repeat (min count (list-blocks words count))
            for at from 0 by 3
            collect (coerce (subseq words at (+ at 3)) 'list)))))

;;; A process that starts from a snapshot allocates C strings again, and sets the variables that
;;; point to them. Other memory may contain pointers, or be known to a foreign library.

(sb-ext:define-load-time-global *foreign-strings* '()
  "Lists of address, octets, and variables with offsets: the strings that a snapshot restores.")

(defun foreign-string (address size)
  "Return the octets of the block at ADDRESS if it is one C string, or NIL."
  ;; No pointer contains exactly one zero octet, at its end. Only mapped memory, which may be
  ;; unreadable, starts at a page.
  (unless (zerop (mod address 4096))
    (let ((octets (make-array size :element-type '(unsigned-byte 8))))
      (sb-sys:with-pinned-objects (octets)
        (copy-foreign-octets (sb-sys:int-sap address) octets))
      (and (eql (position 0 octets) (1- size))
           octets))))

(defun pointer-variables ()
  "Return the global variables that hold pointers, each with its address."
  (let ((found '()))
    (do-all-symbols (symbol)
      (when (and (boundp symbol) (not (constantp symbol)))
        (let ((value (symbol-value symbol)))
          (when (typep value 'sb-sys:system-area-pointer)
            (pushnew (cons symbol (sb-sys:sap-int value)) found :key #'car)))))
    found))

(defun point-to (variables address)
  "Set each of VARIABLES, symbols with offsets, to a pointer to ADDRESS plus its offset."
  (loop for (symbol . offset) in variables
        do (set symbol (sb-sys:int-sap (+ address offset)))))

(defun weak-value (variable)
  "Return a weak pointer to the value of VARIABLE, a symbol with an offset."
  ;; The caller's frame must not refer to the value.
  (sb-ext:make-weak-pointer (symbol-value (car variable))))

(defun note-foreign-strings ()
  "Find the C strings to which nothing but global variables points."
  (let* ((pointers (pointer-variables))
         (strings (loop for (address size) in (held-blocks)
                        for variables = (loop for (symbol . pointer) in pointers
                                              when (< -1 (- pointer address) size)
                                                collect (cons symbol (- pointer address)))
                        for octets = (and variables (foreign-string address size))
                        when octets
                          collect (list* address octets variables)))
         (references (loop for (nil nil . variables) in strings
                           collect (mapcar #'weak-value variables))))
    ;; A pointer that survives a collection without its variable is referenced elsewhere, too.
    (loop for (nil nil . variables) in strings
          do (point-to variables 0))
    (sb-ext:gc :full t)
    (setf *foreign-strings* (loop for string in strings
                                  for weak in references
                                  when (notany #'sb-ext:weak-pointer-value weak)
                                    collect string))
    (loop for (address nil . variables) in strings
          do (point-to variables address))))

(defun restore-foreign-strings ()
  "Allocate the strings of the snapshot from which this process started."
  (loop for (nil octets . variables) in (shiftf *foreign-strings* '())
        ;; Count this memory, because this process may save a snapshot, too.
        for memory = (sb-alien:alien-funcall
                      (sb-alien:extern-alien "steelbank_counted_malloc"
                                             (function sb-sys:system-area-pointer sb-alien:size-t))
                      (length octets))
        do (sb-sys:with-pinned-objects (octets)
             (write-foreign-octets memory octets))
           (point-to variables (sb-sys:sap-int memory))))

(defun held-memory (number)
  "Return the octets of foreign memory of owner NUMBER that a snapshot could not restore."
  (loop for (address size owner) in (held-blocks)
        when (and (= owner number) (not (assoc address *foreign-strings*)))
          sum size))

(defun held-foreign-memory ()
  "Return a sentence for each owner of memory that cannot be saved: a system, or other code."
  (loop for name across (or *memory-owners* #())
        for number from 0
        for size = (held-memory number)
        when (plusp size)
          collect (format nil "~:[Loaded code~;System ~:*~A~] holds ~D byte~:P of foreign memory, ~
                               which cannot be saved in a snapshot." name size)))
