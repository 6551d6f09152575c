;;;; The package and runner of the Lisp half's tests: (asdf:test-system "steelbank").

(defpackage :steelbank-tests
  (:use :common-lisp :steelbank)
  (:import-from :sb-rt #:deftest)
  (:export #:run))

(in-package :steelbank-tests)

(defvar *reported* '()
  "The sentences reported to the host, newest first. There is no host in tests.")

(defun run ()
  "Run every test. Signal an error if a test fails, or if an internal error is reported."
  (steelbank::encapsulate 'steelbank::report 'tests (lambda (function sentence)
                                                      (declare (ignore function))
                                                      (push sentence *reported*)))
  (unwind-protect
       (unless (sb-rt:do-tests)
         (error "Tests of the Lisp half failed: ~{~a~^, ~}" (sb-rt:pending-tests)))
    (steelbank::unencapsulate 'steelbank::report 'tests))
  (let ((mistakes (remove "Internal error while" *reported* :test-not #'uiop:string-prefix-p)))
    (when mistakes
      (error "~{~A~^~%~}" mistakes)))
  t)
