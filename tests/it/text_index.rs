//! Tests the text index: builds, sharing, cancellation, and recovery from damage.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use steelbank::actions::text::find_references::{
    FindReferencesError, FindReferencesRequest, find_references,
};
use steelbank::actions::text::index_project;
use steelbank::actions::text::index_project::{IndexState, check_index_status, index_project};
use steelbank_reader::lines::LineIndex;
use steelbank_text::{FileTokens, Freshness, IndexControl, IndexProgress, TextError, TextIndex, TokenClass};

use crate::find_references::World;
use crate::texts::expect_text;

pub(crate) fn build_error(index: &TextIndex) -> FindReferencesError {
    let request = index_project::IndexProjectRequest { force: false, languages: Vec::new() };
    let error = index_project(index, &request, &IndexControl::none()).unwrap_err();
    match error {
        index_project::IndexProjectError::Text(error) => FindReferencesError::Text(error),
        other => panic!("{other}"),
    }
}

#[test]
fn query_waiting_for_a_build_can_be_cancelled() {
    let world = World::new(&[]);
    for file in 0..600 {
        world.write(&format!("{file}.txt"), "needle\n");
    }
    let (reached, building) = std::sync::mpsc::channel();
    let (go_on, held) = std::sync::mpsc::channel::<()>();
    let (reached, held) = (std::sync::Mutex::new(reached), std::sync::Mutex::new(held));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let hold = |_: IndexProgress| {
                let _ = reached.lock().unwrap().send(());
                let _ = held.lock().unwrap().recv_timeout(Duration::from_secs(30));
            };
            let control = IndexControl { cancelled: &|| false, progress: &hold };
            world.index.build(true, &[], &control).unwrap();
        });
        building.recv().unwrap();
        let asked = AtomicUsize::new(0);
        let control =
            IndexControl { cancelled: &|| asked.fetch_add(1, Ordering::Relaxed) > 10, progress: &|_| {} };
        let error =
            find_references(&world.index, &FindReferencesRequest::new("needle"), None, &control).unwrap_err();
        assert!(matches!(error, FindReferencesError::Text(TextError::Cancelled)), "{error}");
        drop(go_on);
    });
}

#[test]
fn manual_indexing_has_the_errors_of_its_contract() {
    let world = World::with(&[("a.rs", "fn first() {}\n")], Freshness::Manual);
    let status = || check_index_status(&world.index, &IndexControl::none()).unwrap();
    let root = world.index.root().to_str().unwrap();
    let refusal = || {
        let error = world.ask(&FindReferencesRequest::new("first")).unwrap_err();
        error.to_string().replace(root, "{root}")
    };
    expect_text("missing index", &refusal());
    assert_eq!(status().status, IndexState::Missing);
    expect_text("required action", &status().action_required.unwrap());
    assert_eq!(world.build(false).files_indexed, 1);
    assert_eq!((status().status, status().files_modified), (IndexState::Fresh, None));
    assert_eq!(world.places("first"), ["a.rs:1:4"]);
    world.write("a.rs", "\nfn first() {}\n");
    world.write("b.rs", "first();\n");
    expect_text("stale index", &refusal());
    assert_eq!((status().status, status().files_modified), (IndexState::Stale, Some(2)));
    expect_text("reason", &status().reason.unwrap());
    let indexed = world.build(false);
    assert_eq!((indexed.files_indexed, indexed.files_updated), (2, 2));
    assert_eq!(world.places("first"), ["a.rs:2:4", "b.rs:1:1"]);
    assert_eq!(world.build(false).files_updated, 0);
    assert_eq!(world.build(true).files_updated, 2);
}

