;;; Macros, inlining, local names.
(in-package :torture)

(defvar *setting* 1)

(defun target (x) x)

(defmacro with-target ((var) &body body)
  `(let ((,var (target *setting*))) ,@body))

(defmacro twice (form)
  `(progn ,form ,form))

(defun expander (y)
  (with-target (x)
    (twice (target x))
    (target y)))

(declaim (inline little))
(defun little (x) (target x))

(defun user-of-little (x)
  (little x))

(define-symbol-macro global-target (target *setting*))

(defun symbol-macro-user ()
  global-target)

(defun recursive (n)
  (if (zerop n) 0 (recursive (1- n))))

(defun shadowing (target)
  (flet ((recursive (n) (target n)))
    (list target (recursive 1) (target target))))

(defun binder ()
  (let ((*setting* 2))
    (setf *setting* (+ *setting* *setting*))
    (incf *setting*)))

(defun designators (list)
  (mapcar #'target (mapcar 'target list)))

(defun undefined-arguments (x)
  (cond (x (target x))
        (t (funcall (lambda (target) target) (target x)))))

(defun (setf target) (value x) (list value x))

(defun setter (x)
  (setf (target x) 1)
  (return-from setter (target x)))
