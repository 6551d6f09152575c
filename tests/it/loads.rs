//! Tests loads with damaged caches, with slow or failing init files, and of code that does not end.
//!
//! Each test runs in its own process, as a process has one project.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::asks::Asks;
use crate::texts::{expect_text, write_project};
use steelbank::actions::run::list_systems::SystemEntry;
use steelbank::actions::uses::code_find_references::CodeFindReferencesRequest;
use steelbank::actions::uses::who::WhoRequest;
use steelbank::answer::location::columns;
use steelbank::loaded::{FailureKind, LoadAnswer, LoadFailure, LoadStatus, Severity};
use steelbank::{
    Control, DescribeSymbolRequest, Error, Kind, ListSystemsRequest, LoadRequest, ProjectSettings, Steelbank,
};

use crate::child::wait_while;
use crate::project::{folder, load, project};

fn write(path: PathBuf, text: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, text).unwrap();
}

/// Writes a system `name` of the files `files`, each with its text.
fn define(root: &Path, name: &str, files: &[(&str, &str)]) {
    let components: String = files.iter().map(|(file, _)| format!("(:file {file:?})")).collect();
    write(
        root.join(format!("{name}.asd")),
        &format!("(defsystem {name:?} :serial t :components ({components}))"),
    );
    for (file, text) in files {
        write(root.join(format!("{file}.lisp")), text);
    }
}

fn within(bank: &Steelbank, system: &str, seconds: u64) -> LoadAnswer {
    bank.run(&LoadRequest::system(system).failure_as_answer(), &Control::new(Duration::from_secs(seconds)))
        .unwrap()
}

fn failed(bank: &Steelbank, system: &str) -> (LoadAnswer, LoadFailure) {
    let answer = load(bank, system);
    assert_eq!(answer.status, LoadStatus::Failed, "{answer:?}");
    let failure = answer.failure.clone().unwrap();
    assert!(!failure.remedies.is_empty(), "{failure:?}");
    (answer, failure)
}

#[track_caller]
fn expect_failure(name: &str, failure: &LoadFailure) {
    let text = format!("{}\n{}", failure.message, failure.remedies.join("\n"));
    expect_text(name, &regex::Regex::new("[0-9]+ MiB").unwrap().replace_all(&text, "… MiB"));
}

/// Returns severities and lines of the diagnostics of `file`.
fn lines(answer: &LoadAnswer, file: &str) -> Vec<(Severity, Option<u32>)> {
    let of = answer
        .diagnostics
        .iter()
        .filter(|said| said.place.as_ref().is_some_and(|place| place.file.ends_with(file)));
    of.map(|said| (said.severity, said.place.as_ref().unwrap().line)).collect()
}

/// Lists the files below `folder` with names that end in `end`.
fn below(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => found.extend(below(&entry.path(), end)),
            false if entry.path().to_string_lossy().ends_with(end) => found.push(entry.path()),
            false => {}
        }
    }
    found
}

