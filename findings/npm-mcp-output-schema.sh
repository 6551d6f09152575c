#!/bin/sh
# MCP's SDK for TypeScript, version 1.32.2, as client: callTool compares structuredContent with the
# tool's outputSchema only after listTools was called. Before, an answer that violates the schema is
# returned as it is. Likely guess: the client always compares, or never.
set -eu
. "$(dirname "$0")/node-packages"
install @modelcontextprotocol/sdk@1.32.2
cat >try.mjs <<'END'
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { InMemoryTransport } from '@modelcontextprotocol/sdk/inMemory.js';
const [near, far] = InMemoryTransport.createLinkedPair();
const outputSchema = { type: 'object', properties: { lines: { type: 'number' } }, required: ['lines'] };
const results = {
  initialize: (params) => ({
    protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' },
  }),
  'tools/list': () => ({ tools: [{ name: 'count', inputSchema: { type: 'object' }, outputSchema }] }),
  'tools/call': () => ({ content: [], structuredContent: { lines: 'many' } }),
};
far.onmessage = ({ id, method, params }) => {
  if (id !== undefined) far.send({ jsonrpc: '2.0', id, result: results[method](params) });
};
await far.start();
const client = new Client({ name: 'c', version: '1' });
await client.connect(near);
const call = () => client.callTool({ name: 'count' }).then(() => 'returns', (error) => `fails ${error.code}`);
const before = await call();
await client.listTools();
console.log(`seen: before ${before}, after ${await call()}`);
END
node try.mjs | expect 'seen: before returns, after fails -32602'