#[test]
fn only_requested_languages_are_indexed() {
    let world = World::new(&[("a.rs", "name\n"), ("b.py", "name\n"), ("c.txt", "name\n")]);
    let request = index_project::IndexProjectRequest {
        force: false,
        languages: vec!["Python".to_owned(), "rs".to_owned()],
    };
    let indexed = index_project(&world.index, &request, &IndexControl::none()).unwrap();
    assert_eq!((indexed.files_indexed, indexed.files_skipped), (2, 1));
    assert_eq!(indexed.skipped.get("language"), Some(&1));
    world.write("d.txt", "name\n");
    assert_eq!(world.places("name"), ["a.rs:1:1", "b.py:1:1"]);
    assert_eq!(world.build(false).files_indexed, 4);
    assert_eq!(world.places("name").len(), 4);
    let request = index_project::IndexProjectRequest { languages: vec!["cobol".to_owned()], ..request };
    let error = index_project(&world.index, &request, &IndexControl::none()).unwrap_err();
    expect_text("unknown language", &error.to_string());
}

#[test]
fn skipped_files_are_reported_with_reasons() {
    let world = World::new(&[("a.txt", "needle\n"), ("hidden/.x", "needle\n"), ("ignored.txt", "needle\n")]);
    world.write(".gitignore", "ignored.txt\n");
    world.write("binary.dat", b"needle\0needle");
    world.write("huge.txt", "needle\n".repeat(3 << 20));
    let indexed = world.build(false);
    assert_eq!((indexed.files_indexed, indexed.files_skipped), (1, 2));
    let skipped: Vec<_> =
        indexed.skipped_files.iter().map(|file| (file.path.as_str(), file.reason.name())).collect();
    assert_eq!(skipped, [("binary.dat", "binary"), ("huge.txt", "huge")]);
    assert_eq!(world.places("needle"), ["a.txt:1:1"]);
}

#[test]
fn nothing_outside_the_root_is_read() {
    let world = World::new(&[("real/a.txt", "needle\n")]);
    let outside = world.folder.path().join("outside.txt");
    fs::write(&outside, "needle outside\n").unwrap();
    symlink(&outside, world.path("link.txt")).unwrap();
    symlink(world.folder.path(), world.path("up")).unwrap();
    symlink(world.path("real"), world.path("real/loop")).unwrap();
    symlink("nowhere", world.path("dangling")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, world.path("pipe"), rustix::fs::Mode::RWXU).unwrap();
    assert_eq!(world.places("needle"), ["real/a.txt:1:1"]);
    // Replace an indexed file by a link out of the root.
    fs::remove_file(world.path("real/a.txt")).unwrap();
    symlink(&outside, world.path("real/a.txt")).unwrap();
    assert_eq!(world.places("needle"), [""; 0]);
    // Replace a folder by a link.
    fs::remove_file(world.path("real/a.txt")).unwrap();
    world.write("real/a.txt", "needle\n");
    assert_eq!(world.places("needle"), ["real/a.txt:1:1"]);
    fs::rename(world.path("real"), world.folder.path().join("elsewhere")).unwrap();
    symlink(world.folder.path().join("elsewhere"), world.path("real")).unwrap();
    assert_eq!(world.places("needle"), [""; 0]);
}

#[test]
fn odd_files_break_nothing() {
    let world = World::new(&[("a.txt", "needle\n")]);
    let odd = world.path("").join(Path::new(std::ffi::OsStr::from_bytes(b"od\xffd.txt")));
    fs::write(odd, "needle\n").unwrap();
    world.write("latin.txt", b"caf\xe9 needle \xe9t\xe9\n");
    world.write("utf8.txt", "\u{feff}é needle\n");
    world.write("closed.txt", "needle\n");
    fs::set_permissions(world.path("closed.txt"), fs::Permissions::from_mode(0o000)).unwrap();
    // Root may read everything.
    let readable = fs::File::open(world.path("closed.txt")).is_ok();
    let mut expect = vec!["a.txt:1:1", "latin.txt:1:6", "od\u{fffd}d.txt:1:1", "utf8.txt:1:4"];
    if readable {
        expect.insert(1, "closed.txt:1:1");
    }
    assert_eq!(world.places("needle"), expect);
    assert_eq!(world.find("needle").references[if readable { 2 } else { 1 }].preview, "café needle été");
    let indexed = world.build(true);
    assert_eq!(indexed.skipped.get("unreadable"), if readable { None } else { Some(&1) });
}

