//! The edit loop, after the first load: change files, load again, ask.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};

use steelbank::Control;
use steelbank::Steelbank;
use steelbank::actions::uses::code_find_references::CodeFindReferencesRequest;
use steelbank::answer::Caution;
use steelbank::loaded::{FailureKind, LoadAnswer, LoadStatus, Severity};

use crate::project::{delete, folder, load, project};
use steelbank::{EvaluateRequest, ListSystemsRequest, LoadRequest};

/// Writes a file, dated `seconds` from now: ASDF compares dates in seconds.
fn write(root: &Path, name: &str, text: &str, seconds: u64) {
    fs::write(root.join(name), text).unwrap();
    let date = SystemTime::now() + Duration::from_secs(seconds);
    fs::File::options().write(true).open(root.join(name)).unwrap().set_modified(date).unwrap();
}

fn loaded(answer: &LoadAnswer) -> Vec<String> {
    assert_eq!(answer.status, LoadStatus::Loaded, "{answer:?}");
    answer.cautions.iter().map(ToString::to_string).collect()
}

fn forced(bank: &Steelbank, system: &str) -> LoadAnswer {
    bank.run(&LoadRequest::system(system).force(), &Control::new(Duration::from_secs(100))).unwrap()
}

fn evaluate(bank: &Steelbank, source: &str) -> String {
    bank.run(&EvaluateRequest::new(source).values(), &Control::new(Duration::from_secs(60)))
        .unwrap()
        .values
        .join(" ")
}

#[test]
fn what_a_definition_lost_is_taken_out() {
    own_process!();
    let root = folder("shrinks");
    let define =
        |export: &str, uses: &str| format!("(defpackage :unl (:use :cl {uses}) (:export #:keep {export}))\n");
    write(
        &root,
        "unl.asd",
        "(defsystem \"unl\" :serial t :components ((:file \"package\") (:file \"a\") (:file \"b\")))",
        0,
    );
    write(&root, "package.lisp", &define("#:old-helper", ":sb-bsd-sockets"), 0);
    write(&root, "a.lisp", "(in-package :unl)\n(export 'run-time)\n(defun old-helper (x) x)\n", 0);
    write(&root, "b.lisp", "(in-package :unl)\n(defun keep (x) (old-helper x))\n", 0);
    let bank = project(&root, &root.join("cache"));
    assert_eq!(loaded(&load(&bank, "unl")), [""; 0]);
    let status = |name: &str| evaluate(&bank, &format!("(nth-value 1 (find-symbol {name:?} :unl))"));
    assert_eq!([status("OLD-HELPER"), status("RUN-TIME")], [":EXTERNAL"; 2]);

    // Expect no warning about symbols that code exported at run time: with force, and when the definition is
    // only touched.
    assert_eq!(loaded(&forced(&bank, "unl")), [""; 0]);
    assert_eq!(loaded(&forced(&bank, "unl")), [""; 0]);
    write(&root, "package.lisp", &define("#:old-helper", ":sb-bsd-sockets"), 10);
    assert_eq!(loaded(&load(&bank, "unl")), [""; 0]);
    assert_eq!([status("OLD-HELPER"), status("RUN-TIME")], [":EXTERNAL"; 2]);

    // The export is renamed, and a used package left out.
    write(&root, "package.lisp", &define("#:new-helper", ""), 20);
    write(&root, "a.lisp", "(in-package :unl)\n(export 'run-time)\n(defun new-helper (x) x)\n", 20);
    write(&root, "b.lisp", "(in-package :unl)\n(defun keep (x) (new-helper x))\n", 20);
    let cautions = loaded(&load(&bank, "unl"));
    assert_eq!(cautions.len(), 2, "{cautions:?}");
    assert!(cautions[0].starts_with("Package UNL does not export OLD-HELPER any more"), "{cautions:?}");
    assert!(cautions[1].contains("does not use SB-BSD-SOCKETS any more"), "{cautions:?}");
    let seen = [status("OLD-HELPER"), status("NEW-HELPER"), status("RUN-TIME"), status("KEEP")];
    assert_eq!(seen, [":INTERNAL", ":EXTERNAL", ":EXTERNAL", ":EXTERNAL"]);
    assert_eq!(
        evaluate(&bank, "(find :sb-bsd-sockets (package-use-list :unl) :key #'package-name :test #'string=)"),
        "NIL"
    );
    let found = bank.ask(&CodeFindReferencesRequest::new("unl:new-helper"), &Control::default()).unwrap();
    assert!(
        found.refs.iter().any(|found| found.place.file == "b.lisp" && found.place.line == Some(2)),
        "{found:?}"
    );
    assert_eq!(loaded(&load(&bank, "unl")), [""; 0]);
    delete(&root);
}

