#!/bin/sh
# Makes steelbank.core and the export of its cross references, as build.rs does:
#   sh build-core.sh SBCL OUT MEGABYTES
#   SBCL       the tree that bootstrap built
#   OUT        the folder for steelbank.core, xref.export and fasls/
#   MEGABYTES  the size of the heap that programs start with. The width of the collector's card marks is compiled into
#              the core's code for the heap that it is saved with; a start with another rewrites all code, which takes 15 ms.
# The environment is emptied: nothing of this machine and its user may get into the core. tests/it/hermetic.rs checks it.
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
