//! Missing names: every tool that takes a name, package or system reports a missing one in the same way.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use steelbank::tools::CallOutcome;

use crate::project::folder;
use crate::tools_beside_sbcl::World;

const MAIN: &str = "(defpackage :gone-package (:use :cl) (:export #:gone-present))
(in-package :gone-package)
(defun gone-present () 1)
";

/// The tool that needs a scratch image; tests/process/cli.rs tests it.
const OTHER: &str = "check";

#[test]
fn every_tool_tells_in_one_way_what_is_not_there() {
    own_process!();
    let root = folder("missing");
    let systems = "(defsystem \"gone-system\" :components ((:file \"main\")))\n(defsystem \"gone-later\")\n";
    std::fs::write(root.join("gone-system.asd"), systems).unwrap();
    std::fs::write(root.join("main.lisp"), MAIN).unwrap();
    let world = World::at(root, &["gone-system"]);
    let mut asked = BTreeSet::new();
    let mut missing = |tool: &'static str, arguments: Value, message: &str, suggestion: &str| {
        let answer = world.answer(tool, arguments).unwrap_or_else(|error| panic!("{tool}: {error}"));
        let wanted = match tool {
            "code-find-references" => CallOutcome::NotFoundAsError,
            _ => CallOutcome::NotFound,
        };
        assert_eq!(answer.outcome, wanted, "{tool}");
        let said = &answer.structured;
        assert_eq!((&said["found"], &said["message"]), (&json!(false), &json!(message)), "{tool}: {said}");
        assert!(answer.text.starts_with(message), "{tool}: {}", answer.text);
        assert_eq!(said["suggestions"][0], suggestion, "{tool}: {said}");
        assert!(answer.text.contains(&format!("Perhaps: {suggestion}")), "{tool}: {}", answer.text);
        asked.insert(tool);
    };
    for tool in of_names() {
        let named = |name: &str, package: &str| match tool {
            "impact" => json!({ "names": [name], "package": package }),
            "code-find-references" => json!({ "symbol": name, "package": package }),
            "path" => json!({ "from": name, "to": name, "package": package }),
            "rename" => json!({ "name": name, "package": package, "new_name": "other" }),
            _ => json!({ "name": name, "package": package }),
        };
        let present = "gone-package:gone-present";
        let no_package = "Package NOSUCH not found";
        missing(tool, named("nosuch:gone-present", "cl-user"), no_package, present);
        missing(tool, named("gone-present", "nosuch"), no_package, present);
        let near = "Package GONE-PACKAG not found";
        missing(tool, named("gone-packag:gone-nothing", "cl-user"), near, "GONE-PACKAGE");
        let no_symbol = "Symbol GONE-PRESEN not found in package GONE-PACKAGE (status: NIL)";
        missing(tool, named("gone-presen", "gone-package"), no_symbol, "gone-present");
    }
    for (tool, arguments) in [
        ("apropos", json!({ "pattern": "gone", "packages": ["gone-packag"] })),
        ("apropos", json!({ "pattern": "gone-packag:gone" })),
        ("outline", json!({ "package": "gone-packag" })),
        ("interface", json!({ "package": "gone-packag" })),
        ("package-info", json!({ "package": "gone-packag" })),
        ("evaluate", json!({ "code": "1", "package": "gone-packag" })),
        ("inspect", json!({ "expression": "1", "package": "gone-packag" })),
        ("macroexpand", json!({ "form": "(when 1 2)", "package": "gone-packag" })),
    ] {
        missing(tool, arguments, "Package GONE-PACKAG not found", "GONE-PACKAGE");
    }
    for tool in ["outline", "interface", "run-tests", "load-system"] {
        missing(tool, json!({ "system": "gone-systm" }), "System gone-systm not found", "gone-system");
    }
    let takers = steelbank::actions::tools().list().iter().filter(|tool| {
        let about = ["name", "names", "symbol", "package", "packages", "system"];
        tool.arguments().iter().any(|(argument, _)| about.contains(argument))
    });
    let forgotten: Vec<&str> =
        takers.map(|tool| tool.name()).filter(|name| !asked.contains(name) && *name != OTHER).collect();
    assert_eq!(forgotten, [""; 0]);
    // Do not report an unloaded system as missing.
    assert!(world.error("outline", json!({ "system": "gone-later" })).contains("load-system"));
    // Report a missing dependency as a failed load.
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
        "disassemble", "impact", "path", "rename",
    ];
    all.filter(|name| name.starts_with("who-") || others.contains(name)).collect()
}

/// Checks that a missing path is reported in the same way, with the nearest path of the project.
fn paths(world: &World) {
    std::fs::create_dir_all(world.root.join("parts")).unwrap();
    std::fs::write(world.root.join("parts/later.lisp"), "(in-package :gone-package)\n").unwrap();
    let missing = |tool: &str, arguments: Value, path: &str, suggestion: &str| {
        let answer = world.answer(tool, arguments).unwrap_or_else(|error| panic!("{tool}: {error}"));
        let (said, message) = (&answer.structured, format!("Path {path} not found"));
        assert_eq!(answer.outcome, CallOutcome::NotFound, "{tool}: {said}");
        assert_eq!((&said["found"], &said["message"]), (&json!(false), &json!(message)), "{tool}: {said}");
        assert!(answer.text.starts_with(&message), "{tool}: {}", answer.text);
        match suggestion {
            "" => assert!(said["try"][0].as_str().unwrap().contains("relative to the project"), "{said}"),
            _ => assert_eq!(said["suggestions"], json!([suggestion]), "{tool}: {said}"),
        }
        assert!(answer.text.contains(suggestion), "{tool}: {}", answer.text);
        assert_eq!(said["failure"], Value::Null, "{tool}: it is told once: {said}");
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
    // A file that was loaded and is gone has changed, and a file that an edit makes is there.
    let loaded = world.ask("load-file", json!({ "path": "parts/later.lisp" }));
    assert_eq!((&loaded["found"], &loaded["status"]), (&json!(true), &json!("loaded")));
    std::fs::remove_file(world.root.join("parts/later.lisp")).unwrap();
    let reloaded = world.ask("reload", json!({ "paths": ["parts/later.lisp"] }));
    assert_eq!((&reloaded["found"], &reloaded["changed"][0]), (&json!(true), &json!("parts/later.lisp")));
    // Do not report the loaded file as missing if it needs a missing one.
    std::fs::write(world.root.join("needing.lisp"), "(load \"nosuch.lisp\")\n").unwrap();
    let failed = world.answer("load-file", json!({ "path": "needing.lisp" })).unwrap();
    assert_eq!((failed.outcome, &failed.structured["found"]), (CallOutcome::Failed, &json!(true)));
    // Do not report an unreadable path as missing.
    std::fs::create_dir(world.root.join("folder.lisp")).unwrap();
    assert!(
        world.error("check-structure", json!({ "path": "folder.lisp" })).contains("is not a regular file")
    );
}
