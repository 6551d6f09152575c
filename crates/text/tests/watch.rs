//! Checks that an index that watches its tree returns the same results as an index that checks
//! every file, after any change.
#![allow(clippy::unwrap_used, missing_docs)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use proptest::prelude::*;
use steelbank_text::{Freshness, Globs, IndexControl, Pattern, TextIndex, TextSearch};

#[path = "../../../tests/operations/mod.rs"]
mod operations;

use operations::{begin, operate};

fn places(index: &TextIndex) -> Result<Vec<(String, u32, u32, String)>, String> {
    let search = TextSearch {
        pattern: Pattern::new("sought").unwrap(),
        kind: None,
        language: None,
        globs: Globs::new(&[], &[]).unwrap(),
        offset: 0,
        limit: u64::MAX,
        bound: u64::MAX,
    };
    let answer = index.search(&search, &IndexControl::none()).map_err(|error| error.to_string())?;
    let place = |found: steelbank_text::TextMatch| {
        (found.path.display().to_string(), found.place.line, found.place.column, found.preview)
    };
    Ok(answer.references.into_iter().map(place).collect())
}

fn open(root: &Path, cache: &Path) -> TextIndex {
    TextIndex::open(root, cache, Freshness::Automatic).unwrap()
}

/// Opens an index and waits until its queries rely on the watch instead of checking every file.
fn relied_on(root: &Path, cache: &Path) -> TextIndex {
    let index = open(root, cache);
    assert!(index.watch());
    places(&index).unwrap();
    std::thread::sleep(Duration::from_millis(60));
    index
}

proptest! {
    #![proptest_config(ProptestConfig { cases: if std::env::var_os("STEELBANK_FULL").is_some() { 4800 } else { 48 }, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn watched_index_equals_rebuilt_index(
        operations in prop::collection::vec(any::<(u8, u8, u8)>(), 1..24),
        settled in any::<bool>(),
    ) {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let root = begin(&home).unwrap();
        let watched = open(&root, &home.join("cache"));
        prop_assert!(watched.watch());
        places(&watched).unwrap();
        if settled {
            // Wait until queries rely on the watch.
            std::thread::sleep(Duration::from_millis(60));
            places(&watched).unwrap();
            prop_assert!(!watched.wait_for_change(Duration::ZERO));
        }
        let mut done = Vec::new();
        for (number, operation) in operations.into_iter().enumerate() {
            done.push(operate(&home, operation));
            let found = places(&watched);
            let expected = places(&open(&root, &home.join(format!("fresh-{number}"))));
            prop_assert_eq!(found, expected, "after {:#?}", done);
        }
    }
}

#[test]
fn change_just_before_query_is_found() {
    let home = tempfile::tempdir().unwrap();
    let root = begin(home.path()).unwrap();
    let index = open(&root, &home.path().join("cache"));
    assert!(index.watch());
    for round in 0..300 {
        let file = root.join(["new.lisp", "a/new.lisp"][round % 2]);
        let count = 1 + round % 3;
        fs::write(&file, "(sought x)\n".repeat(count)).unwrap();
        let of_file = |places: Vec<(String, u32, u32, String)>| {
            places.iter().filter(|place| root.join(&place.0) == file).count()
        };
        assert_eq!(of_file(places(&index).unwrap()), count, "round {round}");
        if round % 7 == 0 {
            fs::remove_file(&file).unwrap();
            assert_eq!(of_file(places(&index).unwrap()), 0, "round {round}");
        }
    }
}

#[test]
fn added_or_removed_file_updates_only_itself() {
    let home = tempfile::tempdir().unwrap();
    let root = begin(home.path()).unwrap();
    let index = relied_on(&root, &home.path().join("cache"));
    let count = || places(&index).unwrap().len();
    let before = count();
    let manifest = || fs::read(index.folder().join("manifest")).unwrap();
    let written = manifest();
    let (file, new) = (root.join("a/new.lisp"), home.path().join("new"));
    for _ in 0..5 {
        fs::write(&file, "(sought x)\n").unwrap();
        assert_eq!(count(), before + 1);
        fs::write(&new, "(sought x)\n(sought y)\n").unwrap();
        fs::rename(&new, &file).unwrap();
        assert_eq!(count(), before + 2);
        fs::remove_file(&file).unwrap();
        assert_eq!(count(), before);
    }
    assert!(manifest() == written, "the index on disk was rewritten");
}

#[test]
fn many_added_files_update_only_themselves() {
    let home = tempfile::tempdir().unwrap();
    let root = begin(home.path()).unwrap();
    let index = relied_on(&root, &home.path().join("cache"));
    let before = places(&index).unwrap().len();
    let manifest = || fs::read(index.folder().join("manifest")).unwrap();
    let written = manifest();
    let file = |number: usize| root.join(format!("a/new-{number}.lisp"));
    for number in 0..200 {
        fs::write(file(number), "(sought x)\n").unwrap();
        assert_eq!(places(&index).unwrap().len(), before + number + 1);
    }
    // Change some files in merged segments while other segments are merged.
    for number in 0..60 {
        fs::write(file(3 * number), "(sought x)\n(sought y)\n").unwrap();
        assert_eq!(places(&index).unwrap().len(), before + 200 + number + 1);
    }
    for number in 0..200 {
        fs::remove_file(file(number)).unwrap();
    }
    assert!(manifest() == written, "the index on disk was rewritten");
    assert_eq!(places(&index).unwrap(), places(&open(&root, &home.path().join("another"))).unwrap());
}

/// The project's system definition shows whether the project depends on the nested repository and
/// therefore contains it. An edit of the definition then requires a walk.
#[test]
fn definition_edit_needs_walk_only_with_nested_repository() {
    let home = tempfile::tempdir().unwrap();
    let root = home.path().canonicalize().unwrap().join("root");
    fs::create_dir_all(root.join(".git")).unwrap();
    fs::write(root.join("a.lisp"), "(sought)\n").unwrap();
    let define = |depends: &str| {
        fs::write(root.join("a.asd"), format!("(defsystem \"a\" :depends-on ({depends}))\n(sought)\n"))
            .unwrap();
    };
    define("");
    let index = relied_on(&root, &home.path().join("cache"));
    let manifest = || fs::read(index.folder().join("manifest")).unwrap();
    assert_eq!(places(&index).unwrap().len(), 2);
    let written = manifest();
    define("\"b\"");
    assert_eq!(places(&index).unwrap().len(), 2);
    assert!(manifest() == written, "the index on disk was rewritten");
    fs::create_dir_all(root.join("b/.git")).unwrap();
    fs::write(root.join("b/b.asd"), "(defsystem \"b\")\n(sought)\n").unwrap();
    for (depends, expected) in [("\"b\"", 3), ("", 2), ("\"b\"", 3)] {
        define(depends);
        assert_eq!(places(&index).unwrap().len(), expected, "{depends}");
        std::thread::sleep(Duration::from_millis(60));
    }
}
