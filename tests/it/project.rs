//! Tests loads of a project, their failures, and queries during loads.
//!
//! Each test runs in its own process, as a process has one project.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use steelbank::actions::symbols::find_definition::FindDefinitionRequest;

use crate::asks::Asks;
use crate::child::wait_until;
use crate::fixtures::lisp_libraries;
use crate::folder::Folder;
use crate::renames::copy;
use crate::texts::{expect_text, write_project};
use steelbank::actions::text::find_references;
use steelbank::actions::text::index_project::IndexState;
use steelbank::actions::uses::code_find_references::CodeFindReferencesRequest;
use steelbank::answer::location::columns;
use steelbank::loaded::{FailureKind, LoadAnswer, LoadStatus, Severity};
use steelbank::source::positions::Evidence;
use steelbank::source::tap::sidecar::sidecar_name;
use steelbank::{
    Control, DescribeSymbolRequest, IndexProjectRequest, IndexStatusRequest, ListSystemsRequest, LoadRequest,
    ProjectSettings, Steelbank,
};

const LONG: Duration = Duration::from_secs(600);

/// Runs the ignored test `name` of this binary alone, and prints its lines that begin with "seen:
/// ".
pub(crate) fn in_a_process_of_its_own(name: &str, environment: &[(&str, &Path)]) {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--ignored", "--nocapture"]);
    command.envs(environment.iter().copied());
    let output = command.output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    let text = String::from_utf8_lossy(&text);
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
    for line in text.lines().filter(|line| line.starts_with("seen: ")) {
        println!("{line}");
    }
}

/// Returns a new temporary folder.
pub(crate) fn folder(name: &str) -> Folder {
    Folder::new(name)
}

/// Returns `plain` with different line ends, byte order marks and file ends, each text with a name.
pub(crate) fn written_in_all_ways(plain: &str) -> Vec<(&'static str, String)> {
    let crlf = plain.replace('\n', "\r\n");
    vec![
        ("plain", plain.to_owned()),
        ("open", plain.trim_end().to_owned()),
        ("crlf", crlf.clone()),
        ("marked", format!("\u{feff}{plain}")),
        ("all", format!("\u{feff}{}", crlf.trim_end())),
    ]
}

/// Starts an image with the project at `root`, watched as a server does.
pub(crate) fn project(root: &Path, cache: &Path) -> Steelbank {
    let settings = ProjectSettings::in_folder(root).cache(cache);
    Steelbank::builder().project(settings).watching(true).start().unwrap()
}

/// Makes and loads a project of four libraries, one with its tests, and tests/torture. Needs
/// [`library_registry`].
///
/// [`library_registry`]: crate::fixtures::library_registry
pub(crate) fn libraries_project(name: &str) -> (Folder, Steelbank) {
    const LIBRARIES: [&str; 4] = ["alexandria", "cl-ppcre", "named-readtables", "yason"];
    let home = folder(name);
    let root = home.join("project");
    for library in LIBRARIES {
        copy(&lisp_libraries().join(library), &root.join(library));
    }
    copy(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torture"), &root.join("torture"));
    let bank = project(&root, &home.join("cache"));
    LIBRARIES.iter().chain(&["cl-ppcre/test", "torture"]).for_each(|library| drop(load(&bank, library)));
    (home, bank)
}

/// Loads `system`.
pub(crate) fn load(bank: &Steelbank, system: &str) -> LoadAnswer {
    bank.run(&LoadRequest::system(system).failure_as_answer(), &Control::new(LONG)).unwrap()
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        fs::write(folder.join(name), text).unwrap();
    }
}

