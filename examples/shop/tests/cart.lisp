(defpackage :shop-tests
  (:use :common-lisp :shop))

(in-package :shop-tests)

(defun run ()
  "Signal an error if the shop is wrong."
  (let ((cart (add-item 250 (add-item 1000 (make-instance 'cart)))))
    (assert (= (total cart) 1250))
    (assert (= (total cart :discount 10) 1125))
    (assert (= (price cart) 1250))))
