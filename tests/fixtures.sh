#!/bin/sh
# Fetches the trees that the tests compare with ripgrep on, each from its language's package registry, through the
# registry's own client. What is there is not fetched again. The last line of the output is the trees' folder.
set -eu

: "${XDG_CACHE_HOME:=${HOME:-/nonexistent}/.cache}"
folder=${STEELBANK_FIXTURES:-${STEELBANK_CACHE:-$XDG_CACHE_HOME/steelbank}/fixtures-3}
mkdir -p "$folder"
work=$(mktemp -d "$folder/fetching.XXXXXX")
trap 'rm -rf "$work"' EXIT

need() {
  command -v "$1" >/dev/null 2>&1 || { echo "fixtures.sh: $1 is needed to fetch $2: install it and run this again" >&2; exit 1; }
}

# done_with NAME: makes $work/NAME the fixture, whole or not at all.
done_with() {
  rm -rf "$folder/$1"
  mv "$work/$1" "$folder/$1" 2>/dev/null || [ -d "$folder/$1" ]
}

need rg 'nothing, but to compare with'

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
  need npm 'npm packages'
  mkdir -p "$work/npm"
  for package in rxjs@7.8.1 express@4.21.2; do
    (cd "$work/npm" && archive=$(npm pack --silent "$package") && tar -xzf "$archive" && rm "$archive" \
      && mv package "${package%@*}")
  done
  # The same code compiled five times.
  rm -rf "$work/npm/rxjs/dist"
  done_with npm
fi

if [ ! -d "$folder/pypi" ]; then
  need pip 'Python source distributions'
  mkdir -p "$work/pypi"
  for package in click==8.1.7 flask==3.0.3 jinja2==3.1.4; do
    pip download -q --disable-pip-version-check --no-deps --no-binary :all: -d "$work/sdists" "$package" >&2
  done
  for archive in "$work"/sdists/*.tar.gz; do tar -xzf "$archive" -C "$work/pypi"; done
  done_with pypi
fi

if [ ! -d "$folder/lisp" ]; then
  need apt-get "Debian's Lisp sources"
  need dpkg-deb "Debian's Lisp sources"
  mkdir -p "$work/debs" "$work/lisp"
  for package in cl-alexandria cl-ppcre cl-flexi-streams cl-iterate cl-cffi cl-hunchentoot; do
    (cd "$work/debs" && apt-get download -qq -o APT::Sandbox::User=root "$package" >&2)
  done
  for archive in "$work"/debs/*.deb; do
    dpkg-deb -x "$archive" "$work/unpacked"
  done
  cp -RL "$work/unpacked/usr/share/common-lisp/source/." "$work/lisp"
  done_with lisp
fi

echo "$folder"
