;;;; Code objects: all of them, or those that were made since the core was started, which needs no look at what is in the core.

(in-package :steelbank)

(sb-ext:define-load-time-global *core-text-end* nil
  "The address in text space up to which there is nothing but code of the core that was started; NIL if nobody has said.")

(defun note-core-code ()
  "Remember where the code of the core ends. Call it before anything is compiled or loaded."
  (setf *core-text-end* (sb-sys:sap-int sb-vm::*text-space-free-pointer*)))

(defun map-later-code (function)
  "Call FUNCTION with each code object that was made since NOTE-CORE-CODE was called. It must allocate little: no collection can run."
  (declare (type function function))
  (flet ((visit (object type size)
           (declare (ignore size))
           (when (= type sb-vm:code-header-widetag)
             (funcall function object))))
    (declare (dynamic-extent #'visit))
    ;; As SB-VM:MAP-CODE-OBJECTS does. The allocator of text space gives out nothing below where the core ends; in dynamic space all
    ;; of a core is of the last generation, into which nothing is moved later.
    (sb-sys:without-gcing
      (sb-thread::with-system-mutex (sb-vm::*allocator-mutex*)
        (sb-vm::map-objects-in-range #'visit
                                     (ash *core-text-end* (- sb-vm:n-fixnum-tag-bits))
                                     (sb-kernel:%make-lisp-obj (sb-sys:sap-int sb-vm::*text-space-free-pointer*))))
      (sb-alien:alien-funcall (sb-alien:extern-alien "close_code_region" (function sb-alien:void)))
      (sb-vm::walk-dynamic-space #'visit #b0111111 #b111 #b111))))

(defun map-code (function later)
  "Call FUNCTION with each code object; if LATER, only with those that are not of the core, as far as that is known."
  (if (and later *core-text-end*)
      (map-later-code function)
      (sb-vm:map-code-objects function)))
