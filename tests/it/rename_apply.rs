//! Tests the tool rename: plans, atomic writes of all files, and undo.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::{Value, json};
use steelbank::Control;
use steelbank::actions::change::rename::RenameRequest;
use steelbank::loaded::LoadStatus;
use steelbank::tools::{Blame, Call, CallOutcome, Failure, Permissions, Session, ToolAnswer};

use crate::folder::Folder;
use crate::project::{load, project, written_in_all_ways};
use crate::texts::expect_text;
use steelbank::{RenameApplyRequest, RenameDiffRequest, UndoRequest};

const MAIN: &str = "(defpackage :ra (:use :cl) (:export #:area))\r\n(in-package :ra)\r\n\r\n(defun area (w h)\r\n  (* w h)) ; area\r\n(defun é𝒳 (x) (list \"ü𝒳\" x #'area))\r\n";
const USES: &[u8] = b";; -*- coding: latin-1 -*-\n(in-package :ra)\n(defun caf\xe9 (x) (area x x))\n(defun twice () (list 'area (area 1 2)))\n";

fn rename(session: &Session, arguments: Value) -> Result<ToolAnswer, Failure> {
    let Value::Object(arguments) = arguments else { unreachable!() };
    steelbank::actions::tools().get("rename").unwrap().call(session, arguments, &Call::default())
}

/// Reads the files in `root`, without subfolders.
fn files(root: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<_> = fs::read_dir(root)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().is_file())
        .map(|entry| (entry.file_name().to_string_lossy().into_owned(), fs::read(entry.path()).unwrap()))
        .collect();
    found.sort();
    found
}

