;;;; Tests of the Lisp half: (asdf:test-system "steelbank").

(defpackage :steelbank-tests
  (:use :common-lisp :steelbank)
  (:import-from :sb-rt #:deftest)
  (:export #:run))

(in-package :steelbank-tests)

(defun run ()
  "Run every test; an error if one fails."
  (unless (sb-rt:do-tests)
    (error "Tests of the Lisp half failed: ~{~a~^, ~}" (sb-rt:pending-tests)))
  t)
