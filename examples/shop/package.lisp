(defpackage :shop
  (:use :common-lisp)
  (:export #:price #:with-discount #:cart #:add-item #:total #:receipt))
