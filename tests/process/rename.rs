//! Tests of `rename` with verification: an applied rename preserves the program, and a wrong rename
//! is detected.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, SystemTime};

use steelbank::Control;
use steelbank::actions::change::rename::RenamePlan as Plan;
use steelbank::actions::change::rename::{DifferenceKind, RenameRequest, Scope, Verified};
use steelbank::loaded::LoadStatus;
use steelbank::{ProjectSettings, Steelbank};

use serde_json::{Value, json};

use crate::child::{small_or_full, wait_while};
use crate::program::{Folder, STEELBANK, Streams, ends_well, initialized, on, shown};
use crate::texts::expect_text;
use steelbank::{LoadRequest, RenameVerifyRequest};

const LONG: Duration = Duration::from_secs(300);

const MAIN: &str = "(defpackage #:rn (:use #:cl) (:export #:area \"SIZE\" sized))
(in-package #:rn)
(defun area (w h) (* w h))
(defun user (x) (area x #+nothing (area 1) 2))
(defun size (x &key (unit 1) scale) (list x unit scale))
(defun sized (size) (list size (size 1 :unit 2)))
(defstruct point x (y 0))
(defun norm (p) (+ (point-x p) (point-y p) (if (point-p p) 1 0) (point-x (make-point :x 1))))
(defmacro def-thing (name) `(defun ,(intern (format nil \"~A-THING\" name)) () ',name))
(def-thing big)
(defun things () (list (big-thing) 'big))
(defvar *depth* 1)
(defun looked () (list *depth* (find-symbol \"AREA\" :rn)))
(defclass shape () ((side :initarg :side :accessor side)))
(defmethod area-of ((shape shape)) (* (side shape) (side shape)))
(defmethod area-of ((number integer)) (let ((side number)) (* side side)))
(defun unused (x) (declare (ignore x)) (undefined-thing))
#+nothing (defun left-out () (point-x (make-point)))
(defstruct base id)
(defstruct (node (:include base (id 0))) left)
(defun nodes () (make-node :id 1 :left (node-left (make-node))))
(defpackage #:rn-util (:use #:cl) (:export #:limit))
(defun rn-util:limit () 100)
(defpackage #:rn-main (:use #:cl #:rn-util))
(in-package #:rn-main)
(defun walk (x &key (limit (limit))) (list x limit))
(in-package #:rn)
";

/// Writes the project to a folder in `folder`.
fn write(folder: &Path) -> PathBuf {
    let root = folder.join("project");
    fs::create_dir_all(&root).unwrap();
    let systems = "(defsystem \"rn\" :components ((:file \"main\")) :in-order-to ((test-op (test-op \"rn/test\"))))\n\
        (defsystem \"rn/test\" :depends-on (\"rn\") :components ((:file \"test\"))\n \
          :perform (test-op (o c) (uiop:symbol-call :rn-test :run)))\n";
    fs::write(root.join("rn.asd"), systems).unwrap();
    fs::write(root.join("main.lisp"), MAIN).unwrap();
    let test = "(defpackage :rn-test (:use :cl))\n(in-package :rn-test)\n\
        (defun run () (assert (= (rn:area 2 3) 6)) (assert (find-symbol \"SIZED\" :rn)) (print :passed))\n";
    fs::write(root.join("test.lisp"), test).unwrap();
    root.canonicalize().unwrap()
}

fn project(folder: &Path) -> Steelbank {
    let root = write(folder);
    let settings = ProjectSettings::in_folder(root).cache(folder.join("cache"));
    let bank = Steelbank::builder().project(settings).program(STEELBANK.into()).start().unwrap();
    assert!(
        bank.run(&LoadRequest::system("rn").failure_as_answer(), &Control::new(LONG))
            .unwrap()
            .failure
            .is_none()
    );
    bank
}

fn plan(bank: &Steelbank, request: &RenameRequest) -> Plan {
    let plan = bank.ask(request, &Control::default()).unwrap();
    assert!(plan.conflicts.is_empty(), "{plan:?}");
    plan
}

fn verify(bank: &Steelbank, request: &RenameRequest, plan: &Plan, tests: bool) -> Verified {
    bank.run(&RenameVerifyRequest::new(request, plan).tests(tests), &Control::new(LONG)).unwrap()
}

/// Runs a command in the project at `root`, and returns its output and exit code as one text.
fn steelbank(root: &Path, cache: &Path, arguments: &[&str]) -> String {
    let arguments = [&["--system", "rn", "--no-snapshot"], arguments].concat();
    shown(
        &Command::new(STEELBANK)
            .args(arguments)
            .current_dir(root)
            .env("STEELBANK_CACHE", cache)
            .output()
            .unwrap(),
    )
}

/// A replacement that adds a warning is refused, and one that keeps the diagnostics is written.
#[test]
fn replacements_are_verified() {
    let folder = Folder::new("replacements");
    let root = write(&folder.0);
    let run = |arguments: &[&str]| steelbank(&root, &folder.0.join("cache"), arguments);
    let main = || fs::read_to_string(root.join("main.lisp")).unwrap();
    let replace =
        |pattern: &str, with: &str| run(&["refactor", "replace", pattern, with, "--apply", "--tests"]);
    expect_text("replacement that warns", &replace("(* ?x ?x)", "(rn::square ?x)"));
    expect_text("replacement that fails a test", &replace("(* rn::w rn::h)", "(+ rn::w rn::h)"));
    assert_eq!(main(), MAIN);
    expect_text("replacement", &replace("(* ?x ?x)", "(expt ?x 2)"));
    assert!(main().contains("(expt (side shape) 2)") && main().contains("(expt side 2)"));
    expect_text("replacement undone", &run(&["refactor", "--undo", "last"]));
    assert_eq!(main(), MAIN);
}

#[test]
fn command_renames_verifies_and_undoes() {
    let folder = Folder::new("rename-command");
    let root = write(&folder.0);
    let run =
        |arguments: &[&str]| steelbank(&root, &folder.0.join("cache"), &[&["rename"], arguments].concat());
    let main = || fs::read_to_string(root.join("main.lisp")).unwrap();
    expect_text("plan", &run(&["rn:area", "surface"]));
    assert_eq!(main(), MAIN);
    expect_text("applied with tests", &run(&["rn:area", "surface", "--apply", "--tests"]));
    assert!(main().contains("(defun surface (w h)"));
    expect_text("undone", &run(&["--undo", "last"]));
    assert_eq!(main(), MAIN);
    // A macro builds names from this name, and another place uses such a name.
    expect_text("refused by verification", &run(&["rn::big", "large", "--apply"]));
    assert_eq!(main(), MAIN);
    let unverified = run(&["rn::big", "large", "--apply", "--no-verify", "--include", "derived"]);
    assert!(main().contains("(list (large-thing) 'large)"), "{unverified}");
}

#[test]
fn refusal_reports_system_and_diagnostic() {
    let folder = Folder::new("rename-cause");
    let systems = "(defsystem \"rn\" :components ((:file \"a\") (:file \"b\" :depends-on (\"a\"))))";
    fs::create_dir_all(folder.0.join("project")).unwrap();
    let root = folder.0.join("project").canonicalize().unwrap();
    let text = "(defpackage :rn (:use :cl))\n(in-package :rn)\n\
        (defmacro def-checked (name)\n  (unless (string= name \"ALPHA\") (warn \"~a is unknown.\" name))\n  \
        `(defun ,name () 1))\n(def-checked alpha)\n";
    fs::write(root.join("rn.asd"), systems).unwrap();
    fs::write(root.join("a.lisp"), text).unwrap();
    fs::write(root.join("b.lisp"), "(in-package :rn)\n(defun user () (alpha))\n").unwrap();
    let answer = steelbank(
        &root,
        &folder.0.join("cache"),
        &["rename", "rn::alpha", "gamma", "--scope", "symbol", "--apply"],
    );
    let expected = "Not equivalent; 2 differences:\n  \
        rn does not load after the edit: warning a.lisp:6: GAMMA is unknown.\n  \
        new: warning a.lisp:6: GAMMA is unknown.\n\n";
    assert!(answer.contains(expected), "{answer}");
    assert_eq!(fs::read_to_string(root.join("a.lisp")).unwrap(), text);
}

#[test]
fn rename_outlives_its_call() {
    let folder = Folder::new("rename-wait");
    let root = folder.0.join("project");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("slow.asd"), "(defsystem \"slow\" :components ((:file \"slow\")))").unwrap();
    let text = "(defun cl-user::slow () 1)\n(sleep 2)\n(defun cl-user::user () (cl-user::slow))\n";
    fs::write(root.join("slow.lisp"), text).unwrap();
    let now = || fs::read_to_string(root.join("slow.lisp")).unwrap();
    let mut command = on(&root, &folder.0.join("cache"));
    command.args(["--system", "slow", "--no-snapshot", "serve", "--allow-edits"]);
    let (child, mut client) = initialized(command, Streams::Pipes);
    client.structured("load-system", json!({ "system": "slow" }));
    // Whether the load of `--system` still runs depends on the machine.
    let refused = client.error("rename", json!({ "wait": "x", "apply": true }));
    expect_text("wait", refused.split(" A system is loading").next().unwrap());
    let plan = client.call("rename", json!({ "name": "slow", "new_name": "late" }));
    let takes = plan["structuredContent"]["verifying_takes_seconds"].as_u64().unwrap();
    assert!((2..60).contains(&takes), "{plan}");

    let order = json!({ "name": "slow", "new_name": "late", "apply": true, "answer_within_seconds": 0 });
    let running = |answer: &Value| {
        assert_eq!(answer["structuredContent"]["applied"], false, "{answer}");
        assert!(answer["structuredContent"]["next"].is_string(), "{answer}");
        answer["structuredContent"]["wait"].as_str().unwrap().to_owned()
    };
    let number = running(&client.call("rename", order.clone()));
    assert!(now() == text);
    // Meanwhile, queries are answered.
    assert!(client.text("who-calls", json!({ "name": "slow" })).contains("USER"));
    assert_eq!(
        running(&client.call("rename", json!({ "wait": number, "answer_within_seconds": 0 }))),
        number
    );
    let done = client.call("rename", json!({ "wait": number }));
    assert_eq!(done["structuredContent"]["applied"], true, "{done}");
    assert_eq!(done["structuredContent"]["verified"]["same"], true, "{done}");
    assert!(now().contains("(defun cl-user::late () 1)"));
    client.error("rename", json!({ "wait": number }));
    client.call("rename", json!({ "undo": "last" }));
    assert!(now() == text);

    // Cancelling the waiting call cancels the rename.
    let number = running(&client.call("rename", order.clone()));
    let id = client.begin("tools/call", json!({ "name": "rename", "arguments": { "wait": number } }));
    let params = json!({ "requestId": id });
    // Give the call time to begin: a call that is cancelled before it begins does not run.
    std::thread::sleep(Duration::from_secs(1));
    client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
    wait_while(|| {
        client.call("rename", json!({ "wait": number, "answer_within_seconds": 0 }))["isError"] != true
    });
    assert!(now() == text);
    // The end of the connection cancels the rename, too.
    running(&client.call("rename", order));
    ends_well(child, client);
    std::thread::sleep(Duration::from_secs(3));
    assert!(now() == text && fs::read_dir(&root).unwrap().count() == 2);
}

/// Manuals and scripts are listed, and edited on request. Vendored, ignored and binary files are
/// neither listed nor edited.
#[test]
fn other_text_is_listed_and_renamed_on_request() {
    let folder = Folder::new("rename-other-text");
    let root = write(&folder.0);
    let files = [
        ("README.md", "Call `rn:area`, or AREA. Not areas, area.lisp, other:area or :area.\n"),
        ("doc/manual.texi.in", "@@@ area\n@defun area w h\n"),
        ("run.sh", "#!/bin/sh\nsbcl --eval '(print (rn::area 1 2))' # caf\u{e9}\n"),
        ("ocicl/other-1.0/README.md", "area\n"),
        ("ocicl/other-1.0/other.asd", "(defsystem \"other\")\n"),
        ("ignored.txt", "area\n"),
        (".ignore", "ignored.txt\n"),
        ("image.bin", "area \0\u{1}\u{2} area\n"),
    ];
    for (path, text) in files {
        fs::create_dir_all(root.join(path).parent().unwrap()).unwrap();
        fs::write(root.join(path), text).unwrap();
    }
    let text = |path: &str| fs::read_to_string(root.join(path)).unwrap();
    let run = |arguments: &[&str]| steelbank(&root, &folder.0.join("cache"), arguments);
    expect_text("other text, planned", &run(&["rename", "rn:area", "surface"]));
    let arguments = ["rename", "rn:area", "surface", "--apply", "--include", "text"];
    expect_text("other text, renamed", &run(&arguments));
    assert_eq!(
        text("README.md"),
        "Call `rn:surface`, or SURFACE. Not areas, area.lisp, other:area or :area.\n"
    );
    assert_eq!(text("doc/manual.texi.in"), "@@@ surface\n@defun surface w h\n");
    assert_eq!(text("run.sh"), "#!/bin/sh\nsbcl --eval '(print (rn::surface 1 2))' # caf\u{e9}\n");
    expect_text("other text, undone", &run(&["rename", "--undo", "last"]));
    for (path, before) in files {
        assert_eq!(text(path), before, "{path}");
    }
    // References of a variable and the impact of a change list scripts, too.
    fs::write(root.join("run.sh"), "sbcl --eval '(setf rn::*depth* 2)'\n").unwrap();
    expect_text("other text, who-references", &run(&["who-references", "rn::*depth*"]));
    expect_text("other text, impact", &run(&["impact", "rn:area"]));
}

/// The test system is not loaded, and builds the name while it is compiled: verification must load
/// it.
#[test]
fn dependents_of_an_edited_system_are_verified() {
    let folder = Folder::new("rename-dependents");
    let root = write(&folder.0);
    let main = format!("{MAIN}(defun read-b () 2)\n");
    fs::write(root.join("main.lisp"), &main).unwrap();
    let test = "(defpackage :rn-test (:use :cl))\n(in-package :rn-test)\n(macrolet ((each (&rest letters)\n  \
        `(progn ,@(loop for l in letters collect `(,(find-symbol (format nil \"READ-~A\" l) :rn))))))\n  \
        (defun check () (each b)))\n";
    fs::write(root.join("test.lisp"), test).unwrap();
    let arguments = ["rename", "rn::read-b", "read-binary", "--apply", "--json"];
    let answer = steelbank(&root, &folder.0.join("cache"), &arguments);
    let json = answer.strip_suffix("exit 3\n").unwrap_or_else(|| panic!("{answer}"));
    let verified = &serde_json::from_str::<Value>(json).unwrap()["verified"];
    assert_eq!(verified["systems"], json!(["rn", "rn/test"]), "{verified}");
    assert_eq!(verified["same"], false, "{verified}");
    assert_eq!(fs::read_to_string(root.join("main.lisp")).unwrap(), main);
}

/// Loading cannot verify names that code builds at run time. The answer lists these names.
#[test]
fn names_built_at_run_time_are_reported() {
    let folder = Folder::new("rename-computed");
    let root = write(&folder.0);
    let kinds = "(defpackage :rn.kind.list (:use :cl) (:export #:list-kind))\n(in-package :rn.kind.list)\n\
        (defclass list-kind () ())\n(in-package :rn)\n(defun find-kind (name)\n  (make-instance (intern \
        (format nil \"~:@(~A~)-~A\" name '#:kind) (intern (format nil \"RN.KIND.~:@(~A~)\" name) :keyword))))\n";
    fs::write(root.join("main.lisp"), format!("{MAIN}{kinds}")).unwrap();
    let run =
        |arguments: &[&str]| steelbank(&root, &folder.0.join("cache"), &[&["rename"], arguments].concat());
    let kind = ["rn.kind.list:list-kind", "list-sort", "--apply"];
    expect_text("built at run time, without tests", &run(&kind));
    run(&["--undo", "last"]);
    // A test that runs the code shows the function that builds the old name. After a tail call, the
    // caller is shown.
    let test = fs::read_to_string(root.join("test.lisp")).unwrap();
    let look = "(defun look (name) (find-symbol (format nil \"SI~A\" name) :rn))\n(defun run () \
        (handler-case (rn::find-kind :list) (error () nil)) (assert (print (look \"ZED\")))";
    fs::write(root.join("test.lisp"), test.replace("(defun run ()", look)).unwrap();
    expect_text("built at run time, with tests", &run(&[&kind[..], &["--tests"]].concat()));
    expect_text("built in a tail call", &run(&["rn:sized", "measured", "--apply", "--tests"]));
    assert_eq!(fs::read_to_string(root.join("main.lisp")).unwrap(), format!("{MAIN}{kinds}"));
}

#[test]
fn renames_are_verified() {
    own_process!();
    let folder = Folder::new("rename-verify");
    let bank = project(&folder.0);
    for (name, new, scope) in [
        ("rn:area", "surface", Scope::Auto),
        ("rn::user", "client", Scope::Auto),
        ("rn:size", "extent", Scope::Auto),
        ("rn::unit", "measure", Scope::Symbol),
        ("rn::point", "dot", Scope::Auto),
        ("rn::point-x", "point-across", Scope::Auto),
        ("rn::*depth*", "*level*", Scope::Auto),
        // Renaming make-node adds a list, a structure option. A local variable has the symbol
        // `limit`, which its package inherits.
        ("rn::make-node", "create-node", Scope::Auto),
        ("rn-util:limit", "bound", Scope::Auto),
        ("rn::def-thing", "define-thing", Scope::Auto),
        ("rn::side", "edge", Scope::Auto),
        ("rn::shape", "form", Scope::Auto),
        ("rn::area-of", "measured", Scope::Auto),
        ("rn::unused", "left-over", Scope::Auto),
        ("rn::undefined-thing", "nobodys", Scope::Symbol),
    ] {
        let request = RenameRequest { scope, ..RenameRequest::new(name, new) };
        let Ok(plan) = bank.ask(&request, &Control::default()) else { panic!("{name}") };
        if !plan.conflicts.is_empty() {
            println!("seen: {name}: {:?}", plan.conflicts);
            continue;
        }
        let verified = verify(&bank, &request, &plan, false);
        println!("seen: {name}: {verified:?}");
        assert!(verified.same && verified.references > 10, "{name}: {verified:?}");
    }
    // Tests call the function, and find it by its name.
    let request = RenameRequest::new("rn:sized", "measured");
    let planned = plan(&bank, &request);
    let verified = verify(&bank, &request, &planned, true);
    assert!(verified.same && verified.tested == ["rn", "rn/test"], "{verified:?}");
    check_missing_edits(&bank);
    check_built_names(&bank);
}

/// Verification does not load a file if the file's last load was stopped. It reports a file that
/// loaded before but no longer ends.
#[test]
fn file_with_stopped_load_is_skipped() {
    own_process!();
    let folder = Folder::new("rename-stopped");
    let bank = project(&folder.0);
    let root = bank.root().unwrap().to_owned();
    // The load of slow.lisp never ends. The load of once.lisp ends, because `busy` does not exist.
    fs::write(root.join("slow.lisp"), "(defun rn::slow () (rn:area 1 2))\n(loop)\n").unwrap();
    fs::write(root.join("once.lisp"), "(when (probe-file \"busy\") (loop))\n").unwrap();
    let load = |name: &str, allowed| {
        bank.run(&LoadRequest::file(name).failure_as_answer(), &Control::new(allowed)).unwrap().status
    };
    assert_eq!(load("slow.lisp", Duration::from_secs(1)), LoadStatus::TimedOut);
    let request = RenameRequest::new("rn:area", "surface");
    let verified = verify(&bank, &request, &plan(&bank, &request), false);
    assert!(verified.same && verified.failed.is_empty(), "{verified:?}");
    if small_or_full(true, false) {
        return;
    }
    assert_eq!(load("once.lisp", LONG), LoadStatus::Loaded);
    let busy = format!("(when (probe-file \"{}\") (loop))\n", root.join("rn.asd").display());
    fs::write(root.join("once.lisp"), busy).unwrap();
    let allowed = Control::new(Duration::from_secs(60));
    let verified = bank.run(&RenameVerifyRequest::new(&request, &plan(&bank, &request)), &allowed).unwrap();
    assert!(matches!(verified.failed.as_slice(), [why] if why.starts_with("once.lisp: ")), "{verified:?}");
}

#[test]
fn broken_system_is_reported_as_not_verified() {
    let folder = Folder::new("rename-broken");
    let root = write(&folder.0);
    fs::write(root.join("main.lisp"), format!("{MAIN}(defun broken () (let ((1 2)) 3))\n")).unwrap();
    let arguments = ["rename", "rn::norm", "norm-of", "--apply"];
    expect_text("broken system", &steelbank(&root, &folder.0.join("cache"), &arguments));
}

#[test]
fn exports_used_by_other_files_are_verified() {
    own_process!();
    let folder = Folder::new("rename-others");
    let root = folder.0.join("project");
    fs::create_dir_all(&root).unwrap();
    for (name, text) in [
            (
                "rx.asd",
                "(defsystem \"rx\" :components ((:file \"main\") (:file \"again\")))
(defsystem \"rx/absent\" :depends-on (\"rx\" \"nowhere-at-all\") :components ((:file \"absent-package\") (:file \"absent\")))
(defsystem \"rx/test\" :depends-on (\"rx\" \"sb-rt\") :components ((:file \"test\")))
",
            ),
            (
                "main.lisp",
                "(defpackage :rx (:use :cl) (:export #:area #:width))
(in-package :rx)
(defun area (w h) (* w h))
(defun width (x) x)
",
            ),
            // This file depends on the exports at read time. ASDF does not know this dependency.
            (
                "again.lisp",
                "(defpackage :rx-again (:use :cl :rx)
  (:export . #.(let ((all '())) (do-external-symbols (symbol :rx all) (push symbol all)))))
",
            ),
            ("absent-package.lisp", "(defpackage :rx-absent (:use :cl :rx))\n"),
            ("absent.lisp", "(in-package :rx-absent)\n(defun user () (area 1 2))\n"),
            (
                "test.lisp",
                "(defpackage :rx-test (:use :cl :rx))
(in-package :rx-test)
(sb-rt:deftest area.1 (area 2 3) 6)
(sb-rt:deftest area.2 (area 2 3) 7)
(sb-rt:deftest width.1 (if (find-symbol (format nil \"~AA\" \"ARE\") :rx) 1 2) 1)
",
            ),
        ] {
            fs::write(root.join(name), text).unwrap();
        }
    let settings = ProjectSettings::in_folder(root.canonicalize().unwrap()).cache(folder.0.join("cache"));
    let bank = Steelbank::builder().project(settings).program(STEELBANK.into()).start().unwrap();
    for system in ["rx", "rx/test"] {
        assert!(
            bank.run(&LoadRequest::system(system).failure_as_answer(), &Control::new(LONG))
                .unwrap()
                .failure
                .is_none()
        );
    }
    let request = RenameRequest::new("rx:area", "surface");
    let planned = plan(&bank, &request);
    let verified = verify(&bank, &request, &planned, false);
    assert!(verified.same && verified.recompiled, "{verified:?}");
    // Remove the edits of a file that no image can load. The bare name in that file refers to the
    // exported symbol.
    let mut less = planned.clone();
    less.files.retain(|file| file.path != "absent.lisp");
    assert_eq!(less.files.len() + 1, planned.files.len(), "{planned:?}");
    let verified = verify(&bank, &request, &less, false);
    assert!(!verified.same, "{verified:?}");
    expect_text("missing edit", &verified.differences[0].message);
    // Tests of a framework are compared one by one. A test that fails before and after is not a
    // difference.
    let verified = verify(&bank, &request, &planned, true);
    let messages: Vec<&str> = verified.differences.iter().map(|found| found.message.as_str()).collect();
    assert!(verified.tested.contains(&"rx/test".to_owned()), "{verified:?}");
    expect_text("failing test", &messages.join("\n"));
    let request = RenameRequest::new("rx:width", "breadth");
    let verified = verify(&bank, &request, &plan(&bank, &request), true);
    assert!(verified.same, "{verified:?}");
}

/// Checks that verification finds the difference if any one edit of a plan is missing.
fn check_missing_edits(bank: &Steelbank) {
    for (name, new) in [("rn:area", "surface"), ("rn::point", "dot"), ("rn::side", "edge")] {
        let request = RenameRequest { scope: Scope::Symbol, ..RenameRequest::new(name, new) };
        let right = plan(bank, &request);
        for (file, of) in right.files.iter().enumerate() {
            for number in 0..of.edits.len() {
                let mut less = right.clone();
                let left = less.files[file].edits.remove(number);
                let verified = verify(bank, &request, &less, false);
                assert!(!verified.same, "{name}: {left:?} was left out");
                println!("seen: {left:?}: {}", verified.differences[0].message);
            }
        }
    }
}

/// Checks that tests find the difference in a program that builds names from parts.
fn check_built_names(bank: &Steelbank) {
    let root = bank.root().unwrap().to_owned();
    let test = fs::read_to_string(root.join("test.lisp")).unwrap();
    let parts =
        test.replace("(find-symbol \"SIZED\" :rn)", "(find-symbol (format nil \"~AED\" \"SIZ\") :rn)");
    fs::write(root.join("test.lisp"), parts).unwrap();
    let request = RenameRequest::new("rn:sized", "measured");
    let planned = plan(bank, &request);
    assert!(verify(bank, &request, &planned, false).same);
    let verified = verify(bank, &request, &planned, true);
    assert!(!verified.same, "{verified:?}");
    let kinds: Vec<DifferenceKind> = verified.differences.iter().map(|found| found.kind).collect();
    assert_eq!(kinds, [DifferenceKind::LookUp, DifferenceKind::Test, DifferenceKind::Test], "{verified:?}");
}

/// Renames a compile-time macro, which no fasl has, and a name that read-time code builds from
/// parts.
#[test]
fn compile_time_names_are_verified() {
    let folder = Folder::new("rename-compiled");
    let root = folder.0.join("project");
    fs::create_dir_all(&root).unwrap();
    fs::write(root.join("rn.asd"), "(defsystem \"rn\" :components ((:file \"main\")))\n").unwrap();
    let main = "(defpackage #:rn (:use #:cl))
(in-package #:rn)
(eval-when (:compile-toplevel)
(defmacro block-of (regs i) `(aref ,regs ,i)))
(defun user (regs) (setf (block-of regs 1) (block-of regs 0)))
(eval-when (:compile-toplevel :load-toplevel :execute)
  (defun put-name (kind) (intern (format nil \"PUT-~a\" kind) :rn)))
(defun put-byte (x) (list x))
(defun puts (x) #.`(progn (,(put-name :byte) x)))
";
    fs::write(root.join("main.lisp"), main).unwrap();
    let root = root.canonicalize().unwrap();
    let read = || fs::read_to_string(root.join("main.lisp")).unwrap();
    // Fasls that are compiled within the next second are older than the file.
    let soon = SystemTime::now() + Duration::from_secs(1);
    fs::File::options().write(true).open(root.join("main.lisp")).unwrap().set_modified(soon).unwrap();
    let rename = |name, new| steelbank(&root, &folder.0.join("cache"), &["rename", name, new, "--apply"]);
    expect_text("built at read time", &rename("rn::put-byte", "store-byte"));
    assert_eq!(read(), main);
    fs::remove_dir_all(folder.0.join("cache")).unwrap();
    expect_text("compile-time macro", &rename("rn::block-of", "part-of"));
    assert_eq!(read(), main.replace("block-of", "part-of"));
}

#[test]
fn missing_text_index_is_reported_once() {
    let folder = Folder::new("no-text-index");
    let root = write(&folder);
    let mut command = on(&root, &folder.join("cache"));
    command.args(["--no-auto-index", "--no-snapshot", "--system", "rn", "serve"]);
    let (child, mut client) = initialized(command, Streams::Pipes);
    client.text("load-system", json!({"system": "rn"}));
    for expected in [1, 0] {
        let call = json!({"name": "rename", "arguments": {"name": "rn:area", "new_name": "surface"}});
        let answer = client.request("tools/call", call)["result"].clone();
        let text = answer["content"].to_string();
        assert_eq!(text.matches("Build it with index-project.").count(), expected, "{text}");
        assert_eq!(answer["structuredContent"]["text_unsearched"], true);
        assert_eq!(answer["structuredContent"]["cautions"], Value::Null, "{answer}");
    }
    ends_well(child, client);
}
