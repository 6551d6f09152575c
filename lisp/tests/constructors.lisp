;;;; Constructors that are compiled late do what compiled ones do.

(in-package :steelbank-tests)

(defparameter *counted-class*
  '(progn
    (defclass counted ()
      ((given :initarg :given :reader given)
       (constant :initarg :constant :reader constant)
       (default :initarg :default :reader default))
      (:default-initargs :default (incf *defaults*)))
    (defmethod initialize-instance :after ((object counted) &key given)
      (when (eq given :forbidden)
        (error "It is forbidden."))))
  "A class of whose making each step can be told.")

(defvar *defaults* 0
  "How often a default initial argument was evaluated.")

(defun call-with-late-constructor (function)
  "Call FUNCTION with a maker of instances of *COUNTED-CLASS* whose constructor is compiled late, and a function that tells how often it was
compiled."
  (let ((*defaults* 0)
        (compilations 0))
    (with-compilation-unit (:override t)
      (handler-bind ((warning #'muffle-warning))
        (eval *counted-class*)))
    (steelbank::encapsulate steelbank::+compile-constructor+ 'test
                            (lambda (compile constructor)
                              (steelbank::compile-constructor-late
                               (lambda (constructor) (incf compilations) (funcall compile constructor))
                               constructor)))
    (unwind-protect
         (funcall function
                  (compile nil '(lambda (given)
                                 (list given (make-instance 'counted :given given :constant '(a b)))))
                  (lambda () compilations))
      (steelbank::unencapsulate steelbank::+compile-constructor+ 'test)
      (setf (find-class 'counted) nil)
      (fmakunbound 'given) (fmakunbound 'constant) (fmakunbound 'default))))

(deftest a-constructor-makes-the-same-before-and-after-it-is-compiled
    (call-with-late-constructor
     (lambda (make compilations)
       (flet ((made (given)
                (destructuring-bind (argument object) (funcall make given)
                  (list argument
                        (funcall 'given object)
                        (funcall 'constant object)
                        (funcall 'default object)))))
         (append (loop for call from 1 to (+ steelbank::+calls-uncompiled+ 5)
                       unless (equal (made call) (list call call '(a b) call))
                         collect call)
                 (list (funcall compilations))))))
  (1))

(deftest a-constructor-that-is-called-rarely-is-not-compiled
    (call-with-late-constructor
     (lambda (make compilations)
       (loop repeat steelbank::+calls-uncompiled+ do (funcall make 1))
       (funcall compilations)))
  0)

(deftest a-constructor-signals-the-same-before-and-after-it-is-compiled
    (call-with-late-constructor
     (lambda (make compilations)
       (flet ((failure () (handler-case (funcall make :forbidden) (error (condition) (princ-to-string condition)))))
         (let ((before (failure)))
           (loop repeat steelbank::+calls-uncompiled+ do (funcall make 1))
           (list before (failure) (funcall compilations))))))
  ("It is forbidden." "It is forbidden." 1))

(deftest a-constructor-knows-a-class-that-was-defined-anew
    (call-with-late-constructor
     (lambda (make compilations)
       (funcall make 1)
       (handler-bind ((warning #'muffle-warning))
         (eval '(defclass counted ()
                 ((given :initarg :given :initform nil) (constant :initarg :constant) (more :initform :more :reader more)))))
       (list (funcall 'more (second (funcall make 1))) (funcall compilations))))
  (:more 0))
