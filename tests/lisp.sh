#!/bin/sh
# Runs the Lisp half's tests in a plain SBCL, without Rust or steelbank's core: the SBCL that
# bootstrap built, or the tree $1.
set -eu
cd "$(dirname "$0")/.."
sbcl=${1:-$(sh ./bootstrap --print-path)}
fasls=$(mktemp -d)
trap 'rm -rf "$fasls"' EXIT
SBCL_HOME="$sbcl/obj/sbcl-home" XDG_CACHE_HOME="$fasls" "$sbcl/src/runtime/sbcl" --core "$sbcl/output/sbcl.core" \
  --noinform --no-sysinit --no-userinit --non-interactive \
  --eval '(require :asdf)' \
  --eval '(asdf:load-asd (truename "lisp/steelbank.asd"))' \
  --eval '(handler-bind ((sb-ext:compiler-note (function muffle-warning)))
            (asdf:test-system "steelbank"))' >"$fasls/log" 2>&1 || { tail -n 60 "$fasls/log"; exit 1; }
sed -n 's/^Doing \([0-9]*\) pending.*$/\1 passed, 0 failed/p' "$fasls/log"
# bootstrap's self-test of a new SBCL must pass in this one with the current Lisp half.
SBCL_HOME="$sbcl/obj/sbcl-home" "$sbcl/src/runtime/sbcl" --core "$sbcl/output/sbcl.core" --noinform \
  --script lisp/self-test.lisp
