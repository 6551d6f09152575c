(in-package :my-package)

(defvar *long* (loop for i below 100 collect i))
(defvar *deep* '(1 (2 (3 (4 (5))))))
(defvar *circular* (let ((list (list 1 2 3))) (setf (cdddr list) list)))
(defvar *text-of-lines* (format nil "one~%two"))
(defvar *unbound*)
(defvar *nothing* nil)

(defclass failing () ())
(defmethod print-object ((object failing) stream)
  (declare (ignore stream))
  (error "It cannot be printed."))
(defvar *failing* (make-instance 'failing))

(defclass throwing () ())
(defmethod print-object ((object throwing) stream)
  (declare (ignore stream))
  (throw 'nowhere 1))
(defvar *throwing* (make-instance 'throwing))

(defclass endless () ())
(defmethod print-object ((object endless) stream)
  (declare (ignore stream))
  (loop))
(defvar *endless* (make-instance 'endless))

(defclass obsolete () ((a :initform 1)))
(defvar *obsolete* (make-instance 'obsolete))
(defclass obsolete () ((b :initform 2)))

(defun my-other::same-name () "One of three." 1)
(defun my-third::same-name () 2)
(defun no-parameters () 1)
(defun no-documentation () "" 1)

(load (asdf:system-relative-pathname "contracts" "made/loose.lisp"))
