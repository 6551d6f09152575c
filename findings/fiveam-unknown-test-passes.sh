#!/bin/sh
# FiveAM 1.4.2: RUN! of a name that is no test runs nothing and returns T, as after success. Likely
# guess: an error, or NIL.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq -o APT::Sandbox::User=root sbcl=2:2.2.9-1 cl-fiveam=1.4.2-1 cl-asdf-flv=2.1-2 cl-alexandria=20211025.gita67c3a6-1 cl-trivial-backtrace=20200511.git6eb65bd-1
for package in ./*.deb; do dpkg-deb -x "$package" root; done
sources="$work/root/usr/share/common-lisp/source"
lisp() {
  HOME="$work" SBCL_HOME="$work/root/usr/lib/sbcl" \
    CL_SOURCE_REGISTRY="(:source-registry (:tree \"$sources\") :ignore-inherited-configuration)" \
    "$work/root/usr/bin/sbcl" --core "$work/root/usr/lib/sbcl/sbcl.core" --noinform --no-sysinit --no-userinit \
    --non-interactive "$@" 2>&1
}
cat >try.lisp <<'END'
(require :asdf)
(asdf:load-system "fiveam")
(format t "~&seen: ~A~%" (funcall (intern "RUN!" "FIVEAM") 'no-such-test))
END

seen=$(lisp --load try.lisp | grep '^seen: ' || :)
echo "$seen"
[ "$seen" = "seen: T" ] || { echo "changed; expected: seen: T"; exit 1; }
