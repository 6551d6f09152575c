;;; ask: place target act foo2 target2 counter-value blk tagged inner-block method-block quoted-global
;;; Uses that look exact, although they are not.
(defpackage :truth.wrong (:use :cl))
(in-package :truth.wrong)

(defgeneric connected (x) (:method (x) x))
(defclass place () ())
(defun place (x) x)
(defun u (⟪place⟫) (assert (connected ⟪place⟫) (⟪place⟫) "no ~A" ⟪place⟫))
(defun u2 (x) (check-type x ⟦place⟧) (assert x ((⟦place⟧ x))) (⟦place⟧ x))
(defun (setf place) (v x) (list v x))
(defun u3 (x ⟪place⟫) (rotatef x ⟪place⟫) (shiftf x ⟪place⟫ 1) (setf (⟦place⟧ x) ⟪place⟫))

(defun target (x) x)
(defun n () (loop named ⟪target⟫ for i from 1 do (return-from ⟪target⟫ (⟦target⟧ i))))
(defun n2 () (loop named other for i from 1 do (return-from other (⟦target⟧ i))))

(defun act (x) x)
(defmacro with-act (&body b) `(flet ((⟪act⟫ (x) (list x))) ,@b))
(defun uses-act () (with-act (⟪act⟫ 1)))
(defun uses-global-act () (⟦act⟧ 1))

(defun foo2 (x) x)
(defun m () (macrolet ((foo (x) `(⟪foo2⟫ ,x)) (⟪foo2⟫ (x) x)) (foo 1)))
(defun m2 () (macrolet ((foo (x) `(⟦foo2⟧ ,x))) (foo 1)))

(eval-when (:compile-toplevel :load-toplevel :execute) (defconstant +t+ '⟦target2⟧))
(defun target2 (x) x)
(defun r (x) (case x (⟪#.+t+⟫ 1) (⟦target2⟧ 2)))

(progn (deftype counter-value () 'fixnum) (defstruct counter (value 0)))

(defun blk (x) x)
(defun b () (block ⟪blk⟫ (return-from ⟪blk⟫ (⟦blk⟧ 1))))
(defun b2 (x) (flet ((⟪blk⟫ (x) (return-from ⟪blk⟫ x))) (⟪blk⟫ x)))
(defun tagged (x) x)
(defun t1 () (tagbody ⟪tagged⟫ (⟦tagged⟧ 1) (go ⟪tagged⟫)))
(defun t2 () (prog (x) ⟪tagged⟫ (setf x (⟦tagged⟧ 1)) (if x (go ⟪tagged⟫))))
(defun t3 () (dolist (x '(1)) ⟪tagged⟫ (if (⟦tagged⟧ x) (go ⟪tagged⟫))))
(defun inner-block (x) (when x (return-from ⟦inner-block⟧ 1)) (⟦inner-block⟧ (block ⟪inner-block⟫ (return-from ⟪inner-block⟫ 2))))
(defmacro with-block (x) `(block ⟪inner-block⟫ (return-from ⟪inner-block⟫ ,x)))
(defun uses-block () (with-block (⟦inner-block⟧ 1)))
(defgeneric method-block (x))
(defmethod method-block (x) (return-from ⟦method-block⟧ x))

(defun quoted-global (x) x)
(defun g1 (l) (flet ((⟪quoted-global⟫ (x) x)) (mapcar #'⟪quoted-global⟫ (mapcar '⟦quoted-global⟧ l))))
(defun g2 (l) (labels ((⟪quoted-global⟫ (x) (if x (⟪quoted-global⟫ nil)))) (⟪quoted-global⟫ l)) (⟦quoted-global⟧ l))
