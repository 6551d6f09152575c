#!/bin/sh
# Makes an image of another SBCL, and runs the Lisp half's tests in that SBCL. Asks the image and
# the built-in SBCL the same questions about examples/shop: the answers must be equal. Asks without
# root's capabilities, because users do not have them.
#   sh tests/other-sbcl.sh [SOURCE [PROGRAM]]
#   SOURCE   as for `./bootstrap --sbcl`; default: apt's suite forky
#   PROGRAM  steelbank; default: the release build
set -eu
cd "$(dirname "$0")/.."
program=${2:-target/release/steelbank}
program=$(realpath "$program")
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
./bootstrap --sbcl "${1:-forky}" | tee "$scratch/said"
version=$(sed -n 's/.*steelbank --sbcl //p' "$scratch/said")
image=$(sed -n 's/^The image of .* in \(.*\)\. To start it: .*/\1/p' "$scratch/said")
sh tests/lisp.sh "$(dirname "$(dirname "$image")")/$(cat "$image/tree")"
"$program" --sbcl "$version" doctor | tee "$scratch/doctor"
grep -q "with SBCL $version" "$scratch/doctor"

cp -R examples/shop "$scratch/shop"
cd "$scratch/shop"
# Times differ between runs, and 2.5.2 does not record where a package is defined.
settled() { sed -E 's/[0-9.]+ ?(ms|s)\b/N \1/g; s/"([a-z_]*_(ms|microseconds|seconds))": ?[0-9.]+/"\1": N/g; s/^(Package SHOP) .*:1:1$/\1/' "$1"; }
bare=; [ "$(id -u)" != 0 ] || bare='setpriv --bounding-set=-all --inh-caps=-all'
asked=0 failed=0
while IFS= read -r question; do
  asked=$((asked + 1))
  for sbcl in '' "--sbcl $version"; do
    # shellcheck disable=SC2086  # options
    eval "set -- $question"
    # shellcheck disable=SC2086
    code=0; $bare "$program" $sbcl --no-userinit --system shop "$@" >"$scratch/answer" 2>&1 </dev/null || code=$?
    { settled "$scratch/answer"; echo "exit $code"; } >"$scratch/answer${sbcl:+.other}.settled"
  done
  if ! diff "$scratch/answer.settled" "$scratch/answer.other.settled" >"$scratch/difference"; then
    failed=$((failed + 1))
    printf 'FAILED: %s\n' "$question"
    cat "$scratch/difference"
  fi
done <<'END'
describe-symbol shop:total
describe-symbol shop:price
apropos-symbols total
package-info shop
who-calls shop:total
who-calls shop:price --json
who-references 'shop::*discount*'
code-find-references shop:total
code-find-references shop:price --json
code-find-references shop:cart --json
find-definition shop:total --json
find-definition shop:cart
outline
outline --unused
impact shop:price
call-graph shop:total
rename shop:total amount --json
macroexpand '(shop:with-discount (10) (shop:price 1))'
run-tests shop/tests
check --json
list-systems
load-system shop/tests
call evaluate '{"code": "(shop:total (shop:add-item 250 (make-instance (quote shop:cart))) :discount 10)"}'
END
echo "$((asked - failed)) passed, $failed failed"
[ "$failed" -eq 0 ]