#[test]
fn constants_and_structures_take_their_new_definitions() {
    own_process!();
    let root = folder("redefines");
    write(&root, "con.asd", "(defsystem \"con\" :serial t :components ((:file \"con\") (:file \"use\")))", 0);
    let text = |constant: &str, slots: &str| {
        format!("(in-package :cl-user)\n(defconstant +limit+ {constant})\n(defstruct point {slots})\n")
    };
    write(&root, "con.lisp", &text("10", "x"), 0);
    write(
        &root,
        "use.lisp",
        "(in-package :cl-user)\n(defun limit-of () (list +limit+ (point-x (make-point :x 1))))\n",
        0,
    );
    write(&root, "fresh.asd", "(defsystem \"fresh\" :components ((:file \"fresh\")))", 0);
    write(&root, "fresh.lisp", "(in-package :cl-user)\n(defconstant +list+ (list 1 2))\n", 0);
    let bank = project(&root, &root.join("cache"));
    assert_eq!(loaded(&load(&bank, "con")), [""; 0]);
    write(&root, "con.lisp", &text("20", "y x"), 10);
    let cautions = loaded(&load(&bank, "con"));
    assert_eq!(cautions.len(), 2, "{cautions:?}");
    assert!(cautions[0].contains("constant COMMON-LISP-USER::+LIMIT+ has another value"), "{cautions:?}");
    assert!(cautions[1].contains("structure COMMON-LISP-USER::POINT has other slots"), "{cautions:?}");
    assert_eq!(evaluate(&bank, "(cl-user::limit-of)"), "(20 1)");
    // Report what plain SBCL refuses at the first load.
    let answer = load(&bank, "fresh");
    assert_eq!(answer.status, LoadStatus::Failed, "{answer:?}");
    delete(&root);
}

#[test]
fn loads_are_joined_and_the_note_ends_with_them() {
    own_process!();
    let root = folder("joins");
    write(
        &root,
        "slow.asd",
        "(defsystem \"slow\" :serial t :components ((:file \"a\") (:file \"b\")))\n(defsystem \"slow/tests\" :components ((:file \"t\")))\n(defsystem \"slow/needs\" :depends-on (\"no-such\"))",
        0,
    );
    write(&root, "names.asd", "(defsystem \"other\")", 0);
    write(
        &root,
        "a.lisp",
        "(defpackage :slow (:use :cl))\n(in-package :slow)\n(eval-when (:compile-toplevel) (sleep 1))\n(defun f () 1)\n",
        0,
    );
    write(&root, "b.lisp", "(in-package :slow)\n(defun g () (f))\n(defun h (unused) 1)\n", 0);
    write(&root, "t.lisp", "(in-package :slow)\n(defun tests () (g))\n", 0);
    let bank = project(&root, &root.join("cache"));
    let begun = Arc::new(AtomicUsize::new(0));
    let control = Control::new(Duration::from_secs(100));
    // Begin at once: who joins later hears of what is left.
    let start = Arc::new(Barrier::new(3));
    let loads: Vec<_> = (0..3)
        .map(|_| {
            let (bank, begun, control) = (bank.clone(), Arc::clone(&begun), control.clone());
            let start = Arc::clone(&start);
            std::thread::spawn(move || {
                start.wait();
                let control = control.on_progress(move |_| {
                    begun.fetch_add(1, Ordering::SeqCst);
                });
                bank.run(&LoadRequest::system("slow"), &control).unwrap()
            })
        })
        .collect();
    while !bank
        .ask(&ListSystemsRequest::new(), &control)
        .unwrap()
        .systems
        .iter()
        .any(|system| system.name == "slow" && system.loaded)
    {
        std::thread::sleep(Duration::from_millis(1));
    }
    let found = bank.ask(&CodeFindReferencesRequest::new("slow::f"), &Control::default()).unwrap();
    assert_eq!(found.refs.len(), 1, "what is listed as loaded can be found");
    for load in loads {
        let answer = load.join().unwrap();
        assert_eq!(
            (answer.status, answer.compiled.len(), answer.cached.len()),
            (LoadStatus::Loaded, 2, 0),
            "{answer:?}"
        );
        assert_eq!(answer.diagnostics.len(), 1, "{answer:?}");
        assert!(!bank.is_loading());
    }
    assert_eq!(
        begun.load(Ordering::SeqCst),
        12,
        "each hears of each of the four steps, and nothing is done twice"
    );

    // Repeat a file's diagnostics when the file is not compiled again.
    let again = load(&bank, "slow");
    let kept: Vec<_> = again
        .diagnostics
        .iter()
        .map(|said| (said.kept, said.severity, said.place.as_ref().unwrap().line))
        .collect();
    assert_eq!(kept, [(true, Severity::StyleWarning, Some(3))], "{again:?}");

    // Keep a change during a load for the callers that join it.
    write(
        &root,
        "a.lisp",
        "(defpackage :slow (:use :cl))\n(in-package :slow)\n(eval-when (:compile-toplevel) (sleep 1))\n(defun f () 2)\n",
        10,
    );
    let (first, seen) = std::sync::mpsc::channel();
    let leading = {
        let (bank, control) = (bank.clone(), control.clone());
        let control = control.on_progress(move |_| first.send(()).unwrap_or(()));
        std::thread::spawn(move || bank.run(&LoadRequest::system("slow"), &control))
    };
    seen.recv().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(bank.is_loading());
    write(&root, "a.lisp", "(defpackage :slow (:use :cl))\n(in-package :slow)\n(defun f () 3)\n", 20);
    assert_eq!(load(&bank, "slow").status, LoadStatus::Loaded);
    assert_eq!(leading.join().unwrap().unwrap().status, LoadStatus::Loaded);
    assert_eq!(evaluate(&bank, "(slow::g)"), "3");

    // All systems at once, and one in a file of another name.
    let all = bank.run(&LoadRequest::project(), &control).unwrap();
    let ended: Vec<_> = all.systems.iter().map(|system| (system.system.as_str(), system.status)).collect();
    use LoadStatus::{Failed, Loaded};
    assert_eq!(ended, [("other", Loaded), ("slow", Loaded), ("slow/needs", Failed), ("slow/tests", Loaded)]);
    assert_eq!(all.status, LoadStatus::Failed);
    assert!(all.systems[2].failure.as_ref().unwrap().message.contains("no-such"));
    assert!(all.failure.is_none());
    let unknown = load(&bank, "slov").failure.unwrap();
    assert!(unknown.remedies[0].starts_with("Did you mean slow"), "{unknown:?}");
    delete(&root);
}

