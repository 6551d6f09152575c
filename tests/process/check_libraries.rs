//! Compares `check` of edited texts with `load-system` of the same texts on disk, in another
//! process, on three libraries.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use steelbank::actions::change::check::{CheckAnswer, CheckRequest};
use steelbank::answer::Location;
use steelbank::loaded::Diagnostic;
use steelbank::scratch::Overlay;
use steelbank::{Control, EvaluateRequest, LoadRequest, ProjectSettings, Steelbank};

use crate::fixtures::{library_registry, lisp_libraries};
use crate::program::{Folder, STEELBANK, ask};
use crate::renames::copy;

/// A library and one of its files. None depends on another: a file that is written again is
/// compiled again, privately, and so is what depends on it.
const LIBRARIES: [(&str, &str); 3] =
    [("alexandria", "alexandria-1/lists.lisp"), ("cl-ppcre", "api.lisp"), ("cl-who", "who.lisp")];

/// Text to append to the file, whether it still loads, and a word of the diagnostic.
const EDITS: [(&str, bool, &str); 5] = [
    ("(defun steelbank-fine (x)\n  (list x))\n", true, ""),
    (
        "(defun steelbank-unknown (x)\n  (list x\n        (steelbank-nowhere x)))\n",
        true,
        "undefined function",
    ),
    (
        "(defun steelbank-two (a b)\n  (list a b))\n(defun steelbank-wrong ()\n  (steelbank-two 1))\n",
        false,
        "wants exactly two",
    ),
    ("(defun steelbank-open (x)\n  (list x)\n", false, "parenthesis"),
    ("(defun steelbank-missing (x)\n  (steelbank-no-package:f x))\n", false, "STEELBANK-NO-PACKAGE"),
];

#[test]
fn check_agrees_with_load_on_libraries() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let folder = Folder::new("check-libraries");
    let root = folder.join("project");
    for (library, _) in LIBRARIES {
        copy(&lisp_libraries().join(library), &root.join(library));
    }
    let settings = ProjectSettings::in_folder(&root).cache(folder.join("cache"));
    let bank = Steelbank::builder().project(settings).program(STEELBANK.into()).start().unwrap();
    for (library, file) in LIBRARIES {
        compare(&bank, &folder, library, &Path::new(library).join(file));
    }
    // Evaluate code only now: fasls that are compiled after an evaluation are private to the image,
    // so a check would compile them again.
    let form = "(dolist (package (list-all-packages)) \
                  (do-symbols (symbol package) \
                    (when (and (fboundp symbol) (eql 0 (search \"STEELBANK-\" (symbol-name symbol))) \
                               (not (search \"STEELBANK\" (package-name (symbol-package symbol))))) \
                      (print symbol))))";
    let image =
        bank.run(&EvaluateRequest::new(form).values(), &Control::new(Duration::from_secs(60))).unwrap();
    assert_eq!(image.output, "", "the image stays");
}

/// Severity, file, line, column and message of each diagnostic.
type Said = BTreeSet<(String, Option<Location>, String)>;

fn compare(bank: &Steelbank, folder: &Path, library: &str, file: &Path) {
    let control = Control::new(Duration::from_secs(300));
    let root = bank.root().unwrap().to_path_buf();
    let loaded = bank.run(&LoadRequest::system(library).failure_as_answer(), &control).unwrap();
    assert!(loaded.failure.is_none(), "{loaded:?}");
    let path = root.join(file);
    let text = fs::read_to_string(&path).unwrap();
    let check = |request: CheckRequest| -> CheckAnswer {
        let request = CheckRequest { system: Some(library.to_owned()), ..request };
        bank.run(&request, &control).unwrap()
    };
    // Check the unchanged library, from fasls and compiled.
    let own: Vec<PathBuf> = loaded
        .compiled
        .iter()
        .map(PathBuf::from)
        .filter(|path| path.starts_with(root.join(library)))
        .collect();
    assert!(own.contains(&path), "{own:?}");
    for paths in [Vec::new(), own] {
        let count = paths.len();
        let answer = check(CheckRequest { paths, ..CheckRequest::default() });
        assert!(answer.loads && answer.compiled.len() == count, "{library}: {answer:?}");
        let (checked, first) = (said(&answer.diagnostics), said(&loaded.diagnostics));
        assert!(checked.is_subset(&first), "{library}: {checked:?} {first:?}");
    }
    let before = everything(&root);
    for (more, loads, word) in EDITS {
        let edited = format!("{text}\n{more}");
        let edits = vec![Overlay { path: file.to_owned(), text: Some(edited.clone()) }];
        let checked = check(CheckRequest { edits, ..CheckRequest::default() });
        assert_eq!(everything(&root), before, "{library}: the disk stays");
        fs::write(&path, &edited).unwrap();
        let (on_disk, is_loaded) = load_elsewhere(&root, &folder.join("other-cache"), library);
        fs::write(&path, &text).unwrap();
        assert_eq!((checked.loads, is_loaded), (loads, loads), "{library}: {more}: {checked:?}");
        // A load stops at the first failing file, and a check continues, so their warnings of
        // undefined functions differ.
        let reached = |all: Said| -> Said {
            all.into_iter().filter(|said| loads || !said.2.starts_with("undefined ")).collect()
        };
        let (told, on_disk) = (reached(said(&checked.diagnostics)), reached(on_disk));
        let apart: Vec<_> = told.symmetric_difference(&on_disk).collect();
        assert!(apart.is_empty(), "{library}: {more}: {apart:?}");
        assert!(on_disk.iter().any(|said| said.2.contains(word)) || word.is_empty(), "{on_disk:?}");
        let first_new = text.lines().count() as u32 + 1;
        assert!(
            word.is_empty()
                || on_disk
                    .iter()
                    .any(|said| said.1.as_ref().is_some_and(|place| place.line >= Some(first_new))),
            "{library}: {on_disk:?}"
        );
    }
    fs::write(&path, &text).unwrap();
}

fn said(diagnostics: &[Diagnostic]) -> Said {
    // JSON does not carry ranges.
    let parts = |said: &Diagnostic| {
        let mut place = said.place.clone();
        place.iter_mut().for_each(|place| place.range = None);
        (said.severity.name().to_owned(), place, said.message.clone())
    };
    diagnostics.iter().map(parts).collect()
}

/// Loads in a new process. Returns the diagnostics, and whether it loads.
fn load_elsewhere(root: &Path, cache: &Path, library: &str) -> (Said, bool) {
    let (text, ..) = ask(root, cache, &["--no-snapshot", "load-system", library, "--detail", "--json"]);
    let answer: Value = serde_json::from_str(&text).unwrap();
    let diagnostics: Vec<Diagnostic> = match &answer["diagnostics"] {
        Value::Null => Vec::new(),
        diagnostics => serde_json::from_value(diagnostics.clone()).unwrap(),
    };
    (said(&diagnostics), answer["status"] == "loaded")
}

/// Reads all files below `folder`.
fn everything(folder: &Path) -> Vec<(PathBuf, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => folders.push(entry.path()),
                false => found.push((entry.path(), fs::read(entry.path()).unwrap())),
            }
        }
    }
    found.sort();
    found
}
