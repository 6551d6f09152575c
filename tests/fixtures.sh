#!/bin/sh
# Fetches third-party code for the tests: each tree from its language's package registry, through
# the registry's client; also ripgrep if it is not installed. Existing trees are not fetched again.
# Needs cargo and apt, as bootstrap does. Uses npm and pip if they are installed, otherwise Debian's
# packages of JavaScript and Python code. Prints the folder of the trees as the last line; its bin/
# has ripgrep if that was fetched.
set -eu

: "${XDG_CACHE_HOME:=${HOME:-/nonexistent}/.cache}"
folder=${STEELBANK_FIXTURES:-${STEELBANK_CACHE:-$XDG_CACHE_HOME/steelbank}/fixtures-5}
mkdir -p "$folder"
work=$(mktemp -d "$folder/fetching.XXXXXX")
trap 'rm -rf "$work"' EXIT

need() {
  command -v "$1" >/dev/null 2>&1 || { echo "fixtures.sh: $1 is needed to fetch $2: install it and run this again" >&2; exit 1; }
}

# done_with NAME: moves $work/NAME into place as a fixture, atomically.
done_with() {
  rm -rf "$folder/$1"
  mv "$work/$1" "$folder/$1" 2>/dev/null || [ -d "$folder/$1" ]
}

# debs FOLDER PACKAGE...: unpacks Debian packages into FOLDER. Needs no root, because it installs
# nothing.
debs() {
  need apt-get "Debian's packages"
  need dpkg-deb "Debian's packages"
  into=$1
  shift
  mkdir -p "$work/debs"
  (
    cd "$work/debs"
    rm -f ./*.deb
    apt-get download -qq -o APT::Sandbox::User=root "$@" >&2 || {
      # apt has no lists of packages, or old ones.
      sudo=
      [ "$(id -u)" = 0 ] || sudo=sudo
      $sudo apt-get update -qq >&2
      apt-get download -qq -o APT::Sandbox::User=root "$@" >&2
    }
  )
  for archive in "$work"/debs/*.deb; do dpkg-deb -x "$archive" "$into"; done
}

if ! command -v rg >/dev/null 2>&1 && [ ! -x "$folder/bin/rg" ]; then
  debs "$work/ripgrep" ripgrep
  mkdir -p "$work/bin"
  cp "$work/ripgrep/usr/bin/rg" "$work/bin/rg"
  done_with bin
fi

if [ ! -d "$folder/crates" ]; then
  need cargo 'crate sources'
  mkdir -p "$work/manifest/src"
  : >"$work/manifest/src/lib.rs"
  cat >"$work/manifest/Cargo.toml" <<'END'
[package]
name = "fixture"
version = "0.0.0"
edition = "2021"

[workspace]

[dependencies]
libz-sys = "=1.1.22"
regex-automata = "=0.4.9"
serde_json = "=1.0.140"
END
  (cd "$work/manifest" && cargo vendor -q "$work/vendor" >/dev/null)
  mkdir "$work/crates"
  for crate in libz-sys regex-automata serde_json; do mv "$work/vendor/$crate" "$work/crates"; done
  done_with crates
fi

if [ ! -d "$folder/npm" ]; then
  mkdir -p "$work/npm"
  if command -v npm >/dev/null 2>&1; then
    for package in rxjs@7.8.1 express@4.21.2; do
      (cd "$work/npm" && archive=$(npm pack --silent "$package") && tar -xzf "$archive" && rm "$archive" \
        && mv package "${package%@*}")
    done
  else
    debs "$work/node" node-rxjs node-express
    cp -RL "$work/node/usr/share/nodejs/." "$work/npm"
  fi
  # Remove the five compiled versions of the same code.
  rm -rf "$work/npm/rxjs/dist"
  done_with npm
fi

if [ ! -d "$folder/pypi" ]; then
  mkdir -p "$work/pypi"
  if command -v pip >/dev/null 2>&1; then
    for package in click==8.1.7 flask==3.0.3 jinja2==3.1.4; do
      pip download -q --disable-pip-version-check --no-deps --no-binary :all: -d "$work/sdists" "$package" >&2
    done
    for archive in "$work"/sdists/*.tar.gz; do tar -xzf "$archive" -C "$work/pypi"; done
  else
    debs "$work/python" python3-click python3-flask python3-jinja2
    cp -RL "$work/python/usr/lib/python3/dist-packages/." "$work/pypi"
  fi
  done_with pypi
fi

if [ ! -d "$folder/lisp" ]; then
  debs "$work/unpacked" cl-alexandria cl-anaphora cl-asdf-flv cl-babel cl-bordeaux-threads cl-cffi cl-chunga \
    cl-closer-mop cl-fad cl-fiveam cl-flexi-streams cl-hunchentoot cl-interpol cl-ironclad cl-iterate cl-local-time \
    cl-named-readtables cl-nibbles cl-parse-number cl-ppcre cl-ptester cl-puri cl-rt cl-split-sequence \
    cl-trivial-backtrace cl-trivial-features cl-trivial-gray-streams cl-unicode cl-usocket cl-who cl-yason
  mkdir -p "$work/lisp"
  cp -RL "$work/unpacked/usr/share/common-lisp/source/." "$work/lisp"
  done_with lisp
fi

# In a separate folder, so that measurements of all libraries do not change.
if [ ! -d "$folder/frameworks" ]; then
  debs "$work/more" cl-fiasco
  mkdir -p "$work/frameworks"
  cp -RL "$work/more/usr/share/common-lisp/source/." "$work/frameworks"
  done_with frameworks
fi

# In a separate folder, because ASDF upgrades itself wherever its registry has a newer version.
if [ ! -d "$folder/asdf" ]; then
  debs "$work/newer" cl-asdf
  mkdir -p "$work/asdf"
  # The dates decide whether ASDF generates build/asdf.lisp again.
  cp -RLp "$work/newer/usr/share/common-lisp/source/." "$work/asdf"
  done_with asdf
fi

echo "$folder"
