#!/bin/sh
# Links SBCL's runtime objects with the shim into one shared library, for sys/build.rs and for
# `bootstrap --sbcl`:
#   sh link.sh TREE OUT COMPILER [OPTION]...
#   TREE      the SBCL that bootstrap built
#   OUT       the folder for libsteelbank-sbcl.so and its objects
#   COMPILER  a C compiler for position-independent code, and its options
set -eu
here=$(cd -- "$(dirname -- "$0")" && pwd -P)
tree=$1 out=$2
shift 2
runtime=$tree/src/runtime
version=$(sed -n 's/^"\(.*\)".*/\1/p' "$tree/version.lisp-expr")
compile() { # file, options...
  file=$1
  shift
  # As bootstrap compiles SBCL's runtime: a signal handler must not call malloc.
  "$@" -ftls-model=initial-exec "-DSBCL_VERSION=\"$version\"" -I "$here/include" -I "$here/shim" -c "$here/shim/$file.c" -o "$out/$file.o"
}
mkdir -p "$out"
for part in steelbank memory children; do
  compile $part "$@"
done
# This part is compiled with SBCL's headers, which cause warnings.
compile faults "$@" -I "$here/shim/absent" -isystem "$runtime"
wraps=
for function in execv fork personality exit _exit abort lose os_get_runtime_executable_path search_for_embedded_core \
  handle_guard_page_triggered arch_os_thread_init os_alloc_gc_space sig_stop_for_gc_handler lisp_alloc; do
  wraps="$wraps -Wl,--wrap=$function"
done
# Strip the symbol table, which is three quarters of the library and is embedded in programs.
# Exported symbols stay.
# shellcheck disable=SC2086  # options
"$@" -shared -o "$out/libsteelbank-sbcl.so" "$out/steelbank.o" "$out/memory.o" "$out/children.o" "$out/faults.o" \
  "$runtime"/*.pic.o "$tree/tlsf-bsd/tlsf/tlsf.pic.o" $wraps -ldl -lpthread -lm -Wl,--strip-all
