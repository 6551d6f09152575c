# Functions for the rows of tests/bootstrap.sh: their checks, and the files and programs that each
# row runs with. tests/bootstrap.sh sources this file after it has set the variables repository
# and scratch.
# shellcheck shell=sh

# ---- What the rows say ----------------------------------------------------------------------------------

verdict() { # 0 when it holds, what
    if [ "$1" -eq 0 ]; then
        passed=$((passed + 1))
    else
        failed=$((failed + 1))
        printf 'FAILED: %s: %s\n' "$row" "$2"
        sed 's/^/    | /' "$scratch/out" "$scratch/err"
    fi
}

row() {
    row=$1
    : >"$scratch/out"
    : >"$scratch/err"
}

holds() { # what, a command
    what=$1
    shift
    "$@"
    verdict $? "$what"
}

exits() { holds "it exits with $1, not with $status" [ "$status" -eq "$1" ]; }
says() { holds "it says '$1'" grep -qF -- "$1" "$scratch/out"; }
complains() { holds "it complains '$1'" grep -qF -- "$1" "$scratch/err"; }
quiet() { holds 'its standard error is empty' [ ! -s "$scratch/err" ]; }
built() { holds "there have been $1 builds" [ "$(wc -l <"$scratch/builds")" -eq "$1" ]; }
left_nothing() { holds 'no work folder is left' [ -z "$(ls -d "$cache"/work.* 2>/dev/null)" ]; }
has_trees() { holds "the cache holds $1 trees" [ "$(ls -d "$cache"/sbcl-*-*[0-9a-f] 2>/dev/null | wc -l)" -eq "$1" ]; }

# ---- The world of a row ---------------------------------------------------------------------------------

house=$scratch/house
cache=$scratch/cache
bin=$scratch/bin

fake() { # name; the script on standard input
    rm -f "$bin/$1"
    { printf '#!/bin/sh\n' && cat; } >"$bin/$1"
    chmod +x "$bin/$1"
}

# Writes a source tree with a make.sh that creates the same files as SBCL's. A row's file fitness
# determines the result of the self-test, and its file during what make.sh does half-way.
make_source() { # folder
    mkdir -p "$1/src/code" "$1/src/runtime" "$1/contrib/sb-posix" "$1/tlsf-bsd/tlsf"
    printf '(old)\n' >"$1/src/code/repack-xref.lisp"
    printf '(posix)\n' >"$1/contrib/sb-posix/interface.lisp"
    printf 'licence\n' >"$1/COPYING"
    printf 'int main;\n' >"$1/src/runtime/alloc.c"
    printf 'exit 0\n' >"$1/clean.sh"
    cat >"$1/make.sh" <<END
set -e
echo "\$*" >>"$scratch/builds"
[ "\$CL_SOURCE_REGISTRY" = '(:source-registry :ignore-inherited-configuration)' ] && [ -z "\$(ls "\$HOME")" ]
grep -q new src/code/repack-xref.lisp
echo //entering make-host-1.sh
[ ! -f "$scratch/during" ] || . "$scratch/during"
echo //entering make-target-contrib.sh
mkdir -p output obj/sbcl-home/contrib obj/from-xc
printf '#!/bin/sh\nexec sh "$scratch/fitness"\n' >src/runtime/sbcl
chmod +x src/runtime/sbcl
echo core >output/sbcl.core
echo id >output/build-id.inc
echo fasl >obj/sbcl-home/contrib/sb-posix.fasl
echo junk >obj/from-xc/junk.fasl
echo object | tee src/runtime/alloc.o src/runtime/alloc.pic.o >tlsf-bsd/tlsf/tlsf.pic.o
END
    printf 'test -f output/sbcl.core\n' >"$1/make-shared-library.sh"
}

pack() { # folder, tarball
    (cd "$(dirname "$1")" && tar cJf "$2" "$(basename "$1")")
}

fresh_world() {
    rm -rf "$house" "$cache" "$bin" "$scratch/during" "$scratch/pool" "$scratch/sbcl-9.9.9"
    mkdir -p "$house/vendor-notes" "$house/lisp" "$bin" "$scratch/pool"
    cp "$repository/bootstrap" "$house/"
    cp -R "$repository/vendor-notes/sbcl" "$house/vendor-notes/"
    : >"$house/lisp/self-test.lisp"
    # The files from which bootstrap makes an image.
    mkdir -p "$house/sys/shim" "$house/sys/include"
    echo shim >"$house/sys/shim/steelbank.c"
    echo 512 >"$house/sys/heap-megabytes"
    echo 'echo "library of $(cat "$1/version.lisp-expr") by $3" >"$2/libsteelbank-sbcl.so"' >"$house/sys/link.sh"
    echo 'echo "core of $3 MB" >"$2/steelbank.core"; echo export >"$2/xref.export"' >"$house/lisp/build-core.sh"
    : >"$scratch/builds"
    : >"$scratch/calls"
    echo 'echo "ok: fit"' >"$scratch/fitness"

    make_source "$scratch/sbcl-9.9.9"
    pack "$scratch/sbcl-9.9.9" "$scratch/pool/sbcl_9.9.9.orig.tar.xz"
    notes=$house/vendor-notes/sbcl
    echo 9.9.9 >"$notes/version"
    (cd "$scratch/pool" && sha256sum sbcl_9.9.9.orig.tar.xz) >"$notes/sha256"
    rm -r "$notes/patches"/*
    cat >"$notes/patches/change.patch" <<'END'
--- a/src/code/repack-xref.lisp
+++ b/src/code/repack-xref.lisp
@@ -1 +1 @@
-(old)
+(new)
END

    for tool in awk basename cat chmod cp cut date df dirname env find flock git grep gzip head id ln ls mkdir mktemp mv \
        patch ps readlink rm rmdir sed setsid sh sha256sum sleep sort sync tail tar tee timeout touch tr true uname wc xz; do
        path=$(command -v $tool) && ln -s "$path" "$bin/$tool"
    done
    for tool in gcc cc make sbcl; do fake $tool </dev/null; done
    fake apt-get <<END
echo "apt-get \$*" >>"$scratch/calls"
case " \$* " in
    *" indextargets "*) echo 'Debian|Debian|scheme:/somewhere/debian/|bookworm|main' ;;
    *" source "*) cp "$scratch/pool/sbcl_9.9.9.orig.tar.xz" . ;;
esac
END
    unset STEELBANK_SBCL_SOURCE XDG_CACHE_HOME CC
    STEELBANK_CACHE=$cache
    CI=true
    export STEELBANK_CACHE CI
}

bootstrap() {
    status=0
    # A run that never ends counts as a failure.
    PATH=$bin timeout 60 "$house/bootstrap" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null || status=$?
}

# Starts ./bootstrap as process $started, and waits until its make.sh hangs half-way.
start_and_hang() {
    echo "touch '$scratch/half-way'; exec sleep 60" >"$scratch/during"
    rm -f "$scratch/half-way"
    # Otherwise, a process that a shell starts in the background ignores INT.
    PATH=$bin env --default-signal=INT "$house/bootstrap" >"$scratch/first.out" 2>"$scratch/first.err" </dev/null &
    started=$!
    for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do
        [ ! -f "$scratch/half-way" ] || break
        sleep 1
    done
    sleeper=$(cat "$cache"/work.*/builder)
}

# A process that has ended may remain as a zombie.
runs() { [ -d "/proc/$1" ] && ! grep -q '^State:[[:space:]]*Z' "/proc/$1/status"; }
asked() { grep -qF -- "$1" "$scratch/calls"; }
not() { ! "$@"; }
