#!/bin/sh
# SBCL 2.2.9: evaluating a DEFGENERIC form again removes the methods that the earlier form defined with
# (:method ...) and keeps those defined by DEFMETHOD. Likely guesses: all methods stay, or none does.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
cat >try.lisp <<'END'
(defgeneric area (shape) (:method ((shape integer)) 1))
(defmethod area ((shape string)) 2)
(defgeneric area (shape))
(format t "~&seen: ~{~A~^ ~}~%"
        (loop for method in (sb-mop:generic-function-methods #'area)
              collect (class-name (first (sb-mop:method-specializers method)))))
END
lisp --load try.lisp | expect 'seen: STRING'
