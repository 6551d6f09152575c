//! Tests of the language server with a raw client: positions in unsaved text, renames, restarts,
//! and broken clients.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io::{BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};
use steelbank::reader::lines::{LineColumn, LineIndex, PositionEncoding};
use steelbank::reader::{Dialect, Features, LispText, Range};

use crate::child::small_or_full;
use crate::fixtures::{library_registry, lisp_libraries};
use crate::framing;
use crate::hostile_trees::processor_time;
use crate::program::STEELBANK;
use crate::renames::copy;
use crate::texts::expect_text;

const SHOP: &str = "(defpackage :lsp-shop (:use :cl) (:export #:price #:total))
(in-package :lsp-shop)
(defvar *rate* 2)
(defun price (item &optional discount)
  \"PRICE-DOCUMENTATION\"
  (let ((sum (* item *rate*)))
    (if discount (- sum discount) sum)))
";
const CART: &str = "(in-package :lsp-shop)
(defun total (items)
  (reduce #'+ (mapcar #'price items)))
(defun twice (item) (list (price item) (price item 1)))
";

/// An editor.
pub(crate) struct Editor {
    pub(crate) child: Child,
    pub(crate) input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    next: i64,
    root: PathBuf,
    /// Folders that are removed with the editor.
    kept: Vec<tempfile::TempDir>,
    encoding: PositionEncoding,
    /// Messages of the server other than awaited responses.
    pub(crate) told: Vec<Value>,
}

impl Editor {
    fn start(encoding: PositionEncoding) -> Editor {
        Self::start_with(encoding, &["--no-compile"])
    }

    fn start_with(encoding: PositionEncoding, options: &[&str]) -> Editor {
        let [root, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let asd = "(defsystem \"lsp-shop\" :serial t :components ((:file \"shop\") (:file \"cart\")))";
        for (name, text) in [("lsp-shop.asd", asd), ("shop.lisp", SHOP), ("cart.lisp", CART)] {
            fs::write(root.path().join(name), text).unwrap();
        }
        let options = [&["--no-snapshot", "--system", "lsp-shop", "lsp"], options].concat();
        Self::start_in(root, cache, encoding, &options)
    }

    /// Starts the server in the folder `root`, and waits until it has loaded the project.
    fn start_in(
        root: tempfile::TempDir,
        cache: tempfile::TempDir,
        encoding: PositionEncoding,
        options: &[&str],
    ) -> Editor {
        let uri = format!("file://{}/", root.path().canonicalize().unwrap().display());
        let mut editor = Self::spawn(root, cache, encoding, options);
        editor.greet(json!({ "rootUri": uri }));
        editor.await_load();
        editor
    }

    fn spawn(
        root: tempfile::TempDir,
        cache: tempfile::TempDir,
        encoding: PositionEncoding,
        options: &[&str],
    ) -> Editor {
        let mut command = Command::new(STEELBANK);
        command.arg("--no-userinit").args(options).env("STEELBANK_CACHE", cache.path());
        command.current_dir(root.path()).env("CL_SOURCE_REGISTRY", library_registry());
        let mut editor = Self::of(command, root.path(), encoding);
        editor.kept = vec![root, cache];
        editor
    }

    /// Starts the server `command` for the project in `root`.
    pub(crate) fn of(mut command: Command, root: &Path, encoding: PositionEncoding) -> Editor {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let (input, output) = (child.stdin.take(), BufReader::new(child.stdout.take().unwrap()));
        let root = root.canonicalize().unwrap();
        Editor { child, input, output, next: 0, root, kept: Vec::new(), encoding, told: Vec::new() }
    }

    /// Initializes the server with the folders that `params` names.
    pub(crate) fn greet(&mut self, mut params: Value) {
        let utf8 = self.encoding == PositionEncoding::Utf8;
        let encodings = if utf8 { json!(["utf-16", "utf-8"]) } else { json!(["utf-16"]) };
        params["capabilities"] =
            json!({ "general": { "positionEncodings": encodings }, "window": { "workDoneProgress": true } });
        let answer = self.ask("initialize", params);
        let expected = if utf8 { "utf-8" } else { "utf-16" };
        assert_eq!(answer["capabilities"]["positionEncoding"], expected);
        self.tell("initialized", json!({}));
    }

    pub(crate) fn await_load(&mut self) {
        loop {
            let message = self.read();
            if message["method"] == "$/progress" && message["params"]["value"]["kind"] == "end" {
                return;
            }
        }
    }

    pub(crate) fn uri(&self, name: &str) -> String {
        format!("file://{}/{name}", self.root.display())
    }

    fn send(&mut self, message: &Value) {
        framing::write(self.input.as_mut().unwrap(), message);
    }

    fn send_bytes(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    pub(crate) fn read(&mut self) -> Value {
        framing::read(&mut self.output)
    }

    pub(crate) fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    pub(crate) fn begin(&mut self, method: &str, params: Value) -> i64 {
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }));
        self.next
    }

    pub(crate) fn response(&mut self, id: i64) -> Value {
        let is_it = |message: &Value| message["id"] == id && message.get("method").is_none();
        if let Some(at) = self.told.iter().position(is_it) {
            return self.told.remove(at);
        }
        loop {
            let message = self.read();
            if is_it(&message) {
                return message;
            }
            self.told.push(message);
        }
    }

    pub(crate) fn ask(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        let response = self.response(id);
        assert!(response.get("error").is_none(), "{method}: {response}");
        response["result"].clone()
    }

    pub(crate) fn error(&mut self, method: &str, params: Value) -> i64 {
        let id = self.begin(method, params);
        let response = self.response(id);
        response["error"]["code"].as_i64().unwrap_or_else(|| panic!("{method}: {response}"))
    }

    pub(crate) fn open(&mut self, name: &str, text: &str) {
        let document =
            json!({ "uri": self.uri(name), "languageId": "commonlisp", "version": 1, "text": text });
        self.tell("textDocument/didOpen", json!({ "textDocument": document }));
    }

    /// Replaces the text of a document.
    pub(crate) fn change(&mut self, name: &str, version: i32, text: &str) {
        let document = json!({ "uri": self.uri(name), "version": version });
        let params = json!({ "textDocument": document, "contentChanges": [{ "text": text }] });
        self.tell("textDocument/didChange", params);
    }

    /// Returns the parameters of a request at the `nth` occurrence of `word` in `text`.
    pub(crate) fn at(&self, name: &str, text: &str, word: &str, nth: usize) -> Value {
        let start = text.match_indices(word).nth(nth).unwrap().0;
        let lines = LineIndex::new(text.as_bytes());
        let LineColumn { line, column } = lines.position_in(text.as_bytes(), start as u32, self.encoding);
        json!({ "textDocument": { "uri": self.uri(name) }, "position": { "line": line - 1, "character": column - 1 } })
    }

    /// Returns the text at a range of the protocol.
    pub(crate) fn text_at<'a>(&self, text: &'a str, range: &Value) -> &'a str {
        let lines = LineIndex::new(text.as_bytes());
        let at = |end: &str| {
            let number = |key: &str| range[end][key].as_u64().unwrap() as u32 + 1;
            let at = LineColumn { line: number("line"), column: number("character") };
            lines.offset(text.as_bytes(), at, self.encoding).unwrap() as usize
        };
        &text[at("start")..at("end")]
    }

    /// Lists the places of an answer as `FILE:LINE TEXT`.
    pub(crate) fn places(&self, answer: &Value, texts: &[(&str, &str)]) -> Vec<String> {
        let place = |place: &Value| {
            let uri = place["uri"].as_str().unwrap();
            let name = uri.rsplit('/').next().unwrap();
            let text = texts.iter().find(|(known, _)| *known == name).unwrap().1;
            let line = place["range"]["start"]["line"].as_u64().unwrap() + 1;
            format!("{name}:{line} {}", self.text_at(text, &place["range"]))
        };
        answer.as_array().unwrap().iter().map(place).collect()
    }

    pub(crate) fn leave(mut self) -> i32 {
        self.ask("shutdown", Value::Null);
        assert_eq!(self.error("textDocument/hover", json!({})), -32600);
        self.tell("exit", Value::Null);
        self.child.wait().unwrap().code().unwrap()
    }
}

