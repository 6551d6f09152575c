#!/bin/sh
# ASDF 3.3.1: a source file of a system was deleted, and its fasl is still in the cache. LOAD-SYSTEM
# in a new image loads that fasl without an error or a warning. Likely guess: an error, because the
# file does not exist.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
cat >p.asd <<'END'
(defsystem "p" :components ((:file "a")))
END
echo '(defvar cl-user::*a* :from-the-fasl)' >a.lisp
cat >try.lisp <<'END'
(require :asdf)
(asdf:load-asd (truename "p.asd"))
(let ((warned nil))
  (handler-bind ((warning (lambda (c) (declare (ignore c)) (setf warned t))))
    (asdf:load-system "p"))
  (format t "~&seen: file ~A, warned ~A, value ~S~%"
          (and (probe-file "a.lisp") t) warned (symbol-value '*a*)))
END
lisp --load try.lisp | expect 'seen: file T, warned NIL, value :FROM-THE-FASL'
rm a.lisp
lisp --load try.lisp | expect 'seen: file NIL, warned NIL, value :FROM-THE-FASL'
