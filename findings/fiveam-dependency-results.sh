#!/bin/sh
# FiveAM 1.4.2: running one test that has :depends-on first runs the other test, and RUN returns the
# results of both. If the other test fails, the first has one result, TEST-SKIPPED. Likely guess: only
# the results of the test that was named.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq -o APT::Sandbox::User=root sbcl=2:2.2.9-1 cl-fiveam=1.4.2-1 cl-asdf-flv=2.1-2 cl-alexandria=20211025.gita67c3a6-1 cl-trivial-backtrace=20200511.git6eb65bd-1
for package in ./*.deb; do dpkg-deb -x "$package" root; done
sources="$work/root/usr/share/common-lisp/source"
lisp() {
  HOME="$work" SBCL_HOME="$work/root/usr/lib/sbcl" \
    CL_SOURCE_REGISTRY="(:source-registry (:tree \"$sources\") :ignore-inherited-configuration)" \
    "$work/root/usr/bin/sbcl" --core "$work/root/usr/lib/sbcl/sbcl.core" --noinform --no-sysinit --no-userinit \
    --non-interactive "$@" 2>&1
}
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

seen=$(lisp --eval '(require :asdf)' --eval '(asdf:load-system "fiveam")' --eval '(setf *print-pretty* nil)' --load try.lisp | grep '^seen: ' || :)
echo "$seen"
[ "$seen" = "seen: ON-TOP:TEST-SKIPPED BASE:TEST-FAILURE" ] || { echo "changed; expected: seen: ON-TOP:TEST-SKIPPED BASE:TEST-FAILURE"; exit 1; }
