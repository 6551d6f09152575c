//! Tests edit-definition and check-structure: edits, diffs, refusals and permissions.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::folder::Folder;
use serde_json::{Value, json};
use steelbank::Control;
use steelbank::actions::change::edit_definition::{EditOperation, EditRequest};
use steelbank::tools::{Blame, Call, Failure, Permissions, Session, ToolAnswer};

use crate::project::{load, project, written_in_all_ways};
use crate::texts::expect_text;

fn call(session: &Session, tool: &str, arguments: Value) -> Result<ToolAnswer, Failure> {
    let Value::Object(arguments) = arguments else { unreachable!() };
    steelbank::actions::tools().get(tool).unwrap().call(session, arguments, &Call::default())
}

fn read(path: &Path) -> String {
    String::from_utf8(fs::read(path).unwrap()).unwrap()
}

const TEXT: &str = "\u{feff}(defpackage :ed (:use :cl) (:export #:area))\r\n(in-package :ed)\r\n\r\n;; Tells.\r\n(defun area (x)\r\n  x) ; end\r\n\r\n(defmethod m ((x integer)) 1)\r\n(defmethod m :around ((x integer)) 2)\r\n";

#[test]
fn edits_change_only_the_named_definition() {
    own_process!();
    let root = Folder::new("edits");
    let outside = Folder::new("edits-outside");
    let path = root.join("ed.lisp");
    fs::write(root.join("ed.asd"), "(defsystem \"ed\" :components ((:file \"ed\")))").unwrap();
    fs::write(&path, TEXT).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    fs::write(outside.join("out.lisp"), "(defun out ())").unwrap();
    symlink(outside.join("out.lisp"), root.join("link.lisp")).unwrap();
    fs::create_dir(root.join("ocicl")).unwrap();
    fs::write(root.join("ocicl/dep.lisp"), "(defun dep ())").unwrap();
    let bank = project(&root, &root.join("cache"));
    let edit = |definition: &str, operation, text: &str| {
        bank.run(&EditRequest::new("ed.lisp", definition, operation, text), &Control::default())
    };

    // A file cannot be checked before its package is loaded.
    let answer = edit("area", EditOperation::Replace, "(defun area (x)\n  (list x))").unwrap();
    expect_text("package not loaded", &answer.cautions[0].to_string());
    assert_eq!(
        (answer.place.file.as_str(), answer.place.line, answer.definition.as_str()),
        ("ed.lisp", Some(5), "(defun area)")
    );
    assert_eq!(read(&path), TEXT.replace("  x) ;", "  (list x)) ;"), "comments, line ends and mark stay");
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o640);
    let diff = "--- ed.lisp\n+++ ed.lisp\n@@ -4,5 +4,5 @@\n ;; Tells.\r\n (defun area (x)\r\n-  x) ; end\r\n+  (list x)) ; end\r\n \r\n (defmethod m ((x integer)) 1)\r\n";
    assert_eq!(answer.diff, diff);

    load(&bank, "ed");
    let before = read(&path);
    let mut refusals = String::new();
    for (definition, text) in [
        ("m", "(a)"),
        ("nope", "(a)"),
        ("area", "(a"),
        ("area", "(a) (b)"),
        ("area", "(defun area () (cl:no-such-name))"),
        ("area", "(defun area () (no-such-package:name))"),
        ("(", "(a)"),
    ] {
        let error = edit(definition, EditOperation::Replace, text).unwrap_err();
        refusals += &format!("{definition} {text}: {error}\n");
        assert_eq!(read(&path), before);
    }
    expect_text("refused edits", &refusals);
    edit("(defmethod m :around (integer))", EditOperation::Delete, "").unwrap();
    assert!(!read(&path).contains(":around"));
    let mut request = EditRequest::new("ed.lisp", "area", EditOperation::Delete, "");
    request.version = Some("0".to_owned());
    expect_text("outdated version", &bank.run(&request, &Control::default()).unwrap_err().to_string());
    let mut refusals = String::new();
    for other in ["link.lisp", "../edits-outside/out.lisp", "ocicl/dep.lisp", "no-such.lisp", "ocicl"] {
        let request = EditRequest::new(other, "out", EditOperation::Delete, "");
        refusals += &format!("{other}: {}\n", bank.run(&request, &Control::default()).unwrap_err());
    }
    expect_text("refused paths", &refusals);
    assert_eq!(read(&outside.join("out.lisp")), "(defun out ())");
    assert_eq!(fs::read_dir(&root).unwrap().count(), 5, "nothing is left behind");

    let arguments = json!({ "path": "ed.lisp", "definition": "area", "operation": "insert-after", "text": "(defun b ())" });
    let session = Session::new(bank.clone());
    let Err(Failure { blame: Blame::Engine, why, .. }) = call(&session, "edit-definition", arguments.clone())
    else {
        panic!()
    };
    expect_text("no permission", &why);
    let session = session.allowing(Permissions { edits: true, ..Permissions::default() });
    let answer = call(&session, "edit-definition", arguments).unwrap();
    expect_text("inserted", &answer.text);
    assert!(read(&path).contains("; end\r\n\r\n(defun b ())\r\n"));
    structure(&session, &root);
}

