;;;; Defines DEFINE-INLINE, by which this folder gives SBCL's internals names of our own. Code
;;;; outside this folder does not name internals; lisp/tests/internals.lisp enforces that.

(in-package :steelbank)

(defmacro define-inline (name lambda-list documentation &body body)
  "Define the function NAME as inline, so that the indirection costs nothing."
  (check-type documentation string)
  `(progn
     (declaim (inline ,name))
     (defun ,name ,lambda-list
       ,documentation
       ,@body)))
