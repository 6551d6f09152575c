#!/bin/sh
# SBCL 2.2.9: FMAKUNBOUND removes a function but not its compiler macro, which still expands calls of a
# function that does not exist. Likely guess: both are removed.
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
(defun plus (x) x)
(define-compiler-macro plus (x) `(list :expanded ,x))
(fmakunbound 'plus)
(format t "~&seen: ~A ~S~%" (fboundp 'plus) (funcall (compile nil '(lambda () (plus 1)))))
END

seen=$(lisp --load try.lisp | grep '^seen: ' || :)
echo "$seen"
[ "$seen" = "seen: NIL (:EXPANDED 1)" ] || { echo "changed; expected: seen: NIL (:EXPANDED 1)"; exit 1; }
