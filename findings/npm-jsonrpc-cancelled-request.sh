#!/bin/sh
# vscode-jsonrpc 10.0.0, the JSON-RPC library of VS Code's language client: a request with a token that
# is cancelled already is sent all the same, and its result is returned. Likely guess: it is rejected
# and never sent.
set -eu
. "$(dirname "$0")/node-packages"
install vscode-jsonrpc@10.0.0
cat >try.cjs <<'END'
const rpc = require('vscode-jsonrpc/node');
const { PassThrough } = require('node:stream');
const [up, down] = [new PassThrough(), new PassThrough()];
const connection = (from, to) =>
  rpc.createMessageConnection(new rpc.StreamMessageReader(from), new rpc.StreamMessageWriter(to));
const [client, server] = [connection(down, up), connection(up, down)];
let received = 0;
server.onRequest('work', () => { received += 1; return 'result'; });
server.listen();
client.listen();
const source = new rpc.CancellationTokenSource();
source.cancel();
client.sendRequest('work', {}, source.token).then((value) => value, () => 'rejected').then((outcome) => {
  console.log(`seen: received ${received}, ${outcome}`);
  process.exit();
});
END
node try.cjs | expect 'seen: received 1, result'
