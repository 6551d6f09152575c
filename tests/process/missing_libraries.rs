//! A project that lacks libraries: one answer for all of its systems, which is remembered, and names answered from text.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::program::{Folder, ask};

/// Runs a command about the project: what it prints, on standard error too, and its exit code.
fn run(root: &Path, cache: &Path, arguments: &[&str]) -> (String, String, i32) {
    let (text, errors, code) = ask(root, cache, arguments);
    (text, errors, code.unwrap())
}

fn write_system(root: &Path, number: usize, needs: &str) {
    let name = format!("part-{number:03}");
    let folder = root.join(&name);
    fs::create_dir_all(&folder).unwrap();
    let system = format!("(defsystem {name:?} :depends-on ({needs}) :components ((:file \"main\")))\n");
    fs::write(folder.join(format!("{name}.asd")), system).unwrap();
    let text = format!(
        "(defpackage :{name} (:use :cl))\n(in-package :{name})\n(defun run-{number} (x)\n  (list x))\n(defvar *v-{number}* 1)\n"
    );
    fs::write(folder.join("main.lisp"), text).unwrap();
}

#[test]
fn a_project_that_lacks_a_library_is_told_once_and_not_tried_again_before_it_is_there() {
    let folder = Folder::new("missing-libraries");
    let (root, cache, loads) = (folder.join("project"), folder.join("cache"), folder.join("loads"));
    fs::create_dir_all(root.join(".git")).unwrap();
    for number in 0..116 {
        let needs = match number {
            0 => "\"no-such-deploy\"",
            1..98 => "\"part-000\"",
            110..113 => "\"no-such-types\"",
            _ => "",
        };
        write_system(&root, number, needs);
    }
    // Count the loads of a system that has all that it needs.
    let counts = format!(
        "(with-open-file (out {:?} :direction :output :if-exists :append :if-does-not-exist :create) (write-line \"once\" out))\n",
        loads.display().to_string()
    );
    fs::write(root.join("part-114/main.lisp"), counts).unwrap();
    fs::write(root.join("part-115/main.lisp"), "(defun broken (x)\n  (car\n").unwrap();
    let loaded = || fs::read_to_string(&loads).map_or(0, |text| text.lines().count());

    let (told, _, exit) = run(&root, &cache, &["load-system"]);
    assert_eq!(exit, 3, "{told}");
    for wanted in [
        "14 of 116 systems are loaded. Missing: no-such-deploy (98 systems need it), no-such-types (3).",
        "(ql:quickload '(\"no-such-deploy\" \"no-such-types\"))",
        "apt install cl-no-such-deploy",
        "part-115: not loaded.",
        "do not pass --no-userinit",
    ] {
        assert!(told.contains(wanted), "{wanted}: {told}");
    }
    assert!(told.len() / 4 <= 400, "{told}");
    let (json, _, _) = run(&root, &cache, &["load-system", "--json"]);
    let json: Value = serde_json::from_str(&json).unwrap();
    assert!(json.to_string().len() / 4 <= 400, "{json}");
    assert_eq!((&json["systems_loaded"], &json["systems_total"]), (&14.into(), &116.into()), "{json}");
    assert_eq!(json["causes"][0]["missing"], "no-such-deploy", "{json}");
    let (detail, _, _) = run(&root, &cache, &["load-system", "--detail"]);
    assert!(detail.contains("part-003: not loaded. System no-such-deploy"), "{detail}");
    assert!(detail.contains("part-098: loaded"), "{detail}");

    let (_, said, exit) = run(&root, &cache, &["--system", "auto", "snapshot"]);
    assert_eq!(exit, 0, "{said}");
    let before = loaded();
    assert!(before > 0);
    let ask = |tool: &str, name: &str| run(&root, &cache, &["--system", "auto", tool, name]);
    let (described, said, exit) = ask("describe-symbol", "part-003::run-3");
    assert!(said.contains("no-such-deploy (98 systems need it)") && exit == 3, "{said}");
    assert!(described.starts_with("Package PART-003 not found\n"), "{described}");
    assert!(
        described.contains("defines part-003::run-3 (function) in part-003/main.lisp:3:8"),
        "{described}"
    );
    let (described, ..) = ask("describe-symbol", "*v-7*");
    assert!(
        described.contains("defines part-007::*v-7* (variable) in part-007/main.lisp:5:9"),
        "{described}"
    );
    let (found, ..) = ask("find-definition", "run-3");
    assert!(found.contains("part-003/main.lisp:3:8: function part-003::run-3 (not loaded)"), "{found}");
    let (described, ..) = ask("describe-symbol", "part-098::run-98");
    assert!(described.contains("PART-098::RUN-98 [FUNCTION]"), "{described}");
    assert_eq!(loaded(), before, "what failed is not tried again while its inputs are as they were");

    // What failed is tried again when something of it has changed.
    fs::create_dir(root.join("no-such-types")).unwrap();
    let library = "(defsystem \"no-such-types\")\n";
    fs::write(root.join("no-such-types/no-such-types.asd"), library).unwrap();
    let (described, said, _) = ask("describe-symbol", "part-110::run-110");
    assert!(described.contains("PART-110::RUN-110 [FUNCTION]"), "{described}");
    assert!(
        said.contains("18 of 117 systems are loaded. Missing: no-such-deploy (98 systems need it)."),
        "{said}"
    );
}
