#!/bin/sh
# SBCL 2.2.9: a file calls a function with too many arguments before it defines the function.
# COMPILE-FILE reports nothing. A second COMPILE-FILE of the same file in the same image reports a
# style warning, although the file was not loaded. Likely guess: a warning both times.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
cat >late.lisp <<'END'
(defun caller () (callee 1 2))
(defun callee (x) x)
END
cat >try.lisp <<'END'
(defun warnings-p () (nth-value 1 (compile-file "late.lisp")))
(format t "~&seen: ~A then ~A, defined ~A~%" (warnings-p) (warnings-p) (fboundp 'callee))
END
lisp --load try.lisp | expect 'seen: NIL then T, defined NIL'