#[test]
fn damaged_index_is_rebuilt() {
    let world = World::new(&[("a.rs", "fn first() {}\n"), ("b.rs", "first(second)\n")]);
    assert_eq!(world.places("first"), ["a.rs:1:4", "b.rs:1:1"]);
    let files: Vec<_> =
        fs::read_dir(world.index.folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    let names = files.iter().filter(|path| !path.ends_with("lock"));
    for (round, path) in names.cycle().take(12).enumerate() {
        let Ok(mut bytes) = fs::read(path) else { continue };
        match round % 3 {
            0 => bytes.truncate(bytes.len() / 2),
            1 => bytes.iter_mut().step_by(7).for_each(|byte| *byte ^= 0x55),
            _ => bytes.clear(),
        }
        fs::write(path, bytes).unwrap();
        let fresh =
            World { folder: tempfile::tempdir().unwrap(), index: world.reopened(Freshness::Automatic) };
        assert_eq!(fresh.places("first"), ["a.rs:1:4", "b.rs:1:1"], "round {round}: {path:?}");
        assert_eq!(world.places("second"), ["b.rs:1:7"]);
    }
    fs::remove_dir_all(world.index.folder()).unwrap();
    assert_eq!(world.places("first"), ["a.rs:1:4", "b.rs:1:1"]);
}

#[test]
fn processes_share_an_index() {
    let world = World::new(&[("a.rs", "fn first() {}\n")]);
    world.build(false);
    let done = AtomicBool::new(false);
    let asked = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let other = world.reopened(Freshness::Automatic);
                while !done.load(Ordering::SeqCst) || asked.load(Ordering::SeqCst) < 10 {
                    let found = find_references(
                        &other,
                        &FindReferencesRequest::new("first"),
                        None,
                        &IndexControl::none(),
                    )
                    .unwrap();
                    assert_eq!(found.definition.unwrap().place.file, "a.rs");
                    asked.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        for round in 0..25 {
            world.write(&format!("{round}.rs"), "first();\n");
            assert_eq!(world.find("first").total_references, round + 2);
        }
        done.store(true, Ordering::SeqCst);
    });
    assert_eq!(world.find("first").total_references, 26);
}

#[test]
fn builds_report_progress_and_can_be_cancelled() {
    let world = World::new(&[]);
    for file in 0..600 {
        world.write(&format!("{file}.txt"), "needle\n");
    }
    let cancelled = IndexControl { cancelled: &|| true, progress: &|_| {} };
    let error =
        find_references(&world.index, &FindReferencesRequest::new("needle"), None, &cancelled).unwrap_err();
    assert!(matches!(error, FindReferencesError::Text(TextError::Cancelled)));
    let news = std::sync::Mutex::new(Vec::new());
    let progress = |progress: IndexProgress| {
        if let IndexProgress::Indexing { done, total } = progress {
            news.lock().unwrap().push((done, total));
        }
    };
    let told = IndexControl { cancelled: &|| false, progress: &progress };
    let found = find_references(&world.index, &FindReferencesRequest::new("needle"), None, &told).unwrap();
    assert_eq!(found.total_references, 600);
    let news = news.into_inner().unwrap();
    assert!(news.len() > 2 && news.is_sorted() && news.last() == Some(&(600, 600)), "{news:?}");
}

#[test]
fn root_must_be_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("file"), "").unwrap();
    for name in ["file", "nowhere"] {
        let error =
            TextIndex::open(&folder.path().join(name), folder.path(), Freshness::Automatic).unwrap_err();
        let text = error.to_string().replace(folder.path().to_str().unwrap(), "{folder}");
        expect_text(&format!("root is {name}"), &text);
    }
}

