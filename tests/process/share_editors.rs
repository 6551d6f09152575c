//! Editors and agents on one image: `lsp --share` beside `serve --share`. Each editor's text is its own.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use steelbank::reader::lines::PositionEncoding;

use crate::child::{small_or_full, wait_until, wait_while};
use crate::client::Client;
use crate::lsp::Editor;
use crate::program::{Folder, STEELBANK, ends};
use crate::share::{end, host, join, project};

const USES: &str = "(in-package :cl-user)\n(defun uses (list) (of-client-1 list))\n";

/// An editor on the project in `folder`, which has greeted and heard how the load went.
fn editor(folder: &Folder, name: &str, options: &[&str]) -> Editor {
    let root = folder.0.join("project");
    let mut command = Command::new(STEELBANK);
    command.args(["lsp", "--share", "--linger", "1", "--no-userinit", "--system", "shop"]).args(options);
    command.current_dir(&root).env("STEELBANK_CACHE", folder.0.join("cache"));
    let mut editor = Editor::of(command, &root, PositionEncoding::Utf16);
    let client = json!({ "name": name, "version": "2" });
    editor.greet(json!({ "rootUri": editor.uri(""), "clientInfo": client }));
    editor
}

/// Waits for the end of the first load, and returns what is told of it.
fn heard(editor: &mut Editor) -> String {
    loop {
        let message = editor.read();
        if message["params"]["value"]["kind"] == "end" {
            return message["params"]["value"]["message"].as_str().unwrap().to_owned();
        }
    }
}

/// A project whose second file uses the first one's functions.
fn used_project(name: &str) -> (Folder, String) {
    let folder = project(name);
    let asd = "(defsystem \"shop\" :serial t :components ((:file \"shop\") (:file \"uses\")))";
    fs::write(folder.0.join("project/shop.asd"), asd).unwrap();
    fs::write(folder.0.join("project/uses.lisp"), USES).unwrap();
    let shop = fs::read_to_string(folder.0.join("project/shop.lisp")).unwrap();
    (folder, shop)
}

fn references(editor: &mut Editor, shop: &str) -> Value {
    let mut at = editor.at("shop.lisp", shop, "of-client-1", 0);
    at["context"] = json!({ "includeDeclaration": true });
    editor.ask("textDocument/references", at)
}

/// Where the agent is told that a function is used and defined.
fn places(client: &mut Client) -> (Value, Value) {
    let used = client.structured("code-find-references", json!({ "name": "of-client-1" }));
    let defined = client.structured("find-definition", json!({ "name": "of-client-1" }));
    (used["refs"].clone(), defined["definitions"].clone())
}

fn clients(client: &mut Client) -> Vec<(String, String)> {
    let listed = host(client)["clients"].clone();
    let word = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    listed.as_array().unwrap().iter().map(|one| (word(&one["name"]), word(&one["kind"]))).collect()
}

