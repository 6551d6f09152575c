//! Tests of edits within a second. ASDF misses them, because it compares modification times in
//! seconds. steelbank compares contents, also in later processes.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::program::{Folder, ask};
use crate::texts::write_project;

/// Writes a file, and sets its modification time.
fn write(path: &Path, text: &str, date: SystemTime) {
    fs::write(path, text).unwrap();
    fs::File::options().write(true).open(path).unwrap().set_modified(date).unwrap();
}

#[test]
fn next_process_sees_edits_within_a_second() {
    let folder = Folder::new("second");
    let (root, cache) = (folder.join("project"), folder.join("cache"));
    fs::create_dir_all(&root).unwrap();
    // The files are older than all fasls of this test.
    let date = SystemTime::now() - Duration::from_secs(100);
    write(
        &root.join("sec.asd"),
        "(defsystem \"sec\" :serial t :components ((:file \"m\") (:file \"u\")))",
        date,
    );
    let define = |body: &str| {
        write(&root.join("m.lisp"), &format!("(in-package :cl-user)\n(defmacro sec-m () {body})\n"), date)
    };
    write(&root.join("u.lisp"), "(in-package :cl-user)\n(defvar *sec* (sec-m))\n", date);
    let load = || -> (Value, Option<i32>) {
        let (text, _, code) = ask(&root, &cache, &["load-system", "sec", "--json"]);
        (serde_json::from_str(&text).unwrap(), code)
    };
    let compiled = |answer: &Value| answer["compiled"].as_array().map_or(0, Vec::len);
    define("1");
    let (answer, code) = load();
    assert_eq!(
        (answer["status"].as_str(), compiled(&answer), code),
        (Some("loaded"), 2, Some(0)),
        "{answer}"
    );
    let (answer, _) = load();
    assert_eq!((answer["status"].as_str(), compiled(&answer)), (Some("loaded"), 0), "{answer}");
    // A changed file with the same modification time and size is compiled, and so are its
    // dependents.
    define("2");
    let (answer, _) = load();
    assert_eq!((answer["status"].as_str(), compiled(&answer)), (Some("loaded"), 2), "{answer}");
    // Neither a broken file nor its last version is loaded.
    define("(if)) (sec-m");
    for _ in 0..2 {
        let (answer, code) = load();
        assert_eq!((answer["status"].as_str(), code), (Some("failed"), Some(3)), "{answer}");
    }
    define("3");
    let (answer, _) = load();
    assert_eq!((answer["status"].as_str(), compiled(&answer)), (Some("loaded"), 2), "{answer}");
    let (answer, _) = load();
    assert_eq!((answer["status"].as_str(), compiled(&answer)), (Some("loaded"), 0), "{answer}");
}

#[test]
fn fasl_of_a_removed_source_is_not_loaded() {
    let folder = Folder::new("gone");
    let root = folder.join("project");
    fs::create_dir_all(&root).unwrap();
    write_project(&root, include_str!("../projects/source_is_gone.txt"));
    let load = |system: &str| -> (Value, Option<i32>) {
        let (text, _, code) = ask(&root, &folder.join("cache"), &["load-system", system, "--json"]);
        (serde_json::from_str(&text).unwrap(), code)
    };
    assert_eq!(load("gone").1, Some(0));
    fs::remove_file(root.join("goes.lisp")).unwrap();
    for _ in 0..2 {
        let (answer, code) = load("gone");
        assert_eq!((answer["status"].as_str(), code), (Some("failed"), Some(3)), "{answer}");
        let failure = &answer["failure"];
        assert_eq!(failure["kind"], "file", "{answer}");
        assert!(failure["message"].as_str().unwrap().contains("goes.lisp"), "{answer}");
    }
    // Two swapped letters.
    let (answer, code) = load("goen");
    assert_eq!((&answer["found"], code), (&false.into(), Some(1)), "{answer}");
    assert_eq!(answer["suggestions"][0], "gone", "{answer}");
}
