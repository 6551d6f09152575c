;;; ask: pr sy run3
;;; Uses that are easily missed.
(defpackage :truth.missing (:use :cl) (:export . #1=(⟦#:run3⟧)))
(in-package :truth.missing)

(defun run3 () 1)
(defun pr (s x &optional c a) (declare (ignore c a)) (princ x s))
(define-symbol-macro sy (car *list*))
(defvar *list* (list 1))
(defun s1 () (list ⟦sy⟧ (let ((⟪sy⟫ 2)) ⟪sy⟫)))
(defun s2 () (let ((⟪sy⟫ 2)) ⟪sy⟫))
(defun s3 () ⟦sy⟧)
