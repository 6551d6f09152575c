//! Tests that all tools report a missing name, package, system or path in the same way.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use steelbank::tools::CallOutcome;

use crate::project::folder;
use crate::texts::expect_text;
use crate::tools_beside_sbcl::World;

const MAIN: &str = "(defpackage :gone-package (:use :cl) (:export #:gone-present))
(in-package :gone-package)
(defun gone-present () 1)
";

/// The tool that needs a scratch image; tests/process/cli.rs tests it.
const OTHER: &str = "check";

#[test]
fn all_tools_report_missing_subjects_alike() {
    own_process!();
    let root = folder("missing");
    let systems = "(defsystem \"gone-system\" :components ((:file \"main\")))\n(defsystem \"gone-later\")\n";
    std::fs::write(root.join("gone-system.asd"), systems).unwrap();
    std::fs::write(root.join("main.lisp"), MAIN).unwrap();
    let world = World::at(root, &["gone-system"]);
    let mut asked = BTreeSet::new();
    let mut missing = |tool: &'static str, arguments: Value, subject: &str, suggestion: &str| {
        let answer = world.answer(tool, arguments).unwrap_or_else(|error| panic!("{tool}: {error}"));
        let wanted = match tool {
            "code-find-references" => CallOutcome::NotFoundAsError,
            _ => CallOutcome::NotFound,
        };
        assert_eq!(answer.outcome, wanted, "{tool}");
        let said = &answer.structured;
        assert_eq!(
            (&said["found"], &said["suggestions"][0]),
            (&json!(false), &json!(suggestion)),
            "{tool}: {said}"
        );
        let lines: Vec<&str> = answer.text.lines().take(3).collect();
        assert_eq!(said["message"], lines[0], "{tool}");
        expect_text(subject, &lines.join("\n"));
        asked.insert(tool);
    };
    for tool in of_names() {
        let named = |name: &str, package: &str| match tool {
            "impact" => json!({ "names": [name], "package": package }),
            "code-find-references" => json!({ "symbol": name, "package": package }),
            "refactor" => json!({ "operation": "delete", "name": name, "package": package }),
            "path" => json!({ "from": name, "to": name, "package": package }),
            "rename" => json!({ "name": name, "package": package, "new_name": "other" }),
            _ => json!({ "name": name, "package": package }),
        };
        let present = "gone-package:gone-present";
        missing(tool, named("nosuch:gone-present", "cl-user"), "package", present);
        missing(tool, named("gone-present", "nosuch"), "package", present);
        missing(tool, named("gone-packag:gone-nothing", "cl-user"), "misspelled package", "GONE-PACKAGE");
        missing(tool, named("gone-presen", "gone-package"), "symbol", "gone-present");
    }
    for (tool, arguments) in [
        ("apropos", json!({ "pattern": "gone", "packages": ["gone-packag"] })),
        ("apropos", json!({ "pattern": "gone-packag:gone" })),
        ("outline", json!({ "package": "gone-packag" })),
        ("interface", json!({ "package": "gone-packag" })),
        ("package-info", json!({ "package": "gone-packag" })),
        ("search", json!({ "pattern": "(gone ?x)", "package": "gone-packag" })),
        ("evaluate", json!({ "code": "1", "package": "gone-packag" })),
        ("inspect", json!({ "expression": "1", "package": "gone-packag" })),
        ("macroexpand", json!({ "form": "(when 1 2)", "package": "gone-packag" })),
    ] {
        missing(tool, arguments, "misspelled package", "GONE-PACKAGE");
    }
    for tool in ["outline", "interface", "run-tests", "load-system"] {
        missing(tool, json!({ "system": "gone-systm" }), "system", "gone-system");
    }
    let takers = steelbank::actions::tools().list().iter().filter(|tool| {
        let about = ["name", "names", "symbol", "package", "packages", "system"];
        tool.arguments().iter().any(|(argument, _)| about.contains(argument))
    });
    let forgotten: Vec<&str> =
        takers.map(|tool| tool.name()).filter(|name| !asked.contains(name) && *name != OTHER).collect();
    assert_eq!(forgotten, [""; 0]);
    // An unloaded system is not missing.
    expect_text("unloaded system", &world.error("outline", json!({ "system": "gone-later" })));
    // A missing dependency is a failed load.
    let needing = "(defsystem \"gone-needing\" :depends-on (\"gone-nowhere\"))";
    std::fs::write(world.root.join("gone-needing.asd"), needing).unwrap();
    let failed = world.answer("load-system", json!({ "system": "gone-needing" })).unwrap();
    assert_eq!((failed.outcome, &failed.structured["found"]), (CallOutcome::Failed, &json!(true)));
    paths(&world);
}

