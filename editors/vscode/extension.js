// Starts `steelbank lsp` for the workspace folder, and provides its commands at the cursor.
const vscode = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

// Runs a command of the server and returns the answer. Shows an error, and then returns undefined.
async function run(command, argument) {
  try {
    return await client.sendRequest("workspace/executeCommand", { command, arguments: [argument] });
  } catch (error) {
    vscode.window.showErrorMessage(`steelbank: ${error.message}`);
    return undefined;
  }
}

// Returns the document and the cursor's position in the form of the protocol.
function here() {
  const editor = vscode.window.activeTextEditor;
  const { line, character } = editor.selection.active;
  const uri = client.code2ProtocolConverter.asUri(editor.document.uri);
  return { textDocument: { uri }, position: { line, character }, path: editor.document.uri.fsPath };
}

async function show(language, content) {
  const document = await vscode.workspace.openTextDocument({ language, content });
  await vscode.window.showTextDocument(document, { preview: true, viewColumn: vscode.ViewColumn.Beside });
}

function summary(run) {
  const counts = Object.entries(run.counts ?? {}).map(([status, count]) => `${count} ${status}`);
  return counts.length ? `Tests: ${counts.join(", ")}.` : run.note ?? "There is no test here.";
}

const commands = {
  "steelbank.loadThisFile": async () => {
    await vscode.window.activeTextEditor.document.save();
    const answer = await run("steelbank.loadFile", here());
    if (answer) vscode.window.showInformationMessage(`steelbank: ${answer.status}`);
  },
  "steelbank.reloadChanged": async () => {
    await vscode.workspace.saveAll(false);
    const answer = await run("steelbank.reload", {});
    if (answer) vscode.window.showInformationMessage(`steelbank: ${answer.status}`);
  },
  "steelbank.macroexpandHere": async () => {
    const answer = await run("steelbank.macroexpand", here());
    if (answer) await show("commonlisp", answer.expansion);
  },
  "steelbank.runTestHere": async () => {
    const answer = await run("steelbank.runTests", here());
    if (!answer) return;
    const bad = (answer.tests ?? []).filter((test) => !["passed", "done", "skipped"].includes(test.status));
    vscode.window.showInformationMessage(`steelbank: ${summary(answer)}`);
    if (bad.length) await show("json", JSON.stringify(bad, null, 2));
  },
  "steelbank.verifyRenameHere": async () => {
    const at = here();
    const newName = await vscode.window.showInputBox({ prompt: "New name (no file is changed)" });
    if (!newName) return;
    const answer = await run("steelbank.verifyRename", { ...at, newName });
    if (!answer) return;
    if (answer.same) vscode.window.showInformationMessage("steelbank: the project is the same, apart from the name.");
    else await show("json", JSON.stringify(answer, null, 2));
  },
  // Code lenses run this command.
  "steelbank.showReferences": (uri, position, places) => {
    const convert = client.protocol2CodeConverter;
    const locations = places.map((place) => convert.asLocation(place));
    return vscode.commands.executeCommand("editor.action.showReferences", convert.asUri(uri), convert.asPosition(position), locations);
  },
};

exports.activate = async (context) => {
  const settings = vscode.workspace.getConfiguration("steelbank");
  const folder = vscode.workspace.workspaceFolders?.[0]?.uri.fsPath;
  const server = { command: settings.get("program"), args: settings.get("arguments"), options: { cwd: folder } };
  client = new LanguageClient("steelbank", "steelbank", server, {
    documentSelector: [
      { scheme: "file", language: "commonlisp" },
      { scheme: "file", language: "lisp" },
    ],
    initializationOptions: { showReferences: true },
  });
  for (const [name, body] of Object.entries(commands)) context.subscriptions.push(vscode.commands.registerCommand(name, body));
  context.subscriptions.push({ dispose: () => client.stop() });
  await client.start();
};

exports.deactivate = () => client?.stop();