impl Drop for Editor {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn positions_refer_to_the_buffer() {
    for encoding in [PositionEncoding::Utf8, PositionEncoding::Utf16] {
        let mut editor = Editor::start(encoding);
        editor.open("shop.lisp", SHOP);
        // The unsaved text has additional lines at the start, characters beyond the BMP, and a new
        // function.
        let changed = SHOP
            .replace("(defvar", "; 𝒳\n\n(defvar")
            .replace("sum)))\n", "sum)))\n(defun new () #|𝒳|# (price 1))\n");
        editor.change("shop.lisp", 2, &changed);
        let texts = [("shop.lisp", changed.as_str()), ("cart.lisp", CART)];
        let mut at = editor.at("shop.lisp", &changed, "price (item", 0);
        at["context"] = json!({ "includeDeclaration": false });
        let answer = editor.ask("textDocument/references", at.clone());
        let expected = [
            "cart.lisp:3 price", "cart.lisp:4 price", "cart.lisp:4 price", "shop.lisp:1 #:price",
            "shop.lisp:10 price",
        ];
        assert_eq!(editor.places(&answer, &texts), expected);
        let answer = editor.ask("textDocument/definition", editor.at("shop.lisp", &changed, "price 1", 0));
        assert_eq!(answer[0]["range"]["start"]["line"], 5, "{answer}");
        let hover = editor.ask("textDocument/hover", at.clone());
        assert!(hover["contents"]["value"].as_str().unwrap().contains("PRICE-DOCUMENTATION"), "{hover}");

        // Highlight and rename a local variable.
        let sum = editor.at("shop.lisp", &changed, "sum", 1);
        let answer = editor.ask("textDocument/documentHighlight", sum.clone());
        let kinds: Vec<i64> =
            answer.as_array().unwrap().iter().map(|found| found["kind"].as_i64().unwrap()).collect();
        assert_eq!(kinds, [3, 2, 2], "{answer}");
        let mut renamed = sum;
        renamed["newName"] = json!("amount");
        let answer = editor.ask("textDocument/rename", renamed);
        let change = &answer["documentChanges"][0];
        assert_eq!(change["textDocument"]["version"], 2);
        let edits = change["edits"].as_array().unwrap();
        assert!(
            edits.len() == 3 && edits.iter().all(|edit| editor.text_at(&changed, &edit["range"]) == "sum"),
            "{answer}"
        );

        // Rename a symbol in open and closed files. The place in new code needs confirmation.
        at["newName"] = json!("cost");
        let answer = editor.ask("textDocument/rename", at.clone());
        let mut told = Vec::new();
        for change in answer["documentChanges"].as_array().unwrap() {
            let uri = change["textDocument"]["uri"].as_str().unwrap();
            let (name, text) = texts.iter().find(|(name, _)| uri.ends_with(name)).unwrap();
            for edit in change["edits"].as_array().unwrap() {
                assert_eq!(editor.text_at(text, &edit["range"]), "price");
                assert_eq!(edit["newText"], "cost");
                told.push(format!("{name} {}", edit["annotationId"].as_str().unwrap_or("sure")));
            }
        }
        told.sort();
        let sure = "cart.lisp sure";
        assert_eq!(
            told,
            [sure, sure, sure, "shop.lisp doubtful", "shop.lisp sure", "shop.lisp sure"],
            "{answer}"
        );
        assert_eq!(answer["changeAnnotations"]["doubtful"]["needsConfirmation"], true);

        // Request calls, tokens, symbols, completion and signatures.
        let item = editor.ask("textDocument/prepareCallHierarchy", at.clone())[0].clone();
        let calls = editor.ask("callHierarchy/incomingCalls", json!({ "item": item }));
        let callers: Vec<&str> =
            calls.as_array().unwrap().iter().map(|call| call["from"]["name"].as_str().unwrap()).collect();
        assert_eq!(callers, ["total", "twice", "new"], "{calls}");
        let document = json!({ "textDocument": at["textDocument"] });
        let tokens = editor.ask("textDocument/semanticTokens/full", document.clone());
        assert!(tokens["data"].as_array().unwrap().len() > 100, "{tokens}");
        let symbols = editor.ask("textDocument/documentSymbol", document.clone());
        let names: Vec<&str> =
            symbols.as_array().unwrap().iter().map(|found| found["name"].as_str().unwrap()).collect();
        assert_eq!(names, ["lsp-shop", "*rate*", "price", "new"]);
        let typed = changed.replace("(price 1))", "(pri");
        editor.change("shop.lisp", 3, &typed);
        let mut end = editor.at("shop.lisp", &typed, "(pri", typed.matches("(pri").count() - 1);
        end["position"]["character"] = json!(end["position"]["character"].as_u64().unwrap() + 4);
        let answer = editor.ask("textDocument/completion", end);
        let labels: Vec<&str> =
            answer["items"].as_array().unwrap().iter().map(|item| item["label"].as_str().unwrap()).collect();
        assert!(labels.contains(&"price") && labels.contains(&"princ"), "{labels:?}");
        let at = labels.iter().position(|label| *label == "price").unwrap();
        let resolved = editor.ask("completionItem/resolve", answer["items"][at].clone());
        assert_eq!(resolved["documentation"], "PRICE-DOCUMENTATION");
        assert!(
            labels.iter().position(|label| *label == "price")
                < labels.iter().position(|label| *label == "princ-to-string")
        );
        assert_eq!(editor.leave(), 0);
    }
}

const USE: &str = "(defpackage :lsp-use (:use :cl :lsp-shop))
(in-package :lsp-use)
(defun best (items) (reduce #'max (mapcar #'price items)))
(defun first-item (items) (lsp-shop:price (first items)))
";

#[test]
fn renamed_names_can_be_renamed_again() {
    for saves in [true, false] {
        let [root, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let asd =
            "(defsystem \"again\" :serial t :components ((:file \"shop\") (:file \"cart\") (:file \"use\")))";
        let mut texts = [("shop.lisp", SHOP), ("cart.lisp", CART), ("use.lisp", USE)]
            .map(|(name, text)| (name, text.to_owned()));
        fs::write(root.path().join("again.asd"), asd).unwrap();
        for (name, text) in &texts {
            fs::write(root.path().join(name), text).unwrap();
        }
        let options = ["--no-snapshot", "--system", "again", "lsp", "--no-compile"];
        let mut editor = Editor::start_in(root, cache, PositionEncoding::Utf16, &options);
        for (name, text) in &texts {
            editor.open(name, text);
        }
        for (version, old, new) in [(2, "price", "cost"), (3, "cost", "worth"), (4, "worth", "value")] {
            // Each rename begins in another file.
            let (name, text) = &texts[version as usize - 2];
            let mut at = editor.at(name, text, old, if version == 2 { 1 } else { 0 });
            at["newName"] = json!(new);
            let answer = editor.ask("textDocument/rename", at);
            assert!(answer["changeAnnotations"].is_null(), "{answer}");
            for (name, text) in &mut texts {
                let expected = text.replace(old, new);
                let uri = editor.uri(name);
                let changes = answer["documentChanges"].as_array().unwrap().iter();
                let mut changes = changes.filter(|change| change["textDocument"]["uri"] == *uri);
                let mut edits = changes.next().unwrap()["edits"].as_array().unwrap().clone();
                let start = |edit: &Value| edit["range"]["start"].clone();
                edits.sort_by_key(|edit| (start(edit)["line"].as_u64(), start(edit)["character"].as_u64()));
                for edit in edits.iter().rev() {
                    let changed = editor.text_at(text, &edit["range"]);
                    assert_eq!(changed, old);
                    let at = changed.as_ptr() as usize - text.as_ptr() as usize;
                    text.replace_range(at..at + old.len(), edit["newText"].as_str().unwrap());
                }
                assert_eq!(*text, expected, "{saves} {answer}");
                editor.change(name, version, text);
                if saves {
                    fs::write(editor.root.join(name), &*text).unwrap();
                    editor.tell("textDocument/didSave", json!({ "textDocument": { "uri": uri } }));
                }
            }
        }
        assert_eq!(editor.leave(), 0);
    }
}

const THINGS: &str = "(in-package :lsp-shop)
(defclass thing () ((weight :initarg :weight :accessor weight)))
(defclass crate (thing) ((things :initarg :things)))
(defun load-up (things) (make-instance 'crate :w :things things))
";

#[test]
fn classes_lenses_fixes_and_commands_work() {
    let mut editor = Editor::start(PositionEncoding::Utf16);
    let shown = editor.root.join("things.lisp");
    fs::write(&shown, THINGS.replace(" :w ", " ")).unwrap();
    let load = json!({ "command": "steelbank.loadFile", "arguments": [{ "path": shown }] });
    editor.ask("workspace/executeCommand", load);
    editor.open("things.lisp", THINGS);
    let texts = [("things.lisp", THINGS), ("shop.lisp", SHOP), ("cart.lisp", CART)];

    let mut keyword = editor.at("things.lisp", THINGS, ":w :", 0);
    keyword["position"]["character"] = json!(keyword["position"]["character"].as_u64().unwrap() + 2);
    let answer = editor.ask("textDocument/completion", keyword);
    assert_eq!(answer["items"][0]["label"], ":weight", "{answer}");

    let item = editor.ask("textDocument/prepareTypeHierarchy", editor.at("things.lisp", THINGS, "thing)", 0));
    assert_eq!(editor.text_at(THINGS, &item[0]["range"]), "thing", "{item}");
    for (request, item, expected) in [
        ("typeHierarchy/subtypes", item[0].clone(), "crate"),
        (
            "typeHierarchy/supertypes",
            editor.ask("textDocument/prepareTypeHierarchy", editor.at("things.lisp", THINGS, "crate", 0))[0]
                .clone(),
            "thing",
        ),
    ] {
        let answer = editor.ask(request, json!({ "item": item }));
        let names: Vec<_> =
            answer.as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap()).collect();
        assert_eq!(names, [expected], "{request}");
    }

    editor.open("shop.lisp", SHOP);
    let document = editor.at("shop.lisp", SHOP, "price", 0)["textDocument"].clone();
    let lenses = editor.ask("textDocument/codeLens", json!({ "textDocument": document }));
    let mut titles = Vec::new();
    for lens in lenses.as_array().unwrap() {
        let resolved = editor.ask("codeLens/resolve", lens.clone());
        titles.push(format!(
            "{}: {}",
            editor.text_at(SHOP, &lens["range"]),
            resolved["command"]["title"].as_str().unwrap()
        ));
        assert_eq!(editor.places(&resolved["command"]["arguments"][2], &texts).len(), titles.len().pow(2));
    }
    assert_eq!(titles, ["*rate*: 1 use", "price: 4 uses"]);

    // Request the tests of a function that no test reaches, and verify a rename.
    let mut at = editor.at("shop.lisp", SHOP, "price", 1);
    let command = |name: &str, at: &Value| json!({ "command": name, "arguments": [at] });
    let run = editor.ask("workspace/executeCommand", command("steelbank.runTests", &at));
    assert_eq!(run["tests"], json!([]), "{run}");
    at["newName"] = json!("cost");
    let verified = editor.ask("workspace/executeCommand", command("steelbank.verifyRename", &at));
    assert_eq!(verified["same"], true, "{verified}");

    // Indentation uses the lambda list of the project's macro.
    let macros = "(in-package :lsp-shop)\n(defmacro twice-over ((name) &body body)\n`(let ((,name 1))\n,@body))\n(twice-over (n)\n(list n\n2))\n";
    let path = editor.root.join("macros.lisp");
    fs::write(&path, macros).unwrap();
    editor.ask(
        "workspace/executeCommand",
        json!({ "command": "steelbank.loadFile", "arguments": [{ "path": path }] }),
    );
    editor.open("macros.lisp", macros);
    let asked = json!({ "textDocument": { "uri": editor.uri("macros.lisp") }, "options": {} });
    let edits = editor.ask("textDocument/formatting", asked.clone());
    let edits: Vec<_> = edits
        .as_array()
        .unwrap()
        .iter()
        .map(|edit| {
            (edit["range"]["start"]["line"].as_u64().unwrap() + 1, edit["newText"].as_str().unwrap().len())
        })
        .collect();
    assert_eq!(edits, [(3, 2), (4, 5), (6, 2), (7, 8)]);
    let mut typed = asked;
    typed["position"] = json!({ "line": 5, "character": 0 });
    typed["ch"] = json!("\n");
    let edits = editor.ask("textDocument/onTypeFormatting", typed);
    assert_eq!((edits.as_array().unwrap().len(), &edits[0]["newText"]), (1, &json!("  ")));

    // Request the fix of an unclosed list.
    let broken = SHOP.replace("discount) sum)))", "discount) sum))");
    editor.change("shop.lisp", 2, &broken);
    let range = json!({ "start": { "line": 3, "character": 0 }, "end": { "line": 6, "character": 0 } });
    let asked = json!({ "textDocument": document, "range": range, "context": { "diagnostics": [] } });
    let actions = editor.ask("textDocument/codeAction", asked.clone());
    let edit = &actions[0]["edit"]["documentChanges"][0]["edits"][0];
    assert_eq!(
        (editor.text_at(&broken, &edit["range"]), edit["newText"].as_str()),
        ("", Some(")")),
        "{actions}"
    );
    let mut other = asked;
    other["context"]["only"] = json!(["refactor"]);
    assert_eq!(editor.ask("textDocument/codeAction", other), json!([]));
    assert_eq!(editor.leave(), 0);
}

#[test]
fn broken_clients_get_errors() {
    let mut editor = Editor::start(PositionEncoding::Utf16);
    assert_eq!(editor.error("textDocument/unheardOf", json!({})), -32601);
    let somewhere = json!({ "line": 0, "character": 0 });
    let closed = json!({ "textDocument": { "uri": editor.uri("cart.lisp") }, "position": somewhere });
    assert_eq!(editor.error("textDocument/hover", closed), -32602, "a closed document");
    let nothing = json!({ "textDocument": { "uri": "untitled:1" }, "position": somewhere });
    assert_eq!(editor.error("textDocument/definition", nothing), -32602, "no file");
    editor.open("cart.lisp", CART);
    let mut at = editor.at("cart.lisp", CART, "price", 0);
    let good = editor.ask("textDocument/definition", at.clone());
    for position in
        [json!({}), json!({ "line": -1, "character": 0 }), json!({ "line": 1.5, "character": "x" })]
    {
        at["position"] = position;
        assert_eq!(editor.error("textDocument/definition", at.clone()), -32602);
    }
    at["position"] = json!({ "line": 4_000_000_000u32, "character": 4_294_967_295u32 });
    assert!(editor.ask("textDocument/definition", at).is_null(), "past the end");
    // Edits of closed documents have no effect.
    editor.change("shop.lisp", 2, "(nothing)");
    let at = editor.at("cart.lisp", CART, "price", 0);
    assert_eq!(editor.ask("textDocument/definition", at), good);
    // Malformed messages are reported and skipped.
    editor.send_bytes(b"Content-Length: 5\r\n\r\n{]{]{Content-Length: x\r\n\r\nnonsense\r\n");
    // Open a file outside of the project and a huge file. Neither SBCL's symbols nor huge files can
    // be renamed.
    let outside = json!({ "uri": "file:///nowhere/a.lisp", "version": 1, "text": "(car x)" });
    editor.tell("textDocument/didOpen", json!({ "textDocument": outside }));
    let mut huge = "(list 1) ; ä\n".repeat(small_or_full(1_000_000, 8_000_000));
    editor.open("huge.lisp", &huge);
    let at = json!({ "textDocument": { "uri": "file:///nowhere/a.lisp" }, "position": { "line": 0, "character": 2 } });
    let hover = editor.ask("textDocument/hover", at.clone());
    assert!(hover["contents"]["value"].as_str().unwrap().contains("\ncl:car"), "{hover}");
    let mut renamed = at;
    renamed["newName"] = json!("kar");
    assert_eq!(editor.error("textDocument/rename", renamed), -32803);
    let at = json!({ "textDocument": { "uri": editor.uri("huge.lisp") }, "position": { "line": 5, "character": 2 } });
    assert!(editor.ask("textDocument/hover", at.clone()).is_null());
    let said = editor.ask("textDocument/diagnostic", at.clone());
    expect_text("huge document", said["items"][0]["message"].as_str().unwrap());
    let refused = editor.error(
        "textDocument/rename",
        json!({ "newName": "a", "textDocument": at["textDocument"], "position": at["position"] }),
    );
    assert_eq!(refused, -32803);
    // The same document is analyzed after its text has shrunk.
    huge.truncate("(list 1) ; ä\n".len() * 100);
    editor.change("huge.lisp", 2, &huge);
    assert!(editor.ask("textDocument/hover", at)["contents"].is_object());
    // A cancelled request ends with an error.
    fs::write(editor.root.join("sleeping.lisp"), "(sleep 1000)").unwrap();
    let command = json!({ "command": "steelbank.loadFile", "arguments": [{ "path": "sleeping.lisp" }] });
    let id = editor.begin("workspace/executeCommand", command);
    editor.tell("$/cancelRequest", json!({ "id": id }));
    assert_eq!(editor.response(id)["error"]["code"], -32800);
    // Evaluation is not allowed.
    let command = json!({ "command": "steelbank.evaluate", "arguments": [{ "code": "(+ 1 2)" }] });
    assert_eq!(editor.error("workspace/executeCommand", command), -32803);
    assert_eq!(editor.leave(), 0);
}

#[test]
fn unapplied_changes_put_documents_out_of_sync() {
    let mut editor = Editor::start(PositionEncoding::Utf16);
    let uri = editor.uri("cart.lisp");
    let text = format!("{CART};; 𝒳 price\n");
    let last = text.lines().count() - 1;
    let at = editor.at("cart.lisp", &text, "price", 0);
    let place = |line: usize, character: usize| json!({ "line": line, "character": character });
    let changed = |version: i64, changes: Value| {
        json!({ "jsonrpc": "2.0", "method": "textDocument/didChange",
            "params": { "textDocument": { "uri": uri, "version": version }, "contentChanges": changes } })
    };
    let edit = |start: Value, end: Value| json!([{ "range": { "start": start, "end": end }, "text": "" }]);
    // Escaped, because half a surrogate pair is not a valid string.
    let half = changed(2, json!([{ "text": "half" }])).to_string().replace("half", "\\ud83d (a)");
    let wrong = [
        half,
        changed(-5, json!([{ "text": "(nothing)" }])).to_string(),
        changed(2, edit(place(2, 0), place(0, 0))).to_string(),
        changed(2, edit(place(last, 4), place(last, 5))).to_string(),
        changed(2, json!([{ "range": {}, "text": "" }])).to_string(),
        changed(2, json!([{}])).to_string(),
        changed(2, json!(null)).to_string(),
    ];
    for (number, wrong) in wrong.iter().enumerate() {
        editor.open("cart.lisp", &text);
        let good = editor.ask("textDocument/definition", at.clone());
        assert!(good.is_array(), "{good}");
        editor.told.clear();
        editor.send_bytes(format!("Content-Length: {}\r\n\r\n{wrong}", wrong.len()).as_bytes());
        assert_eq!(editor.error("textDocument/definition", at.clone()), -32803, "{wrong}");
        let is_shown = |message: &Value| {
            let shown = message["params"]["message"].as_str().unwrap_or_default();
            message["method"] == "window/showMessage" && shown.contains("cart.lisp is out of sync")
        };
        assert_eq!(editor.told.iter().filter(|message| is_shown(message)).count(), 1, "{wrong}");
        let is_parse_error = |message: &Value| message["id"].is_null() && message["error"]["code"] == -32700;
        assert_eq!(editor.told.iter().any(is_parse_error), number == 0, "{wrong}");
        // An edit of a range does not restore the document. Its whole text does.
        editor.send(&changed(3, edit(place(0, 0), place(0, 0))));
        assert_eq!(editor.error("textDocument/documentSymbol", at.clone()), -32803);
        editor.change("cart.lisp", 3, &text);
        assert_eq!(editor.ask("textDocument/definition", at.clone()), good);
    }
    // A request whose id is neither a string nor an integer gets an error without an id.
    for id in [json!(1.5), json!(null), json!({}), json!([1]), json!(true), json!(1_i64 << 40)] {
        editor.told.clear();
        editor
            .send(&json!({ "jsonrpc": "2.0", "id": id, "method": "textDocument/definition", "params": at }));
        editor.ask("textDocument/definition", at.clone());
        let is_refusal = |message: &Value| message["id"].is_null() && message["error"]["code"] == -32600;
        assert!(editor.told.iter().any(is_refusal), "{id}");
    }
    assert_eq!(editor.leave(), 0);
}

#[test]
fn reading_continues_while_requests_wait() {
    let mut editor = Editor::start(PositionEncoding::Utf16);
    fs::write(editor.root.join("sleeping.lisp"), "(sleep 1000)").unwrap();
    let slow = json!({ "command": "steelbank.loadFile", "arguments": [{ "path": "sleeping.lisp" }] });
    let ids: Vec<i64> = (0..40).map(|_| editor.begin("workspace/executeCommand", slow.clone())).collect();
    // The last request waits for a thread. Its cancellation is answered, and so is a later one's.
    for id in [ids[39], ids[0], ids[25]] {
        editor.tell("$/cancelRequest", json!({ "id": id }));
        assert_eq!(editor.response(id)["error"]["code"], -32800);
    }
    editor.open("cart.lisp", CART);
    // The process ends, although most requests have no answer.
    assert_eq!(editor.leave(), 0);
    let mut editor = Editor::start(PositionEncoding::Utf16);
    fs::write(editor.root.join("sleeping.lisp"), "(sleep 1000)").unwrap();
    for _ in 0..40 {
        editor.begin("workspace/executeCommand", slow.clone());
    }
    editor.input.take();
    assert_eq!(editor.child.wait().unwrap().code(), Some(1), "the stream ended without `exit`");
}

#[test]
fn malformed_parameters_get_errors() {
    let mut editor = Editor::start(PositionEncoding::Utf16);
    let text = format!("{CART};; 𝒳 price\n");
    editor.open("cart.lisp", &text);
    let of_positions = [
        "hover", "definition", "declaration", "implementation", "references", "documentHighlight",
        "prepareRename", "rename", "prepareCallHierarchy", "prepareTypeHierarchy", "completion",
        "signatureHelp", "onTypeFormatting",
    ];
    let of_ranges = ["codeAction", "rangeFormatting", "semanticTokens/range", "inlayHint"];
    let of_documents =
        ["documentSymbol", "codeLens", "formatting", "foldingRange", "semanticTokens/full", "diagnostic"];
    let of_items = [
        "callHierarchy/incomingCalls", "callHierarchy/outgoingCalls", "typeHierarchy/supertypes",
        "typeHierarchy/subtypes", "codeLens/resolve", "completionItem/resolve", "workspace/executeCommand",
    ];
    let document = json!({ "uri": editor.uri("cart.lisp") });
    let documents = [
        json!(null),
        json!([]),
        json!("x"),
        json!(7),
        json!({}),
        json!({ "textDocument": null }),
        json!({ "textDocument": [document] }),
        json!({ "textDocument": { "uri": 5 } }),
        json!({ "textDocument": { "uri": "" } }),
        json!({ "textDocument": { "uri": "file://%zz" } }),
        json!({ "textDocument": { "uri": "file://other-host/cart.lisp" } }),
        json!({ "textDocument": { "uri": format!("{}/../cart.lisp", editor.uri("nowhere")) } }),
    ];
    let position = |line: Value, character: Value| json!({ "line": line, "character": character });
    let (start, far) = (position(json!(0), json!(0)), position(json!(9), json!(0)));
    let no_positions = [
        json!(null),
        json!([0, 0]),
        json!({}),
        position(json!(-1), json!(0)),
        position(json!("1"), json!(0)),
        position(json!(1.5), json!(0)),
        position(json!(1), json!(null)),
        position(json!(1u64 << 40), json!(0)),
    ];
    let mut asked = 0;
    let mut refused = |editor: &mut Editor, method: &str, params: &Value| {
        let code = editor.error(method, params.clone());
        assert!([-32602, -32803].contains(&code), "{method} {params}: {code}");
        asked += 1;
    };
    for method in of_positions.iter().chain(&of_ranges).chain(&of_documents) {
        for params in &documents {
            refused(&mut editor, &format!("textDocument/{method}"), params);
        }
    }
    for wrong in &no_positions {
        let ranges =
            [json!({ "start": wrong, "end": far }), json!({ "start": start, "end": wrong }), wrong.clone()];
        for method in of_positions {
            let params = json!({ "textDocument": document, "position": wrong, "newName": "a", "ch": "\n" });
            refused(&mut editor, &format!("textDocument/{method}"), &params);
        }
        for (method, range) in
            of_ranges.iter().flat_map(|method| ranges.iter().map(move |range| (method, range)))
        {
            let params = json!({ "textDocument": document, "range": range });
            refused(&mut editor, &format!("textDocument/{method}"), &params);
        }
        let params = json!({ "textDocument": document, "positions": [start, wrong] });
        refused(&mut editor, "textDocument/selectionRange", &params);
    }
    // Send reversed ranges, and items that the server did not send.
    let backwards = json!({ "textDocument": document, "range": { "start": far, "end": start } });
    for method in of_ranges {
        refused(&mut editor, &format!("textDocument/{method}"), &backwards);
    }
    for method in of_items {
        for item in documents.iter().chain(&[json!({ "item": { "data": 5 } }), json!({ "command": "rm" })]) {
            let id = editor.begin(method, item.clone());
            let response = editor.response(id);
            // An unknown item is returned unchanged.
            let is_same = method.ends_with("resolve") && response["result"] == *item;
            let is_empty = [json!(null), json!([])].contains(&response["result"]);
            let is_refused = response["error"]["code"].is_i64();
            assert!(is_same || is_empty || is_refused, "{method} {item}: {response}");
        }
    }
    // Request positions within a surrogate pair, and past the end of a line.
    let line = text.lines().count() as u64 - 1;
    for character in [4, 4_000_000_000u64] {
        let params = json!({ "textDocument": document, "position": position(json!(line), json!(character)) });
        let id = editor.begin("textDocument/definition", params);
        let response = editor.response(id);
        assert!(response["result"].is_null(), "{response}");
    }
    // A second request with the same id is an error.
    let slow = json!({ "command": "steelbank.loadFile", "arguments": [{ "path": "sleeping.lisp" }] });
    fs::write(editor.root.join("sleeping.lisp"), "(sleep 1000)").unwrap();
    let id = editor.begin("workspace/executeCommand", slow);
    editor.send(
        &json!({ "jsonrpc": "2.0", "id": id, "method": "workspace/symbol", "params": { "query": "price" } }),
    );
    assert_eq!(editor.response(id)["error"]["code"], -32600);
    editor.tell("$/cancelRequest", json!({ "id": id }));
    assert_eq!(editor.response(id)["error"]["code"], -32800);
    // Malformed notifications are ignored.
    for method in [
        "textDocument/didOpen", "textDocument/didChange", "textDocument/didSave", "textDocument/didClose",
        "$/cancelRequest", "$/other", "workspace/didChangeConfiguration",
    ] {
        for params in &documents {
            editor.tell(method, params.clone());
        }
    }
    let at = editor.at("cart.lisp", &text, "price", 0);
    assert!(editor.ask("textDocument/definition", at).is_array());
    assert!(asked > 300, "{asked}");
    assert_eq!(editor.leave(), 0);
}

#[test]
fn unclosed_list_is_reported_while_typing() {
    let mut editor = Editor::start(PositionEncoding::Utf16);
    editor.open("cart.lisp", "(in-package :lsp-shop)\n(defun f (x)\n  (list x)\n");
    let told = loop {
        let message = editor.read();
        if message["method"] == "textDocument/publishDiagnostics" {
            break message["params"].clone();
        }
    };
    assert_eq!(told["version"], 1);
    assert_eq!(told["diagnostics"][0]["range"]["start"], json!({ "line": 1, "character": 0 }), "{told}");
    let loaded = json!({ "command": "steelbank.loadFile", "arguments": [{ "path": "cart.lisp" }] });
    editor.ask("workspace/executeCommand", loaded);
    editor.input = None;
    assert_eq!(editor.child.wait().unwrap().code(), Some(1), "without shutdown");
}

#[test]
fn saving_publishes_compiler_diagnostics() {
    let mut editor = Editor::start_with(PositionEncoding::Utf16, &[]);
    // Load another system, and change its file so that compiling never ends.
    let asd = "(defsystem \"endless\" :components ((:file \"endless\")))";
    fs::write(editor.root.join("endless.asd"), asd).unwrap();
    fs::write(editor.root.join("endless.lisp"), "(defvar cl-user::*endless* 1)\n").unwrap();
    let load = json!({ "command": "steelbank.load", "arguments": [{ "system": "endless" }] });
    let answer = editor.ask("workspace/executeCommand", load);
    assert_eq!(answer["status"], "loaded", "{answer}");
    let endless = "(eval-when (:compile-toplevel) (sleep 3600))\n";
    fs::write(editor.root.join("endless.lisp"), endless).unwrap();
    let text = format!("{CART}(defun broken () #|𝒳|# (no-such nowhere))\n");
    editor.open("cart.lisp", CART);
    editor.change("cart.lisp", 2, &text);
    fs::write(editor.root.join("cart.lisp"), &text).unwrap();
    let document = json!({ "uri": editor.uri("cart.lisp") });
    editor.tell("textDocument/didSave", json!({ "textDocument": document }));
    let told = loop {
        let message = editor.read();
        assert_ne!(message["method"], "window/logMessage", "{message}");
        let found = &message["params"]["diagnostics"];
        if found.as_array().is_some_and(|found| !found.is_empty()) {
            break message["params"].clone();
        }
    };
    assert_eq!(told["version"], 2);
    let found = told["diagnostics"].as_array().unwrap().iter();
    let found: Vec<(i64, &str)> = found
        .map(|found| (found["severity"].as_i64().unwrap(), editor.text_at(&text, &found["range"])))
        .collect();
    assert_eq!(found, [(2, "nowhere"), (3, "no-such")], "{told}");
    assert_eq!(editor.leave(), 0);
}

const LOSE: &str = "(sb-alien:alien-funcall (sb-alien:extern-alien \"lose\" (function sb-alien:void sb-alien:c-string)) \"on purpose\")";

#[test]
fn texts_survive_lisps_death() {
    let mut editor = Editor::start_with(PositionEncoding::Utf16, &["--no-compile", "--allow-eval"]);
    editor.open("cart.lisp", CART);
    editor.open("shop.lisp", SHOP);
    // The text is unsaved, and ends with an unclosed list.
    let changed = format!("{}(defun open (", SHOP.replace("(defvar", "; 𝒳\n(defvar"));
    editor.change("shop.lisp", 2, &changed);
    let mut at = editor.at("shop.lisp", &changed, "price (item", 0);
    at["context"] = json!({ "includeDeclaration": true });
    let expected = editor.ask("textDocument/references", at.clone());
    assert_eq!(expected.as_array().unwrap().len(), 5, "{expected}");
    let lose = json!({ "command": "steelbank.evaluate", "arguments": [{ "code": LOSE }] });
    for death in 1..=3 {
        editor.told.clear();
        let killed = editor.begin("workspace/executeCommand", lose.clone());
        let asked = editor.begin("textDocument/references", at.clone());
        let killed = editor.response(killed);
        assert_eq!(killed["error"]["code"], -32803, "the code was run again: {killed}");
        if death == 3 {
            // The message may have arrived before the response.
            let text = |message: &Value| message["params"]["message"].as_str().map(str::to_owned);
            let is_last = |message: &Value| text(message).is_some_and(|text| text.contains("server"));
            while !editor.told.iter().any(is_last) {
                let message = editor.read();
                editor.told.push(message);
            }
            expect_text("dead", &text(editor.told.iter().find(|told| is_last(told)).unwrap()).unwrap());
            break;
        }
        let answer = editor.response(asked);
        assert_eq!(answer["result"], expected, "death {death}");
        let uri = json!(editor.uri("shop.lisp"));
        let is_it = |told: &Value| {
            told["method"] == "textDocument/publishDiagnostics" && told["params"]["uri"] == uri
        };
        while !editor.told.iter().any(is_it) {
            let message = editor.read();
            editor.told.push(message);
        }
        let published = &editor.told.iter().find(|told| is_it(told)).unwrap()["params"];
        assert_eq!(
            (&published["version"], &published["diagnostics"][0]["source"]),
            (&json!(2), &json!("steelbank"))
        );
    }
    // Requests that need only text and index are answered without Lisp.
    assert_eq!(editor.ask("textDocument/references", at.clone()), expected);
    let document = json!({ "textDocument": at["textDocument"] });
    let symbols = editor.ask("textDocument/documentSymbol", document);
    assert_eq!(symbols[2]["name"], "price", "{symbols}");
    assert_eq!(editor.leave(), 0);
}

#[test]
fn edits_during_a_restart_apply_in_order() {
    let mut editor = Editor::start_with(PositionEncoding::Utf8, &["--no-compile", "--allow-eval"]);
    editor.open("shop.lisp", SHOP);
    let lose = json!({ "command": "steelbank.evaluate", "arguments": [{ "code": LOSE }] });
    let killed = editor.begin("workspace/executeCommand", lose);
    // Send edits while the server does not read.
    let start = json!({ "line": 0, "character": 0 });
    for version in 2..40 {
        let document = json!({ "uri": editor.uri("shop.lisp"), "version": version });
        let typed = json!({ "range": { "start": start, "end": start }, "text": "; ä\n" });
        editor.tell("textDocument/didChange", json!({ "textDocument": document, "contentChanges": [typed] }));
    }
    let killed = editor.response(killed);
    assert_eq!(killed["error"]["code"], -32803, "{killed}");
    let text = "; ä\n".repeat(38) + SHOP;
    let mut at = editor.at("shop.lisp", &text, "price (item", 0);
    at["context"] = json!({ "includeDeclaration": true });
    let answer = editor.ask("textDocument/references", at);
    let places = editor.places(&answer, &[("shop.lisp", &text), ("cart.lisp", CART)]);
    assert_eq!(places.len(), 5, "{places:?}");
    assert!(places.iter().any(|place| place.starts_with("shop.lisp:42")), "{places:?}");
    assert_eq!(editor.leave(), 0);
}

/// Returns a changed text that loads as before: with more comments, blank lines and definitions, or
/// swapped functions.
fn loadable(text: &str, random: &mut impl FnMut(usize) -> usize) -> String {
    let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
    let tops: Vec<Range> = read.toplevel().iter().map(|top| top.span).collect();
    let package = tops.iter().position(|top| text[top.indices()].to_lowercase().starts_with("(in-package"));
    let first = package.map_or(tops.len(), |package| package + 1);
    if tops.len() < first + 2 {
        return format!("; 𝒳\n{text}");
    }
    let nth = first + random(tops.len() - first - 1);
    let (top, next) = (tops[nth], tops[nth + 1]);
    let (start, end) = (top.start as usize, top.end as usize);
    let is_function = |top: Range| text[top.indices()].starts_with("(defun ");
    let mut changed = text.to_owned();
    match random(5) {
        0 => changed.insert_str(end, "\n; 𝒳 ä\r\n\n"),
        1 => {
            changed.insert_str(end, &format!("\n(defun steelbank-inserted-{} (x) (list x))\n", random(9999)))
        }
        2 => changed.insert_str(start, "#| 𝒳 |# "),
        // After the operator.
        3 => {
            let head = text[start..].find(' ').map_or(end, |at| start + at);
            if head < end {
                changed.insert_str(head, " #| in it |#");
            }
        }
        _ if is_function(top) && is_function(next) => {
            let between = &text[end..next.start as usize];
            let swapped = format!("{}{between}{}", &text[next.indices()], &text[top.indices()]);
            changed.replace_range(start..next.end as usize, &swapped);
        }
        _ => changed.insert(start, '\n'),
    }
    changed
}

/// Returns a server's tokens and places in those forms of `text` that are also in `known`.
fn told_of(editor: &mut Editor, name: &str, text: &str, known: &str) -> Vec<String> {
    let read = |text: &str| LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
    let (now, before) = (read(text), read(known));
    let forms: HashSet<&str> = before.toplevel().iter().map(|top| &known[top.span.indices()]).collect();
    let lines = LineIndex::new(text.as_bytes());
    let same: Vec<Range> = now
        .toplevel()
        .iter()
        .map(|top| top.span)
        .filter(|span| forms.contains(&text[span.indices()]))
        .collect();
    let offset = |position: &Value| {
        let number = |key: &str| position[key].as_u64().unwrap() as u32 + 1;
        let at = LineColumn { line: number("line"), column: number("character") };
        lines.offset(text.as_bytes(), at, PositionEncoding::Utf8).unwrap()
    };
    let is_same = |at: u32| same.iter().any(|span| span.contains(at));
    let uri = editor.uri(name);
    let document = json!({ "uri": uri });
    let tokens = editor.ask("textDocument/semanticTokens/full", json!({ "textDocument": document }));
    let data: Vec<u64> =
        tokens["data"].as_array().unwrap().iter().map(|found| found.as_u64().unwrap()).collect();
    let (mut line, mut column, mut told, mut asked) = (0, 0, Vec::new(), Vec::new());
    for token in data.chunks(5) {
        column = if token[0] == 0 { column + token[1] } else { token[1] };
        line += token[0];
        let position = json!({ "line": line, "character": column });
        let at = offset(&position);
        if is_same(at) {
            told.push(format!("{line}:{column} {} {} {}", token[2], token[3], token[4]));
            asked.push(position);
        }
    }
    for position in asked.iter().step_by(asked.len() / 12 + 1) {
        let at = json!({ "textDocument": document, "position": position, "context": { "includeDeclaration": true } });
        for request in ["references", "definition", "documentHighlight"] {
            let answer = editor.ask(&format!("textDocument/{request}"), at.clone());
            // Keep places in unchanged forms of this file, and all places in other files.
            let mut places: Vec<String> = answer
                .as_array()
                .map(Vec::as_slice)
                .unwrap_or_default()
                .iter()
                .filter(|place| {
                    let here = place.get("uri").is_none_or(|found| *found == uri);
                    !here || is_same(offset(&place["range"]["start"]))
                })
                .map(|place| {
                    let file =
                        place["uri"].as_str().and_then(|uri| uri.rsplit('/').next()).unwrap_or_default();
                    format!("{file} {} {}", place["range"], place["kind"])
                })
                .collect();
            places.sort();
            told.push(format!("{request} at {position}: {places:?}"));
        }
    }
    told
}

#[test]
fn unsaved_text_is_answered_as_if_saved() {
    const LIBRARIES: [&str; 10] = [
        "anaphora", "yason", "parse-number", "alexandria", "babel", "cl-ppcre", "cl-who", "iterate",
        "local-time", "puri",
    ];
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = move |end: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % end.max(1) as u64) as usize
    };
    let (libraries, rounds) = (small_or_full(3, LIBRARIES.len()), small_or_full(2, 50));
    let mut compared = 0;
    for library in &LIBRARIES[..libraries] {
        let [root, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        copy(&lisp_libraries().join(library), root.path());
        let options = ["--no-snapshot", "--system", library, "lsp", "--no-compile"];
        let mut editor = Editor::start_in(root, cache, PositionEncoding::Utf8, &options);
        let root = editor.root.clone();
        let files = fs::read_dir(&root).unwrap().flatten().map(|entry| entry.path());
        let mut files: Vec<_> = files
            .filter(|path| path.extension().is_some_and(|kind| kind == "lisp"))
            .filter(|path| !path.to_string_lossy().contains("test"))
            .collect();
        files.sort();
        for round in 0..rounds {
            let file = &files[random(files.len())];
            let name = file.file_name().unwrap().to_str().unwrap();
            let Ok(saved) = fs::read_to_string(file) else { continue };
            let mut text = saved.clone();
            for _ in 0..8 {
                text = loadable(&text, &mut random);
            }
            editor.open(name, &saved);
            editor.change(name, 2, &text);
            let told = told_of(&mut editor, name, &text, &saved);
            editor.tell("textDocument/didClose", json!({ "textDocument": { "uri": editor.uri(name) } }));
            // Compare with a new server that finds this text in the saved file.
            let [other, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
            copy(&root, other.path());
            fs::write(other.path().join(name), &text).unwrap();
            let mut fresh = Editor::start_in(other, cache, PositionEncoding::Utf8, &options);
            fresh.open(name, &text);
            let expected = told_of(&mut fresh, name, &text, &saved);
            for (one, other) in told.iter().zip(&expected) {
                assert_eq!(one, other, "{library}/{name}, round {round}");
            }
            assert_eq!(told.len(), expected.len(), "{library}/{name}");
            compared += told.len();
            assert_eq!(fresh.leave(), 0);
        }
        assert_eq!(editor.leave(), 0);
    }
    assert!(compared > libraries * rounds * 20, "{compared} answers were compared");
}

#[test]
fn standard_symbols_have_hovers_everywhere() {
    let mut editor = Editor::start(PositionEncoding::Utf8);
    // SBCL skips the form `other`, and the package of the form `third` does not exist.
    let text = format!(
        "{CART}#+no-such-lisp\n(defun other (x) (let* ((y x)) (declare (ignorable y)) (unwind-protect y (go))))\n\
         (defun odd (x) `(progn ,@(flet ((f (y) (the fixnum y))) (mapcar #'f x))))\n\
         (in-package :no-such-package)\n(defun third (x) (tagbody (if (eq x 'labels) (throw x (catch x)))))\n"
    );
    editor.open("cart.lisp", &text);
    for word in [
        "let*", "declare", "unwind-protect", "go)", "progn", "flet", "the fixnum", "tagbody", "if (eq",
        "labels", "throw", "catch", "eq x",
    ] {
        let hover = editor.ask("textDocument/hover", editor.at("cart.lisp", &text, word, 0));
        let said = hover["contents"]["value"].as_str().unwrap_or_default().to_owned();
        let name = word.split([' ', ')']).next().unwrap();
        assert!(said.contains(&format!("\ncl:{name}")), "{word}: {hover}");
    }
    assert_eq!(editor.leave(), 0);
}

#[test]
fn inlay_hints_name_parameters() {
    let mut editor = Editor::start(PositionEncoding::Utf16);
    let text = format!("{CART}(defun f (discount) (list (price 7 discount) (price \"𝒳\" 8) (total 9)))\n");
    editor.open("cart.lisp", &text);
    let range = json!({ "start": { "line": 0, "character": 0 }, "end": { "line": 99, "character": 0 } });
    let document = json!({ "uri": editor.uri("cart.lisp") });
    let hints = editor.ask("textDocument/inlayHint", json!({ "textDocument": document, "range": range }));
    let told: Vec<String> = hints
        .as_array()
        .unwrap()
        .iter()
        .map(|hint| {
            let (line, column) = (&hint["position"]["line"], &hint["position"]["character"]);
            format!("{line}:{column} {}", hint["label"].as_str().unwrap())
        })
        .collect();
    let expected = ["3:51 discount:", "4:33 item:", "4:52 item:", "4:57 discount:", "4:67 items:"];
    assert_eq!(told, expected, "{hints}");
    assert_eq!(editor.leave(), 0);
}

/// Each request about a text has a budget of processor time for each byte. A debug build needs less
/// than a fifth of it for texts of any size, and a loop that reads a line again for each position
/// needs many times as much.
#[test]
fn requests_take_linear_time_in_any_line() {
    // Larger texts are not analysed.
    let size = small_or_full(400_000, 8_000_000);
    for separator in [" ", "\n"] {
        let mut editor = Editor::start(PositionEncoding::Utf16);
        let mut text = String::new();
        for number in 0.. {
            text +=
                &format!("(defun f{number} (aé𝒳 b) \"é𝒳\" (let ((c (list aé𝒳 b))) (g{number} c 'é \"s\")))");
            text += separator;
            if text.len() > size {
                break;
            }
        }
        let position = editor.at("x.lisp", &text, "aé𝒳", 0);
        let (start, end) =
            (json!({ "line": 0, "character": 0 }), json!({ "line": 1_000_000, "character": 0 }));
        let mut params = position.clone();
        params["range"] = json!({ "start": start, "end": end });
        params["options"] = json!({ "tabSize": 8, "insertSpaces": true });
        params["context"] = json!({ "includeDeclaration": true, "diagnostics": [] });
        params["positions"] = json!(vec![position["position"].clone(); 20]);
        params["newName"] = json!("new");
        let process = editor.child.id();
        let mut before = processor_time(process);
        editor.open("x.lisp", &text);
        for method in [
            "semanticTokens/full", "semanticTokens/range", "documentSymbol", "codeLens", "foldingRange",
            "selectionRange", "documentHighlight", "references", "hover", "definition", "prepareRename",
            "rename", "prepareCallHierarchy", "codeAction", "formatting", "rangeFormatting", "completion",
            "signatureHelp", "inlayHint", "diagnostic",
        ] {
            editor.ask(&format!("textDocument/{method}"), params.clone());
            let now = processor_time(process);
            // In hundredths of a second.
            let budget = 100 + size as u64 / 400;
            assert!(now - before < budget, "{method}: {} > {budget}", now - before);
            before = now;
        }
        assert_eq!(editor.leave(), 0);
    }
}

#[test]
fn root_is_first_folder_with_asd() {
    let [root, other, cache] = [(); 3].map(|()| tempfile::tempdir().unwrap());
    let root_path = root.path().canonicalize().unwrap();
    fs::write(root.path().join("one.asd"), "(defsystem \"one\" :components ((:file \"one\")))").unwrap();
    fs::write(
        root.path().join("one.lisp"),
        "(defun cl-user::one (x) x)\n(defun cl-user::two () (cl-user::one 1))\n",
    )
    .unwrap();
    fs::write(other.path().join("notes.lisp"), "(cl-user::one 2)\n").unwrap();
    let folder = |path: &std::path::Path| json!({ "uri": format!("file://{}", path.canonicalize().unwrap().display()), "name": "folder" });
    let folders = [folder(other.path()), folder(root.path())];
    let outside = tempfile::tempdir().unwrap();
    let mut editor = Editor::spawn(
        outside,
        cache,
        PositionEncoding::Utf16,
        &["--no-snapshot", "--system", "one", "lsp", "--no-compile"],
    );
    editor.greet(json!({ "workspaceFolders": folders }));
    let told = loop {
        let message = editor.read();
        if message["method"] == "window/showMessage" {
            break message["params"]["message"].as_str().unwrap().to_owned();
        }
    };
    let searched = root_path.to_str().unwrap();
    let skipped = other.path().canonicalize().unwrap();
    expect_text(
        "two folders",
        &told.replace(searched, "{root}").replace(skipped.to_str().unwrap(), "{other}"),
    );
    editor.await_load();
    // The server also answers about a file in the other folder.
    let uri = format!("{}/notes.lisp", folders[0]["uri"].as_str().unwrap());
    let text = "(cl-user::one 2)\n";
    editor
        .tell("textDocument/didOpen", json!({ "textDocument": { "uri": uri, "version": 1, "text": text } }));
    let at = json!({ "textDocument": { "uri": uri }, "position": { "line": 0, "character": 11 } });
    let answer = editor.ask("textDocument/definition", at);
    assert!(answer[0]["uri"].as_str().unwrap().ends_with("/one.lisp"), "{answer}");
    assert_eq!(editor.leave(), 0);

    let [nowhere, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let mut editor = Editor::spawn(nowhere, cache, PositionEncoding::Utf16, &["lsp", "--no-compile"]);
    editor.greet(json!({ "workspaceFolders": null, "rootUri": null }));
    editor.await_load();
    editor.open("free.lisp", "(defun f (x) (mapcar #'car x))\n");
    let at = editor.at("free.lisp", "(defun f (x) (mapcar #'car x))\n", "mapcar", 0);
    let hover = editor.ask("textDocument/hover", at);
    assert!(hover["contents"]["value"].as_str().unwrap().contains("\ncl:mapcar"), "{hover}");
    assert_eq!(editor.leave(), 0);
}

#[test]
fn unsaved_text_is_compiled_in_a_confined_copy() {
    let [root, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    fs::write(
        root.path().join("one.asd"),
        "(defsystem \"one\" :components ((:file \"one\") (:file \"two\")))",
    )
    .unwrap();
    let text = "(defpackage :lsp-one (:use :cl))\n(in-package :lsp-one)\n(defun one (x) x)\n";
    fs::write(root.path().join("one.lisp"), text).unwrap();
    // The scratch image has another folder for temporary files.
    let two = "(in-package :lsp-one)\n(defun two () 2)\n(defvar *folder* (uiop:getenv \"TMPDIR\"))\n";
    fs::write(root.path().join("two.lisp"), two).unwrap();
    let options = ["--system", "one"];
    let made = Command::new(STEELBANK)
        .arg("--no-userinit")
        .args(options)
        .arg("snapshot")
        .current_dir(root.path())
        .env("STEELBANK_CACHE", cache.path())
        .env("CL_SOURCE_REGISTRY", library_registry())
        .output()
        .unwrap();
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let evil = root.path().join("evil");
    let mut editor =
        Editor::start_in(root, cache, PositionEncoding::Utf16, &[&options[..], &["lsp"]].concat());
    // Changes of the tree do not affect the loaded system.
    fs::create_dir(editor.root.join("later")).unwrap();
    fs::write(editor.root.join("later/later.asd"), "(defsystem \"later\")").unwrap();
    fs::remove_file(editor.root.join("two.lisp")).unwrap();
    editor.open("one.lisp", text);
    // The second of three texts is incomplete. Calls of functions in another file are not errors.
    let write =
        format!("#.(ignore-errors (with-open-file (out {evil:?} :direction :output) (print 1 out)) 2)");
    let texts = [
        format!("{text}(defun three () (list (two) {write} (no-such 3)))\n"),
        format!("{text}(defun three () (list (two) (no-such 3)\n"),
        format!("{text}(defun four () #|𝒳|# (list (two) nowhere))\n"),
    ];
    let expected = [("sbcl", "no-such"), ("steelbank", "("), ("sbcl", "nowhere")];
    for (version, (text, expected)) in (2..).zip(texts.iter().zip(expected)) {
        editor.change("one.lisp", version, text);
        let told = loop {
            let message = editor.read();
            assert_ne!(message["method"], "window/logMessage", "{message}");
            let found = &message["params"]["diagnostics"];
            if message["params"]["version"] == version
                && found.as_array().is_some_and(|found| !found.is_empty())
            {
                break found.clone();
            }
        };
        assert_eq!(told.as_array().unwrap().len(), 1, "{told}");
        let said = (told[0]["source"].as_str().unwrap(), editor.text_at(text, &told[0]["range"]));
        assert_eq!(said, expected, "{told}");
        if expected.0 == "sbcl" {
            assert!(told[0]["relatedInformation"][0]["message"].to_string().contains("defun"), "{told}");
        }
    }
    assert!(!evil.exists(), "unsaved text has written a file");
    assert_eq!(fs::read_to_string(editor.root.join("one.lisp")).unwrap(), text);
    fs::write(editor.root.join("two.lisp"), two).unwrap();
    let answer = editor.ask("workspace/executeCommand", json!({ "command": "steelbank.check" }));
    assert_eq!(answer["loads"], true, "{answer}");
    assert_eq!(editor.leave(), 0);
}

/// Blocks the load of [`SHOP`] until the file `go` exists.
const WAIT: &str = "(eval-when (:compile-toplevel) (loop until (probe-file \"go\") do (sleep 0.02)))";

/// Starts a server whose load of [`SHOP`] and [`CART`] waits for [`go`]. The project also has the
/// files of `others`, which belong to no system.
fn start_waiting(others: &[(String, String)], progress: bool) -> Editor {
    let [root, cache] = [(); 2].map(|()| tempfile::tempdir().unwrap());
    let asd = "(defsystem \"lsp-shop\" :serial t \
        :components ((:file \"shop\") (:file \"wait\") (:file \"cart\")))";
    let own = [("lsp-shop.asd", asd), ("shop.lisp", SHOP), ("wait.lisp", WAIT), ("cart.lisp", CART)];
    for (name, text) in own.into_iter().chain(others.iter().map(|(name, text)| (&**name, &**text))) {
        fs::write(root.path().join(name), text).unwrap();
    }
    let options = ["--no-snapshot", "--system", "lsp-shop", "lsp", "--no-compile"];
    let uri = format!("file://{}/", root.path().canonicalize().unwrap().display());
    let mut editor = Editor::spawn(root, cache, PositionEncoding::Utf8, &options);
    if progress {
        editor.greet(json!({ "rootUri": uri }));
    } else {
        editor.ask("initialize", json!({ "rootUri": uri, "capabilities": {} }));
        editor.tell("initialized", json!({}));
    }
    editor
}

/// Lets the load continue.
fn go(editor: &Editor) {
    fs::write(editor.root.join("go"), "").unwrap();
}

/// The lines of an answer's locations, by file name.
fn lines_of(found: &Value) -> HashSet<(String, u64)> {
    let line = |place: &Value| {
        let uri = place["uri"].as_str()?;
        Some((uri.rsplit('/').next()?.to_owned(), place["range"]["start"]["line"].as_u64()? + 1))
    };
    found.as_array().into_iter().flatten().filter_map(line).collect()
}

/// The lines on which `name` is in `package` or one of its nicknames, by prefix or IN-PACKAGE, or
/// where the package is unknown.
fn lines_by_package(files: &[(String, String)], packages: &[&str], name: &str) -> HashSet<(String, u64)> {
    let mut lines = HashSet::new();
    for (file, text) in files {
        let bytes = text.as_bytes();
        let read = LispText::read(bytes, Dialect::CommonLisp, &Features::sbcl());
        let index = LineIndex::new(bytes);
        for token in read.tokens().iter().filter(|token| token.is_named(bytes, name)) {
            let symbol = token.symbol(bytes);
            let is_literal =
                bytes[token.span.start as usize] == b':' || bytes[token.span.start as usize] == b'#';
            let current = read.toplevel_from(token.span.start).and_then(|top| top.package.as_deref());
            let package = symbol.package.as_deref().or(current);
            if !is_literal && package.is_none_or(|package| packages.contains(&package)) {
                lines.insert((file.clone(), u64::from(index.line(token.span.start))));
            }
        }
    }
    lines
}

/// No request about a symbol has fewer places during the load than IN-PACKAGE and prefixes show.
#[test]
fn answers_during_a_load_come_from_text() {
    let mut files = Vec::new();
    for entry in fs::read_dir(lisp_libraries().join("hunchentoot")).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if let (true, Ok(text)) = (name.ends_with(".lisp"), fs::read_to_string(entry.path())) {
            files.push((name, text));
        }
    }
    files.sort();
    let mut editor = start_waiting(&files, true);
    let definers = ["(defun ", "(defmethod ", "(defmacro ", "(defclass ", "(defgeneric ", "(defvar "];
    let mut defined: Vec<(&str, &str, &str, u64)> = Vec::new();
    for (file, text) in &files {
        for (number, line) in (1..).zip(text.lines()) {
            let found = definers.iter().find_map(|definer| Some((*definer, line.strip_prefix(definer)?)));
            let Some((definer, rest)) = found else { continue };
            let name = rest.split([' ', ')']).next().unwrap();
            if !name.starts_with('(') {
                defined.push((name, definer, file, number));
            }
        }
    }
    let names: BTreeSet<&str> = defined.iter().map(|(name, ..)| *name).collect();
    let chosen: Vec<&str> = names.iter().step_by(names.len() / 20).take(20).copied().collect();
    assert_eq!(chosen.len(), 20);
    let mut opened = HashSet::new();
    for name in chosen {
        let (_, definer, file, line) = *defined.iter().find(|(other, ..)| *other == name).unwrap();
        let text = files.iter().find(|(other, _)| other == file).unwrap().1.as_str();
        if opened.insert(file) {
            editor.open(file, text);
        }
        let (line, character) = (line - 1, definer.len());
        let position = json!({ "line": line, "character": character });
        let at = json!({ "textDocument": { "uri": editor.uri(file) }, "position": position });
        let definitions: HashSet<(String, u64)> = defined
            .iter()
            .filter(|(other, ..)| *other == name)
            .map(|(_, _, file, line)| ((*file).to_owned(), *line))
            .collect();
        let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
        let lines = LineIndex::new(text.as_bytes());
        let form = read.toplevel().iter().find(|top| u64::from(lines.line(top.span.start)) == line + 1);
        let package = form.unwrap().package.clone().unwrap();
        let nickname = if &*package == "HUNCHENTOOT" { "TBNL" } else { &*package };
        let expected = lines_by_package(&files, &[&package, nickname], &name.to_uppercase());
        let contains = |what: &str, found: &HashSet<(String, u64)>, expected: &HashSet<(String, u64)>| {
            let missing: Vec<_> = expected.difference(found).collect();
            assert!(!expected.is_empty() && missing.is_empty(), "{what} of {name}: {missing:?}");
        };
        let mut with_definitions = at.clone();
        with_definitions["context"] = json!({ "includeDeclaration": true });
        contains(
            "references",
            &lines_of(&editor.ask("textDocument/references", with_definitions)),
            &expected,
        );
        contains("definition", &lines_of(&editor.ask("textDocument/definition", at.clone())), &definitions);
        let methods: HashSet<_> = defined
            .iter()
            .filter(|(other, definer, ..)| *other == name && *definer == "(defmethod ")
            .map(|(_, _, file, line)| ((*file).to_owned(), *line))
            .collect();
        let methods = if methods.is_empty() { definitions.clone() } else { methods };
        contains(
            "implementation",
            &lines_of(&editor.ask("textDocument/implementation", at.clone())),
            &methods,
        );
        let hover = editor.ask("textDocument/hover", at.clone());
        assert!(
            hover["contents"]["value"].as_str().is_some_and(|text| text.contains(name)),
            "{name}: {hover}"
        );
        let symbols = editor.ask("workspace/symbol", json!({ "query": name }));
        let symbols: Value =
            symbols.as_array().unwrap().iter().map(|found| found["location"].clone()).collect();
        contains("workspace symbols", &lines_of(&symbols), &definitions);
        let highlights = editor.ask("textDocument/documentHighlight", at.clone());
        let highlights: HashSet<_> = highlights
            .as_array()
            .unwrap()
            .iter()
            .map(|found| (file.to_owned(), found["range"]["start"]["line"].as_u64().unwrap() + 1))
            .collect();
        let here: HashSet<_> = expected.iter().filter(|(other, _)| other == file).cloned().collect();
        contains("highlights", &highlights, &here);
        let mut typed = at.clone();
        typed["position"]["character"] = json!(character + name.len() - 1);
        let completions = editor.ask("textDocument/completion", typed);
        let labels = completions["items"].as_array().unwrap();
        assert!(labels.iter().any(|item| item["label"] == name), "{name}: {completions}");
        let items = editor.ask("textDocument/prepareCallHierarchy", at);
        let item = &items.as_array().unwrap()[0];
        let calls = editor.ask("callHierarchy/incomingCalls", json!({ "item": item }));
        let mut callers = HashSet::new();
        for call in calls.as_array().unwrap() {
            let file = call["from"]["uri"].as_str().unwrap().rsplit('/').next().unwrap();
            let ranges = call["fromRanges"].as_array().unwrap().iter();
            let lines = ranges.map(|range| range["start"]["line"].as_u64().unwrap() + 1);
            callers.extend(lines.map(|line| (file.to_owned(), line)));
        }
        let in_functions: HashSet<_> = expected
            .iter()
            .filter(|place| !definitions.contains(place) && is_in_function(&files, place))
            .cloned()
            .collect();
        assert!(in_functions.is_subset(&callers), "callers of {name}: {in_functions:?}, {callers:?}");
    }
    assert!(!fs::exists(editor.root.join("go")).unwrap());
    go(&editor);
    editor.await_load();
    editor.leave();
}

/// Whether a line is in the body of a function, a method or a macro.
fn is_in_function(files: &[(String, String)], (file, line): &(String, u64)) -> bool {
    let text = &files.iter().find(|(other, _)| other == file).unwrap().1;
    let read = LispText::read(text.as_bytes(), Dialect::CommonLisp, &Features::sbcl());
    let lines = LineIndex::new(text.as_bytes());
    let line = u32::try_from(*line).unwrap();
    let within = |range: Range| (lines.line(range.start)..=lines.line(range.end - 1)).contains(&line);
    let form = read.toplevel().iter().find(|top| within(top.span));
    form.is_some_and(|form| {
        let text = &text[form.span.indices()];
        ["(defun ", "(defmethod ", "(defmacro "].iter().any(|definer| text.starts_with(definer))
    })
}

/// The answers about PRICE and about a symbol of Lisp.
fn answers_about_price(editor: &mut Editor) -> Vec<Value> {
    let texts = [("shop.lisp", SHOP), ("cart.lisp", CART)];
    texts.iter().for_each(|(name, text)| editor.open(name, text));
    let mut answers = Vec::new();
    for (name, text, word, nth) in
        [("cart.lisp", CART, "price", 0), ("shop.lisp", SHOP, "price", 1), ("cart.lisp", CART, "mapcar", 0)]
    {
        let mut at = editor.at(name, text, word, nth);
        at["context"] = json!({ "includeDeclaration": true });
        for request in
            ["references", "definition", "implementation", "hover", "documentHighlight", "completion"]
        {
            answers.push(editor.ask(&format!("textDocument/{request}"), at.clone()));
        }
        answers.push(editor.ask("textDocument/prepareCallHierarchy", at));
    }
    let item = answers[6][0].clone();
    answers.push(editor.ask("callHierarchy/incomingCalls", json!({ "item": item })));
    answers.push(editor.ask("workspace/symbol", json!({ "query": "price" })));
    assert!(!editor.places(&answers[0], &texts).is_empty());
    let answers = json!(answers).to_string().replace(editor.root.to_str().unwrap(), "ROOT");
    serde_json::from_str(&answers).unwrap()
}

/// Requests that run code wait for the load. After it, all answers are those of a server that was
/// asked nothing during the load.
#[test]
fn answers_after_a_load_ignore_earlier_ones() {
    let mut editor = start_waiting(&[], true);
    let early = answers_about_price(&mut editor);
    let mut rename = editor.at("cart.lisp", CART, "price", 0);
    rename["newName"] = json!("cost");
    let rename = editor.begin("textDocument/rename", rename);
    let expanded = json!({ "command": "steelbank.macroexpand", "arguments": [
        editor.at("cart.lisp", CART, "(defun twice", 0) ] });
    let expanded = editor.begin("workspace/executeCommand", expanded);
    assert!(editor.told.iter().all(|message| message["method"] != "window/showMessage"));
    go(&editor);
    let renamed = editor.response(rename);
    assert_eq!(renamed["result"]["documentChanges"].as_array().map(Vec::len), Some(2), "{renamed}");
    let expanded = editor.response(expanded);
    assert!(expanded["result"]["expansion"].is_string(), "{expanded}");
    let late = answers_about_price(&mut editor);
    let mut other = start_waiting(&[], true);
    go(&other);
    other.await_load();
    let expected = answers_about_price(&mut other);
    assert_eq!(late, expected);
    // Everything true about the symbol that was being loaded was found before.
    for (early, late) in early.iter().zip(&late).take(7) {
        assert!(lines_of(late).is_subset(&lines_of(early)), "{early}\n{late}");
    }
    editor.leave();
    other.leave();
}

#[test]
fn editors_without_progress_get_one_message() {
    let mut editor = start_waiting(&[], false);
    let message = loop {
        let message = editor.read();
        if message["method"] == "window/showMessage" {
            break message;
        }
    };
    expect_text("loading the project", message["params"]["message"].as_str().unwrap());
    go(&editor);
    editor.open("cart.lisp", CART);
    let rename = editor.at("cart.lisp", CART, "price", 0);
    editor.ask("textDocument/prepareRename", rename);
    assert!(editor.told.iter().all(|message| message["method"] != "window/showMessage"));
    editor.leave();
}
