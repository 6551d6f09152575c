#!/bin/sh
# Makes steelbank.core and the export of its cross references, as crates/image/build.rs does:
#   sh build-core.sh SBCL OUT MEGABYTES
#   SBCL       the tree that bootstrap built
#   OUT        the folder for steelbank.core, xref.export and fasls/
#   MEGABYTES  the size of the heap that programs start with. The width of the collector's card marks is compiled into
#              the core's code for the heap that it is saved with; a start with another rewrites all code, which takes 15 ms.
# The environment is emptied: nothing of this machine and its user may get into the core. tests/it/hermetic.rs checks it.
set -eu
here=$(cd -- "$(dirname -- "$0")" && pwd -P)
mkdir -p "$2/fasls"
exec env -i HOME="$2" SBCL_HOME="$1/obj/sbcl-home" STEELBANK_BUILD="$2/" "$1/src/runtime/sbcl" \
  --core "$1/output/sbcl.core" --noinform --dynamic-space-size "${3}MB" \
  --no-sysinit --no-userinit --non-interactive --load "$here/build-core.lisp"
