#!/bin/sh
# MCP's SDK for Python, version 2.3.0, as client: after the first result of a tool, call_tool sends
# tools/list by itself, to compare the result with the tool's outputSchema, also if the result has no
# structured content. A later call of the same tool sends none. Likely guess: one message a call.
set -eu
. "$(dirname "$0")/expect"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
python3 -m pip install --quiet --disable-pip-version-check --root-user-action ignore --no-warn-conflicts --target packages mcp==2.3.0
cat >server.py <<'END'
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    with open('methods', 'a') as log:
        print(message['method'], file=log)
    results = {
        'initialize': lambda: {'protocolVersion': message['params']['protocolVersion'], 'capabilities': {'tools': {}},
                               'serverInfo': {'name': 's', 'version': '1'}},
        'tools/list': lambda: {'tools': [{'name': 'work', 'inputSchema': {'type': 'object'}}]},
        'tools/call': lambda: {'content': []},
    }
    if 'id' in message:
        result = results[message['method']]()
        print(json.dumps({'jsonrpc': '2.0', 'id': message['id'], 'result': result}), flush=True)
END
cat >client.py <<'END'
import asyncio, sys
from mcp import ClientSession, StdioServerParameters
from mcp.client.stdio import stdio_client

async def main():
    async with stdio_client(StdioServerParameters(command=sys.executable, args=['server.py'])) as streams:
        async with ClientSession(*streams) as session:
            await session.initialize()
            await session.call_tool('work', {})
            await session.call_tool('work', {})

asyncio.run(main())
END
PYTHONPATH=packages python3 client.py
grep tools/ methods | tr '\n' ' ' | sed 's/^/seen: /; s/ $/\n/' | expect 'seen: tools/call tools/list tools/call'
