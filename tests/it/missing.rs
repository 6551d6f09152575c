//! What is not there: every tool that can be asked about a name, package or system tells it in one way.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use steelbank::tools::{CallOutcome, Tools};

use crate::child::in_own_process;
use crate::project::folder;
use crate::tools::World;

const MAIN: &str = "(defpackage :gone-package (:use :cl) (:export #:gone-present))
(in-package :gone-package)
(defun gone-present () 1)
";

/// Tools with such an argument: what does not load is told as a load that failed; check needs a scratch image, and is
/// asked in tests/process/cli.rs.
const OTHERS: [&str; 2] = ["load-system", "check"];

#[test]
fn every_tool_tells_in_one_way_what_is_not_there() {
    in_own_process("missing::every_tool_tells_in_one_way_what_is_not_there", || {
        let root = folder("missing");
        let systems =
            "(defsystem \"gone-system\" :components ((:file \"main\")))\n(defsystem \"gone-later\")\n";
        std::fs::write(root.join("gone-system.asd"), systems).unwrap();
        std::fs::write(root.join("main.lisp"), MAIN).unwrap();
        let world = World::at(root, &["gone-system"]);
        let mut asked = BTreeSet::new();
        let mut missing = |tool: &'static str, arguments: Value, message: &str, suggestion: &str| {
            let answer = world.answer(tool, arguments).unwrap_or_else(|error| panic!("{tool}: {error}"));
            let wanted = match tool {
                "code-find-references" => CallOutcome::NotFoundError,
                _ => CallOutcome::NotFound,
            };
            assert_eq!(answer.outcome, wanted, "{tool}");
            let said = &answer.structured;
            assert_eq!(
                (&said["found"], &said["message"]),
                (&json!(false), &json!(message)),
                "{tool}: {said}"
            );
            assert!(answer.text.starts_with(message), "{tool}: {}", answer.text);
            assert_eq!(said["suggestions"][0], suggestion, "{tool}: {said}");
            assert!(answer.text.contains(&format!("Perhaps: {suggestion}")), "{tool}: {}", answer.text);
            asked.insert(tool);
        };
        for tool in of_names() {
            let named = |name: &str, package: &str| match tool {
                "impact" => json!({ "names": [name], "package": package }),
                "code-find-references" => json!({ "symbol": name, "package": package }),
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
            ("package-info", json!({ "package": "gone-packag" })),
            ("evaluate", json!({ "code": "1", "package": "gone-packag" })),
            ("inspect", json!({ "expression": "1", "package": "gone-packag" })),
            ("macroexpand", json!({ "form": "(when 1 2)", "package": "gone-packag" })),
        ] {
            missing(tool, arguments, "Package GONE-PACKAG not found", "GONE-PACKAGE");
        }
        for tool in ["outline", "run-tests"] {
            missing(tool, json!({ "system": "gone-systm" }), "System gone-systm not found", "gone-system");
        }
        let takers = Tools::all().list().iter().filter(|tool| {
            let about = ["name", "names", "symbol", "package", "packages", "system"];
            tool.arguments().iter().any(|(argument, _)| about.contains(argument))
        });
        let forgotten: Vec<&str> = takers
            .map(|tool| tool.name())
            .filter(|name| !asked.contains(name) && !OTHERS.contains(name))
            .collect();
        assert_eq!(forgotten, [""; 0]);
        // What is there, but not loaded, is not missing.
        assert!(world.error("outline", json!({ "system": "gone-later" })).contains("load-system"));
        paths(&world);
    });
}

/// The tools that are asked about a symbol.
fn of_names() -> Vec<&'static str> {
    let all = Tools::all().list().iter().map(|tool| tool.name());
    let others = [
        "describe-symbol",
        "find-definition",
        "code-find-references",
        "call-graph",
        "compiler-notes",
        "disassemble",
        "impact",
        "rename",
    ];
    all.filter(|name| name.starts_with("who-") || others.contains(name)).collect()
}

/// A path that is not there is told by one sentence.
fn paths(world: &World) {
    let edit = json!({ "path": "gone.lisp", "definition": "gone-present", "operation": "delete" });
    for (tool, arguments) in [
        ("outline", json!({ "path": "gone.lisp" })),
        ("check-structure", json!({ "path": "gone.lisp" })),
        ("macroexpand", json!({ "path": "gone.lisp", "line": 1 })),
        ("edit-definition", edit),
    ] {
        assert_eq!(
            world.error(tool, arguments),
            "The file gone.lisp cannot be read: No such file or directory (os error 2). Name a file relative to the project.",
            "{tool}"
        );
    }
}
