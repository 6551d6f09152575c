// The test of run.sh with the client library of VS Code; also a lens and a verified rename. run.sh
// creates the project.
const { spawn } = require("node:child_process");
const { readFileSync } = require("node:fs");
const { pathToFileURL } = require("node:url");
const { createProtocolConnection, StreamMessageReader, StreamMessageWriter } = require("vscode-languageserver-protocol/node");

const root = process.env.ROOT;
const options = ["--no-userinit", "--no-snapshot", "--system", "editors", "lsp", "--no-compile"];
const server = spawn(process.env.STEELBANK, options, { cwd: root, stdio: ["pipe", "pipe", "inherit"] });
const client = createProtocolConnection(new StreamMessageReader(server.stdout), new StreamMessageWriter(server.stdin));
const uri = (name) => pathToFileURL(`${root}/${name}`).href;
const name = (place) => place.split("/").pop();

async function main() {
  const loaded = new Promise((resolve) =>
    client.onNotification("$/progress", ({ value }) => value.kind === "end" && resolve()),
  );
  client.onRequest("window/workDoneProgress/create", () => null);
  client.listen();
  await client.sendRequest("initialize", {
    processId: process.pid,
    rootUri: uri(""),
    capabilities: { window: { workDoneProgress: true }, workspace: { workspaceEdit: { documentChanges: true } } },
    initializationOptions: { showReferences: true },
    workspaceFolders: [{ uri: uri(""), name: "editors" }],
  });
  await client.sendNotification("initialized", {});
  await loaded;
  const text = readFileSync(`${root}/cart.lisp`, "utf8").replace("(defun", ";; 𝒳\n(defun");
  const textDocument = { uri: uri("cart.lisp") };
  await client.sendNotification("textDocument/didOpen", { textDocument: { ...textDocument, languageId: "commonlisp", version: 1, text } });
  const at = { textDocument, position: { line: 3, character: 25 } };
  for (const { uri, range } of await client.sendRequest("textDocument/references", { ...at, context: { includeDeclaration: true } })) {
    console.log(`reference ${name(uri)}:${range.start.line + 1}:${range.start.character + 1}`);
  }
  const edit = await client.sendRequest("textDocument/rename", { ...at, newName: "cost" });
  for (const change of edit.documentChanges) console.log(`renamed ${name(change.textDocument.uri)} ${change.edits.length}`);
  const [lens] = await client.sendRequest("textDocument/codeLens", { textDocument });
  const { command } = await client.sendRequest("codeLens/resolve", lens);
  console.log(`lens ${command.title} ${command.command}`);
  const verify = { command: "steelbank.verifyRename", arguments: [{ ...at, newName: "cost" }] };
  console.log(`verified ${(await client.sendRequest("workspace/executeCommand", verify)).same}`);
  await client.sendRequest("shutdown");
  await client.sendNotification("exit");
}

main().catch((error) => {
  console.error(error);
  server.kill();
  process.exitCode = 1;
});
