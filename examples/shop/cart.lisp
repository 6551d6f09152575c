(in-package :shop)

(defclass cart ()
  ((items :initform '() :accessor items))
  (:documentation "What a customer wants to buy."))

(defun add-item (item cart)
  "Put ITEM into CART."
  (push item (items cart))
  cart)

(defmethod price ((cart cart))
  (reduce #'+ (items cart) :key 'price))

(defun total (cart &key (discount 0))
  "What CART costs, in cents."
  (with-discount (discount)
    (price cart)))

(defun receipt (cart)
  "Print what CART costs, item by item."
  (dolist (item (reverse (items cart)))
    (format t "~8d~%" (price item)))
  (format t "~8d~%" (total cart)))

(defun empty-cart ()
  "Nobody calls this one."
  (make-instance 'cart))
