#!/bin/sh
# vscode-languageserver-textdocument 1.0.16: TextDocument.update applies a change with an older version
# than the document's, and the document then has the older version. A range whose end is before its
# start is applied with both exchanged. Likely guess: an error for both.
set -eu
. "$(dirname "$0")/node-packages"
install vscode-languageserver-textdocument@1.0.16
cat >try.cjs <<'END'
const { TextDocument } = require('vscode-languageserver-textdocument');
const document = TextDocument.create('file:///a.lisp', 'lisp', 5, '(list 1 2)');
const at = (character) => ({ line: 0, character });
TextDocument.update(document, [{ range: { start: at(7), end: at(6) }, text: '10' }], 3);
console.log(`seen: version ${document.version} ${document.getText()}`);
END
node try.cjs | expect 'seen: version 3 (list 10 2)'
