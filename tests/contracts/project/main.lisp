(in-package :my-package)

(defun my-function (a &optional (b 2) &key (c '(1 2)))
  "Add up.

What follows a blank line, and  a \"quote\"."
  (list a b c))

(defun my-unused-function () 1)

(defvar *my-unused-var* nil)

(defvar *my-var* 10 "A variable.")

(defun caller-b () (list (my-function 1) (my-function 2)))
(defun caller-a () (funcall #'my-function *my-var*))
(defun reader () (list *my-var* *my-var*))
(defun binder () (let ((*my-var* 1)) (caller-a)))
(defun setter () (setf *my-var* 2))
(defun lexical (my-var) my-var)

(defmacro my-macro ((a &optional b) &body body)
  "A macro."
  (declare (ignore a b))
  `(progn ,@body))

(defun expander () (my-macro (1) (my-function 3)))

(defclass my-class () ((slot :initform 1 :accessor slot-of)) (:documentation "A class."))
(defstruct (my-struct (:copier nil)) "A structure." (x 0 :type fixnum))
(define-condition my-condition (error) () (:documentation "A condition."))

(defmethod my-generic ((x my-class))
  "A method that stands before the generic function."
  (my-function x))
(defgeneric my-generic (x)
  (:documentation "A generic function."))

(deftype my-type (&optional (size 3)) "A type." `(integer 0 ,size))
(defconstant +my-constant+ 42 "A constant.")
(sb-ext:defglobal **my-global** 1 "A global.")
(define-symbol-macro my-symbol-macro (car *my-var*))
(defun uses-constants () (list +my-constant+ **my-global**))

(defun |mixed Case| (x) "Mixed." x)
(defun (setf place) (new x) (setf (car x) new))
(defun place (x) (car x))
(defun same-name () (list (my-other::same-name) (my-third::same-name)))
(defun local-one () (flet ((my-function (x) x)) (my-function 1)))
#-sbcl (my-function 4)
;; my-function in a comment
(defvar *text* "my-function in a string")
(defun place-setter (x) (setf (place x) 1))
(defun inner-caller () (flet ((inner () (same-name))) (inner)))
