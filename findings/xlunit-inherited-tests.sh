#!/bin/sh
# XLUnit 0.6.3: the suite of a class that inherits from a class with tests has the subclass's tests
# only. Likely guess: the inherited test methods run, too, as in JUnit.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1 cl-xlunit=0.6.3-2.2
cat >tests.lisp <<'END'
(defpackage tests (:use :cl :xlunit))
(in-package :tests)
(defclass base (test-case) ())
(def-test-method first-test ((case base) :run nil) (assert-true nil))
(defclass derived (base) ())
(def-test-method second-test ((case derived) :run nil) (assert-true t))
(flet ((run (suite)
         (let* ((*standard-output* (make-broadcast-stream)) (results (textui-test-run suite)))
           (format nil "~D ~A" (xlunit::run-tests results) (was-successful results)))))
  (format t "~&seen: base ~A, derived ~A~%" (run (get-suite base)) (run (get-suite derived))))
END
lisp --eval '(require :asdf)' --eval '(asdf:load-system "xlunit")' --load tests.lisp | expect 'seen: base 1 NIL, derived 1 T'
