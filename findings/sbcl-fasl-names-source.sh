#!/bin/sh
# SBCL 2.2.9: the text at the start of a fasl has the source's pathname as COMPILE-FILE was called with
# it, here a relative one, so that fasls of the same source differ. The definition source of the loaded
# function is nevertheless absolute. Likely guesses: no source file in the header, or its truename.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
mkdir src
echo '(defun f () 1)' >src/a.lisp
cat >try.lisp <<'END'
(require :sb-introspect)
(load (compile-file "src/a.lisp" :output-file (truename ".")))
(format t "~&seen: source ~A absolute ~A~%"
        (with-open-file (fasl "a.fasl" :external-format :latin-1)
          (loop for line = (string-trim " " (read-line fasl))
                when (eql 0 (search "compiled from" line)) return (subseq line 14)))
        (eq :absolute (first (pathname-directory (sb-introspect:definition-source-pathname
                                                  (sb-introspect:find-definition-source #'f))))))
END
lisp --load try.lisp | expect 'seen: source "src/a.lisp" absolute T'
