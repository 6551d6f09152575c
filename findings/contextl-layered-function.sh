#!/bin/sh
# ContextL of 2021-12-15: DEFINE-LAYERED-FUNCTION makes an ordinary function. The generic function with
# the methods has another name, and the methods have one more argument, the layer. Likely guess: the
# function is generic, and its methods are those of the DEFINE-LAYERED-METHOD forms.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1 cl-contextl=1:20211215.gitf4fb3f5-1 cl-closer-mop=2:20220227.giteabdf6a-1 \
  cl-lw-compat=20160228.gitaabfe28-1
cat >layers.lisp <<'END'
(defpackage layers (:use :contextl-common-lisp))
(in-package :layers)
(define-layered-function area (shape))
(define-layered-method area ((shape integer)) (* shape shape))
(let ((generic (contextl:layered-function-definer 'area)))
  (format t "~&seen: ~A ~A, other ~A, arguments ~{~D~}~%"
          (area 3) (typep #'area 'generic-function) (typep generic 'generic-function)
          (loop for method in (sb-mop:generic-function-methods generic)
                collect (length (sb-mop:method-specializers method)))))
END
lisp --eval '(require :asdf)' --eval '(asdf:load-system "contextl")' --load layers.lisp | expect 'seen: 9 NIL, other T, arguments 2'
