#!/bin/sh
# ASDF 3.3.1: version 2.0 of a system satisfies the dependency (:version "dep" "1.5"), although the
# major version differs; versions are lower limits only. Likely guess: an error, because 2.0 need not
# be compatible with 1.5.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
echo '(defsystem "dep" :version "2.0")' >dep.asd
echo '(defsystem "old" :depends-on ((:version "dep" "1.5")))' >old.asd
echo '(defsystem "new" :depends-on ((:version "dep" "2.1")))' >new.asd
cat >try.lisp <<'END'
(require :asdf)
(mapc #'asdf:load-asd (mapcar #'truename '("dep.asd" "old.asd" "new.asd")))
(flet ((result (system)
         (handler-case (and (asdf:load-system system) :loads)
           (asdf:missing-dependency-of-version () :error))))
  (format t "~&seen: 1.5 ~A, 2.1 ~A~%" (result "old") (result "new")))
END
lisp --load try.lisp | expect 'seen: 1.5 LOADS, 2.1 ERROR'
