(defpackage :torture
  (:use :common-lisp)
  (:export #:exported "SAID" :keyed #:*setting*))

(defpackage :torture.other
  (:use :common-lisp)
  (:import-from :torture #:exported)
  (:export #:exported))

(defpackage :torture.namesake
  (:use :common-lisp)
  (:export #:exported))