#[test]
fn editors_and_agents_have_one_lisp_and_texts_of_their_own() {
    let (folder, shop) = used_project("share-editors");
    let mut one = editor(&folder, "One", &["--no-compile", "--allow-eval"]);
    assert_eq!(heard(&mut one), "It is loaded.");
    let mut agent = join(&folder, &["--allow-eval"]);
    let mut other = join(&folder, &["--allow-edits"]);
    let mut two = editor(&folder, "Two", &["--no-compile"]);
    assert_eq!(heard(&mut two), "It is loaded already, in a Lisp that is shared.");
    let process = host(&mut agent.1)["process"].clone();
    let evaluate = |code: &str| json!({ "command": "steelbank.evaluate", "arguments": [{ "code": code }] });
    let pid = one.ask("workspace/executeCommand", evaluate("(sb-unix:unix-getpid)"));
    assert_eq!(pid["values"][0].as_str().unwrap(), process.to_string(), "{pid}");
    assert_eq!(two.error("workspace/executeCommand", evaluate("1")), -32803, "it may not evaluate");
    let listed = [("One 2", "editor"), ("tests 1", "agent"), ("tests 1", "agent"), ("Two 2", "editor")];
    let listed = listed.map(|(name, kind)| (name.to_owned(), kind.to_owned()));
    assert_eq!(clients(&mut agent.1), listed);

    // Each editor has another text of one file, and whoever sees the disk has the disk's places.
    let of_disk = places(&mut agent.1);
    assert_eq!(of_disk.0[0]["line"], 2, "{of_disk:?}");
    let (ones, twos) = (format!("; 𝒳\n\n{shop}"), shop.replacen('\n', "\n\n\n\n; more\n", 1));
    let ones = format!("{ones}(defun fresh (x) (of-client-1 x))\n");
    one.open("shop.lisp", &ones);
    two.open("shop.lisp", &twos);
    let of_one = ["shop.lisp:12 of-client-1", "shop.lisp:5 cl-user::of-client-1", "uses.lisp:2 of-client-1"];
    let of_two = ["shop.lisp:7 cl-user::of-client-1", "uses.lisp:2 of-client-1"];
    let told = |editor: &mut Editor, text: &str| {
        let answer = references(editor, text);
        let mut places = editor.places(&answer, &[("shop.lisp", text), ("uses.lisp", USES)]);
        places.sort();
        places
    };
    assert_eq!(told(&mut one, &ones), of_one);
    assert_eq!(told(&mut two, &twos), of_two);
    assert_eq!(places(&mut agent.1), of_disk);
    assert_eq!(places(&mut other.1), of_disk);

    // Renames by one, while agents ask and the other's text stays as it is.
    std::thread::scope(|scope| {
        let asking = scope.spawn(|| {
            (0..small_or_full(15, 500)).for_each(|_| assert_eq!(places(&mut agent.1), of_disk));
        });
        let mut at = one.at("shop.lisp", &ones, "of-client-1", 0);
        at["newName"] = json!("renamed");
        let mut renames = 0;
        while renames < 5 || !asking.is_finished() {
            let answer = one.ask("textDocument/rename", at.clone());
            let changes = answer["documentChanges"].as_array().unwrap();
            let edits = |change: &Value| change["edits"].as_array().unwrap().clone();
            let here =
                changes.iter().find(|change| change["textDocument"]["uri"] == one.uri("shop.lisp")).unwrap();
            assert_eq!((changes.len(), edits(here).len()), (2, 2), "{answer}");
            let replaced = edits(here).iter().all(|edit| one.text_at(&ones, &edit["range"]) == "of-client-1");
            assert!(replaced, "{answer}");
            renames += 1;
        }
    });
    assert_eq!(told(&mut two, &twos), of_two);

    // What one loads the others have, also after a restart; it is asked for by name of who is there.
    fs::write(folder.0.join("project/more.lisp"), "(defun cl-user::more (x) \"More of X.\" x)\n").unwrap();
    let load = json!({ "command": "steelbank.loadFile", "arguments": [{ "path": "more.lisp" }] });
    one.ask("workspace/executeCommand", load);
    assert!(agent.1.text("describe-symbol", json!({ "name": "more" })).contains("More of X."));
    agent.1.text("evaluate", json!({ "code": "(defun cl-user::by-hand (x) \"Made by hand.\" x)" }));
    let calls = format!("{twos}(list (more 1) (by-hand 2))\n");
    two.change("shop.lisp", 2, &calls);
    let hover = two.ask("textDocument/hover", two.at("shop.lisp", &calls, "by-hand", 0));
    assert!(hover["contents"]["value"].as_str().unwrap().contains("Made by hand."), "{hover}");
    let refused = agent.1.error("restart-lisp", json!({}));
    assert!(refused.contains("One 2 (editor, process") && refused.contains("Two 2 (editor"), "{refused}");

    // A restart, and then a death by loaded code: what is under way is answered, each once, in the same texts.
    let load = |path: &str| json!({ "name": "load-file", "arguments": { "path": path } });
    let force = json!({ "name": "restart-lisp", "arguments": { "force": true } });
    for (round, ending) in [force, load("end.lisp")].into_iter().enumerate() {
        let ending = agent.1.begin("tools/call", ending);
        let asked: Vec<i64> = (0..30)
            .map(|_| {
                let mut at = one.at("shop.lisp", &ones, "of-client-1", 0);
                at["context"] = json!({ "includeDeclaration": true });
                one.begin("textDocument/references", at)
            })
            .collect();
        let called = other.1.begin(
            "tools/call",
            json!({ "name": "code-find-references", "arguments": { "name": "of-client-1" } }),
        );
        let typed = format!("{}{calls}", "; typed\n".repeat(round + 1));
        two.change("shop.lisp", 3 + i32::try_from(round).unwrap(), &typed);
        for id in asked {
            let response = one.response(id);
            let mut places = one.places(&response["result"], &[("shop.lisp", &ones), ("uses.lisp", USES)]);
            places.sort();
            assert_eq!(places, of_one, "{response}");
            assert!(!one.told.iter().any(|told| told["id"] == id && told["method"].is_null()), "twice");
        }
        other.1.response(called);
        agent.1.response(ending);
        wait_until("Lisp is there again", || {
            agent.1.status()["restarts"].as_array().is_some_and(|all| all.len() == round + 1)
        });
        wait_while(|| agent.1.status()["loading"] == true);
        let more = two.ask("textDocument/hover", two.at("shop.lisp", &typed, "more 1", 0));
        assert!(more["contents"]["value"].as_str().unwrap().contains("More of X."), "{more}");
        assert_eq!(clients(&mut agent.1), listed);
        assert_eq!(host(&mut agent.1)["process"], process);
        assert_eq!(
            (places(&mut agent.1), told(&mut one, &ones)),
            (of_disk.clone(), of_one.map(str::to_owned).into())
        );
    }

    // An editor that is killed has left, with its text; one that says no goodbye ends with 1, one that does with 0.
    two.child.kill().unwrap();
    two.child.wait().unwrap();
    wait_while(|| clients(&mut agent.1).len() > 3);
    assert_eq!(places(&mut agent.1), of_disk);
    let mut three = editor(&folder, "Three", &["--no-compile"]);
    heard(&mut three);
    three.open("shop.lisp", &shop);
    assert_eq!(told(&mut three, &shop), ["shop.lisp:3 cl-user::of-client-1", "uses.lisp:2 of-client-1"]);
    three.input = None;
    assert_eq!(three.child.wait().unwrap().code(), Some(1), "without shutdown");
    assert!(one.told.iter().all(|told| !told["method"].is_null()), "answered twice: {:?}", one.told);
    assert_eq!(one.leave(), 0);
    wait_while(|| clients(&mut agent.1).len() > 2);
    end(vec![agent, other], &process);
}