#[test]
fn index_survives_concurrent_redefinitions() {
    own_process!();
    let root = folder("redefining");
    define(&root, "busy", &[("a", "(defclass k () ()) (defgeneric g (x)) (defun plain () 1)")]);
    let bank = project(&root, &root.join("cache"));
    assert_eq!(load(&bank, "busy").status, LoadStatus::Loaded);
    bank.value(
        "(progn
           (defvar *stop* nil)
           (sb-thread:make-thread
             (lambda ()
               (handler-bind ((warning #'muffle-warning))
                 (loop until *stop*
                       do (eval '(defmethod g ((x k)) 1))
                          (eval '(defclass k () ((slot :accessor slot-of))))))))
           t)",
    );
    for _ in 0..50 {
        let answer = bank.done(&LoadRequest::file("a.lisp").failure_as_answer());
        assert_eq!(answer.status, LoadStatus::Loaded, "{answer:?}");
        assert!(answer.cautions.is_empty(), "{:?}", answer.cautions);
    }
    bank.value("(progn (setf *stop* t) (sleep 1))");
    // The next query adds definitions that the index lacked.
    let asked = WhoRequest::new(Kind::Specializes, "k").package("CL-USER");
    let listed = bank.answer(&asked).users;
    let method = "(METHOD COMMON-LISP-USER::G (COMMON-LISP-USER::K))";
    assert!(listed.iter().any(|user| user.name.canonical() == method), "{listed:?}");
}

#[test]
fn damaged_cache_is_rebuilt() {
    own_process!();
    let root = folder("damaged");
    write_project(&root, include_str!("../projects/damaged.txt"));
    let bank = project(&root, &root.join("cache"));
    assert_eq!(load(&bank, "old").compiled.len(), 2);
    let fasl = below(&root.join("cache/fasls"), "one.fasl").remove(0);
    let whole = fs::read(&fasl).unwrap();
    let mut other = whole.clone();
    // The header contains the version twice. The loader reads the second occurrence.
    let sbcl = format!("\0{}", bank.value("(lisp-implementation-version)").trim_matches('"'));
    let version = whole[..300].windows(sbcl.len()).rposition(|bytes| bytes == sbcl.as_bytes()).unwrap();
    other[version + 1] = b'1';
    let damaged: [&[u8]; 5] = [&whole[..whole.len() / 2], &whole[..20], b"", b"garbage\n", &other];
    for bytes in damaged {
        fs::write(&fasl, bytes).unwrap();
        bank.value("(asdf:clear-system \"old\")");
        let answer = load(&bank, "old");
        assert_eq!(answer.status, LoadStatus::Loaded, "{bytes:?}: {answer:?}");
        assert!(answer.compiled.iter().any(|path| path.ends_with("one.lisp")), "{answer:?}");
        assert!(fs::read(&fasl).unwrap().len() > whole.len() / 2);
    }
    // Flip one bit at each of several places: without a check, the damaged code would be loaded and
    // run.
    for part in 1..20 {
        let mut flipped = fs::read(&fasl).unwrap();
        let at = flipped.len() * part / 20;
        flipped[at] ^= 1 << (part % 8);
        fs::write(&fasl, &flipped).unwrap();
        bank.value("(asdf:clear-system \"old\")");
        let answer = load(&bank, "old");
        assert_eq!(answer.status, LoadStatus::Loaded, "{at}: {answer:?}");
        assert!(answer.compiled.iter().any(|path| path.ends_with("one.lisp")), "{at}: {answer:?}");
        assert_ne!(fs::read(&fasl).unwrap(), flipped);
    }
    // Replace the fasl with a folder, then damage the fasl's record.
    fs::remove_file(&fasl).unwrap();
    fs::create_dir_all(fasl.join("deep")).unwrap();
    bank.value("(asdf:clear-system \"old\")");
    assert_eq!(load(&bank, "old").status, LoadStatus::Loaded);
    assert!(fasl.is_file());
    let record = fasl.with_file_name("one.fasl.record");
    for bytes in [&b""[..], b"steelbank fasl record 2\n0000000000000000\n#.(break)"] {
        fs::write(&record, bytes).unwrap();
        bank.value("(asdf:clear-system \"old\")");
        assert_eq!(load(&bank, "old").status, LoadStatus::Loaded);
        assert_ne!(fs::read(&record).unwrap(), bytes);
    }
    // Load twice: the fasl of a dependent file is now older than that of its dependency.
    for _ in 0..2 {
        bank.value("(asdf:clear-system \"old\")");
        load(&bank, "old");
    }
    // The file changes *features*, which no fasl records.
    let features = "(eval-when (:compile-toplevel :load-toplevel :execute) (setf *features* nil))";
    define(&root, "bare", &[("bare-file", features), ("bare-after", "(list 1)")]);
    bank.value("(defvar cl-user::*kept-features* *features*)");
    for compiled in [2, 0] {
        let answer = load(&bank, "bare");
        assert_eq!((answer.status, answer.compiled.len()), (LoadStatus::Loaded, compiled), "{answer:?}");
        bank.value("(setf *features* cl-user::*kept-features*) (asdf:clear-system \"bare\")");
    }
    bank.value("(asdf:clear-system \"old\")");
    assert_eq!(load(&bank, "old").compiled.len(), 0);
    // Delete the sidecars.
    for tap in below(&root.join("cache/taps"), ".tap") {
        fs::remove_file(tap).unwrap();
    }
    bank.value("(asdf:clear-system \"old\")");
    assert_eq!(load(&bank, "old").compiled.len(), 2);
    let taps = below(&root.join("cache/taps"), ".tap").len();
    assert!(taps >= 2, "{taps}");
    // Make the cache unwritable.
    fs::remove_dir_all(fasl.parent().unwrap()).unwrap();
    fs::write(fasl.parent().unwrap(), "").unwrap();
    let (_, failure) = {
        write(root.join("one.lisp"), "(list 1 2)");
        bank.value("(asdf:clear-system \"old\")");
        failed(&bank, "old")
    };
    assert_eq!(failure.kind, FailureKind::Cache, "{failure:?}");
    expect_failure("unwritable cache", &failure);
}

#[test]
fn every_cause_of_failed_loads_is_reported() {
    own_process!();
    let root = folder("ends");
    let texts = [
        ("breaks", "(break \"here\")"),
        ("debugs", "(invoke-debugger (make-condition 'simple-condition :format-control \"by hand\"))"),
        ("aborts", "(abort)"),
        ("aborts-thread", "(sb-thread:abort-thread)"),
        ("exits", "(sb-ext:exit :code 3)"),
        ("reads", "(read-line)"),
        ("deep", "(defun deep (x) (+ 1 (deep x)))\n(deep 1)"),
        ("fills", "(let ((all '())) (loop (push (make-array 1000000) all)))"),
        ("aborted", "(eval-when (:compile-toplevel) (abort))"),
        ("broken", "(eval-when (:compile-toplevel) (break \"compiling\"))"),
    ];
    for (name, text) in texts {
        define(&root, name, &[(&format!("{name}-file"), &format!("(in-package :cl-user)\n{text}\n"))]);
    }
    define(
        &root,
        "signals",
        &[("signals-file", "(signal 'error)\n(signal 'sb-sys:interactive-interrupt)\n")],
    );
    for (name, text) in [
        ("collects", "(eval-when (:compile-toplevel) (sb-ext:gc))"),
        ("collects-in-macro", "(defun f () (macrolet ((m () (sb-ext:gc) 1)) (m)))"),
        ("collects-loading", "(sb-ext:gc)"),
    ] {
        define(&root, name, &[(&format!("{name}-file"), text)]);
    }
    define(
        &root,
        "keeps",
        &[("keeps-file", "(defvar cl-user::*kept* '())\n(loop (push (make-array 1000000) cl-user::*kept*))")],
    );
    let bank = project(&root, &root.join("cache"));
    assert_eq!(load(&bank, "signals").status, LoadStatus::Loaded);
    for (name, _) in texts {
        let (answer, failure) = failed(&bank, name);
        expect_failure(name, &failure);
        let file = format!("{name}-file.lisp");
        assert!(failure.path.as_ref().is_some_and(|path| path.ends_with(&file)), "{name}: {failure:?}");
        if ["breaks", "debugs", "exits", "reads", "broken"].contains(&name) {
            assert_eq!(lines(&answer, &file).last(), Some(&(Severity::Error, Some(2))), "{name}: {answer:?}");
        }
        assert_eq!(load(&bank, "signals").status, LoadStatus::Loaded, "after {name}");
    }
    expect_failure("keeps", &failed(&bank, "keeps").1);
    assert!(bank.answer(&DescribeSymbolRequest::new("car").package("CL")).description.is_some());
    // Later loads may collect garbage in the nearly full heap. They fail only if they fill the rest
    // of the heap.
    for name in ["collects", "collects-in-macro", "collects-loading"] {
        assert_eq!(load(&bank, name).status, LoadStatus::Loaded, "{name}");
    }
    let (_, failure) = failed(&bank, "fills");
    assert_eq!(failure.kind, FailureKind::Heap, "{failure:?}");
    expect_failure("fills the rest", &failure);
    bank.value("(setf cl-user::*kept* nil)");
    assert_eq!(load(&bank, "signals").status, LoadStatus::Loaded);
}

#[test]
fn load_ends_at_its_deadline() {
    own_process!();
    let root = folder("time");
    write_project(&root, include_str!("../projects/keeps_time.txt"));
    let bank = project(&root, &root.join("cache"));
    load(&bank, "quick");
    for (system, file) in [
        ("loops", "loops-file.lisp"),
        ("loops-compiling", "compiling-file.lisp"),
        ("sleeps", "sleeps-file.lisp"),
        ("unwinds", "unwinds-file.lisp"),
        ("defines", "defines.asd"),
    ] {
        let start = Instant::now();
        let answer = within(&bank, system, 2);
        let seconds = start.elapsed().as_secs_f64();
        assert_eq!(answer.status, LoadStatus::TimedOut, "{answer:?}");
        let failure = answer.failure.unwrap();
        assert!(failure.path.as_ref().is_some_and(|path| path.ends_with(file)), "{failure:?}");
        assert!((1.9..6.0).contains(&seconds), "{system}: {seconds}");
        assert_eq!(load(&bank, "quick").status, LoadStatus::Loaded);
    }
    // An unfinished system definition does not prevent the next load.
    write(root.join("defines.asd"), "(defsystem \"defines\")");
    assert_eq!(load(&bank, "defines").status, LoadStatus::Loaded);
    let long = {
        let bank = bank.clone();
        std::thread::spawn(move || within(&bank, "sleeps", 4))
    };
    wait_while(|| !bank.is_loading());
    std::thread::sleep(Duration::from_millis(500));
    let answer = within(&bank, "quick", 1);
    assert_eq!(answer.status, LoadStatus::TimedOut);
    expect_failure("waits for another load", &answer.failure.unwrap());
    assert_eq!(long.join().unwrap().status, LoadStatus::TimedOut);
}

#[test]
fn init_file_configures_asdf_or_is_reported() {
    own_process!();
    let root = folder("init");
    let away = folder("init-away");
    define(&root, "here", &[("here-file", "(list 1)")]);
    define(&away, "there", &[("there-file", "(list 1)")]);
    let init = root.join("init.lisp");
    let settings = ProjectSettings::in_folder(&root).cache(root.join("cache")).userinit(&init);
    let bank = Steelbank::builder().project(settings).start().unwrap();
    for (name, text, seconds) in [
        ("init sleeps", "(list 1)\n(sleep 30)", 1),
        ("init fails", "(list 1)\n\n(car 3)\n", 60),
        ("init is open", "(list 1)\n(list 2", 60),
        ("init is unreadable", "(no-such-package:name)", 60),
        ("init breaks", "(break \"in the init file\")", 60),
        ("init exits", "(exit)", 60),
    ] {
        fs::write(&init, text).unwrap();
        let outcome = bank.run(
            &LoadRequest::system("here").failure_as_answer(),
            &Control::new(Duration::from_secs(seconds)),
        );
        expect_text(name, &outcome.unwrap_err().to_string());
    }
    // An init file may configure translations and a registry.
    let text = format!(
        "(asdf:initialize-output-translations '(:output-translations :disable-cache :ignore-inherited-configuration))
         (asdf:initialize-source-registry '(:source-registry (:tree {away:?}) :inherit-configuration))"
    );
    fs::write(&init, text).unwrap();
    for system in ["here", "there"] {
        assert_eq!(load(&bank, system).status, LoadStatus::Loaded);
    }
    assert_eq!(below(&away, ".fasl"), [""; 0].map(PathBuf::from));
    assert!(below(&root, ".fasl").iter().all(|fasl| fasl.starts_with(root.join("cache"))));
    // Systems that are added later are found without a restart, also as dependencies.
    define(&root, "later", &[("later-file", "(list 1)")]);
    write(root.join("needs.asd"), "(defsystem \"needs\" :depends-on (\"latest\"))");
    assert_eq!(load(&bank, "later").status, LoadStatus::Loaded);
    failed(&bank, "needs");
    define(&root, "latest", &[("latest-file", "(list 1)")]);
    let listed = bank.answer(&ListSystemsRequest::new());
    assert!(listed.systems.iter().any(|system| system.name == "latest"));
    assert_eq!(load(&bank, "needs").status, LoadStatus::Loaded);
    assert_eq!(load(&bank, "there").status, LoadStatus::Loaded);
}

#[test]
fn malformed_source_registry_is_reported() {
    own_process!([("CL_SOURCE_REGISTRY", "relative/path")]);
    let root = folder("registry");
    let bank = project(&root, &root.join("cache"));
    let error = bank.run(&LoadRequest::system("any").failure_as_answer(), &Control::default()).unwrap_err();
    expect_text("malformed source registry", &error.to_string());
}

/// A program that uses `?` must not continue with an image that lacks the project.
#[test]
fn library_loads_fail_as_errors() {
    own_process!();
    let root = folder("library");
    let missing = ProjectSettings::in_folder(root.join("missing"));
    assert!(!missing.cache.starts_with(&root));
    let error = Steelbank::builder().project(missing).start().unwrap_err();
    assert!(format!("{error:?}").ends_with("/missing not found"), "{error:?}");
    let bank = project(&root, &root.join("cache"));
    let run = |request: LoadRequest| bank.run(&request, &Control::default()).unwrap_err();
    assert!(matches!(run(LoadRequest::system("none")), Error::Load(answer) if answer.failure.is_some()));
    assert!(run(LoadRequest::project()).to_string().contains("No .asd file"));
    define(&root, "bad", &[("bad", "(defun bad (x) (list x))\n(error \"no\")")]);
    let error = run(LoadRequest::system("bad"));
    assert!(error.to_string().starts_with("System bad is not loaded"), "{error}");
    assert_eq!(format!("{error:?}"), error.to_string());
    define(&root, "good", &[("good", "(defun good (x)\n  (list (bad x)\n        (bad 1)))")]);
    bank.run(&LoadRequest::system("good"), &Control::default()).unwrap();
    let callers = bank.answer(&WhoRequest::calls("bad"));
    let user = callers.users.get(0).unwrap();
    let places: Vec<String> = user.places().map(ToString::to_string).collect();
    assert_eq!(places, ["good.lisp:2:10", "good.lisp:3:10"]);
    assert!(callers.to_string().ends_with("good.lisp:2:10: cl-user::good, also at 3:10"), "{callers}");
    let requests = [WhoRequest::calls("none"), WhoRequest::calls("none").recorded()];
    let missing = requests.map(|request| bank.ask(&request, &Control::default()).unwrap_err());
    assert!(missing.iter().all(|error| matches!(error, Error::NotFound(_))));
}

#[test]
fn files_are_loaded_without_a_project() {
    own_process!();
    let root = folder("no-project");
    write(root.join("init.lisp"), "(defvar cl-user::*init* 1)");
    write(root.join("single.lisp"), "(list cl-user::*init*)");
    let settings = ProjectSettings::without_root(root.join("cache")).userinit(root.join("init.lisp"));
    let bank = Steelbank::builder().project(settings).start().unwrap();
    let file = |path: &str| bank.done(&LoadRequest::file(path).failure_as_answer());
    let answer = file(&root.join("single.lisp").display().to_string());
    assert_eq!(answer.status, LoadStatus::Loaded, "{answer:?}");
    assert_eq!(below(&root.join("cache"), ".fasl").len(), 1);
    assert!(bank.ask(&ListSystemsRequest::new(), &Control::default()).is_err());
    for (name, path) in [("missing file", "no-such.lisp"), ("no file", ""), ("folder", "/")] {
        let failure = file(path).failure.unwrap();
        assert_eq!(failure.kind, FailureKind::File);
        expect_failure(name, &failure);
    }
}

#[test]
fn changed_files_are_compiled_again() {
    own_process!();
    let root = folder("changes");
    define(&root, "moving", &[("first", "(list 1)"), ("second", "(list 2)")]);
    let bank = project(&root, &root.join("cache"));
    let date = |file: &str, seconds: u64| {
        let date = SystemTime::now() - Duration::from_secs(seconds);
        fs::File::options().write(true).open(root.join(file)).unwrap().set_modified(date).unwrap();
    };
    let changed = || -> Vec<String> {
        let all = bank.answer(&ListSystemsRequest::new()).systems;
        let of = all.into_iter().find(|system: &SystemEntry| system.name == "moving").unwrap().changed;
        of.into_iter().map(|path| path.rsplit('/').next().unwrap().to_owned()).collect()
    };
    for file in ["moving.asd", "first.lisp", "second.lisp"] {
        date(file, 100);
    }
    load(&bank, "moving");
    assert_eq!(changed(), [""; 0]);
    // Restore an older version with its modification time.
    fs::write(root.join("second.lisp"), "(list 22)").unwrap();
    date("second.lisp", 5000);
    assert_eq!(changed(), ["second.lisp"]);
    assert_eq!(load(&bank, "moving").compiled.len(), 1);
    assert_eq!(changed(), [""; 0]);
    for seconds in [50, 6000] {
        fs::write(
            root.join("moving.asd"),
            format!("(defsystem \"moving\" :components ((:file \"first\") (:file \"second\"))) ; {seconds}"),
        )
        .unwrap();
        date("moving.asd", seconds);
        assert_eq!(changed(), ["moving.asd"]);
        assert_eq!(load(&bank, "moving").status, LoadStatus::Loaded);
        assert_eq!(changed(), [""; 0], "{seconds}");
    }
    fs::remove_file(root.join("second.lisp")).unwrap();
    assert_eq!(changed(), ["second.lisp"]);
    expect_failure("removed file", &failed(&bank, "moving").1);
}

#[test]
fn positions_survive_stopped_loads_and_damage() {
    own_process!();
    let root = folder("records");
    let b = "(in-package :cl-user)
(defun rec-first () (rec-used 1))
(eval-when (:compile-toplevel) (when (probe-file (merge-pathnames \"slow\" *compile-file-truename*)) (sleep 600)))
(defun rec-second () (list (rec-used 2) 'rec-used))
(defun rec-pairs (list) (mapcar #'cons list '#1=(nil . #1#)))
";
    define(&root, "rec", &[("rec-a", "(in-package :cl-user)\n(defun rec-used (x) x)\n"), ("rec-b", b)]);
    let bank = project(&root, &root.join("cache"));
    assert_eq!(load(&bank, "rec").status, LoadStatus::Loaded);
    let request = CodeFindReferencesRequest::new("cl-user::rec-used");
    let whole = bank.answer(&request);
    let exact: Vec<_> =
        whole.refs.iter().map(|found| (found.place.line.unwrap(), columns(&found.tokens))).collect();
    assert_eq!(exact, [(2, vec![22]), (4, vec![29, 42])], "{whole:?}");
    // A load that stops inside a file records fewer positions. The positions of the previous load
    // are still reported.
    write(root.join("slow.lisp"), "");
    let stopped = bank
        .run(&LoadRequest::system("rec").force().failure_as_answer(), &Control::new(Duration::from_secs(3)))
        .unwrap();
    assert_eq!(stopped.status, LoadStatus::TimedOut, "{stopped:?}");
    fs::remove_file(root.join("slow.lisp")).unwrap();
    assert_eq!(bank.answer(&request), whole);
    assert_eq!(load(&bank, "rec").status, LoadStatus::Loaded);
    assert_eq!(bank.answer(&request), whole);
    // Damaged sidecars are reported, and rebuilt by the next load.
    let damage: [fn(&Path); 4] = [
        |tap| fs::write(tap, "").unwrap(),
        |tap| fs::write(tap, &fs::read(tap).unwrap()[..60]).unwrap(),
        |tap| {
            let mut bytes = fs::read(tap).unwrap();
            bytes[40] ^= 0x40;
            fs::write(tap, bytes).unwrap();
        },
        |tap| {
            fs::remove_file(tap).unwrap();
            fs::create_dir(tap).unwrap();
        },
    ];
    for damage in damage {
        let taps = below(&root.join("cache/taps"), ".tap");
        assert!(taps.len() >= 2, "{taps:?}");
        taps.iter().for_each(|tap| damage(tap));
        bank.forget_positions();
        let cautions: Vec<String> = bank.answer(&request).cautions.iter().map(ToString::to_string).collect();
        expect_text("damaged sidecars", &cautions.join("\n"));
        bank.value("(asdf:clear-system \"rec\")");
        assert_eq!(load(&bank, "rec").compiled.len(), 2);
        assert_eq!(bank.answer(&request), whole);
    }
}

/// ASDF reads an asd file again for each of its systems with another name, and for a missing
/// system.
#[test]
fn reread_system_definition_keeps_load_state() {
    own_process!();
    let root = folder("read-again");
    let good = "(defsystem \"good\" :components ((:file \"good\")))\n\
        (defsystem #:good/tests :depends-on (#:good) :components ((:file \"tests\")))\n\
        (defsystem \"third\" :depends-on (\"good\") :components ((:file \"broken\")))\n";
    write(root.join("good.asd"), good);
    write(root.join("good.lisp"), "(defun cl-user::good () 1)\n");
    write(root.join("tests.lisp"), "(defun cl-user::tests () (cl-user::good))\n");
    write(root.join("more.lisp"), "(defun cl-user::more () 2)\n");
    write(root.join("broken.lisp"), "(error \"It is broken.\")\n");
    let bank = project(&root, &root.join("cache"));
    let listed = || -> Vec<(String, bool)> {
        let systems = bank.answer(&ListSystemsRequest::new()).systems;
        systems.into_iter().map(|system: SystemEntry| (system.name, system.loaded)).collect()
    };
    let loaded = [("good".to_owned(), true), ("good/tests".to_owned(), true), ("third".to_owned(), false)];
    let all = bank
        .run(&LoadRequest::project().failure_as_answer(), &Control::new(Duration::from_secs(300)))
        .unwrap();
    assert_eq!(all.status, LoadStatus::Failed, "{all:?}");
    let statuses: Vec<LoadStatus> = all.systems.iter().map(|system| system.status).collect();
    assert_eq!(statuses, [LoadStatus::Loaded, LoadStatus::Loaded, LoadStatus::Failed], "{all:?}");
    assert_eq!(listed(), loaded);
    let diagnostics: Vec<String> = all.diagnostics.iter().map(|found| found.message.clone()).collect();
    expect_text("loading all systems", &diagnostics.join("\n"));
    assert_eq!(failed(&bank, "good/absent").1.kind, FailureKind::UnknownSystem);
    assert_eq!(listed(), loaded);
    // A loaded system is not loaded again.
    let again = load(&bank, "good/tests");
    assert_eq!((again.compiled.len(), again.cached.len()), (0, 0), "{again:?}");

    // A changed definition takes effect.
    write(root.join("good.asd"), &good.replace("(:file \"tests\")", "(:file \"tests\") (:file \"more\")"));
    let changed = load(&bank, "good/tests");
    assert!(changed.compiled.iter().any(|path| path.ends_with("more.lisp")), "{changed:?}");
    assert_eq!(bank.value("(cl-user::more)"), "2");
    assert_eq!(listed(), loaded);
}

/// The next load compiles a file again only if the compiler would have reported more diagnostics
/// for it.
#[test]
fn failed_load_keeps_its_fasls() {
    own_process!();
    let root = folder("forward");
    let bank = project(&root, &root.join("cache"));
    let first = ("forward-first", "(defun forward-caller () (forward-later))");
    let second = ("forward-second", "(defun forward-later () (forward-nowhere))");
    define(&root, "forward", &[first, second, ("forward-third", "(error \"never\")")]);
    let compiled = || {
        let (answer, _) = failed(&bank, "forward");
        bank.value("(asdf:clear-system \"forward\")");
        answer.compiled.iter().map(|path| path.rsplit('/').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(compiled(), ["forward-first.lisp", "forward-second.lisp", "forward-third.lisp"]);
    assert_eq!(compiled(), ["forward-second.lisp", "forward-third.lisp"]);
}

#[test]
fn diagnostics_of_unfinished_compilation_units_are_kept() {
    own_process!();
    let root = folder("pending");
    let bank = project(&root, &root.join("cache"));
    let first = ("pending-first", "(defun pending-caller () (pending-nowhere) (pending-later))");
    let third = ("pending-third", "(defun pending-later () 1)");
    define(&root, "pending", &[first, ("pending-second", "(error \"not yet\")"), third]);
    failed(&bank, "pending");
    write(root.join("pending-second.lisp"), "(list 1)");
    for compiled in [3, 0] {
        let answer = load(&bank, "pending");
        assert_eq!((answer.status, answer.compiled.len()), (LoadStatus::Loaded, compiled), "{answer:?}");
        let messages: Vec<_> = answer.diagnostics.iter().map(|found| found.message.to_lowercase()).collect();
        expect_text("end of the compilation unit", &messages.join("\n"));
        bank.value("(asdf:clear-system \"pending\")");
    }
}

/// Tests a project with Lisp files but without a system.
#[test]
fn project_without_system_is_a_failure() {
    own_process!();
    let root = folder("no-system");
    fs::create_dir(root.join(".git")).unwrap();
    let bank = project(&root, &root.join("cache"));
    let load = || bank.run(&LoadRequest::project().failure_as_answer(), &Control::default()).unwrap();
    assert_eq!(load().status, LoadStatus::Loaded);
    fs::write(root.join("a.lisp"), "(defun a ())").unwrap();
    let answer = load();
    assert_eq!(answer.status, LoadStatus::Failed);
    let failure = answer.failure.unwrap();
    assert_eq!(failure.kind, FailureKind::NoSystem);
    assert_eq!(failure.message, "No .asd file of the project defines a system. Its Lisp files: a.lisp.");
    assert_eq!(failure.remedies, ["Load one of the files with load-file."]);
}