#[test]
fn a_load_that_stops_half_way_tells_undefined_functions() {
    own_process!();
    let root = folder("half-way");
    fs::create_dir_all(root.join("src")).unwrap();
    write(
        &root,
        "half.asd",
        "(defsystem \"half\" :pathname \"src\" :serial t :components ((:file \"a\") (:file \"b\")))",
        0,
    );
    write(&root, "src/a.lisp", "(in-package :cl-user)\n(defun caller ()\n  (no-such-function 1))\n", 0);
    write(&root, "src/b.lisp", "(in-package :cl-user)\n(car 3)\n", 0);
    let bank = project(&root, &root.join("cache"));
    let answer = load(&bank, "half");
    assert_eq!(answer.status, LoadStatus::Failed);
    let undefined = answer.diagnostics.iter().find(|said| said.message.contains("NO-SUCH-FUNCTION")).unwrap();
    assert_eq!(
        (undefined.severity, undefined.place.as_ref().unwrap().line),
        (Severity::StyleWarning, Some(3)),
        "{answer:?}"
    );
    // Resolve paths in the project, whatever the current folder.
    let answer = bank.run(&LoadRequest::file("src/a.lisp"), &Control::default()).unwrap();
    assert_eq!(answer.status, LoadStatus::Loaded, "{answer:?}");
    let failure = bank.run(&LoadRequest::file("a.lisp"), &Control::default()).unwrap().failure.unwrap();
    assert_eq!(failure.kind, FailureKind::File);
    assert_eq!(failure.remedies[0], "Did you mean src/a.lisp?", "{failure:?}");
    assert!(failure.remedies[1].contains("relative to the project"), "{failure:?}");
    // Answer a load although the index cannot be refreshed.
    let broken =
        "(sb-int:encapsulate 'steelbank::xref-export 'broken (lambda (&rest all) (error \"broken ~a\" all)))";
    assert!(
        bank.run(&EvaluateRequest::new(broken).values(), &Control::new(Duration::from_secs(60))).is_err(),
        "the index cannot follow"
    );
    let answer = bank.run(&LoadRequest::file("src/a.lisp"), &Control::default()).unwrap();
    assert_eq!((answer.status, answer.compiled.len()), (LoadStatus::Loaded, 1), "{answer:?}");
    assert!(
        answer.cautions.iter().any(|caution| matches!(caution, Caution::IndexBehindLoad(_))),
        "{answer:?}"
    );
    delete(&root);
}
