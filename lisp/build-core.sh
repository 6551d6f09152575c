#!/bin/sh
# Builds steelbank.core and the export of its cross references. build.rs runs this script:
#   sh build-core.sh SBCL OUT MEGABYTES
#   SBCL       the tree that bootstrap built
#   OUT        the folder for steelbank.core, xref.export and fasls/
#   MEGABYTES  the heap size with which programs start. SBCL compiles the width of the collector's
#              card marks into the core's code for the heap size at saving. A start with another
#              size rewrites all code, which takes 15 ms.
# The environment is empty, so that nothing of this machine and its user gets into the core.
# tests/it/hermetic.rs checks that.
set -eu
here=$(cd -- "$(dirname -- "$0")" && pwd -P)
tree=$1 out=$2 megabytes=$3
mkdir -p "$out/fasls"
sbcl() { # core, options...
  core=$1
  shift
  env -i HOME="$out" SBCL_HOME="$tree/obj/sbcl-home" STEELBANK_BUILD="$out/" "$tree/src/runtime/sbcl" \
    --core "$core" --noinform --dynamic-space-size "${megabytes}MB" "$@"
}
sbcl "$tree/output/sbcl.core" --no-sysinit --no-userinit --non-interactive --load "$here/build-core.lisp"
sbcl "$out/loaded.core"
rm -rf "$out/loaded.core" "$out/practice"
