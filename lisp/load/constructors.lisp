;;;; Delays the compilation of constructors: the functions that SBCL generates for calls of
;;;; MAKE-INSTANCE with a constant class.
;;;;
;;;; SBCL compiles a constructor at its first call in each process, because the fasl contains only
;;;; the constructor's name. Compilation takes milliseconds, whereas a general call of MAKE-INSTANCE
;;;; takes microseconds, and most constructors that a load calls are called once.

(in-package :steelbank)

(defconstant +calls-uncompiled+ 100
  "The number of calls of a constructor before it is compiled.")

(defun compile-constructor-late (function constructor)
  "Wrap SBCL's compilation of CONSTRUCTOR: at first, use the general MAKE-INSTANCE instead."
  ;; After +CALLS-UNCOMPILED+ calls, compile CONSTRUCTOR.
  (let ((calls 0))
    (declare (type fixnum calls))
    (setf (constructor-function constructor)
          (lambda (&rest arguments)
            (cond ((< calls +calls-uncompiled+)
                   (incf calls)
                   (apply #'make-instance
                          (constructor-class constructor)
                          (constructor-initargs constructor arguments)))
                  (t
                   (funcall function constructor)
                   (apply constructor arguments)))))))
