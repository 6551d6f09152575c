#!/bin/sh
# Tests ./bootstrap without building a real SBCL. The script runs in a copy of the files that it
# reads, with an SBCL source of a few lines, and with a PATH that contains only the programs that a
# row allows. Prints "N passed, M failed" as the last line, and exits with 1 after a failure.
set -u

repository=$(cd -- "$(dirname -- "$0")/.." && pwd -P)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
trap 'exit 1' INT TERM HUP
passed=0
failed=0
# shellcheck source=tests/bootstrap/world.sh
. "$repository/tests/bootstrap/world.sh"

# ---- The rows -------------------------------------------------------------------------------------------

row 'usage'
fresh_world
bootstrap --help
exits 0
says '--print-path'
says '--sbcl SOURCE'
says 'STEELBANK_SBCL_SOURCE'
bootstrap --no-such-option
exits 2
complains '--no-such-option'
bootstrap --print-path more
exits 2

row 'before anything is built'
bootstrap --print-path
exits 1
complains 'not built'
complains './bootstrap'
holds 'standard output is empty' [ ! -s "$scratch/out" ]
holds 'nothing is made' [ ! -e "$cache" ]

row 'the first time'
echo 'sleep 2' >"$scratch/during"
bootstrap
rm "$scratch/during"
exits 0
quiet
built 1
says 'step 2 of 8: compiling the cross-compiler'
holds 'the flags reach make.sh' grep -qx -- '--with-sb-linkable-runtime --with-sb-xref-for-internals' "$scratch/builds"
left_nothing
bootstrap --print-path
exits 0
quiet
tree=$(cat "$scratch/out")
holds 'one line is printed' [ "$(wc -l <"$scratch/out")" -eq 1 ]
for kept in STEELBANK COPYING version.lisp-expr src/runtime/sbcl src/runtime/alloc.pic.o tlsf-bsd/tlsf/tlsf.pic.o \
    output/sbcl.core output/build-id.inc obj/sbcl-home/contrib/sb-posix.fasl src/code/repack-xref.lisp \
    contrib/sb-posix/interface.lisp; do
    holds "$kept is kept" [ -s "$tree/$kept" ]
done
for gone in make.sh src/runtime/alloc.c src/runtime/alloc.o obj/from-xc; do
    holds "$gone is not kept" [ ! -e "$tree/$gone" ]
done
holds 'the version is written' grep -qx '"9.9.9"' "$tree/version.lisp-expr"
holds 'the tree says what it is' grep -qx 'version: 9.9.9' "$tree/STEELBANK"
holds 'apt updates no list of the machine' not asked 'Lock::Timeout'

row 'the second time'
: >"$scratch/calls"
bootstrap
exits 0
quiet
built 1
holds 'apt is not called' [ ! -s "$scratch/calls" ]

row 'standard input is closed, the cache is read from another folder'
status=0
(cd / && PATH=$bin "$house/bootstrap" --print-path <&- >"$scratch/out" 2>"$scratch/err") || status=$?
exits 0
says "$tree"

row 'a tree that lost a part'
echo cut >"$tree/output/sbcl.core"
bootstrap --print-path
exits 1
bootstrap
exits 0
built 2
left_nothing
rm "$tree/output/build-id.inc"
bootstrap
exits 0
built 3
has_trees 1

row 'other flags, another patch, another version: other trees'
echo --with-more >>"$notes/flags"
bootstrap --print-path
exits 1
bootstrap
has_trees 2
printf 'More words.\n' | cat - "$notes/patches/change.patch" >"$notes/patches/words.patch"
mv "$notes/patches/words.patch" "$notes/patches/change.patch"
bootstrap
has_trees 3

row 'a damaged tarball in the cache'
rm -r "$cache"/sbcl-*-*
echo damage >>"$cache/sbcl_9.9.9.orig.tar.xz"
bootstrap
exits 0
says 'is damaged'
has_trees 1

row 'apt fetches something else'
fresh_world
echo damage >>"$scratch/pool/sbcl_9.9.9.orig.tar.xz"
bootstrap
exits 1
complains 'wrong SHA-256'
complains 'STEELBANK_SBCL_SOURCE'
built 0
has_trees 0
left_nothing

