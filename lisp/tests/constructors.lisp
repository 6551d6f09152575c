;;;; Tests that constructors behave the same whether they are compiled immediately or late.

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
  "A class for which each step of creating an instance can be observed.")

(defvar *defaults* 0
  "The number of times that a default initialization argument was evaluated.")

(defun call-with-late-constructor (function)
  "Call FUNCTION with two functions, which use a constructor that is compiled late."
  ;; The first creates instances of *COUNTED-CLASS* through the constructor. The second returns how
  ;; often the constructor was compiled.
  (let ((*defaults* 0)
        (compilations 0))
    (with-compilation-unit (:override t)
      (handler-bind ((warning #'muffle-warning))
        (eval *counted-class*)))
    (steelbank::encapsulate steelbank::+compile-constructor+ 'test
                            (lambda (compile constructor)
                              (steelbank::compile-constructor-late
                               (lambda (constructor)
                                 (incf compilations) (funcall compile constructor))
                               constructor)))
    (unwind-protect
         (funcall function
                  (compile nil '(lambda (given)
                                 (list given
                                       (make-instance 'counted :given given :constant '(a b)))))
                  (lambda () compilations))
      (steelbank::unencapsulate steelbank::+compile-constructor+ 'test)
      (setf (find-class 'counted) nil)
      (fmakunbound 'given) (fmakunbound 'constant) (fmakunbound 'default))))

(deftest constructor-results-do-not-depend-on-compilation
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

(deftest rarely-called-constructor-is-not-compiled
    (call-with-late-constructor
     (lambda (make compilations)
       (loop repeat steelbank::+calls-uncompiled+ do (funcall make 1))
       (funcall compilations)))
  0)

(deftest constructor-errors-do-not-depend-on-compilation
    (call-with-late-constructor
     (lambda (make compilations)
       (flet ((failure ()
                (handler-case (funcall make :forbidden)
                  (error (condition) (princ-to-string condition)))))
         (let ((before (failure)))
           (loop repeat steelbank::+calls-uncompiled+ do (funcall make 1))
           (list before (failure) (funcall compilations))))))
  ("It is forbidden." "It is forbidden." 1))

(deftest constructor-uses-a-redefined-class
    (call-with-late-constructor
     (lambda (make compilations)
       (funcall make 1)
       (handler-bind ((warning #'muffle-warning))
         (eval '(defclass counted ()
                 ((given :initarg :given :initform nil) (constant :initarg :constant)
                  (more :initform :more :reader more)))))
       (list (funcall 'more (second (funcall make 1))) (funcall compilations))))
  (:more 0))
