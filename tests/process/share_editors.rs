//! Tests of editors and agents on one image: `lsp --share` with `serve --share`. Each editor has
//! its own texts.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use steelbank::reader::lines::PositionEncoding;

use crate::child::{small_or_full, wait_until, wait_while};
use crate::client::Client;
use crate::lsp::Editor;
use crate::program::{Folder, STEELBANK, ends, shown};
use crate::share::{end, host, join, project};
use crate::texts::expect_text;

const USES: &str = "(in-package :cl-user)\n(defun uses (list) (of-client-1 list))\n";

/// Starts an initialized editor on the project in `folder`.
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

/// Waits for the end of the first load, and returns its message.
fn heard(editor: &mut Editor) -> String {
    loop {
        let message = editor.read();
        if message["params"]["value"]["kind"] == "end" {
            return message["params"]["value"]["message"].as_str().unwrap().to_owned();
        }
    }
}

/// A project of two files. The second one uses the first one's functions.
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

/// Returns the references and definitions of a function that an agent gets.
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
fn editors_share_lisp_but_not_texts() {
    let (folder, shop) = used_project("share-editors");
    let mut one = editor(&folder, "One", &["--no-compile", "--allow-eval"]);
    expect_text("loaded", &heard(&mut one));
    let mut agent = join(&folder, &["--allow-eval"]);
    let mut other = join(&folder, &["--allow-edits"]);
    let mut two = editor(&folder, "Two", &["--no-compile"]);
    expect_text("loaded already", &heard(&mut two));
    let process = host(&mut agent.1)["process"].clone();
    let evaluate = |code: &str| json!({ "command": "steelbank.evaluate", "arguments": [{ "code": code }] });
    let pid = one.ask("workspace/executeCommand", evaluate("(sb-unix:unix-getpid)"));
    assert_eq!(pid["values"][0].as_str().unwrap(), process.to_string(), "{pid}");
    assert_eq!(two.error("workspace/executeCommand", evaluate("1")), -32803, "it may not evaluate");
    let listed = [("One 2", "editor"), ("tests 1", "agent"), ("tests 1", "agent"), ("Two 2", "editor")];
    let listed = listed.map(|(name, kind)| (name.to_owned(), kind.to_owned()));
    assert_eq!(clients(&mut agent.1), listed);

    // Each editor has its own text of a file. Agents get the places in the files on disk.
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

    // One editor renames while agents ask. The other editor's text stays.
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

    // Code that one client loads is visible to all. A restart needs `force` and lists the clients.
    fs::write(folder.0.join("project/more.lisp"), "(defun cl-user::more (x) \"More\" x)\n").unwrap();
    let load = json!({ "command": "steelbank.loadFile", "arguments": [{ "path": "more.lisp" }] });
    one.ask("workspace/executeCommand", load);
    assert!(agent.1.text("describe-symbol", json!({ "name": "more" })).contains("More"));
    agent.1.text("evaluate", json!({ "code": "(defun cl-user::by-hand (x) \"Handmade\" x)" }));
    let calls = format!("{twos}(list (more 1) (by-hand 2))\n");
    two.change("shop.lisp", 2, &calls);
    let hover = two.ask("textDocument/hover", two.at("shop.lisp", &calls, "by-hand", 0));
    assert!(hover["contents"]["value"].as_str().unwrap().contains("Handmade"), "{hover}");
    expect_text("restart refused", &agent.1.error("restart-lisp", json!({})));

    // During a restart, and then a death by loaded code, each request is answered once, with the
    // same texts.
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
        wait_until("Lisp does not restart", || {
            agent.1.status()["restarts"].as_array().is_some_and(|all| all.len() == round + 1)
        });
        wait_while(|| agent.1.status()["loading"] == true);
        let more = two.ask("textDocument/hover", two.at("shop.lisp", &typed, "more 1", 0));
        assert!(more["contents"]["value"].as_str().unwrap().contains("More"), "{more}");
        assert_eq!(clients(&mut agent.1), listed);
        assert_eq!(host(&mut agent.1)["process"], process);
        assert_eq!(
            (places(&mut agent.1), told(&mut one, &ones)),
            (of_disk.clone(), of_one.map(str::to_owned).into())
        );
    }

    // A killed editor's text is dropped. An editor without `shutdown` exits with 1, others with 0.
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
fn editors_wait_for_a_running_load() {
    let folder = project("share-editors-load");
    let root = folder.0.join("project");
    let asd =
        "(defsystem \"shop\" :serial t :components ((:file \"slow\") (:file \"shop\") (:file \"uses\")))";
    fs::write(root.join("shop.asd"), asd).unwrap();
    // The scratch copy that checks files may not write there.
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
    wait_until("the load does not begin", || folder.0.join("loads").exists());
    let mut two = editor(&folder, "Two", &["--no-compile"]);
    // Meanwhile, it answers.
    two.open("uses.lisp", uses);
    let document = two.at("uses.lisp", uses, "uses", 0)["textDocument"].clone();
    let symbols = two.ask("textDocument/documentSymbol", json!({ "textDocument": document }));
    assert_eq!(symbols[0]["name"], "uses", "{symbols}");
    assert!(!two.told.iter().any(|told| told["params"]["value"]["kind"] == "end"), "{:?}", two.told);
    fs::write(folder.0.join("go"), "").unwrap();
    [&mut one, &mut two].into_iter().for_each(|editor| expect_text("loaded", &heard(editor)));
    assert_eq!(fs::read_to_string(folder.0.join("loads")).unwrap(), "loaded\n", "it was loaded once");

    // An agent's load updates the diagnostics of an open file.
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
fn editor_without_project_has_its_own_lisp() {
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
    assert!(hover["contents"]["value"].as_str().unwrap().contains("\ncl:mapcar"), "{hover}");
    assert!(!folder.0.join("cache/hosts").exists());
    assert_eq!(editor.leave(), 0);
    let mut child =
        command(&[]).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    expect_text("no project", &std::io::read_to_string(child.stderr.take().unwrap()).unwrap());
    assert_eq!(ends(child).code(), Some(1));
    // Sharing fails without a folder for hosts.
    fs::write(folder.0.join("a.asd"), "").unwrap();
    fs::write(folder.0.join("cache/hosts"), "").unwrap();
    expect_text("no folder for hosts", &shown(&command(&[]).stdin(Stdio::null()).output().unwrap()));
}
