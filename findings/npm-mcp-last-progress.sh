#!/bin/sh
# MCP's SDK for TypeScript, version 1.32.2, as client: a progress notification that the server sends
# directly before the result does not reach the caller's onprogress. The client handles the result
# first, and reports the notification as one with an unknown token. Likely guess: messages are handled
# in the order in which they arrive.
set -eu
. "$(dirname "$0")/node-packages"
install @modelcontextprotocol/sdk@1.32.2
cat >server.mjs <<'END'
import { createInterface } from 'node:readline';
createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  const reply = (result) => ({ jsonrpc: '2.0', id, result });
  const progress = (progress) => ({
    jsonrpc: '2.0', method: 'notifications/progress', params: { progressToken: params._meta?.progressToken, progress },
  });
  const send = (...all) => process.stdout.write(all.map((one) => JSON.stringify(one) + '\n').join(''));
  if (method === 'initialize') {
    send(reply({ protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } }));
  } else if (method === 'tools/call') {
    send(progress(1));
    setTimeout(() => send(progress(2), reply({ content: [] })), 200);
  }
});
END
cat >client.mjs <<'END'
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
const client = new Client({ name: 'c', version: '1' });
let unknown = 0;
const seen = [];
client.onerror = (error) => { if (/unknown token/.test(error.message)) unknown += 1; };
await client.connect(new StdioClientTransport({ command: process.execPath, args: ['server.mjs'] }));
await client.callTool({ name: 'work' }, undefined, { onprogress: ({ progress }) => seen.push(progress) });
await new Promise((resolve) => setTimeout(resolve, 200));
console.log(`seen: progress ${seen.join(' ')}, unknown token ${unknown}`);
await client.close();
END
node client.mjs | expect 'seen: progress 1, unknown token 1'
