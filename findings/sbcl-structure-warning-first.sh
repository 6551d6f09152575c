#!/bin/sh
# SBCL 2.2.9: a structure is defined again with one more slot. A warning is signalled before the
# error whose restarts are well known. Likely guess: the error alone.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
cat >try.lisp <<'END'
(defstruct point x)
(defvar *signalled* '())
(flet ((note (condition) (push (if (typep condition 'error) 'error 'warning) *signalled*)))
  (ignore-errors
   (handler-bind ((warning #'note) (error #'note))
     (eval '(defstruct point x y)))))
(format t "~&seen: ~{~A~^ then ~}~%" (reverse *signalled*))
END
lisp --load try.lisp | expect 'seen: WARNING then ERROR'
