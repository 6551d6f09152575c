;;;; Tests of the Lisp half: (asdf:test-system "steelbank").

(defpackage :steelbank-tests
  (:use :common-lisp :steelbank)
  (:import-from :sb-rt #:deftest)
  (:export #:run))

(in-package :steelbank-tests)

(defvar *reported* '()
  "The sentences that were reported to the host, newest first: here there is none.")

(defun run ()
  "Run every test; an error if one fails, or if a mistake of ours was reported meanwhile."
  (steelbank::encapsulate 'steelbank::report 'tests (lambda (function sentence)
                                                      (declare (ignore function))
                                                      (push sentence *reported*)))
  (unwind-protect
       (unless (sb-rt:do-tests)
         (error "Tests of the Lisp half failed: ~{~a~^, ~}" (sb-rt:pending-tests)))
    (steelbank::unencapsulate 'steelbank::report 'tests))
  (let ((mistakes (remove "A mistake of ours" *reported* :test-not #'uiop:string-prefix-p)))
    (when mistakes
      (error "~{~A~^~%~}" mistakes)))
  t)