#[test]
fn unwritable_cache_is_an_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("cache"), "").unwrap();
    let index = TextIndex::open(folder.path(), &folder.path().join("cache"), Freshness::Automatic).unwrap();
    let error = find_references(&index, &FindReferencesRequest::new("needle"), None, &IndexControl::none())
        .unwrap_err()
        .to_string();
    let error = error.replace(index.folder().to_str().unwrap(), "{index}");
    expect_text("unwritable cache", &error.replace(folder.path().to_str().unwrap(), "{folder}"));
}

type Named = BTreeMap<PathBuf, Vec<(TokenClass, u32)>>;

/// Compares the names in the index with a scan of `texts`.
#[track_caller]
fn compare_names(world: &World, texts: &BTreeMap<PathBuf, String>) {
    let (mut names, mut packages): (BTreeMap<String, Named>, BTreeMap<String, usize>) = Default::default();
    for (path, text) in texts {
        let (tokens, lines) = (FileTokens::read(text.as_bytes()), LineIndex::new(text.as_bytes()));
        for (name, tokens) in tokens.names() {
            let mut tokens: Vec<_> = tokens
                .iter()
                .map(|token| (TokenClass::clone(&token.class), lines.line(token.span.start)))
                .collect();
            tokens.sort_by_key(|(_, line)| *line);
            names.entry(name.to_owned()).or_default().insert(path.clone(), tokens);
        }
        for name in tokens.packages().iter().flat_map(|package| &package.names) {
            *packages.entry(name.clone()).or_default() += 1;
        }
    }
    assert!(names.len() > 1000 && packages.len() > 3, "{} {}", names.len(), packages.len());
    let index = world.index.lisp_names(&IndexControl::none()).unwrap();
    for (name, expected) in names {
        let named = index.named(&name).unwrap();
        let found = named.files.iter().map(|found| {
            let class = |class: u32| TokenClass::clone(&found.classes[class as usize]);
            let tokens = named.tokens[found.tokens.clone()].iter();
            (found.path.to_owned(), tokens.map(|(number, line)| (class(*number), *line)).collect())
        });
        assert_eq!(found.collect::<Named>(), expected, "{name}");
    }
    for (name, count) in packages {
        assert_eq!(index.packages(&name).unwrap().len(), count, "{name}");
    }
    assert!(index.named("NO-SUCH-NAME").unwrap().files.is_empty());
}

#[test]
fn lisp_names_agree_with_a_scan() {
    let world = World::new(&[]);
    let mut texts = BTreeMap::new();
    for library in ["alexandria", "cl-ppcre", "bordeaux-threads"] {
        let mut todo = vec![crate::fixtures::lisp_libraries().join(library)];
        while let Some(folder) = todo.pop() {
            for entry in fs::read_dir(folder).unwrap().flatten() {
                let path = entry.path();
                if entry.file_type().unwrap().is_dir() {
                    todo.push(path);
                } else if path.extension().is_some_and(|extension| extension == "lisp" || extension == "asd")
                    && let Ok(text) = fs::read_to_string(&path)
                {
                    let path = path.strip_prefix(crate::fixtures::lisp_libraries()).unwrap().to_owned();
                    world.write(path.to_str().unwrap(), &text);
                    texts.insert(path, text);
                }
            }
        }
    }
    compare_names(&world, &texts);
    // Changes add segments, which are merged.
    let paths: Vec<PathBuf> = texts.keys().step_by(5).take(12).cloned().collect();
    assert_eq!(paths.len(), 12);
    for path in paths {
        let text = texts.get_mut(&path).unwrap();
        text.push_str("\n(in-package :cl-user) (defun in-more-files (x) (car x))\n");
        world.write(path.to_str().unwrap(), text);
        world.index.lisp_names(&IndexControl::none()).unwrap();
    }
    compare_names(&world, &texts);
}