row 'no network'
fresh_world
fake apt-get <<'END'
case " $* " in
    *" indextargets "*) echo 'Debian|Debian|scheme:/somewhere/debian/|bookworm|main' ;;
    *) echo 'Could not resolve the name'; exit 100 ;;
esac
END
bootstrap
exits 1
complains 'Is there a network?'
complains "$cache/bootstrap.log"
complains 'Could not resolve the name'
left_nothing

row "apt's configuration has no Debian archive"
fresh_world
fake apt-get <<'END'
case " $* " in
    *" indextargets "*)
        echo 'Ubuntu|Ubuntu|scheme:/somewhere/ubuntu/|noble|main'
        echo 'Debian|Debian-Security|scheme:/somewhere/debian-security/|bookworm-security|main'
        echo '$(ORIGIN)|$(LABEL)|scheme:/somewhere/apt/|bookworm|main' ;;
    *) exit 100 ;;
esac
END
bootstrap
exits 1
complains "Debian's main archive"

# The real apt-get reads both formats of its configuration. Its lists are empty, as on a machine
# that never ran apt-get update.
real_apt=$(command -v apt-get) && for format in one-line deb822; do
    row "an address in apt's $format format"
    fresh_world
    mkdir "$scratch/parts.$format" "$scratch/lists.$format"
    if [ $format = one-line ]; then
        echo 'deb [arch=amd64] https://archive.invalid/mirror/debian bookworm main contrib' >"$scratch/parts.$format/a.list"
    else
        printf 'Types: deb\nURIs: https://archive.invalid/mirror/debian\nSuites: bookworm bookworm-updates\nComponents: main\n' \
            >"$scratch/parts.$format/a.sources"
    fi
    printf 'deb https://other.invalid/debian-security bookworm-security main\n' >"$scratch/parts.$format/b.list"
    fake apt-get <<END
case " \$* " in
    *" indextargets "*)
        exec "$real_apt" -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$scratch/parts.$format" \
            -o "Dir::State::lists=$scratch/lists.$format" "\$@" ;;
    *" source "*) cp "$scratch/pool/sbcl_9.9.9.orig.tar.xz" . ;;
    *" update "*) cat sources.list >>"$scratch/calls" ;;
esac
END
    bootstrap
    exits 0
    holds 'the temporary list names that address' grep -q '^deb-src.* https://archive.invalid/mirror/debian/* trixie main$' "$scratch/calls"
    holds 'it names no other' [ "$(wc -l <"$scratch/calls")" -eq 1 ]
done

row 'STEELBANK_SBCL_SOURCE is the pinned tarball'
fresh_world
STEELBANK_SBCL_SOURCE=$scratch/pool/sbcl_9.9.9.orig.tar.xz
export STEELBANK_SBCL_SOURCE
rm "$bin/apt-get"
bootstrap
exits 0
quiet
unset STEELBANK_SBCL_SOURCE
bootstrap --print-path
exits 0

row 'STEELBANK_SBCL_SOURCE is another tarball'
mv "$scratch/sbcl-9.9.9" "$scratch/sbcl-8.8.8"
echo '(more)' >"$scratch/sbcl-8.8.8/src/code/more.lisp"
pack "$scratch/sbcl-8.8.8" "$scratch/pool/sbcl-8.8.8.tar.xz"
STEELBANK_SBCL_SOURCE=$scratch/pool/sbcl-8.8.8.tar.xz
export STEELBANK_SBCL_SOURCE
bootstrap --print-path
exits 1
bootstrap
exits 0
says 'Leave STEELBANK_SBCL_SOURCE set'
bootstrap --print-path
exits 0
says /sbcl-8.8.8-
has_trees 2

row 'STEELBANK_SBCL_SOURCE is an unpacked tree'
STEELBANK_SBCL_SOURCE=$scratch/sbcl-8.8.8
bootstrap
exits 0
has_trees 3
echo object >"$STEELBANK_SBCL_SOURCE/src/runtime/alloc.o"
bootstrap --print-path
exits 0
holds 'the tree itself is left as it was' grep -qx '(old)' "$STEELBANK_SBCL_SOURCE/src/code/repack-xref.lisp"
echo '(edited)' >"$STEELBANK_SBCL_SOURCE/src/code/more.lisp"
bootstrap --print-path
exits 1

