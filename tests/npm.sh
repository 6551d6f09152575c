# Functions for scripts that use a client from npm. Scripts source this file. Needs npm.

# Installs the client $2 of version $3, with a Node, in the cache. Sets `program` to the steelbank
# program $1, or to the one that cargo has built; `cache` to the cache; and `client` to the client's
# folder.
set_up_client() {
    program=${1:-${CARGO_TARGET_DIR:-$here/../target}/release/steelbank}
    [ -x "$program" ] || { printf 'There is no program %s. Build it first: cargo build --release\n' "$program" >&2; exit 2; }
    # Clients need a newer Node than Debian 12's; npm has one.
    node=22.23.3
    cache=${STEELBANK_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/steelbank}
    client=$cache/$(basename "$2")-$3-node-$node
    if [ ! -e "$client/complete" ]; then
        command -v npm >/dev/null || { printf 'npm is missing: apt-get install npm\n' >&2; exit 2; }
        rm -rf "$client"
        mkdir -p "$client"
        npm install --silent --no-audit --no-fund --prefix "$client" "node@$node" "$2@$3" >"$client/log" 2>&1 ||
            { cat "$client/log" >&2; exit 2; }
        : >"$client/complete"
    fi
}
