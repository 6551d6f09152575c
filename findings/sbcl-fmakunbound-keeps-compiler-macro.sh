#!/bin/sh
# SBCL 2.2.9: FMAKUNBOUND removes a function but not its compiler macro, which still expands calls of a
# function that does not exist. Likely guess: both are removed.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
cat >try.lisp <<'END'
(defun plus (x) x)
(define-compiler-macro plus (x) `(list :expanded ,x))
(fmakunbound 'plus)
(format t "~&seen: ~A ~S~%" (fboundp 'plus) (funcall (compile nil '(lambda () (plus 1)))))
END
lisp --load try.lisp | expect 'seen: NIL (:EXPANDED 1)'
