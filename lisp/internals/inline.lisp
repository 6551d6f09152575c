;;;; Defines DEFINE-INLINE, with which the files of this folder define our names for SBCL's
;;;; internals. Code outside this folder does not name internals; lisp/tests/internals.lisp enforces
;;;; that.

(in-package :steelbank)

(defmacro define-inline (name lambda-list documentation &body body)
  "Define the function NAME as inline, so that the indirection costs nothing."
  (check-type documentation string)
  `(progn
     (declaim (inline ,name))
     (defun ,name ,lambda-list
       ,documentation
       ,@body)))
