//! Unusual inputs: files with other encodings, line ends, modes and names; arguments that are empty or of the
//! wrong kind; cursors that lead nowhere; answers longer than a page; files that Git knows and the tree does
//! not have.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};
use steelbank::tools::{Blame, Call, CallOutcome, Failure};

use crate::project::folder;
use crate::texts::git;
use crate::tools_beside_sbcl::World;

const FILES: [(&str, &[u8]); 8] = [
    ("package.lisp", b"(defpackage :edges (:use :cl) (:export #:target #:other))\n"),
    ("crlf.lisp", b"(in-package :edges)\r\n\r\n(defun target (x) (list x))\r\n;; c\r\n(defun other () (target 2))\r\n"),
    ("latin.lisp", b";; caf\xe9, \xfc and \xe9\xe8\n(in-package :edges)\n(defun user-latin () (target 3)) ; \xfc\n(defun last-latin () (target 4))\n"),
    ("mode.lisp", b"(in-package :edges)\n(defun user-mode () (target 5))\n"),
    ("sub/real.lisp", b"(in-package :edges)\n(defun user-linked () (target 6))\n"),
    ("no-end.lisp", b"(in-package :edges)\n(defun user-no-end () (target 7))"),
    ("gone.lisp", b"(in-package :edges)\n(defun soon-gone (x) x)\n(defun stays (x) x)\n"),
    ("uses.lisp", b"(in-package :edges)\n(defun user-of-gone () (soon-gone 1))\n"),
];

const SYSTEM: &str = "(defsystem \"edges\" :serial t :components ((:file \"package\") (:file \"crlf\") (:file \"latin\") \
    (:file \"mode\") (:file \"linked\") (:file \"no-end\") (:file \"gone\") (:file \"uses\")))\n";

#[test]
fn edges_of_files_and_arguments_are_held() {
    own_process!();
    let root = folder("edges");
    std::fs::create_dir_all(root.join("sub")).unwrap();
    for (name, text) in FILES {
        std::fs::write(root.join(name), text).unwrap();
    }
    std::fs::set_permissions(root.join("mode.lisp"), std::fs::Permissions::from_mode(0o640)).unwrap();
    symlink("sub/real.lisp", root.join("linked.lisp")).unwrap();
    std::fs::write(root.join("edges.asd"), SYSTEM).unwrap();
    git(&root, &["init", "-q"]);
    git(&root, &["add", "-A"]);
    git(&root, &["commit", "-qm", "as it was"]);
    let world = World::at(root, &["edges"]);
    arguments_are_told_by_name(&world);
    cursors_lead_somewhere(&world);
    no_answer_is_longer_than_its_budget(&world);
    unreadable_forms_are_told_by_place(&world);
    paths_are_the_projects(&world);
    what_is_gone_is_followed(&world);
    octets_stay_where_they_are(&world);
}

/// Passes a value of the wrong kind for each argument of each tool: the error must name the argument.
fn arguments_are_told_by_name(world: &World) {
    for tool in steelbank::actions::tools().list() {
        let call = |arguments: Value| {
            let arguments = arguments.as_object().unwrap().clone();
            match tool.call(&world.session, arguments, &Call::default()) {
                Err(Failure { blame: Blame::Arguments, why, .. }) => why,
                other => panic!("{}: {other:?}", tool.name()),
            }
        };
        assert!(call(json!({ "nonsense": 1 })).contains("\"nonsense\""), "{}", tool.name());
        let properties = tool.input()["properties"].as_object().unwrap();
        let required: Vec<&str> =
            tool.arguments().into_iter().filter(|(_, required)| *required).map(|(name, _)| name).collect();
        let mut good = serde_json::Map::new();
        for name in &required {
            let choice = properties[*name]["enum"][0].clone();
            good.insert((*name).to_owned(), if choice.is_null() { json!("car") } else { choice });
        }
        if !required.is_empty() {
            let why = call(json!({}));
            assert!(required.iter().any(|name| why.contains(&format!("\"{name}\""))), "{why}");
        }
        for (name, property) in properties {
            let wrong = match property["type"].as_str().unwrap_or_else(|| panic!("{}: {name}", tool.name())) {
                "string" => json!(5),
                "array" => json!([5]),
                _ => json!("perhaps"),
            };
            let mut arguments = good.clone();
            arguments.insert(name.clone(), wrong);
            let why = call(Value::Object(arguments));
            assert!(why.contains(&format!("\"{name}\" of {}", tool.name())), "{}: {why}", tool.name());
        }
    }
    // Leave out an empty optional argument; refuse an empty name in a list.
    assert_eq!(world.ask("describe-symbol", json!({ "name": "edges:target", "package": "" }))["found"], true);
    assert!(world.error("impact", json!({ "names": [""] })).contains("not empty"));
    assert!(world.error("load-file", json!({ "path": "" })).contains("\"path\" of load-file is empty"));
    let edit = json!({ "path": "mode.lisp", "definition": "user-mode", "operation": "replace" });
    assert!(world.error("edit-definition", edit).contains("\"text\""));
}

