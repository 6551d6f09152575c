//! Tests the edit loop after the first load: change files, load again, query.

use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, SystemTime};

use crate::asks::Asks;
use crate::texts::{expect_text, write_project};
use steelbank::actions::uses::code_find_references::CodeFindReferencesRequest;
use steelbank::answer::Caution;
use steelbank::loaded::{FailureKind, LoadStatus, Severity};
use steelbank::{Control, EvaluateRequest, ListSystemsRequest, LoadRequest};

use crate::project::{folder, load, project};

/// Writes a file, and sets its modification time to `seconds` from now, because ASDF compares
/// these times in seconds.
fn write(root: &Path, name: &str, text: &str, seconds: u64) {
    fs::write(root.join(name), text).unwrap();
    let date = SystemTime::now() + Duration::from_secs(seconds);
    fs::File::options().write(true).open(root.join(name)).unwrap().set_modified(date).unwrap();
}

#[test]
fn concurrent_loads_are_joined() {
    own_process!();
    let root = folder("joins");
    write_project(&root, include_str!("../projects/joins.txt"));
    let bank = project(&root, &root.join("cache"));
    let begun = Arc::new(AtomicUsize::new(0));
    let control = Control::new(Duration::from_secs(100));
    // All begin at once: a load that joins later gets only the remaining steps.
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
                bank.run(&LoadRequest::system("slow").failure_as_answer(), &control).unwrap()
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
    let found = bank.answer(&CodeFindReferencesRequest::new("slow::f"));
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
    assert_eq!(begun.load(Ordering::SeqCst), 12, "each load reports the four steps once");

    // A file's diagnostics are repeated although the file is not compiled again.
    let again = load(&bank, "slow");
    let kept: Vec<_> = again
        .diagnostics
        .iter()
        .map(|said| (said.kept, said.severity, said.place.as_ref().unwrap().line))
        .collect();
    assert_eq!(kept, [(true, Severity::StyleWarning, Some(3))], "{again:?}");

    // A caller that joins a load gets the changes made during that load.
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
        std::thread::spawn(move || bank.run(&LoadRequest::system("slow").failure_as_answer(), &control))
    };
    seen.recv().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    assert!(bank.is_loading());
    write(&root, "a.lisp", "(defpackage :slow (:use :cl))\n(in-package :slow)\n(defun f () 3)\n", 20);
    assert_eq!(load(&bank, "slow").status, LoadStatus::Loaded);
    assert_eq!(leading.join().unwrap().unwrap().status, LoadStatus::Loaded);
    assert_eq!(bank.value("(slow::g)"), "3");

    // Load all systems. One of them is defined in a file with another name.
    let all = bank.run(&LoadRequest::project().failure_as_answer(), &control).unwrap();
    let ended: Vec<_> = all.systems.iter().map(|system| (system.system.as_str(), system.status)).collect();
    use LoadStatus::{Failed, Loaded};
    assert_eq!(ended, [("other", Loaded), ("slow", Loaded), ("slow/needs", Failed), ("slow/tests", Loaded)]);
    assert_eq!(all.status, LoadStatus::Failed);
    expect_text("missing dependency", &all.systems[2].failure.as_ref().unwrap().message);
    assert!(all.failure.is_none());
    expect_text("unknown system", &load(&bank, "slov").failure.unwrap().remedies[0]);
}

#[test]
fn failed_load_reports_undefined_functions() {
    own_process!();
    let root = folder("half-way");
    fs::create_dir_all(root.join("src")).unwrap();
    write_project(&root, include_str!("../projects/half_way.txt"));
    let bank = project(&root, &root.join("cache"));
    let answer = load(&bank, "half");
    assert_eq!(answer.status, LoadStatus::Failed);
    let undefined = answer.diagnostics.iter().find(|found| found.severity == Severity::StyleWarning).unwrap();
    assert_eq!(undefined.place.as_ref().unwrap().line, Some(3), "{answer:?}");
    expect_text("undefined function", &undefined.message);
    // Paths are relative to the project.
    let answer = bank.done(&LoadRequest::file("src/a.lisp").failure_as_answer());
    assert_eq!(answer.status, LoadStatus::Loaded, "{answer:?}");
    let failure = bank.done(&LoadRequest::file("a.lisp").failure_as_answer()).failure.unwrap();
    assert_eq!(failure.kind, FailureKind::File);
    expect_text("misplaced file", &failure.remedies.join("\n"));
    // A load is answered although the index cannot be refreshed.
    let broken =
        "(sb-int:encapsulate 'steelbank::xref-export 'broken (lambda (&rest all) (error \"broken ~a\" all)))";
    assert!(
        bank.run(&EvaluateRequest::new(broken).values(), &Control::new(Duration::from_secs(60))).is_err(),
        "the index cannot follow"
    );
    let answer = bank.done(&LoadRequest::file("src/a.lisp").failure_as_answer());
    assert_eq!((answer.status, answer.compiled.len()), (LoadStatus::Loaded, 1), "{answer:?}");
    assert!(
        answer.cautions.iter().any(|caution| matches!(caution, Caution::IndexStaleAfterLoad(_))),
        "{answer:?}"
    );
}

#[test]
fn concurrent_project_loads_are_joined() {
    own_process!();
    let root = folder("project-joins");
    fs::write(root.join("first.asd"), "(defsystem \"first\" :components ((:file \"one\")))").unwrap();
    fs::write(root.join("second.asd"), "(defsystem \"second\" :components ((:file \"two\")))").unwrap();
    fs::write(root.join("one.lisp"), "(defun one () (undefined-one))").unwrap();
    fs::write(root.join("two.lisp"), "(eval-when (:compile-toplevel) (sleep 2))").unwrap();
    let bank = project(&root, &root.join("cache"));
    let (reached, second) = std::sync::mpsc::channel();
    let control = Control::new(Duration::from_secs(100)).on_progress(move |progress| {
        if progress.path.is_some_and(|path| path.ends_with("two.lisp")) {
            let _ = reached.send(());
        }
    });
    let leader = bank.clone();
    let leader = std::thread::spawn(move || {
        leader.run(&LoadRequest::project().failure_as_answer(), &control).unwrap()
    });
    second.recv().unwrap();
    let joined = bank
        .run(&LoadRequest::project().failure_as_answer(), &Control::new(Duration::from_secs(100)))
        .unwrap();
    for answer in [joined, leader.join().unwrap()] {
        assert_eq!((answer.compiled.len(), answer.diagnostics.len()), (2, 1), "{answer:?}");
        assert_eq!(answer.systems.len(), 2, "{answer:?}");
    }
}
