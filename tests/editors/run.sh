#!/bin/sh
# Tests editors with the language server: each lists references in an unsaved buffer, and renames in
# two files.
#
# Usage: run.sh [PROGRAM]. Editors that are not installed are reported and skipped.
set -e
here=$(cd "$(dirname "$0")" && pwd)
STEELBANK=$(realpath "${1:-target/release/steelbank}")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export STEELBANK STEELBANK_CACHE="$scratch/cache" HOME="$scratch" PAGES="$here/../../docs/editors"
# Runs the guide's lines for Neovim and Emacs without changes.
mkdir "$scratch/bin"
ln -s "$STEELBANK" "$scratch/bin/steelbank"
export PATH="$scratch/bin:$PATH"
expected='reference cart.lisp:4:25
reference shop.lisp:1:42
reference shop.lisp:3:8
renamed cart.lisp 1
renamed shop.lisp 2'

project() {
  ROOT=$scratch/$1
  export ROOT
  mkdir -p "$ROOT"
  echo '(defsystem "editors" :serial t :components ((:file "shop") (:file "cart")))' >"$ROOT/editors.asd"
  printf '(defpackage :editors (:use :cl) (:export #:price))\n(in-package :editors)\n(defun price (item) item)\n' >"$ROOT/shop.lisp"
  printf '(in-package :editors)\n(defun total (items)\n  (reduce #'\''+ (mapcar #'\''price items)))\n' >"$ROOT/cart.lisp"
}

compare() {
  if ! printf '%s\n' "$expected" | diff - "$scratch/$1.txt"; then
    echo "$1 differs"
    exit 1
  fi
  echo "$1: as expected"
}

python=${PYTHON:-python3}
if "$python" -c 'import pytest_lsp' 2>/dev/null; then
  project clients
  timeout 80 "$python" -m pytest -q -p no:cacheprovider "$here/test_clients.py" >"$scratch/said" 2>&1 || { cat "$scratch/said"; exit 1; }
  echo 'pytest-lsp: as expected'
else
  echo 'pytest-lsp is not installed: left out'
fi

if command -v nvim >/dev/null; then
  project nvim
  timeout 80 nvim --headless --clean -n -c "luafile $here/nvim.lua" -c 'qa!' >"$scratch/said" 2>&1 </dev/null || true
  grep -aE '^(reference|renamed) ' "$scratch/said" | sort >"$scratch/nvim.txt" || cat "$scratch/said"
  compare nvim
else
  echo 'nvim is not installed: left out'
fi

if command -v emacs >/dev/null; then
  if emacs --batch --eval "(require 'eglot)" >/dev/null 2>&1; then
    project emacs
    timeout 80 emacs --batch -l "$here/eglot.el" >"$scratch/said" 2>"$scratch/errors" </dev/null || tail -n 5 "$scratch/errors"
    grep -aE '^(reference|renamed) ' "$scratch/said" | sort >"$scratch/emacs.txt" || cat "$scratch/said"
    compare emacs
  else
    echo 'Emacs has no eglot: left out'
  fi
  project xref
  timeout 80 emacs --batch -L "$here/../../editors/emacs" -l "$here/xref.el" >"$scratch/said" 2>"$scratch/errors" </dev/null ||
    tail -n 5 "$scratch/errors"
  grep -aE '^(reference|renamed) ' "$scratch/said" | sort >"$scratch/xref.txt"
  compare xref
  grep -q '^definition shop.lisp:3:' "$scratch/said" && grep -q '^named cart.lisp:3:' "$scratch/said" || { cat "$scratch/said"; exit 1; }
else
  echo 'emacs is not installed: left out'
fi

if command -v npm >/dev/null; then
  cp -r "$here/../../editors/vscode" "$scratch/extension"
  if (cd "$scratch/extension" && npm install --no-audit --no-fund --silent --no-package-lock) >"$scratch/said" 2>&1; then
    (cd "$scratch/extension" && npx vsce package --skip-license --allow-missing-repository --out "$scratch/steelbank.vsix") >"$scratch/said" 2>&1 ||
      { cat "$scratch/said"; exit 1; }
    project vscode
    NODE_PATH=$scratch/extension/node_modules timeout 80 node "$here/client.js" >"$scratch/said"
    grep -E '^(reference|renamed) ' "$scratch/said" | sort >"$scratch/vscode.txt"
    compare vscode
    grep -qx 'lens no uses steelbank.showReferences' "$scratch/said" && grep -qx 'verified true' "$scratch/said" || { cat "$scratch/said"; exit 1; }
  else
    echo 'npm has no registry: the extension for VS Code is left out'
  fi
else
  echo 'npm is not installed: the extension for VS Code is left out'
fi
