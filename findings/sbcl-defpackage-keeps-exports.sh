#!/bin/sh
# SBCL 2.2.9: evaluating a DEFPACKAGE form again with fewer exports warns that the package is at
# variance, but the symbol stays exported. Likely guess: the symbol becomes internal.
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
cat >try.lisp <<'END'
(defpackage shop (:use :cl) (:export "PRICE" "TOTAL"))
(let ((warned nil))
  (handler-bind ((warning (lambda (c) (setf warned t) (muffle-warning c))))
    (eval '(defpackage shop (:use :cl) (:export "PRICE"))))
  (format t "~&seen: warned ~A ~A~%" warned (nth-value 1 (find-symbol "TOTAL" :shop))))
END

seen=$(lisp --load try.lisp | grep '^seen: ' || :)
echo "$seen"
[ "$seen" = "seen: warned T EXTERNAL" ] || { echo "changed; expected: seen: warned T EXTERNAL"; exit 1; }
