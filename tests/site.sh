#!/bin/sh
# Tests the pages of `steelbank site` in headless Chromium: takes pictures of five pages in dark and
# light, clicks from a use to its definition and back, searches, and walks the drawing. The Nu Html
# Checker must find no error.
#
# Usage: tests/site.sh [PROGRAM] [FOLDER FOR THE PICTURES]. The picture in docs/site.md is site.png
# of that folder:
#   sh tests/site.sh target/release/steelbank /tmp/pictures && cp /tmp/pictures/site.png docs/
# Needs Chromium, npm and Java, all in Debian. Prints "N passed, M failed" as the last line.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
. "$here/npm.sh"
set_up_client "${1:-}" puppeteer-core 24.43.1
browser=$client
set_up_client "${1:-}" vnu-jar 26.9.27
program=$(realpath "$program")
chromium=$(command -v chromium || command -v chromium-browser) || { echo 'chromium is missing: apt-get install chromium' >&2; exit 2; }
command -v java >/dev/null || { echo 'java is missing: apt-get install default-jre-headless' >&2; exit 2; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
export STEELBANK_CACHE="$scratch/cache"
cp -r "$here/../examples/shop" "$scratch/shop"
(cd "$scratch/shop" && "$program" site -o "$scratch/site")
java -jar "$client/node_modules/vnu-jar/build/dist/vnu.jar" --skip-non-html "$scratch/site"
# Node searches for imports in the folder of the importing file.
ln -s "$browser/node_modules" "$scratch/node_modules"
cp "$here/site/browser.mjs" "$scratch/"
"$browser/node_modules/.bin/node" --preserve-symlinks --preserve-symlinks-main "$scratch/browser.mjs" \
    "$chromium" "$scratch/site" "${2:-$scratch/pictures}"