#[test]
fn project_is_loaded_and_queried() {
    own_process!();
    let root = folder("project");
    write_project(&root, include_str!("../projects/shop.txt"));
    let bank = project(&root, &root.join("cache"));

    let systems = bank.answer(&ListSystemsRequest::new());
    let names: Vec<&str> = systems.systems.iter().map(|system| system.name.as_str()).collect();
    let secondary = ["needs", "one", "open", "runs", "slow", "two", "unread", "wrong"];
    let expected: Vec<String> = ["broken".to_owned(), "shop".to_owned()]
        .into_iter()
        .chain(secondary.map(|name| format!("shop/{name}")))
        .collect();
    assert_eq!(names, expected, "systems that are not loaded are listed, too");
    assert_eq!(systems.systems[1].files, 2);
    assert!(systems.systems[0].incomplete && !systems.systems[1].incomplete);

    let news = Arc::new(AtomicUsize::new(0));
    let heard = Arc::clone(&news);
    let control = Control::new(LONG).on_progress(move |at| {
        assert!(at.done <= at.total.unwrap(), "{at:?}");
        heard.fetch_add(1, Ordering::SeqCst);
    });
    let answer = bank.run(&LoadRequest::system("shop").failure_as_answer(), &control).unwrap();
    assert_eq!(answer.status, LoadStatus::Loaded, "{answer:?}");
    assert_eq!(answer.compiled.len(), 2);
    assert_eq!(news.load(Ordering::SeqCst), 4, "each file is compiled and loaded");
    let forced = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&forced);
    let control = Control::new(LONG).on_progress(move |at| heard.lock().unwrap().push((at.done, at.total)));
    let request = LoadRequest::system("shop").force().failure_as_answer();
    assert_eq!(bank.run(&request, &control).unwrap().status, LoadStatus::Loaded);
    let steps: Vec<_> = (1..=4).map(|step| (step, Some(4))).collect();
    assert_eq!(*forced.lock().unwrap(), steps, "a forced load repeats all steps");

    let found = bank.answer(&CodeFindReferencesRequest::new("shop::price"));
    let lines: Vec<_> = found.refs.iter().map(|found| (found.place.line, columns(&found.tokens))).collect();
    assert_eq!(lines, [(Some(3), vec![10]), (Some(4), vec![12])]);

    text(&bank);
    failures(&bank);
    stale(&bank, &root);
    changed_within_a_second(&bank, &root);
    single_files(&bank, &root);
    questions_beside_a_load(&bank);
}