fn cursors_lead_somewhere(world: &World) {
    for (tool, arguments) in [
        ("who-calls", json!({ "name": "cl:car" })),
        ("code-find-references", json!({ "symbol": "edges:target" })),
        ("apropos", json!({ "pattern": "car" })),
        ("outline", json!({})),
        ("package-info", json!({ "package": "edges" })),
        ("inspect", json!({ "expression": "'(1 2)" })),
    ] {
        let with = |cursor: &str| {
            let mut arguments = arguments.clone();
            arguments["cursor"] = json!(cursor);
            world.error(tool, arguments)
        };
        assert!(with("99999999").contains("past the end"), "{tool}");
        assert!(with("garbage").contains("The cursor \"garbage\" is none"), "{tool}");
    }
    // After a load, a symbol of SBCL's that is used stands in two tables.
    let symbols = world.ask("apropos", json!({ "pattern": "list" }));
    let names: Vec<&Value> =
        symbols["symbols"].as_array().unwrap().iter().map(|each| &each["name"]).collect();
    let unique: std::collections::BTreeSet<String> = names.iter().map(ToString::to_string).collect();
    assert_eq!(unique.len(), names.len(), "each symbol once");
}

fn no_answer_is_longer_than_its_budget(world: &World) {
    // World::answer checks the length.
    let deep = |count: usize| format!("{}2{}", "(1+ ".repeat(count), ")".repeat(count));
    world.ask("macroexpand", json!({ "form": deep(5_000) }));
    world.ask("evaluate", json!({ "code": "(make-string 1000000 :initial-element #\\a)" }));
    let text = format!("(in-package :edges)\n(defun wide () (list {}))\n", "'target ".repeat(5_000));
    std::fs::write(world.root.join("wide.lisp"), text).unwrap();
    world.ask("load-file", json!({ "path": "wide.lisp" }));
    for (tool, arguments) in [
        ("code-find-references", json!({ "symbol": "edges:target" })),
        ("find_references", json!({ "pattern": "target", "force": true })),
        ("rename", json!({ "name": "edges:target", "new_name": "goal" })),
        ("outline", json!({ "path": "wide.lisp" })),
    ] {
        let answer = world.answer(tool, arguments).unwrap();
        assert!(answer.text.chars().count() <= 41_000, "{tool}: {}", answer.text.chars().count());
    }
    std::fs::write(world.root.join("wide.lisp"), "(in-package :edges)\n").unwrap();
}

fn unreadable_forms_are_told_by_place(world: &World) {
    for (form, expected) in [
        ("(when x", "(line 1, column 7): it ends before it is closed"),
        ("(list\n 1 nowhere::x)", "(line 2, column 13): Package NOWHERE does not exist."),
        (")", "unmatched close parenthesis"),
    ] {
        let why = world.answer("macroexpand", json!({ "form": form }));
        let why = why.map(|answer| answer.text).unwrap_or_else(|error| error.to_string());
        assert!(why.contains(expected) && !why.contains("STREAM"), "{why}");
        let answer = world.answer("evaluate", json!({ "code": form })).unwrap();
        assert!(answer.text.starts_with("code:") && !answer.text.contains("STREAM"), "{}", answer.text);
    }
}

fn paths_are_the_projects(world: &World) {
    let root = world.root.display().to_string();
    let load = world.answer("load-system", json!({ "system": "edges", "force": true })).unwrap();
    assert!(load.text.contains("latin.lisp:1:1: A comment has octets"), "{}", load.text);
    assert!(!load.text.contains(&root), "{}", load.text);
    std::fs::write(
        world.root.join("uses.lisp"),
        "(in-package :edges)\n(defun user-of-gone () (soon-gone 1)\n",
    )
    .unwrap();
    for (tool, arguments) in [("reload", json!({})), ("run-tests", json!({ "system": "edges" }))] {
        let answer = world.answer(tool, arguments).unwrap();
        assert!(!answer.text.contains(&root), "{tool}: {}", answer.text);
        assert!(!answer.structured.to_string().contains(&root), "{tool}: {}", answer.structured);
    }
    git(&world.root, &["checkout", "-q", "uses.lisp"]);
    world.ask("reload", json!({}));
}

