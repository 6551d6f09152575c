#!/bin/sh
# ASDF 3.3.1: a source file of a system was deleted, and its fasl is still in the cache. LOAD-SYSTEM
# in a new image loads that fasl without an error or a warning. Likely guess: an error, because the
# file does not exist.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
one_file_system
cat >try.lisp <<'END'
(let ((warned nil))
  (handler-bind ((warning (lambda (c) (declare (ignore c)) (setf warned t))))
    (asdf:load-system "p"))
  (format t "~&seen: file ~A, warned ~A, value ~S~%"
          (and (probe-file "a.lisp") t) warned (symbol-value '*a*)))
END
lisp --load load.lisp --load try.lisp | expect 'seen: file T, warned NIL, value :FROM-THE-FASL'
rm a.lisp
lisp --load load.lisp --load try.lisp | expect 'seen: file NIL, warned NIL, value :FROM-THE-FASL'