fn text(bank: &Steelbank) {
    let control = Control::default();
    // Earlier queries about code have built the index.
    assert_ne!(bank.ask(&IndexStatusRequest::new(), &control).unwrap().status, IndexState::Missing);
    let found = bank.ask(&find_references::FindReferencesRequest::new("price"), &control).unwrap();
    assert_eq!(found.definition.unwrap().place.file, "a.lisp");
    let symbols: Vec<_> = found.references.iter().filter_map(|found| found.symbol.as_ref()).collect();
    assert!(
        symbols.iter().any(|symbol| **symbol == "shop::price"),
        "names in a loaded file have their symbols: {symbols:?}"
    );
    assert_ne!(bank.ask(&IndexStatusRequest::new(), &control).unwrap().status, IndexState::Missing);
    let nothing = bank.ask(&find_references::FindReferencesRequest::new(""), &control);
    assert!(matches!(
        nothing.unwrap_err().request(),
        Some(find_references::FindReferencesError::EmptyPattern)
    ));
    control.cancellation().cancel();
    let forced: IndexProjectRequest = serde_json::from_str(r#"{"force": true}"#).unwrap();
    let called_off = bank.run(&forced, &control);
    expect_text("cancelled index", &called_off.unwrap_err().to_string());
}

fn failures(bank: &Steelbank) {
    let places = |answer: &LoadAnswer, severity| -> Vec<(Option<u32>, Option<u32>)> {
        let of = answer.diagnostics.iter().filter(|diagnostic| diagnostic.severity == severity);
        of.map(|said| said.place.as_ref().map_or((None, None), |place| (place.line, place.column))).collect()
    };
    let failed = |system: &str, kind: FailureKind| {
        let answer = load(bank, system);
        assert_eq!(answer.status, LoadStatus::Failed, "{answer:?}");
        let failure = answer.failure.clone().unwrap();
        assert_eq!(failure.kind, kind, "{failure:?}");
        expect_text(system, &format!("{}\n{}", failure.message, failure.remedies.join("\n")));
        answer
    };
    let wrong = failed("shop/wrong", FailureKind::Compile);
    assert_eq!(places(&wrong, Severity::Error), [(Some(3), Some(5))]);
    assert_eq!(places(&wrong, Severity::StyleWarning), [(Some(2), Some(10))]);
    assert!(places(&wrong, Severity::Warning).contains(&(Some(4), Some(14))), "{wrong:?}");
    let unread = failed("shop/unread", FailureKind::Compile);
    assert_eq!(places(&unread, Severity::ReadError), [(Some(3), Some(4))]);
    let open = failed("shop/open", FailureKind::Compile);
    assert_eq!(places(&open, Severity::ReadError), [(Some(3), Some(3))]);
    let runs = failed("shop/runs", FailureKind::Load);
    assert_eq!(places(&runs, Severity::Error), [(Some(2), Some(3))]);
    failed("shop/needs", FailureKind::MissingDependency);
    failed("shop/one", FailureKind::CircularDependency);
    failed("no-such-system", FailureKind::UnknownSystem);
    failed("broken", FailureKind::SystemDefinition);
    assert_eq!(load(bank, "shop").status, LoadStatus::Loaded, "the image is usable after all that");
}

fn stale(bank: &Steelbank, root: &Path) {
    let text = fs::read_to_string(root.join("b.lisp")).unwrap();
    fs::write(root.join("b.lisp"), format!("\n\n\n{text}")).unwrap();
    let found = bank.answer(&CodeFindReferencesRequest::new("shop::price"));
    assert_eq!(found.stale, ["b.lisp"]);
    for found in &found.refs {
        assert!(found.stale && found.evidence != Evidence::Exact && found.tokens.is_empty(), "{found:?}");
    }
    // A new modification time alone does not make a file stale.
    fs::write(root.join("b.lisp"), &text).unwrap();
    let found = bank.answer(&CodeFindReferencesRequest::new("shop::price"));
    assert_eq!(found.stale, [""; 0]);
    assert!(found.refs.iter().all(|found| found.evidence == Evidence::Exact));

    fs::write(
        root.join("a.lisp"),
        "(defpackage :shop (:use :cl))\n(in-package :shop)\n\n(defun price (x) (list x))\n",
    )
    .unwrap();
    let changed = |system: &steelbank::actions::run::list_systems::SystemEntry| {
        system.name == "shop" && !system.changed.is_empty()
    };
    // ASDF compares modification times in seconds.
    let date = std::time::SystemTime::now() + Duration::from_secs(5);
    fs::File::options().write(true).open(root.join("a.lisp")).unwrap().set_modified(date).unwrap();
    assert!(bank.answer(&ListSystemsRequest::new()).systems.iter().any(changed));
    assert_eq!(
        load(bank, "shop").compiled.len(),
        2,
        "a file that changed, and those after it, are compiled again"
    );
    assert!(!bank.answer(&ListSystemsRequest::new()).systems.iter().any(changed));
    let sidecar = |file: &str| {
        let prefix = sidecar_name(&root.join(file), 0).split_once('-').unwrap().0.to_owned();
        let taps = fs::read_dir(root.join("cache/taps")).unwrap().flatten();
        taps.filter(|tap| tap.file_name().to_string_lossy().starts_with(&prefix)).count()
    };
    assert_eq!(
        (sidecar("a.lisp"), sidecar("b.lisp")),
        (1, 1),
        "each file has one sidecar, whatever was loaded before"
    );
    let definition = bank.answer(&FindDefinitionRequest::new("shop::price").package("CL-USER"));
    assert_eq!(definition.definitions[0].place.line, Some(4));
    assert_eq!(definition.definitions[0].place.column, Some(8));
}

/// Edits files within a second, as agents do. ASDF compares modification times in seconds.
fn changed_within_a_second(bank: &Steelbank, root: &Path) {
    let text = fs::read_to_string(root.join("b.lisp")).unwrap();
    let date = std::time::SystemTime::now();
    let before = date - Duration::from_secs(100);
    fs::File::options().write(true).open(root.join("a.lisp")).unwrap().set_modified(before).unwrap();
    load(bank, "shop");
    let put = |text: &str| {
        fs::write(root.join("b.lisp"), text).unwrap();
        fs::File::options().write(true).open(root.join("b.lisp")).unwrap().set_modified(date).unwrap();
    };
    put(&format!("{text}(defun added () (price 5))\n"));
    assert_eq!(load(bank, "shop").compiled.len(), 1);
    put(&format!("{text}\n(defun added () (price 55))\n"));
    let found = bank.answer(&CodeFindReferencesRequest::new("shop::price"));
    assert_eq!(found.stale, ["b.lisp"]);
    assert_eq!(load(bank, "shop").compiled.len(), 1);
    let found = bank.answer(&CodeFindReferencesRequest::new("shop::price"));
    assert_eq!(found.stale, [""; 0]);
    let added = found
        .refs
        .iter()
        .find(|found| found.caller.as_ref().is_some_and(|caller| *caller == "shop::added"))
        .unwrap();
    assert_eq!((added.place.line, columns(&added.tokens).as_slice()), (Some(6), &[18][..]), "{added:?}");
    put(&text);
    load(bank, "shop");
}

fn single_files(bank: &Steelbank, root: &Path) {
    let load = |name: &str| {
        let path = root.join(name).display().to_string();
        bank.run(&LoadRequest::file(&path).failure_as_answer(), &Control::new(LONG)).unwrap()
    };
    write(root, &[("extra.lisp", "(in-package :shop)\n(defun extra ()\n  (price 2))\n")]);
    let answer = load("extra.lisp");
    assert_eq!((answer.status, answer.compiled.len()), (LoadStatus::Loaded, 1), "{answer:?}");
    let found = bank.answer(&CodeFindReferencesRequest::new("shop::price"));
    let extra = found.refs.iter().find(|found| found.place.file == "extra.lisp").unwrap();
    assert_eq!((extra.place.line, extra.place.column, extra.evidence), (Some(3), Some(4), Evidence::Exact));

    let answer = load("wrong.lisp");
    let failure = answer.failure.unwrap();
    assert_eq!((answer.status, failure.kind), (LoadStatus::Failed, FailureKind::Compile));
    assert!(
        answer
            .diagnostics
            .iter()
            .any(|found| found.severity == Severity::Error && found.place.as_ref().unwrap().line == Some(3))
    );
    let answer = load("no-such-file.lisp");
    let failure = answer.failure.unwrap();
    assert_eq!((answer.status, failure.kind), (LoadStatus::Failed, FailureKind::File));
    expect_text("missing file", &failure.message);
}

fn questions_beside_a_load(bank: &Steelbank) {
    let control = Control::new(LONG);
    let (begun, begins) = std::sync::mpsc::channel();
    let loading = {
        let (bank, control) = (bank.clone(), control.clone());
        let control = control.on_progress(move |_| begun.send(()).unwrap_or(()));
        std::thread::spawn(move || bank.run(&LoadRequest::system("shop/slow").failure_as_answer(), &control))
    };
    begins.recv().unwrap();
    let found = bank.answer(&CodeFindReferencesRequest::new("shop::price"));
    assert!(found.loading && !found.refs.is_empty(), "the query is answered, and reports the running load");
    assert!(bank.answer(&DescribeSymbolRequest::new("shop::price").package("CL-USER")).description.is_some());
    control.cancellation().cancel();
    // The caller or Lisp may report the cancellation first.
    match loading.join().unwrap() {
        Err(error) => expect_text("cancelled load", &error.to_string()),
        Ok(answer) => assert_eq!(answer.status, LoadStatus::Cancelled),
    }
    // Lisp ends the load and refreshes the index after the answer.
    wait_until("the load never ends", || !bank.is_loading());
    assert_eq!(load(bank, "shop").status, LoadStatus::Loaded, "the image is usable after a cancelled load");
}
