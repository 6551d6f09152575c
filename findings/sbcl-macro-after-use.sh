#!/bin/sh
# SBCL 2.2.9 compiles a file that uses a macro before it defines the macro. COMPILE-FILE reports only
# style warnings and no failure, so ASDF loads the file. The function then calls the macro's name as a
# function and fails when it runs. Likely guess: a warning, so that the build fails.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq -o APT::Sandbox::User=root sbcl=2:2.2.9-1
for package in ./*.deb; do dpkg-deb -x "$package" root; done
sources="$work/root/usr/share/common-lisp/source"
lisp() {
  HOME="$work" SBCL_HOME="$work/root/usr/lib/sbcl" \
    CL_SOURCE_REGISTRY="(:source-registry :ignore-inherited-configuration)" \
    "$work/root/usr/bin/sbcl" --core "$work/root/usr/lib/sbcl/sbcl.core" --noinform --no-sysinit --no-userinit \
    --non-interactive "$@" 2>&1
}
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

seen=$(lisp --load try.lisp | grep '^seen: ' || :)
echo "$seen"
[ "$seen" = "seen: warnings T failure NIL call undefined function" ] || { echo "changed; expected: seen: warnings T failure NIL call undefined function"; exit 1; }