row 'the source has the patch already'
echo '(new)' >"$STEELBANK_SBCL_SOURCE/src/code/repack-xref.lisp"
bootstrap
exits 0
quiet

row 'the patch does not apply'
echo '(different)' >"$STEELBANK_SBCL_SOURCE/src/code/repack-xref.lisp"
bootstrap
exits 1
complains 'change.patch does not apply to SBCL 8.8.8'
left_nothing

row 'STEELBANK_SBCL_SOURCE is wrong'
STEELBANK_SBCL_SOURCE=$scratch/nowhere
for way in '' --print-path; do
    # shellcheck disable=SC2086  # an option or none
    bootstrap $way
    exits 1
    complains "$scratch/nowhere, which does not exist"
done
STEELBANK_SBCL_SOURCE=sbcl.tar.xz
bootstrap
exits 1
complains 'must be an absolute path'
STEELBANK_SBCL_SOURCE=$house
bootstrap
exits 1
complains 'without make.sh'
head -c 300 "$scratch/pool/sbcl-8.8.8.tar.xz" >"$scratch/pool/cut.tar.xz"
STEELBANK_SBCL_SOURCE=$scratch/pool/cut.tar.xz
bootstrap
exits 1
complains 'cannot be unpacked'
pack "$house/lisp" "$scratch/pool/lisp.tar.xz"
STEELBANK_SBCL_SOURCE=$scratch/pool/lisp.tar.xz
bootstrap
exits 1
complains 'has no make.sh'
left_nothing
mv "$scratch/sbcl-8.8.8" "$scratch/nameless"
STEELBANK_SBCL_SOURCE=$scratch/nameless
bootstrap
exits 1
complains 'which version of SBCL'
echo sbcl-7.7.7 >"$STEELBANK_SBCL_SOURCE/.git-archive-version"
echo '(old)' >"$STEELBANK_SBCL_SOURCE/src/code/repack-xref.lisp"
bootstrap
exits 0
says /sbcl-7.7.7-
rm -rf "$scratch/nameless"

row 'the built SBCL fails the self-test'
fresh_world
printf 'echo "FAILED: form numbers"; exit 1\n' >"$scratch/fitness"
bootstrap
exits 1
complains 'FAILED: form numbers'
complains 'SBCL 9.9.9 was built but fails the self-test'
complains "$cache/sbcl-9.9.9-"
has_trees 0
left_nothing
bootstrap --print-path
exits 1
: >"$scratch/calls"
bootstrap
exits 1
says 'Repeating the self-test'
complains 'FAILED: form numbers'
built 1
has_trees 0
holds 'nothing is fetched' [ ! -s "$scratch/calls" ]
row 'what was built is fit, once lisp/ is mended'
echo 'echo "ok: mended"' >"$scratch/fitness"
bootstrap
exits 0
built 1
has_trees 1
left_nothing
holds 'the unfit one is gone' [ -z "$(ls -d "$cache"/*.unfit 2>/dev/null)" ]
holds 'the tree says what it is' grep -qx 'self-test: ok: mended' "$cache"/sbcl-9.9.9-*/STEELBANK
row 'another key is built anew'
printf 'echo "FAILED: form numbers"; exit 1\n' >"$scratch/fitness"
echo --with-more >>"$notes/flags"
bootstrap
exits 1
built 2
has_trees 1
row 'some versions have a patch of their own'
fresh_world
mkdir "$notes/patches/2.6.1-2.6.4"
sed 's/repack-xref/xref/; s/(old)/(wrong)/; s/(new)/(right)/' "$notes/patches/change.patch" |
    sed 's/repack-xref/xref/' >"$notes/patches/2.6.1-2.6.4/own.patch"
for version in 2.6.3 2.6.5; do
    make_source "$scratch/sbcl-$version"
    echo '(wrong)' >"$scratch/sbcl-$version/src/code/xref.lisp"
    echo "($version)" >"$scratch/sbcl-$version/src/code/more.lisp"
    STEELBANK_SBCL_SOURCE=$scratch/sbcl-$version
    export STEELBANK_SBCL_SOURCE
    bootstrap
    exits 0
