"""Sends each request about a symbol of a small project to a language server, and prints which have
a result, for the table in docs/peers.md.

Usage: features.py COMMAND... The server uses its standard streams, or prints a port. If RUST is set
in the environment, the same project in Rust is used."""

import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import tempfile
import time

LISP = """(defpackage :shop (:use :cl) (:export #:price))
(in-package :shop)
(defclass thing () ((weight :initarg :weight :accessor weight)))
(defun price (item &optional discount)
  "The price of ITEM."
  (let ((sum (* item 2)))
  (if discount (- sum discount) sum)))
(defun total (items)
  (list (price 1 2) (mapcar #'price items)))
"""
RUST = """/// A thing.
pub struct Thing { pub weight: i32 }
/// The price of `item`.
pub fn price(item: i32, discount: Option<i32>) -> i32 {
    let sum = item * 2;
  if let Some(discount) = discount { sum - discount } else { sum }
}
pub fn total(items: &[i32]) -> i32 {
    price(1, Some(2)) + items.iter().map(|item| price(*item, None)).sum::<i32>()
}
"""
ROOT = pathlib.Path(tempfile.mkdtemp())
if os.environ.get("RUST"):
    FILE, TEXT, KIND = ROOT / "src/lib.rs", RUST, "rust"
    CALL, LOCAL, BRANCH, CLASS = "price(1", "sum - discount", "if let", "Thing"
    (ROOT / "src").mkdir()
    (ROOT / "Cargo.toml").write_text('[package]\nname = "shop"\nversion = "0.1.0"\nedition = "2021"\n')
else:
    FILE, TEXT, KIND = ROOT / "shop.lisp", LISP, "lisp"
    CALL, LOCAL, BRANCH, CLASS = "price 1", "sum discount", "(if", "thing"
    (ROOT / "shop.asd").write_text('(defsystem "shop" :components ((:file "shop")))')
FILE.write_text(TEXT)
URI = FILE.as_uri()
server = subprocess.Popen(sys.argv[1:], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
reader, writer = server.stdout, server.stdin
if os.environ.get("TCP"):
    while not (port := re.search(rb"ort\D*(\d+)", server.stdout.readline())):
        pass
    time.sleep(1)
    stream = socket.create_connection(("127.0.0.1", int(port[1])))
    reader, writer = stream.makefile("rb"), stream.makefile("wb")
number, told = 0, []


def late(*_):
    raise TimeoutError


signal.signal(signal.SIGALRM, late)


def send(message):
    body = json.dumps({"jsonrpc": "2.0", **message}).encode()
    writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
    writer.flush()


def ask(method, params):
    global number
    number += 1
    send({"id": number, "method": method, "params": params})
    while True:
        length = 0
        while line := reader.readline().strip():
            if line.lower().startswith(b"content-length"):
                length = int(line.split(b":")[1])
        message = json.loads(reader.read(length))
        if message.get("id") == number and "method" not in message:
            return message
        told.append(message.get("method"))
        if "id" in message and "method" in message:
            send({"id": message["id"], "result": [None]})


def at(word, nth=0, past=0):
    start = [match.start() for match in re.finditer(re.escape(word), TEXT)][nth] + past
    return {"textDocument": {"uri": URI}, "position": {"line": TEXT[:start].count("\n"), "character": start - TEXT.rfind("\n", 0, start) - 1}}


folder = {"uri": ROOT.as_uri(), "name": "shop"}
capabilities = {"window": {"workDoneProgress": True}, "textDocument": {"rename": {"prepareSupport": True}}}
ask("initialize", {"processId": None, "rootUri": ROOT.as_uri(), "workspaceFolders": [folder], "capabilities": capabilities})
send({"method": "initialized", "params": {}})
send({"method": "textDocument/didOpen", "params": {"textDocument": {"uri": URI, "languageId": KIND, "version": 1, "text": TEXT}}})
for command in filter(None, os.environ.get("LOAD", "").split(";")):
    method, params = command.split(" ", 1)
    print(method, str(ask(method, json.loads(params.replace("URI", URI).replace("PATH", str(FILE)))))[:200])
time.sleep(float(os.environ.get("WAIT", "5")))
price, local = at(CALL, past=2), at(LOCAL, past=1)
whole = {"textDocument": {"uri": URI}, "range": {"start": {"line": 0, "character": 0}, "end": {"line": 9, "character": 0}}}
both = {"context": {"includeDeclaration": True}}
for name, params in {
    "hover": price,
    "definition": price,
    "definition of a local": local,
    "declaration": price,
    "implementation": price,
    "typeDefinition": price,
    "references": price | both,
    "references of a local": local | both,
    "documentHighlight": local,
    "prepareRename": price,
    "rename": price | {"newName": "cost"},
    "rename of a local": local | {"newName": "amount"},
    "documentSymbol": whole,
    "completion": at(CALL, past=3),
    "signatureHelp": at(CALL, past=7 if KIND == "lisp" else 6),
    "semanticTokens/full": whole,
    "semanticTokens/range": whole,
    "foldingRange": whole,
    "selectionRange": whole | {"positions": [price["position"]]},
    "codeLens": whole,
    "inlayHint": whole,
    "codeAction": whole | {"context": {"diagnostics": []}},
    "formatting": whole | {"options": {"tabSize": 2, "insertSpaces": True}},
    "onTypeFormatting": at(BRANCH, past=0) | {"ch": "\n", "options": {"tabSize": 2, "insertSpaces": True}},
    "prepareCallHierarchy": price,
    "prepareTypeHierarchy": at(CLASS),
    "workspace/symbol": {"query": "price"},
    "diagnostic": whole,
    "rangeFormatting": whole | {"options": {"tabSize": 2, "insertSpaces": True}},
}.items():
    method = name.split(" ")[0]
    signal.alarm(int(os.environ.get("PATIENCE", "5")))
    try:
        asked = method if "/symbol" in method else f"textDocument/{method}"
        # The error "Content modified": editors send the request again.
        while (answer := ask(asked, params)).get("error", {}).get("code") == -32801:
            time.sleep(1)
    except TimeoutError:
        print(f"{name}: no answer")
        continue
    signal.alarm(0)
    result = answer.get("result")
    size = len(result) if isinstance(result, list) else len(json.dumps(result))
    print(f"{name}: {'yes' if result else 'no'} {answer.get('error', {}).get('code', '')} {size if result else ''} {json.dumps(result)[:90]}")
print("told:", sorted({each for each in told if each}))
server.kill()
