#!/bin/sh
# SBCL 2.2.9 compiles a file that uses a macro before it defines the macro. COMPILE-FILE reports only
# style warnings and no failure, so ASDF loads the file. The function then calls the macro's name as a
# function and fails when it runs. Likely guess: a warning, so that the build fails.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1
cat >late.lisp <<'END'
(defun user (x) (twice x))
(defmacro twice (x) `(* 2 ,x))
END
cat >try.lisp <<'END'
(multiple-value-bind (fasl warned failed) (compile-file "late.lisp")
  (load fasl)
  (format t "~&seen: warnings ~A failure ~A call ~A~%" warned failed
          (handler-case (user 5) (undefined-function () "undefined function"))))
END
lisp --load try.lisp | expect 'seen: warnings T failure NIL call undefined function'
