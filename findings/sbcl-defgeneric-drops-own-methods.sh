#!/bin/sh
# SBCL 2.2.9: evaluating a DEFGENERIC form again removes the methods that the earlier form defined with
# (:method ...) and keeps those defined by DEFMETHOD. Likely guesses: all methods stay, or none does.
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
(defgeneric area (shape) (:method ((shape integer)) 1))
(defmethod area ((shape string)) 2)
(defgeneric area (shape))
(format t "~&seen: ~{~A~^ ~}~%"
        (loop for method in (sb-mop:generic-function-methods #'area)
              collect (class-name (first (sb-mop:method-specializers method)))))
END

seen=$(lisp --load try.lisp | grep '^seen: ' || :)
echo "$seen"
[ "$seen" = "seen: STRING" ] || { echo "changed; expected: seen: STRING"; exit 1; }
