#!/bin/sh
# SBCL 2.2.9: when a class is redefined without a slot, the slot's accessor stays as a generic function
# without methods. FBOUNDP is true, and a call signals that no method is applicable. Likely guess: the
# function is removed with the slot.
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
(defclass account () ((owner :accessor account-owner)))
(defclass account () ())
(format t "~&seen: ~A ~D~%" (and (fboundp 'account-owner) t)
        (length (sb-mop:generic-function-methods #'account-owner)))
END

seen=$(lisp --load try.lisp | grep '^seen: ' || :)
echo "$seen"
[ "$seen" = "seen: T 0" ] || { echo "changed; expected: seen: T 0"; exit 1; }
