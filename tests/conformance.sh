#!/bin/sh
# Runs the protocol's official conformance suite (from npm, pinned) against MCP over HTTP, with
# tools for the suite, in both lifecycles of the protocol. tests/conformance/VERSION.yml lists the
# failures that follow from features that steelbank does not declare.
#
# Usage: tests/conformance.sh [FIXTURE], the built example `conformance`. Needs npm. Prints "N
# passed, M failed" as the last line.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/npm.sh"
set_up_client "${1:-${CARGO_TARGET_DIR:-$here/../target}/debug/examples/conformance}" @modelcontextprotocol/conformance 0.2.0-alpha.12

scratch=$(mktemp -d)
"$program" >"$scratch/url" 2>"$scratch/err" &
server=$!
trap 'kill "$server" 2>/dev/null || :; rm -rf "$scratch"' EXIT
tries=0
until [ -s "$scratch/url" ]; do
    tries=$((tries + 1))
    [ "$tries" -lt 100 ] || { cat "$scratch/err" >&2; exit 2; }
    sleep 0.1
done
passed=0
failed=0
cd "$scratch"
for version in 2025-11-25 2026-07-28; do
    if PATH="$client/node_modules/.bin:$PATH" conformance server --url "$(cat url)" --requirements "$version" \
        --expected-failures "$here/conformance/$version.yml" >log 2>&1; then
        passed=$((passed + $(grep -c '^✓' log)))
        # The suite ignores failures of checks that it does not score.
        for name in $(sed -n 's/^✗ \([^:]*\):.*/\1/p' log); do
            grep -q "^  - $name\(:.*\)\{0,1\}\$" "$here/conformance/$version.yml" || {
                failed=$((failed + 1))
                printf 'FAILED: %s: %s\n' "$version" "$name"
            }
        done
    else
        failed=$((failed + 1))
        printf 'FAILED: %s\n' "$version"
        sed -n '/=== SUMMARY/,$p' log | tail -n 80
    fi
done
printf '%s passed, %s failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
