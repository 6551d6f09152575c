#!/bin/sh
# FiveAM 1.4.2: running one test that has :depends-on first runs the other test, and RUN returns the
# results of both. If the other test fails, the first has one result, TEST-SKIPPED. Likely guess: only
# the results of the test that was named.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1 cl-fiveam=1.4.2-1 cl-asdf-flv=2.1-2 cl-alexandria=20211025.gita67c3a6-1 cl-trivial-backtrace=20200511.git6eb65bd-1
cat >try.lisp <<'END'
(defpackage tests (:use :cl :fiveam))
(in-package :tests)
(test base (is (= 1 2)))
(test (on-top :depends-on base) (is (= 1 1)))
(format t "~&seen: ~{~A~^ ~}~%"
        (let ((*test-dribble* (make-broadcast-stream)))
          (loop for result in (run 'on-top)
                collect (format nil "~A:~A" (fiveam::name (fiveam::test-case result)) (type-of result)))))
END
lisp --eval '(require :asdf)' --eval '(asdf:load-system "fiveam")' --eval '(setf *print-pretty* nil)' --load try.lisp | expect 'seen: ON-TOP:TEST-SKIPPED BASE:TEST-FAILURE'
