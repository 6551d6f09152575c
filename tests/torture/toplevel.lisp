;;; Code outside of functions; SBCL does not record its uses.
(in-package :torture)

(target 1)

(defvar *table* (list (target 2) #'target 'target))

(defparameter *made* (let ((x (target 3))) (lambda () (target x))))

(eval-when (:load-toplevel :execute)
  (target 4))

(defun two-on-one-line () (list (target 5) (target 6)))

(defun two-on-two-lines ()
  (target 7)
  (target 8))

(defun at-load-time () (load-time-value (target 9)))

(macrolet ((local-macro () '(target 10)))
  (defun inside () (local-macro) (target 11)))
