#!/bin/sh
# Swank 2.27 in SBCL 2.2.9: the query :calls-who, which functions a function calls, answers
# :not-implemented. The query :callees, for the same question, answers. Likely guess: both answer,
# as :calls and :callers do.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1 cl-swank=2:2.27+dfsg-1
cat >calls.lisp <<'END'
(defun callee (x) (print x))
(defun caller (x) (callee x))
END
cat >try.lisp <<'END'
(load (compile-file "calls.lisp"))
(defun ask (query name)
  (let* ((swank::*buffer-package* *package*) (swank::*buffer-readtable* *readtable*)
         (answer (swank:xref query name)))
    (if (listp answer) (mapcar #'first answer) answer)))
(format t "~&seen: calls ~A, callers ~A, calls-who ~A, callees ~A~%"
        (ask :calls "callee") (ask :callers "callee")
        (ask :calls-who "caller") (ask :callees "caller"))
END
lisp --eval '(require :asdf)' --eval '(asdf:load-system "swank")' --load try.lisp |
  expect 'seen: calls (CALLER), callers (CALLER), calls-who NOT-IMPLEMENTED, callees (CALLEE)'