/// Applies each diff with git. The result must be the new text, and the diff must have as many
/// lines as git's.
#[test]
fn diffs_apply_and_are_as_short_as_git() {
    own_process!();
    let root = Folder::new("diffs");
    let bank = project(&root, &root.join("cache"));
    let plain =
        "(in-package :cl-user)\n\n;; One.\n(defun one (x)\n  (list x\n        x))\n\n(defvar *two* 2)\n";
    let mut texts = written_in_all_ways(plain);
    texts.push(("single", "(defun one (x) x)".to_owned()));
    let git = |folder: &Path, arguments: &[&str]| {
        let output = std::process::Command::new("git").args(arguments).current_dir(folder).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let (was, is) = (root.join("was"), root.join("is.lisp"));
    fs::create_dir(&was).unwrap();
    let mut checked = 0;
    for (name, text) in texts {
        for (operation, form) in [
            (EditOperation::Replace, "(defun one (x)\n  (list x\n        (1+ x)))"),
            (EditOperation::Replace, "(defun one (x y)\n  (list x y))"),
            (EditOperation::InsertBefore, "(defun zero ()\n  0)"),
            (EditOperation::InsertAfter, "(defun zero ()\n  0)"),
            (EditOperation::Delete, ""),
        ] {
            for definition in ["one", "*two*"] {
                if name == "single" && (definition != "one" || operation == EditOperation::Delete) {
                    continue;
                }
                fs::write(&is, &text).unwrap();
                fs::write(was.join("is.lisp"), &text).unwrap();
                let answer =
                    bank.run(&EditRequest::new("is.lisp", definition, operation, form), &Control::default());
                let diff = answer.unwrap_or_else(|error| panic!("{name} {operation:?}: {error}")).diff;
                let counted = |mark: char, head: &str| {
                    diff.lines().filter(|line| line.starts_with(mark) && !line.starts_with(head)).count()
                };
                let changed = (counted('+', "+++"), counted('-', "---"));
                let (counts, _) = git(&root, &["diff", "--no-index", "--numstat", "was/is.lisp", "is.lisp"]);
                let gits: Vec<usize> =
                    counts.split_whitespace().take(2).map(|count| count.parse().unwrap()).collect();
                assert_eq!(changed, (gits[0], gits[1]), "{name} {definition} {operation:?}:\n{diff}");
                fs::write(root.join("patch"), &diff).unwrap();
                let (_, said) = git(&was, &["apply", "-p0", "--whitespace=nowarn", "../patch"]);
                assert_eq!(
                    read(&was.join("is.lisp")),
                    read(&is),
                    "{name} {definition} {operation:?}: {said}\n{diff}"
                );
                checked += 1;
            }
        }
    }
    assert!(checked > 50, "{checked}");
}

fn structure(session: &Session, root: &Path) {
    fs::write(root.join("bad.lisp"), "(defun f (x)\n  (let ((y x)\n    y))\n\n(defun g ())\n").unwrap();
    let answer = call(session, "check-structure", json!({ "path": "bad.lisp" })).unwrap();
    expect_text("unclosed list", &answer.text);
    assert_eq!(answer.structured["problem"]["kind"], "unclosed");
    let answer = call(session, "check-structure", json!({ "path": "ed.lisp" })).unwrap();
    assert_eq!(answer.structured["balanced"], true);
    expect_text("balanced", &answer.text);
    assert!(call(session, "check-structure", json!({})).is_err());
    assert!(call(session, "check-structure", json!({ "path": "link.lisp" })).is_err());
}

#[test]
fn deletion_reports_remaining_uses() {
    own_process!();
    let root = Folder::new("remaining-uses");
    fs::write(
        root.join("left.asd"),
        "(defsystem \"left\" :serial t :components ((:file \"a\") (:file \"b\")))",
    )
    .unwrap();
    let text = "(defpackage :left (:use :cl) (:export #:rate))\n(in-package :left)\n\
        (defun rate (x) (if (plusp x) (rate (1- x)) x))\n(defun total (x) (rate x))\n\
        (defun (setf rate) (new x) (list new x))\n";
    fs::write(root.join("a.lisp"), text).unwrap();
    fs::write(root.join("b.lisp"), "(in-package :left)\n(defun two () (list (rate 1)\n  #'rate))\n").unwrap();
    let bank = project(&root, &root.join("cache"));
    load(&bank, "left");
    let delete = |definition: &str| {
        let request = EditRequest::new("a.lisp", definition, EditOperation::Delete, "");
        let answer = bank.run(&request, &Control::default()).unwrap();
        answer.cautions.iter().map(ToString::to_string).collect::<Vec<_>>()
    };
    assert_eq!(delete("total"), [""; 0]);
    assert_eq!(delete("(setf rate)"), [""; 0]);
    assert_eq!(delete("rate"), ["left:rate is still used in 2 lines, first b.lisp:2."]);
}