fn what_is_gone_is_followed(world: &World) {
    let users = |answer: &Value| -> Vec<String> {
        let users = answer["users"].as_array().unwrap();
        users.iter().map(|user| user["name"].as_str().unwrap().to_owned()).collect()
    };
    let none = world.answer("impact", json!({ "diff": true })).unwrap();
    assert_eq!(none.text, "No definition changes.");
    // A definition, a file, and a file under another name.
    std::fs::write(world.root.join("gone.lisp"), "(in-package :edges)\n(defun stays (x) x)\n").unwrap();
    let changed = world.ask("impact", json!({ "diff": true }));
    assert_eq!(
        changed["changed"],
        json!([{ "name": "edges::soon-gone", "kind": "function", "gone": true }]),
        "{changed}"
    );
    assert_eq!(users(&changed), ["edges::user-of-gone"]);
    std::fs::remove_file(world.root.join("gone.lisp")).unwrap();
    let changed = world.ask("impact", json!({ "diff": true }));
    assert_eq!(changed["changed"].as_array().unwrap().len(), 2, "{changed}");
    assert_eq!(users(&changed), ["edges::user-of-gone"]);
    git(&world.root, &["checkout", "-q", "gone.lisp"]);
    git(&world.root, &["mv", "gone.lisp", "moved é.lisp"]);
    let changed = world.ask("impact", json!({ "diff": true }));
    assert_eq!(users(&changed), ["edges::user-of-gone"], "{changed}");
    assert!(changed["changed"][0]["place"].as_str().unwrap().starts_with("moved é.lisp:"), "{changed}");
    git(&world.root, &["mv", "moved é.lisp", "gone.lisp"]);
}

/// Checks that rename and edit-definition change only the bytes that they are asked to.
fn octets_stay_where_they_are(world: &World) {
    let held = |name: &str| std::fs::read(world.root.join(name)).unwrap();
    let answer =
        world.answer("rename", json!({ "name": "edges:target", "new_name": "goal", "scope": "symbol" }));
    assert!(!answer.unwrap().text.contains("Left as they are"));
    let replaced = |text: &[u8]| -> Vec<u8> {
        let mut rest = text;
        let mut made = Vec::new();
        while let Some(at) = rest.windows(6).position(|window| window == b"target") {
            made.extend_from_slice(&rest[..at]);
            made.extend_from_slice(b"|Goal|");
            rest = &rest[at + 6..];
        }
        made.extend_from_slice(rest);
        made
    };
    let arguments = json!({ "name": "edges:target", "new_name": "|Goal|", "apply": true, "verify": false });
    let answer = world.answer("rename", arguments).unwrap();
    assert!(answer.text.starts_with("edges:target is |Goal| now"), "{}", answer.text);
    for (name, text) in FILES.iter().filter(|(name, _)| *name != "package.lisp") {
        assert_eq!(held(name), replaced(text), "{name}");
    }
    assert!(world.root.join("linked.lisp").symlink_metadata().unwrap().is_symlink());
    let mode = world.root.join("mode.lisp").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    // An edit after it keeps it from being taken back, by the file's name in the project.
    let edit = json!({ "path": "linked.lisp", "definition": "user-linked", "operation": "insert-before",
        "text": "(defun before ())" });
    world.ask("edit-definition", edit);
    let undo = answer.structured["undo"].as_str().unwrap();
    let why = world.error("rename", json!({ "undo": undo }));
    assert!(why.starts_with("sub/real.lisp was changed after"), "{why}");
    // An edit that is none is told as all that is not there, with those that are.
    let missing = world.answer("rename", json!({ "undo": "7777" })).unwrap();
    let said =
        [&missing.structured["found"], &missing.structured["message"], &missing.structured["suggestions"]];
    assert_eq!(said, [&json!(false), &json!("Edit 7777 not found"), &json!([undo])], "{}", missing.text);
    assert_eq!(missing.outcome, CallOutcome::NotFound);
    assert_eq!(missing.text, format!("Edit 7777 not found\n\nPerhaps: {undo}"));
}
