#!/bin/sh
# Tests the server with the client of the official TypeScript SDK (from npm, pinned), while Lisp is
# ended in many ways.
#
# Usage: tests/sdk.sh [PROGRAM]. Needs npm. Prints "N passed, M failed" as the last line.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/npm.sh"
set_up_client "${1:-}" @modelcontextprotocol/sdk 1.32.2

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/project"
# Node searches for imports in the folder of the importing file.
ln -s "$client/node_modules" "$scratch/node_modules"
cp "$here/sdk/deaths.mjs" "$scratch/"
"$client/node_modules/.bin/node" --preserve-symlinks --preserve-symlinks-main "$scratch/deaths.mjs" \
    "$program" "$here/sdk/ends.json" "$scratch/project"