#[test]
fn renames_are_applied_and_undone() {
    own_process!();
    let root = Folder::new("rename-apply");
    let cache = Folder::new("rename-apply-cache");
    fs::write(
        root.join("ra.asd"),
        "(defclass latin-1-file (asdf:cl-source-file) ())
(defmethod asdf:component-external-format ((file latin-1-file)) :latin-1)
(defsystem \"ra\" :serial t :components ((:file \"main\") (latin-1-file \"uses\")))",
    )
    .unwrap();
    fs::write(root.join("main.lisp"), MAIN).unwrap();
    fs::write(root.join("uses.lisp"), USES).unwrap();
    fs::set_permissions(root.join("uses.lisp"), fs::Permissions::from_mode(0o640)).unwrap();
    let bank = project(&root, &cache);
    load(&bank, "ra");
    let session = Session::new(bank.clone());
    let before = files(&root);
    let arguments = |apply: bool| json!({ "name": "ra:area", "new_name": "surface", "apply": apply, "scope": "symbol", "verify": false });

    // A session without permission gets the plan, and a hint on how to permit edits.
    for apply in [false, true] {
        let plan = rename(&session, arguments(apply)).unwrap();
        assert_eq!(
            plan.outcome,
            if apply { CallOutcome::Failed } else { CallOutcome::Answered },
            "{}",
            plan.text
        );
        expect_text("no permission", &plan.text);
        assert_eq!((&plan.structured["applied"], &plan.structured["edits"]), (&json!(false), &json!(6)));
    }
    assert_eq!(files(&root), before);

    let session = session.allowing(Permissions { edits: true, ..Permissions::default() });
    let plan = rename(&session, arguments(false)).unwrap();
    let hunk = &plan.structured["hunks"][0];
    let edit = json!({ "at": "main.lisp:1:39", "old": "area", "new": "surface" });
    assert_eq!((&hunk["path"], &hunk["edits"][0]), (&json!("main.lisp"), &edit), "{hunk}");
    // Columns count characters.
    let hunks = plan.structured["hunks"].as_array().unwrap().iter();
    let mut edits = hunks.flat_map(|hunk| hunk["edits"].as_array().unwrap());
    assert!(edits.any(|edit| edit["at"] == "main.lisp:6:30"), "{}", plan.structured);
    expect_text("plan", &plan.text);

    // A plan is refused after a file has changed. No file is written.
    let stale = bank.ask(&RenameRequest::new("ra:area", "surface"), &Control::default()).unwrap();
    fs::write(root.join("uses.lisp"), [USES, b"\n"].concat()).unwrap();
    let why = bank.run(&RenameApplyRequest::new(&stale), &Control::default()).unwrap_err().to_string();
    expect_text("changed file", &why);
    fs::write(root.join("uses.lisp"), USES).unwrap();
    assert_eq!(files(&root), before);

    // Verification is refused: this program cannot start worker processes.
    let asked = json!({ "name": "ra:area", "new_name": "surface", "apply": true });
    let why = rename(&session, asked).unwrap_err().to_string();
    expect_text("no verification", &why);
    assert_eq!(files(&root), before);
    let done = rename(&session, arguments(true)).unwrap();
    assert_eq!(done.outcome, CallOutcome::Answered, "{}", done.text);
    let id = done.structured["undo"].as_str().unwrap().to_owned();
    let main = fs::read_to_string(root.join("main.lisp")).unwrap();
    assert_eq!(
        main,
        MAIN.replace("#:area", "#:surface")
            .replace("defun area", "defun surface")
            .replace("#'area", "#'surface")
    );
    let uses = fs::read(root.join("uses.lisp")).unwrap();
    assert!(uses.windows(24).any(|part| part == b"(defun caf\xe9 (x) (surface"), "{uses:?}");
    assert_eq!(fs::metadata(root.join("uses.lisp")).unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(files(&root).len(), before.len(), "nothing is left behind");

    // Undo is refused after later changes.
    fs::write(root.join("main.lisp"), "(other)").unwrap();
    let Err(Failure { blame: Blame::Arguments, why, .. }) = rename(&session, json!({ "undo": id })) else {
        panic!()
    };
    expect_text("undo after a change", &why);
    assert_eq!(fs::read(root.join("uses.lisp")).unwrap(), uses);
    fs::write(root.join("main.lisp"), main).unwrap();
    let undone = rename(&session, json!({ "undo": "last" })).unwrap();
    assert_eq!(undone.structured["restored"], json!(["main.lisp", "uses.lisp"]), "{}", undone.text);
    assert_eq!(files(&root), before);
    let gone = rename(&session, json!({ "undo": id })).unwrap();
    assert_eq!((gone.outcome, &gone.structured["found"]), (CallOutcome::NotFound, &json!(false)));
    expect_text("nothing to undo", &gone.text.replace(&id, "{id}"));

    refusals(&session, &root);
    links(&session, &root);
}

fn refusals(session: &Session, root: &Path) {
    let before = files(root);
    let taken = rename(session, json!({ "name": "ra:area", "new_name": "twice", "apply": true })).unwrap();
    assert_eq!((taken.outcome, &taken.structured["applied"]), (CallOutcome::Failed, &json!(false)));
    expect_text("conflict", &taken.text);
    let missing = rename(session, json!({ "name": "ra::aera", "new_name": "x" })).unwrap();
    assert_eq!(missing.outcome, CallOutcome::NotFound);
    assert_eq!(missing.structured["suggestions"][0], "area", "{}", missing.structured);
    let errors = [
        json!({ "name": "ra:area" }),
        json!({ "name": "ra:area", "new_name": "x", "undo": "1" }),
        json!({ "name": "ra:area", "new_name": "x", "cursor": "y" }),
        json!({ "name": "ra:area", "new_name": "a:b" }),
    ]
    .map(|arguments| rename(session, arguments).unwrap_err().to_string());
    expect_text("refused arguments", &errors.join("\n"));
    assert_eq!(files(root), before);
}

/// Checks that no write follows a link out of the project.
fn links(session: &Session, root: &Path) {
    let outside = Folder::new("rename-apply-outside");
    fs::rename(root.join("uses.lisp"), outside.join("uses.lisp")).unwrap();
    symlink(outside.join("uses.lisp"), root.join("uses.lisp")).unwrap();
    let arguments = json!({ "name": "ra:area", "new_name": "surface", "apply": true, "scope": "symbol", "verify": false });
    let before = fs::read(root.join("main.lisp")).unwrap();
    let answer = rename(session, arguments);
    assert_eq!(fs::read(outside.join("uses.lisp")).unwrap(), USES, "{answer:?}");
    if let Err(why) = answer {
        expect_text("link out of the project", &why.to_string());
        assert_eq!(fs::read(root.join("main.lisp")).unwrap(), before);
    }
    fs::remove_dir_all(outside).unwrap();
}

/// Git applies the hunks of a plan: the result equals the files that the rename writes.
#[test]
fn git_applies_the_hunks_of_plans() {
    own_process!();
    let root = Folder::new("rename-hunks");
    let plain = "(in-package :rh)\n\n;; One.\n(defun use-NAME (x)\n  (list (area x)\n        (area 1)))\n\n\n(area 2)\n(list 3)\n\n\n(area 4)\n";
    let mut texts = written_in_all_ways(plain);
    texts.extend([
        ("single", "(rh:area 1)".to_owned()),
        // Longer than a hunk: uses on consecutive lines, and on every second line.
        ("long", format!("(in-package :rh)\n{}", "(area 1)\n".repeat(80))),
        ("far", format!("(in-package :rh)\r\n{}", "(area 1)\r\n(list 2)\r\n".repeat(80))),
    ]);
    let components: String = texts.iter().map(|(name, _)| format!("(:file {name:?}) ")).collect();
    fs::write(
        root.join("rh.asd"),
        format!("(defsystem \"rh\" :serial t :components ((:file \"package\") {components}))"),
    )
    .unwrap();
    fs::write(
        root.join("package.lisp"),
        "(defpackage :rh (:use :cl) (:export #:area))\n(in-package :rh)\n(defun area (x) x)\n",
    )
    .unwrap();
    let was = Folder::new("rename-hunks-was");
    for (name, text) in &texts {
        let file = format!("{name}.lisp");
        fs::write(root.join(&file), text.replace("NAME", name)).unwrap();
    }
    let cache = Folder::new("rename-hunks-cache");
    let bank = project(&root, &cache);
    assert_eq!(load(&bank, "rh").status, LoadStatus::Loaded);
    let before = files(&root);
    for (path, text) in &before {
        fs::write(was.join(path), text).unwrap();
    }
    let plan = bank.ask(&RenameRequest::new("rh:area", "surface"), &Control::default()).unwrap();
    let diff = bank.ask(&RenameDiffRequest::new(&plan), &Control::default()).unwrap();
    let patch = diff.to_string();
    assert!(diff.hunks.iter().filter(|hunk| hunk.path == "far.lisp").count() > 1, "{patch}");
    fs::write(cache.join("patch"), &patch).unwrap();
    let output = std::process::Command::new("git")
        .args(["apply", "--whitespace=nowarn"])
        .arg(cache.join("patch"))
        .current_dir(&was)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    bank.run(&RenameApplyRequest::new(&plan), &Control::default()).unwrap();
    let after = files(&root);
    assert!(after != before && after.len() == texts.len() + 2);
    assert_eq!(files(&was), after, "{said}\n{patch}");
    // Undo restores all bytes.
    bank.run(&UndoRequest::new("last"), &Control::default()).unwrap();
    assert_eq!(files(&root), before);
}
