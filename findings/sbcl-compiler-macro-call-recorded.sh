#!/bin/sh
# SBCL 2.2.9: SB-INTROSPECT:WHO-CALLS lists a function whose only call of F was replaced by F's
# compiler macro, so that the compiled code does not call F. Likely guess: no record, as with macros,
# which have WHO-MACROEXPANDS.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
cat >a.lisp <<'END'
(defun f (x) x)
(define-compiler-macro f (x) `(list ,x))
(defun user (x) (f x))
END
cat >try.lisp <<'END'
(require :sb-introspect)
(load (compile-file "a.lisp"))
(fmakunbound 'f)
(format t "~&seen: ~A, runs without F: ~A~%"
        (mapcar #'first (sb-introspect:who-calls 'f)) (user 1))
END
lisp --load try.lisp | expect 'seen: (USER), runs without F: (1)'
