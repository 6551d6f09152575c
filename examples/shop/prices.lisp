(in-package :shop)

(defvar *discount* 0
  "Percent off every price.")

(defgeneric price (item)
  (:documentation "What ITEM costs, in cents."))

(defmethod price ((item integer))
  item)

(defmethod price :around ((item integer))
  (round (* (call-next-method) (- 100 *discount*)) 100))

(defmacro with-discount ((percent) &body body)
  "Run BODY with PERCENT off every price."
  `(let ((*discount* ,percent))
     ,@body))
