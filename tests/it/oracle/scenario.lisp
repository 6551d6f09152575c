(defpackage :scenario (:use :common-lisp) (:nicknames :sc) (:export #:a #:g))

(progn
  (defun scenario::a (x) (mapcar #'1+ x))
  (defun scenario::b (x) (scenario::a x))
  (defgeneric scenario::g (x))
  (defmethod scenario::g ((x integer)) (scenario::a x))
  (defmethod scenario::g :around ((x (eql 7))) (call-next-method))
  (defmethod scenario::g ((x string)) (scenario::b x)))

(defun scenario::a (x) (mapcan #'list x))

(defmethod scenario::g ((x integer)) (scenario::b x))

(progn
  (defstruct scenario::pt scenario::x (scenario::y 0 :type fixnum))
  (defun scenario::use-pt (p)
    (setf (scenario::pt-x p) (scenario::pt-y p))
    (scenario::copy-pt p)
    (scenario::make-pt :x 1)
    (scenario::pt-p p)))

(progn
  (defun (setf scenario::place) (v x) (setf (car x) v))
  (defun scenario::use-place (x) (setf (scenario::place x) 3))
  (define-compiler-macro scenario::b (&whole w x) (if (constantp x) `(scenario::a ,x) w))
  (defun scenario::use-b () (scenario::b 3)))

(progn
  (defclass scenario::thing () ((scenario::slot :accessor scenario::thing-slot :initarg :slot)))
  (defun scenario::use-thing (thing)
    (setf (scenario::thing-slot thing) (scenario::thing-slot thing))
    (slot-value thing 'scenario::slot))
  (defmethod print-object :around ((thing scenario::thing) stream)
    (declare (ignorable stream))
    (call-next-method)))

(progn
  (defvar scenario::*special* 1)
  (defun scenario::read-it () scenario::*special*)
  (defun scenario::bind-it () (let ((scenario::*special* 2)) (scenario::read-it)))
  (defun scenario::set-it () (setf scenario::*special* 3)))

(defun scenario::gone () (mapcar #'car '()))

(fmakunbound 'scenario::gone)

(setf (fdefinition 'scenario::moved) (compile nil '(lambda (x) (mapcar #'cdr x))))

(progn
  (defmacro scenario::twice (x) `(list ,@(mapcar #'identity x) ,@x))
  (defun scenario::local (x)
    (labels ((walk (y) (mapcar #'walk y)))
      (mapcar (lambda (z) (walk z)) (scenario::twice (x x))))))

(defmacro scenario::twice (x) `(vector ,@(mapcar #'identity x)))

(remove-method #'print-object (find-method #'print-object '() (list (find-class 'restart) (find-class t))))

(progn
  (defpackage :later (:use :common-lisp :scenario) (:shadow #:when) (:local-nicknames (:s :scenario)))
  (intern "BRAND NEW" :cl-user)
  (import 'scenario::b :later)
  (export (find-symbol "B" :later) :later))

(delete-package (make-package "TRANSIENT" :use '(:scenario)))
