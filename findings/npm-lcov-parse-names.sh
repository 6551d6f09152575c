#!/bin/sh
# lcov-parse 1.0.0 splits records at each comma. From FN with an end line, as lcov 2 writes it, it takes
# the end line as the function's name, and the hits of FNDA are lost; a name with a comma is truncated.
# Its totals come from LF and LH: without them, both are 0 although DA lines exist. Likely guess: names
# are the rest of the line, totals are counted.
set -eu
. "$(dirname "$0")/node-packages"
install lcov-parse@1.0.0
cat >try.cjs <<'END'
const parse = require('lcov-parse');
const text = 'SF:a.lisp\nFN:1,4,total\nFNDA:3,total\nFN:6,pair<a,b>\nFNDA:2,pair<a,b>\nDA:1,3\nDA:6,2\nend_of_record\n';
parse(text, (error, [file]) => {
  const names = file.functions.details.map(({ name, hit }) => `${name}:${hit ?? 0}`).join(' ');
  console.log(`seen: ${names}, lines ${file.lines.details.length} found ${file.lines.found} hit ${file.lines.hit}`);
});
END
node try.cjs | expect 'seen: 4:0 pair<a:2, lines 2 found 0 hit 0'