/// Lists the tools that take a symbol.
fn of_names() -> Vec<&'static str> {
    let all = steelbank::actions::tools().list().iter().map(|tool| tool.name());
    let others = [
        "describe-symbol", "find-definition", "code-find-references", "call-graph", "compiler-notes",
        "disassemble", "impact", "path", "refactor", "rename",
    ];
    all.filter(|name| name.starts_with("who-") || others.contains(name)).collect()
}

/// Checks that a missing path is reported in the same way, with the nearest path of the project.
fn paths(world: &World) {
    std::fs::create_dir_all(world.root.join("parts")).unwrap();
    std::fs::write(world.root.join("parts/later.lisp"), "(in-package :gone-package)\n").unwrap();
    let missing = |tool: &str, arguments: Value, path: &str, suggestion: &str| {
        let answer = world.answer(tool, arguments).unwrap_or_else(|error| panic!("{tool}: {error}"));
        let said = &answer.structured;
        assert_eq!(answer.outcome, CallOutcome::NotFound, "{tool}: {said}");
        assert_eq!(said["found"], false, "{tool}: {said}");
        let suggestions = if suggestion.is_empty() { Value::Null } else { json!([suggestion]) };
        assert_eq!(said["suggestions"], suggestions, "{tool}: {said}");
        expect_text(&format!("path {path}"), &answer.text);
        let message = said["message"].as_str().unwrap();
        assert_eq!(answer.text.lines().next(), Some(message), "{tool}");
        assert_eq!(said["failure"], Value::Null, "{tool} reports it once: {said}");
    };
    let asked = |path: &str| {
        let edit = json!({ "path": path, "definition": "gone-present", "operation": "delete" });
        [
            ("outline", json!({ "path": path })),
            ("interface", json!({ "path": path })),
            ("impact", json!({ "paths": ["main.lisp", path] })),
            ("check-structure", json!({ "path": path })),
            ("macroexpand", json!({ "path": path, "line": 1 })),
            ("edit-definition", edit),
            ("load-file", json!({ "path": path })),
            ("reload", json!({ "paths": ["main.lisp", path] })),
            ("check", json!({ "paths": ["main.lisp", path] })),
        ]
    };
    let mut tools = BTreeSet::new();
    for (path, suggestion) in [
        ("mian.lisp", "main.lisp"),
        ("main", "main.lisp"),
        ("src/main.lisp", "main.lisp"),
        ("main.lisp/below", ""),
        ("/nowhere/later.lisp", "parts/later.lisp"),
        ("completely-other.lisp", ""),
    ] {
        for (tool, arguments) in asked(path) {
            missing(tool, arguments, path, suggestion);
            tools.insert(tool);
        }
    }
    missing("outline", json!({ "path": "prats" }), "prats", "parts");
    let takers = steelbank::actions::tools().list().iter().filter(|tool| {
        tool.name() != "inspect" && tool.arguments().iter().any(|(name, _)| ["path", "paths"].contains(name))
    });
    assert_eq!(takers.map(|tool| tool.name()).collect::<BTreeSet<_>>(), tools);
    // A removed file that was loaded has changed. It is not missing.
    let loaded = world.ask("load-file", json!({ "path": "parts/later.lisp" }));
    assert_eq!((&loaded["found"], &loaded["status"]), (&json!(true), &json!("loaded")));
    std::fs::remove_file(world.root.join("parts/later.lisp")).unwrap();
    let reloaded = world.ask("reload", json!({ "paths": ["parts/later.lisp"] }));
    assert_eq!((&reloaded["found"], &reloaded["changed"][0]), (&json!(true), &json!("parts/later.lisp")));
    // A file that loads a missing file is not missing itself.
    std::fs::write(world.root.join("needing.lisp"), "(load \"nosuch.lisp\")\n").unwrap();
    let failed = world.answer("load-file", json!({ "path": "needing.lisp" })).unwrap();
    assert_eq!((failed.outcome, &failed.structured["found"]), (CallOutcome::Failed, &json!(true)));
    // An unreadable path is not missing.
    std::fs::create_dir(world.root.join("folder.lisp")).unwrap();
    expect_text("folder", &world.error("check-structure", json!({ "path": "folder.lisp" })));
}
