#!/bin/sh
# SBCL 2.2.9: evaluating a DEFPACKAGE form again with fewer exports warns that the package is at
# variance, but the symbol stays exported. Likely guess: the symbol becomes internal.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
cat >try.lisp <<'END'
(defpackage shop (:use :cl) (:export "PRICE" "TOTAL"))
(let ((warned nil))
  (handler-bind ((warning (lambda (c) (setf warned t) (muffle-warning c))))
    (eval '(defpackage shop (:use :cl) (:export "PRICE"))))
  (format t "~&seen: warned ~A ~A~%" warned (nth-value 1 (find-symbol "TOTAL" :shop))))
END
lisp --load try.lisp | expect 'seen: warned T EXTERNAL'
