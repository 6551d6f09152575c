;;;; Constructors that are compiled late.
;;;;
;;;; SBCL compiles a constructor when it is called first, in each process anew; the fasl has but its name. That takes some milliseconds,
;;;; a call of MAKE-INSTANCE some microseconds, and most constructors that a load calls are called once.

(in-package :steelbank)

(defconstant +calls-uncompiled+ 100
  "The number of times that a constructor is called before it is compiled.")

(defun compile-constructor-late (function constructor)
  "Around SBCL's compilation of CONSTRUCTOR at its first call: let MAKE-INSTANCE do its work until it has proved to be called often."
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
