//! Tests unusual inputs: encodings, line ends, modes and names of files, wrong arguments and
//! cursors, long answers, and files that are only in Git.

use std::os::unix::fs::{PermissionsExt, symlink};

use serde_json::{Value, json};
use steelbank::tools::{Blame, Call, CallOutcome, Failure};

use crate::project::folder;
use crate::texts::{expect_text, git};
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
fn unusual_files_and_arguments_are_answered() {
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
    wrong_arguments_are_reported_by_name(&world);
    wrong_cursors_are_errors(&world);
    long_answers_are_truncated(&world);
    unreadable_forms_are_reported_with_positions(&world);
    paths_are_relative_to_the_project(&world);
    removed_definitions_have_users(&world);
    edits_change_no_other_bytes(&world);
}

/// Passes a value of the wrong kind for each argument of each tool. The error must quote the
/// argument.
fn wrong_arguments_are_reported_by_name(world: &World) {
    for tool in steelbank::actions::tools().list() {
        let call = |arguments: Value| {
            let arguments = arguments.as_object().unwrap().clone();
            match tool.call(&world.session, arguments, &Call::default()) {
                Err(Failure { blame: Blame::Arguments, why, .. }) => why,
                other => panic!("{}: {other:?}", tool.name()),
            }
        };
        let properties = tool.input()["properties"].as_object().unwrap();
        let misspelt = format!("{}z", properties.keys().max_by_key(|name| name.len()).unwrap());
        assert!(call(json!({ &misspelt: 1 })).contains(&misspelt), "{}", tool.name());
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
            let quoted = format!("\"{name}\"");
            assert!(why.contains(&quoted) && why.contains(tool.name()), "{}: {why}", tool.name());
        }
    }
    // An empty optional argument is ignored. An empty name in a list is an error.
    assert_eq!(world.ask("describe-symbol", json!({ "name": "edges:target", "package": "" }))["found"], true);
    let edit = json!({ "path": "mode.lisp", "definition": "user-mode", "operation": "replace" });
    let errors = [
        world.error("impact", json!({ "names": [""] })),
        world.error("load-file", json!({ "path": "" })),
        world.error("edit-definition", edit),
    ];
    expect_text("empty arguments", &errors.join("\n"));
}

fn wrong_cursors_are_errors(world: &World) {
    let number = regex::Regex::new("[0-9]+").unwrap();
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
        let errors = [with("99999999"), with("garbage")].join("\n");
        expect_text("cursors", &number.replace_all(&errors, "…"));
    }
    // After a load, used symbols of SBCL are in two tables.
    let symbols = world.ask("apropos", json!({ "pattern": "list" }));
    let names: Vec<&Value> =
        symbols["symbols"].as_array().unwrap().iter().map(|each| &each["name"]).collect();
    let unique: std::collections::BTreeSet<String> = names.iter().map(ToString::to_string).collect();
    assert_eq!(unique.len(), names.len(), "each symbol once");
}

fn long_answers_are_truncated(world: &World) {
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

fn unreadable_forms_are_reported_with_positions(world: &World) {
    for (name, form) in
        [("open form", "(when x"), ("missing package", "(list\n 1 nowhere::x)"), ("closing parenthesis", ")")]
    {
        let expansion = world.answer("macroexpand", json!({ "form": form }));
        let expansion = expansion.map(|answer| answer.text).unwrap_or_else(|error| error.to_string());
        let evaluation = world.answer("evaluate", json!({ "code": form })).unwrap().text;
        expect_text(name, &format!("{expansion}\n\n{evaluation}"));
    }
}

fn paths_are_relative_to_the_project(world: &World) {
    let root = world.root.display().to_string();
    let load = world.answer("load-system", json!({ "system": "edges", "force": true })).unwrap();
    expect_text("load of latin.lisp", &load.text);
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

fn removed_definitions_have_users(world: &World) {
    let users = |answer: &Value| -> Vec<String> {
        let users = answer["users"].as_array().unwrap();
        users.iter().map(|user| user["name"].as_str().unwrap().to_owned()).collect()
    };
    expect_text("no changes", &world.answer("impact", json!({ "diff": true })).unwrap().text);
    // Remove a definition, remove a file, and move a file.
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

/// Checks that rename and edit-definition change only the requested bytes.
fn edits_change_no_other_bytes(world: &World) {
    let held = |name: &str| std::fs::read(world.root.join(name)).unwrap();
    let plan = world.ask("rename", json!({ "name": "edges:target", "new_name": "goal", "scope": "symbol" }));
    assert!(plan["doubtful"].is_null() && plan["conflicts"].is_null(), "{plan:#}");
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
    assert_eq!(answer.structured["applied"], true, "{}", answer.text);
    for (name, text) in FILES.iter().filter(|(name, _)| *name != "package.lisp") {
        assert_eq!(held(name), replaced(text), "{name}");
    }
    assert!(world.root.join("linked.lisp").symlink_metadata().unwrap().is_symlink());
    let mode = world.root.join("mode.lisp").metadata().unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    // A later edit prevents the undo. The error has the file's path in the project.
    let edit = json!({ "path": "linked.lisp", "definition": "user-linked", "operation": "insert-before",
        "text": "(defun before ())" });
    world.ask("edit-definition", edit);
    let undo = answer.structured["undo"].as_str().unwrap();
    expect_text("undo after an edit", &world.error("rename", json!({ "undo": undo })));
    // The error for a missing edit suggests existing edits.
    let missing = world.answer("rename", json!({ "undo": "7777" })).unwrap();
    let found = [&missing.structured["found"], &missing.structured["suggestions"]];
    assert_eq!(found, [&json!(false), &json!([undo])], "{}", missing.text);
    assert_eq!(missing.outcome, CallOutcome::NotFound);
    expect_text("missing edit", &missing.text.replace(undo, "{id}"));
}
