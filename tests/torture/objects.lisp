;;; Classes, conditions, structures, types and slots. The compiler records few of their uses.
(in-package :torture)

(deftype small () '(integer 0 9))

(defclass base () ((slot :initarg :slot :accessor base-slot :type small)))

(defclass derived (base) ())

(define-condition trouble (error) ((slot :initarg :slot)))

(defstruct point (x 0 :type small) y)

(defstruct (point3 (:include point) (:constructor new-point3 (x y z))) z)

(defgeneric area (thing)
  (:method ((thing base)) (base-slot thing)))

(defmethod area ((thing derived)) (+ (slot-value thing 'slot) (call-next-method)))

(defmethod area ((thing (eql 'base))) 0)

(defun maker (n)
  (declare (type small n))
  (check-type n small)
  (list (make-instance 'base :slot n) (find-class 'derived) (typep n 'base)
        (the small n) (new-point3 1 2 3) (point-x (make-point))))

(defun handler (f)
  (handler-case (funcall f)
    (trouble (c) (error 'trouble :slot c)))
  (typecase f (base 1) ((or derived point) 2)))

(defun with (b)
  (with-slots (slot) b
    (with-accessors ((s base-slot)) b
      (list slot s (setf (base-slot b) 3)))))
