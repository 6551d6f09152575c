#!/bin/sh
# FiveAM 1.4.2: RUN! of a name that is no test runs nothing and returns T, as after success. Likely
# guess: an error, or NIL.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1 cl-fiveam=1.4.2-1 cl-asdf-flv=2.1-2 cl-alexandria=20211025.gita67c3a6-1 cl-trivial-backtrace=20200511.git6eb65bd-1
cat >try.lisp <<'END'
(require :asdf)
(asdf:load-system "fiveam")
(format t "~&seen: ~A~%" (funcall (intern "RUN!" "FIVEAM") 'no-such-test))
END
lisp --load try.lisp | expect 'seen: T'