#[test]
fn an_editor_that_joins_while_the_project_is_loaded_waits_and_one_that_loads_it_is_heard_by_the_others() {
    let folder = project("share-editors-load");
    let root = folder.0.join("project");
    let asd =
        "(defsystem \"shop\" :serial t :components ((:file \"slow\") (:file \"shop\") (:file \"uses\")))";
    fs::write(root.join("shop.asd"), asd).unwrap();
    // A copy, in which files are checked, may not write there.
    let slow = format!(
        "(ignore-errors
           (with-open-file (out {:?} :direction :output :if-exists :append :if-does-not-exist :create)
             (write-line \"loaded\" out)))\n(loop until (probe-file {:?}) do (sleep 0.02))\n",
        folder.0.join("loads"),
        folder.0.join("go")
    );
    fs::write(root.join("slow.lisp"), slow).unwrap();
    let uses = "(in-package :cl-user)\n(defun uses (list) (later list))\n";
    fs::write(root.join("uses.lisp"), uses).unwrap();
    let mut one = editor(&folder, "One", &[]);
    wait_until("the load begins", || folder.0.join("loads").exists());
    let mut two = editor(&folder, "Two", &["--no-compile"]);
    // It answers meanwhile.
    two.open("uses.lisp", uses);
    let document = two.at("uses.lisp", uses, "uses", 0)["textDocument"].clone();
    let symbols = two.ask("textDocument/documentSymbol", json!({ "textDocument": document }));
    assert_eq!(symbols[0]["name"], "uses", "{symbols}");
    assert!(!two.told.iter().any(|told| told["params"]["value"]["kind"] == "end"), "{:?}", two.told);
    fs::write(folder.0.join("go"), "").unwrap();
    assert_eq!((heard(&mut one), heard(&mut two)), ("It is loaded.".to_owned(), "It is loaded.".to_owned()));
    assert_eq!(fs::read_to_string(folder.0.join("loads")).unwrap(), "loaded\n", "it was loaded once");

    // What an agent loads takes back what the compiler said of a file that is open.
    one.open("uses.lisp", uses);
    one.tell("textDocument/didSave", json!({ "textDocument": document }));
    let said = |editor: &mut Editor| loop {
        let message = editor.read();
        if message["method"] == "textDocument/publishDiagnostics" {
            break message["params"]["diagnostics"].clone();
        }
    };
    while !said(&mut one).to_string().contains("LATER") {}
    let mut shop = fs::read_to_string(root.join("shop.lisp")).unwrap();
    shop.push_str("(defun later (list) list)\n");
    fs::write(root.join("shop.lisp"), shop).unwrap();
    let (child, mut agent) = join(&folder, &[]);
    let process = host(&mut agent)["process"].clone();
    agent.text("load-system", json!({ "system": "shop" }));
    while said(&mut one) != json!([]) {}
    assert_eq!((one.leave(), two.leave()), (0, 0));
    end(vec![(child, agent)], &process);
}

#[test]
fn an_editor_without_a_project_has_a_lisp_of_its_own_and_says_so() {
    let folder = Folder::new("share-editors-none");
    let command = |options: &[&str]| {
        let mut command = Command::new(STEELBANK);
        command.args(["lsp", "--share", "--no-userinit"]).args(options).current_dir(&folder.0);
        command.env("STEELBANK_CACHE", folder.0.join("cache"));
        command
    };
    let mut editor = Editor::of(command(&["--no-compile"]), &folder.0, PositionEncoding::Utf16);
    editor.greet(json!({ "rootUri": editor.uri("") }));
    let text = "(mapcar #'car x)\n";
    editor.open("free.lisp", text);
    let hover = editor.ask("textDocument/hover", editor.at("free.lisp", text, "mapcar", 0));
    assert!(hover["contents"]["value"].as_str().unwrap().contains("\ncl:mapcar ["), "{hover}");
    assert!(!folder.0.join("cache/hosts").exists());
    assert_eq!(editor.leave(), 0);
    let mut child =
        command(&[]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let said = std::io::read_to_string(child.stderr.take().unwrap()).unwrap();
    assert!(said.contains("no project here whose Lisp could be shared"), "{said}");
    assert_eq!(ends(child).code(), Some(1));
    // Where hosts cannot be found, it is refused, and told why.
    fs::write(folder.0.join("a.asd"), "").unwrap();
    fs::write(folder.0.join("cache/hosts"), "").unwrap();
    let said = command(&[]).stdin(Stdio::null()).output().unwrap();
    let why = String::from_utf8(said.stderr).unwrap();
    assert_eq!((said.status.code(), why.contains("cannot be shared")), (Some(3), true), "{why}");
}
