;;;; Iterates over code objects: all of them, or only those created since the core started.

(in-package :steelbank)

(sb-ext:define-load-time-global *core-text-end* nil
  "The end of the core's code in text space at startup; NIL if it was not recorded.")

(defun note-core-code ()
  "Record where the code of the core ends. Must be called before anything is compiled or loaded."
  (setf *core-text-end* (text-space-end)))

(defun map-code (function later)
  "Call FUNCTION with each code object."
  ;; If LATER, skip the objects of the core, as far as possible. In that case no collection can run
  ;; meanwhile, so FUNCTION must allocate little.
  (if (and later *core-text-end*)
      ;; The allocator of text space uses only space after the end of the core. In dynamic space,
      ;; all of the core's objects are of the last generation, into which nothing is moved later.
      (map-code-from function *core-text-end*)
      (map-all-code function)))
