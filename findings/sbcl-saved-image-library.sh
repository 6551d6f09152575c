#!/bin/sh
# SBCL 2.2.9: a saved image opens its foreign libraries again at its start, before it handles the
# command line. If a library's file is gone, this is an error, so --eval is not reached: without a
# debugger, the image ends with exit code 1. Likely guess: a warning, and the image starts.
set -eu
. "$(dirname "$0")/debian-lisp"
fetch sbcl=2:2.2.9-1 libunibilium4=2.1.0-1
cp root/usr/lib/x86_64-linux-gnu/libunibilium.so.4 library.so
lisp --eval "(load-shared-object \"$work/library.so\")" \
  --eval '(save-lisp-and-die "saved.core")' >log
started() {
  "$work/root/usr/bin/sbcl" --core saved.core --noinform --no-sysinit --no-userinit \
    --non-interactive --eval '(format t "started~%")' >log 2>&1 && code=0 || code=$?
  echo "started $(grep -c '^started$' log), exit code $code"
}
with=$(started)
mv library.so gone
echo "seen: with the library $with; without $(started)" |
  expect 'seen: with the library started 1, exit code 0; without started 0, exit code 1'