done
holds 'it is applied to 2.6.3' grep -qx '(right)' "$cache"/sbcl-2.6.3-*/src/code/xref.lisp
holds 'it is not applied to 2.6.5' grep -qx '(wrong)' "$cache"/sbcl-2.6.5-*/src/code/xref.lisp
holds 'the tree names it' grep -qx 'patch: own.patch' "$cache"/sbcl-2.6.3-*/STEELBANK
unset STEELBANK_SBCL_SOURCE
bootstrap
tree=$("$house/bootstrap" --print-path)
echo '(more)' >>"$notes/patches/2.6.1-2.6.4/own.patch"
holds 'the pinned release has nothing to do with it' [ "$tree" = "$("$house/bootstrap" --print-path)" ]

row '--sbcl makes an image of another SBCL'
: >"$scratch/builds"
bootstrap --sbcl "$scratch/sbcl-2.6.5"
exits 0
quiet
says 'steelbank --sbcl 2.6.5'
key=$("$house/bootstrap" --image-key)
image=$cache/images/2.6.5-$key
holds 'the image is of that SBCL' grep -qx 'library of "2.6.5" by cc' "$image/libsteelbank-sbcl.so"
holds 'its core has the heap of the program' grep -qx 'core of 512 MB' "$image/steelbank.core"
holds 'it has what is baked' [ -s "$image/xref.export" ]
holds 'it has the modules' [ -s "$image/contrib/sb-posix.fasl" ]
holds 'it names its tree' [ -s "$cache/$(cat "$image/tree")/STEELBANK" ]
left_nothing
count=$(wc -l <"$scratch/builds")
row '--sbcl with nothing to do'
(cd "$scratch" && PATH=$bin "$house/bootstrap" --sbcl sbcl-2.6.5 >"$scratch/out" 2>"$scratch/err" </dev/null)
quiet
says 'is in'
row '--sbcl VERSION makes the image anew of what is built'
echo other >>"$house/lisp/self-test.lisp"
rm -rf "$scratch/sbcl-2.6.5"
bootstrap --sbcl 2.6.5
exits 0
holds 'it has another key' [ -s "$cache/images/2.6.5-$("$house/bootstrap" --image-key)/steelbank.core" ]
holds 'the other one stays' [ -s "$image/steelbank.core" ]
bootstrap --sbcl 9.9.9
exits 0
holds 'the pinned one has an image, too' [ -s "$cache/images/9.9.9-$("$house/bootstrap" --image-key)/steelbank.core" ]
holds 'nothing is built' [ "$(wc -l <"$scratch/builds")" -eq "$count" ]
row '--sbcl SUITE has apt fetch a source'
fresh_world
mv "$scratch/sbcl-9.9.9" "$scratch/sbcl-2.6.4"
echo '(forky)' >"$scratch/sbcl-2.6.4/src/code/more.lisp"
rm "$scratch/pool"/*
pack "$scratch/sbcl-2.6.4" "$scratch/pool/sbcl_2.6.4.orig.tar.xz"
sed -i 's/sbcl_9.9.9/sbcl_2.6.4/' "$bin/apt-get"
bootstrap --sbcl forky
exits 0
holds 'the image is there' [ -s "$cache/images/2.6.4-$("$house/bootstrap" --image-key)/steelbank.core" ]
left_nothing
row '--sbcl is wrong'
bootstrap --sbcl 9.9
exits 1
complains 'no version that is built'
bootstrap --sbcl
exits 2
bootstrap --sbcl "$house"
exits 1
complains 'without make.sh'
echo 'exit 1' >"$house/lisp/build-core.sh"
bootstrap --sbcl 2.6.4
exits 1
complains 'could not be saved'
holds 'no part of an image is left' [ -z "$(ls -d "$cache/images/2.6.4-$("$house/bootstrap" --image-key)" 2>/dev/null)" ]
left_nothing

row 'the build fails'
fresh_world
echo 'echo the compiler is unwell; exit 3' >"$scratch/during"
bootstrap
exits 1
complains 'could not be built'
complains 'the compiler is unwell'
complains "$cache/bootstrap.log"
has_trees 0
left_nothing

row 'no room'
fresh_world
fake df <<'END'
printf 'Filesystem 1024-blocks Used Available Capacity Mounted\nx 9 9 20480 9%% /\n'
END
bootstrap
exits 1
complains 'but only 20'
built 0
holds 'nothing is fetched in vain' not asked ' source '
left_nothing

for signal in TERM INT HUP; do
    row "ended by $signal half-way"
    fresh_world
    start_and_hang
    kill -s $signal $started
    wait $started 2>/dev/null
    status=$?
    holds 'it does not succeed' [ $status -ne 0 ]
    holds 'it says so' grep -q 'Interrupted' "$scratch/first.err"
    holds 'the build has ended' not runs "$sleeper"
    left_nothing
    has_trees 0
    rm "$scratch/during"
    bootstrap
    exits 0
    quiet
done

row 'killed half-way'
fresh_world
start_and_hang
kill -s KILL $started
wait $started 2>/dev/null
holds 'the build is still running' runs "$sleeper"
rm "$scratch/during"
bootstrap
exits 0
quiet
holds 'it does not wait' not grep -q Waiting "$scratch/out"
holds 'the build that was left behind has ended' not runs "$sleeper"
left_nothing
has_trees 1

for lock in flock link; do
    row "two at once, with $lock"
    fresh_world
    [ $lock = flock ] || rm "$bin/flock"
    start_and_hang
    echo "while [ ! -f '$scratch/go' ]; do sleep 1; done" >"$scratch/during"
    rm -f "$scratch/go"
    PATH=$bin "$house/bootstrap" >"$scratch/out" 2>"$scratch/err" </dev/null &
    second=$!
    sleep 2
    holds 'the second waits' runs $second
    says 'Another bootstrap is at work'
    built 1
    kill -s TERM $started
    wait $started 2>/dev/null
    touch "$scratch/go"
    wait $second
    status=$?
    exits 0
    built 2
    left_nothing

    row "the second finds what the first has built, with $lock"
    fresh_world
    [ $lock = flock ] || rm "$bin/flock"
    echo 'sleep 3' >"$scratch/during"
    PATH=$bin "$house/bootstrap" >"$scratch/first.out" 2>&1 </dev/null &
    first=$!
    sleep 1
    bootstrap
    exits 0
    quiet
    wait $first
    status=$?
    exits 0
    built 1
    has_trees 1
done

row 'a lock whose owner was killed'
fresh_world
rm "$bin/flock"
mkdir "$cache"
sh -c 'echo $$' >"$scratch/dead"
ln -s "$(cat "$scratch/dead")" "$cache/lock.owner"
bootstrap
exits 0
holds 'the lock is given back' [ ! -L "$cache/lock.owner" ]

row 'missing packages, as root'
fresh_world
fake id <<'END'
echo 0
END
rm "$bin/sbcl" "$bin/make" "$bin/xz"
cp "$bin/apt-get" "$bin/apt-source"
fake apt-get <<END
case " \$* " in
    *" install "*)
        echo "apt-get \$*" >>"$scratch/calls"
        [ -f "$scratch/lists" ] || exit 100
        ln -s "$(command -v xz)" "$bin/xz"
        cp "$bin/gcc" "$bin/sbcl"
        cp "$bin/gcc" "$bin/make" ;;
    *" -c "* | *" indextargets "*) exec "$bin/apt-source" "\$@" ;;
    *" update "*) echo "apt-get \$*" >>"$scratch/calls"; touch "$scratch/lists" ;;
esac
END
touch "$scratch/lists"
bootstrap
exits 0
says 'Installing sbcl make xz-utils through apt'
holds 'the lists are not fetched when they serve' not asked 'Lock::Timeout=600 update'
rm -rf "$cache" "$scratch/lists" "$bin/sbcl"
rm "$bin/make" "$bin/xz"
: >"$scratch/calls"
bootstrap
exits 0
holds 'the lists are fetched when they do not' asked 'Lock::Timeout=600 update'

row 'a missing compiler, when SBCL is built'
rm "$bin/gcc" "$bin/cc"
fake apt-get <<END
echo "apt-get \$*" >>"$scratch/calls"
cp "$bin/sbcl" "$bin/gcc"
END
: >"$scratch/calls"
bootstrap
exits 0
says 'Installing gcc libc6-dev through apt'
holds 'only that is installed' asked 'recommends gcc libc6-dev'

row 'missing packages, not root'
fresh_world
rm "$bin/sbcl"
fake id <<'END'
echo 1000
END
bootstrap
exits 1
complains 'Only root may install them'
complains 'apt-get install --yes --no-install-recommends sbcl'
holds 'nothing is installed' not asked install
fake sudo <<END
echo "sudo \$*" >>"$scratch/calls"
[ "\$1" != -n ] || exit 0
cp "$bin/make" "$bin/sbcl"
END
bootstrap
exits 0
holds 'sudo is used' asked 'sudo env DEBIAN_FRONTEND=noninteractive apt-get'

row 'apt cannot install'
fresh_world
rm "$bin/sbcl"
fake id <<'END'
echo 0
END
fake apt-get <<'END'
echo 'Temporary failure resolving'
exit 100
END
bootstrap
exits 1
complains 'could not install'
complains 'Temporary failure resolving'
left_nothing

row 'a system without apt'
fresh_world
rm "$bin/apt-get" "$bin/sbcl" "$bin/patch"
bootstrap
exits 1
complains 'sbcl patch'
complains 'has no apt'
complains 'STEELBANK_SBCL_SOURCE'
for tool in sbcl patch; do ln -sf "$(command -v $tool || echo "$bin/make")" "$bin/$tool"; done
bootstrap
exits 1
complains 'no apt to fetch'
complains "$(cut -d ' ' -f 1 "$notes/sha256")"

row 'a place for the cache'
fresh_world
unset STEELBANK_CACHE
status=0
env -u HOME PATH="$bin" "$house/bootstrap" --print-path >"$scratch/out" 2>"$scratch/err" || status=$?
exits 1
complains 'HOME is not set'
STEELBANK_CACHE=some/folder
export STEELBANK_CACHE
bootstrap
exits 1
complains 'STEELBANK_CACHE is '
complains 'must be an absolute path'
STEELBANK_CACHE=$house/bootstrap/cache
bootstrap
exits 1
complains 'cannot be created or written to'
unset STEELBANK_CACHE
XDG_CACHE_HOME=$scratch/xdg
export XDG_CACHE_HOME
bootstrap
exits 0
says "$scratch/xdg/steelbank/sbcl-9.9.9-"
unset XDG_CACHE_HOME
STEELBANK_CACHE=$scratch/naïve+c@fé,~=
export STEELBANK_CACHE
bootstrap
exits 0
bootstrap --print-path
exits 0
says "$STEELBANK_CACHE/sbcl-9.9.9-"

row 'a cache whose path SBCL cannot be built in'
fresh_world
cache="$scratch/a place [odd]"
STEELBANK_CACHE=$cache
TMPDIR=$scratch/for-a-time
export TMPDIR
mkdir "$TMPDIR"
echo 'pwd >"$scratch/stood"' | sed "s,.scratch,$scratch," >"$scratch/during"
bootstrap
exits 0
quiet
built 1
holds 'it is built where the path is plain' grep -q '^[^ ]*/for-a-time/[^ ]*$' "$scratch/stood"
has_trees 1
left_nothing
holds 'nor is anything left where it was built' [ -z "$(ls "$TMPDIR")" ]
bootstrap --print-path
exits 0
says "$cache/sbcl-9.9.9-"
rm -r "$cache"
TMPDIR=$scratch/'not plain'
mkdir "$TMPDIR"
: >"$scratch/calls"
bootstrap
exits 1
complains "a folder with '  []' in its path"
complains "$TMPDIR"
holds 'nothing is fetched in vain' not asked ' source '
left_nothing
row 'the same, ended half-way'
TMPDIR=$scratch/for-a-time
start_and_hang
kill -s TERM $started
wait $started 2>/dev/null
holds 'its build has ended' not runs "$sleeper"
left_nothing
holds 'nor is anything left where it was built' [ -z "$(ls "$TMPDIR")" ]
unset TMPDIR
cache=$scratch/cache

row 'another operating system'
fresh_world
fake uname <<'END'
echo Elsewhere
END
bootstrap
exits 1
complains 'steelbank runs on Linux'

printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
