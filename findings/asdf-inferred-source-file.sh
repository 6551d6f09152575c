#!/bin/sh
# SYSTEM-SOURCE-FILE of a secondary system that ASDF infers from a file is NIL in ASDF 3.3.1, and the
# primary system's .asd file in ASDF 3.3.6. Loading any system replaces the older ASDF by the newer one
# if the source registry has it. Likely guesses: the file with the package definition in both; no
# upgrade without a request.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1 cl-asdf=2:3.3.6-1
cat >inf.asd <<'END'
(defsystem "inf" :class :package-inferred-system :depends-on ("inf/a"))
END
echo '(defpackage :inf/a (:use :cl))' >a.lisp
cat >try.lisp <<'END'
(require :asdf)
(asdf:load-asd (truename "inf.asd"))
(asdf:load-system "inf")
(let ((file (asdf:system-source-file "inf/a")))
  (format t "~&seen: ~A ~A~%" (asdf:asdf-version) (and file (pathname-type file))))
END
{
  lisp --load try.lisp
  rm -rf "$sources"
  lisp --load try.lisp
} | grep '^seen: ' | tr '\n' ' ' | sed 's/ seen: / /; s/ $/\n/' | expect 'seen: 3.3.6 asd 3.3.1 NIL'
