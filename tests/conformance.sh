#!/bin/sh
# Runs the protocol's official conformance suite, from npm, pinned, against the door over HTTP with tools of the suite's own,
# in both of the protocol's lifecycles. tests/conformance/VERSION.yml lists what is not declared, and so fails.
# Usage: tests/conformance.sh [FIXTURE], the example `conformance`, built. Needs npm. Ends with a line "N passed, M failed".
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
        # The suite lets what it does not score fail.
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
