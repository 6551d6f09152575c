;;;; The one package of the Lisp half.

(defpackage :steelbank
  (:documentation "The answers of the image about Lisp code, and the boundary to the host.")
  (:use :common-lisp)
  (:import-from :sb-alien #:define-alien-callable)
  (:export #:json-string
           #:object
           #:describe-symbol-facets
           #:print-value
           #:identify
           #:evaluate
           #:main))
