#!/bin/sh
# SYSTEM-SOURCE-FILE of a secondary system that ASDF infers from a file is NIL in ASDF 3.3.1, and the
# primary system's .asd file in ASDF 3.3.6. Loading any system replaces the older ASDF by the newer one
# if the source registry has it. Likely guesses: the file with the package definition in both; no
# upgrade without a request.
set -eu
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
apt-get download -qq -o APT::Sandbox::User=root sbcl=2:2.2.9-1 cl-asdf=2:3.3.6-1
for package in ./*.deb; do dpkg-deb -x "$package" root; done
sources="$work/root/usr/share/common-lisp/source"
lisp() {
  HOME="$work" SBCL_HOME="$work/root/usr/lib/sbcl" \
    CL_SOURCE_REGISTRY="(:source-registry (:tree \"$sources\") :ignore-inherited-configuration)" \
    "$work/root/usr/bin/sbcl" --core "$work/root/usr/lib/sbcl/sbcl.core" --noinform --no-sysinit --no-userinit \
    --non-interactive "$@" 2>&1
}
cat >inf.asd <<'END'
(defsystem "inf" :class :package-inferred-system :depends-on ("inf/a"))
END
echo '(defpackage :inf/a (:use :cl))' >a.lisp
cat >try.lisp <<'END'
(require :asdf)
(asdf:load-asd (truename "inf.asd"))
(asdf:load-system "inf")
(let ((file (asdf:system-source-file "inf/a")))
  (format t "~&seen: ~A ~A~%" (asdf:asdf-version) (and file (pathname-type file))))
END

seen=$({
  lisp --load try.lisp
  rm -rf "$sources"
  lisp --load try.lisp
} | grep '^seen: ' | tr '\n' ' ' | sed 's/ seen: / /; s/ $/\n/' | grep '^seen: ' || :)
echo "$seen"
[ "$seen" = "seen: 3.3.6 asd 3.3.1 NIL" ] || { echo "changed; expected: seen: 3.3.6 asd 3.3.1 NIL"; exit 1; }
