;;;; Defines the functions of this folder: SBCL's internals under names of ours. Nothing outside of this folder names an
;;;; internal of SBCL's, and lisp/tests/internals.lisp holds that.

(in-package :steelbank)

(defmacro define-inline (name lambda-list documentation &body body)
  "Define the function NAME, whose body is compiled where it is called: a name of ours costs nothing."
  (check-type documentation string)
  `(progn
     (declaim (inline ,name))
     (defun ,name ,lambda-list
       ,documentation
       ,@body)))
