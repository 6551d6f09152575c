(defpackage :my-package
  (:use :cl)
  (:export #:my-function #:my-generic))

(defpackage :my-other
  (:use :cl)
  (:export #:same-name))

(defpackage :my-third
  (:use :cl)
  (:export #:same-name))

(defpackage :cl-mcp
  (:use :cl)
  (:export #:run))
