;;;; Walks the code objects: all of them, or only those made since the core was started, without a look at the core's.

(in-package :steelbank)

(sb-ext:define-load-time-global *core-text-end* nil
  "The address in text space where the code of the core that was started ends; NIL if it was not noted.")

(defun note-core-code ()
  "Remember where the code of the core ends. Call it before anything is compiled or loaded."
  (setf *core-text-end* (text-space-end)))

(defun map-code (function later)
  "Call FUNCTION with each code object; if LATER, only with those that are not of the core, as far as that is known. It must allocate
little then: no collection can run."
  (if (and later *core-text-end*)
      ;; The allocator of text space gives out nothing below where the core ends; in dynamic space all of a core is of the last generation,
      ;; into which nothing is moved later.
      (map-code-from function *core-text-end*)
      (map-all-code function)))
