;;;; The package of the Lisp half.

(defpackage :steelbank
  (:documentation "Answers calls about the image's Lisp code; implements the boundary to the host.")
  (:use :common-lisp)
  (:import-from :sb-alien #:define-alien-callable)
  (:export #:json-string #:object #:describe-symbol-facets #:print-value #:identify #:evaluate
           #:main))
