//! Tests find_references, index_project and check_index_status on small trees.

use std::fs;
use std::time::Duration;

use crate::text_index::build_error;
use crate::texts::expect_text;
use steelbank::actions::text::find_references::{
    FindReferencesError, FindReferencesRequest, IndexAge, References, find_references,
};
use steelbank::actions::text::index_project;
use steelbank::actions::text::index_project::index_project;
use steelbank::tools::Failure;
use steelbank_text::{Freshness, IndexControl, TextIndex, TextRole};
use tempfile::TempDir;

/// A project and a cache, both removed after the test.
pub(crate) struct World {
    pub(crate) folder: TempDir,
    pub(crate) index: TextIndex,
}

impl World {
    pub(crate) fn new(files: &[(&str, &str)]) -> World {
        World::with(files, Freshness::Automatic)
    }

    pub(crate) fn with(files: &[(&str, &str)], freshness: Freshness) -> World {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("project")).unwrap();
        let index =
            TextIndex::open(&folder.path().join("project"), &folder.path().join("cache"), freshness).unwrap();
        let world = World { folder, index };
        files.iter().for_each(|(path, text)| world.write(path, text));
        world
    }

    pub(crate) fn path(&self, path: &str) -> std::path::PathBuf {
        self.folder.path().join("project").join(path)
    }

    pub(crate) fn write(&self, path: &str, text: impl AsRef<[u8]>) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    /// Opens the same project and cache as another process would.
    pub(crate) fn reopened(&self, freshness: Freshness) -> TextIndex {
        TextIndex::open(self.index.root(), &self.folder.path().join("cache"), freshness).unwrap()
    }

    pub(crate) fn ask(&self, request: &FindReferencesRequest) -> Result<References, FindReferencesError> {
        find_references(&self.index, request, None, &IndexControl::none())
    }

    pub(crate) fn find(&self, pattern: &str) -> References {
        self.ask(&FindReferencesRequest { force: true, ..FindReferencesRequest::new(pattern) }).unwrap()
    }

    /// Lists path, line and column of every reference.
    pub(crate) fn places(&self, pattern: &str) -> Vec<String> {
        let found = self.find(pattern);
        found.references.iter().map(|each| each.place.to_string()).collect()
    }

    pub(crate) fn build(&self, force: bool) -> index_project::Indexed {
        let request = index_project::IndexProjectRequest { force, languages: Vec::new() };
        index_project(&self.index, &request, &IndexControl::none()).unwrap()
    }
}

#[test]
fn definition_and_uses_are_in_one_answer() {
    let world = World::new(&[
        (
            "src/cache.rs",
            "/// A CacheManager.\npub struct CacheManager;\nfn f() { CacheManager::new(\"CacheManager\") }\n",
        ),
        ("README.md", "Use CacheManager, not CacheManagers.\n"),
        ("web/app.ts", "const x = new CacheManager();\nlet $CacheManager = 1;\n"),
    ]);
    let found = world.find("CacheManager");
    let definition = found.definition.unwrap();
    assert_eq!(definition.place.to_string(), "src/cache.rs:2:12");
    assert_eq!((definition.kind.name(), definition.symbol.as_str()), ("struct", "CacheManager"));
    assert_eq!(definition.preview, "pub struct CacheManager;");
    assert_eq!((definition.span.start_line, definition.span.end_line), (2, 2));
    let shown: Vec<_> = found
        .references
        .iter()
        .map(|each| format!("{} {}", each.place, each.role.map_or("", TextRole::name)))
        .collect();
    assert_eq!(
        shown,
        [
            "README.md:1:5 reference", "src/cache.rs:1:7 comment", "src/cache.rs:2:12 definition",
            "src/cache.rs:3:10 reference", "src/cache.rs:3:29 string", "web/app.ts:1:15 call",
        ]
    );
    assert_eq!((found.total_references, found.pagination.total, found.pagination.has_more), (6, 6, false));
    assert_eq!(found.status, IndexAge::Fresh);
}

#[test]
fn answer_has_the_shape_of_its_contract() {
    let world = World::new(&[("a.py", "def thing():\n    pass\n")]);
    let value = serde_json::to_value(world.find("thing")).unwrap();
    assert_eq!(
        value,
        serde_json::json!({
            "definition": {
                "path": "a.py", "line": 1, "column": 5, "kind": "function", "symbol": "thing",
                "span": {"start_line": 1, "start_column": 1, "end_line": 2, "end_column": 9},
                "preview": "def thing():"
            },
            "definitions": [],
            "total_definitions": 1,
            "references": [{"path": "a.py", "line": 1, "column": 5, "role": "definition", "preview": "def thing():"}],
            "total_references": 1,
            "pagination": {"total": 1, "count": 1, "offset": 0, "limit": 100, "has_more": false},
            "status": "fresh"
        })
    );
    let nothing = serde_json::to_value(world.find("nowhere")).unwrap();
    assert_eq!(
        (&nothing["definition"], &nothing["references"]),
        (&serde_json::Value::Null, &serde_json::json!([]))
    );
}

#[test]
fn identifiers_follow_the_syntax_of_their_language() {
    let world = World::new(&[
        (
            "a.lisp",
            "(defvar *level* 1)\n(defun set-level (x) (setf *level* x)) ; *level*.\n(defconstant +k+ 2)\n(foo! 1) (foo 2)\n",
        ),
        ("b.c", "int r = *level* 2;\nint s = a->b; char *level;\n"),
        ("c.scm", "(define (a->b x) (set! y x))\n(a->b (a->bc))\n"),
        ("d.rs", "fn m() { json!(1); json(2); x != json; }\nmacro_rules! json { () => {} }\n"),
        ("e.php", "<?php $count = 1; $this->count; $counter;\n"),
        ("f.js", "let $x = 1; let x = $x;\n"),
    ]);
    assert_eq!(world.places("*level*"), ["a.lisp:1:9", "a.lisp:2:28", "a.lisp:2:42", "b.c:1:9"]);
    assert_eq!(world.places("level"), ["b.c:1:10", "b.c:2:21"]);
    assert_eq!(world.places("+k+"), ["a.lisp:3:14"]);
    assert_eq!(world.places("foo!"), ["a.lisp:4:2"]);
    assert_eq!(world.places("foo"), ["a.lisp:4:11"]);
    assert_eq!(world.places("a->b"), ["b.c:2:9", "c.scm:1:10", "c.scm:2:2"]);
    assert_eq!(world.places("set!"), ["c.scm:1:19"]);
    assert_eq!(world.places("json!"), ["d.rs:1:10"]);
    assert_eq!(world.find("json!").definition.unwrap().kind.name(), "macro");
    assert_eq!(world.places("json"), ["d.rs:1:10", "d.rs:1:20", "d.rs:1:34", "d.rs:2:14"]);
    assert_eq!(world.places("$count"), ["e.php:1:7"]);
    assert_eq!(world.places("count"), ["e.php:1:8", "e.php:1:26"]);
    assert_eq!(world.places("$x"), ["f.js:1:5", "f.js:1:21"]);
    assert_eq!(world.places("x = "), ["f.js:1:6", "f.js:1:17"]);
}

#[test]
fn lisp_symbols_ignore_case_and_honor_packages() {
    let world = World::new(&[
        (
            "package.lisp",
            "(defpackage #:app (:use #:cl) (:nicknames #:a) (:export #:run))\n(defpackage #:other (:use #:cl))\n",
        ),
        ("app.lisp", "(in-package #:app)\n(defun run () (RUN))\n#+nope (run)\n"),
        ("other.lisp", "(in-package #:other)\n(defun run () 1)\n(app:run) (a::run) (b:run) '(:run |run|)\n"),
    ]);
    assert_eq!(world.places("run").len(), 9);
    assert_eq!(
        world.places("app:run"),
        ["app.lisp:2:8", "app.lisp:2:16", "app.lisp:3:9", "other.lisp:3:6", "other.lisp:3:15"]
    );
    assert_eq!(world.places("app::run"), world.places("a:run"));
    assert_eq!(world.find("other:run").definition.unwrap().place.file, "other.lisp");
    assert_eq!(world.find("APP:RUN").definition.unwrap().place.file, "app.lisp");
    assert_eq!(world.places(":run"), ["other.lisp:3:31"]);
    assert_eq!(world.places("|run|"), ["other.lisp:3:35"]);
    let roles: Vec<_> = world.find("other:run").references.iter().map(|each| each.role.unwrap()).collect();
    assert_eq!(roles, [TextRole::Definition]);
}

#[test]
fn project_definitions_come_first() {
    let world = World::new(&[
        ("a/thing.h", "int thing(void);\n"),
        ("node_modules/x/thing.c", "int thing(void) { return 1; }\n"),
        ("tests/thing.c", "int thing(void) { return 2; }\n"),
        ("z/thing.c", "int thing(void) { return 3; }\n"),
        ("z/thing.py", "class thing: pass\n"),
    ]);
    let found = world.find("thing");
    let order: Vec<_> =
        found.definition.iter().chain(&found.definitions).map(|each| each.place.file.as_str()).collect();
    assert_eq!(order, ["z/thing.c", "z/thing.py", "tests/thing.c", "node_modules/x/thing.c", "a/thing.h"]);
    assert!(found.definitions.last().unwrap().declaration);
    let class = world
        .ask(&FindReferencesRequest { kind: Some("Class".to_owned()), ..FindReferencesRequest::new("thing") })
        .unwrap();
    assert_eq!((class.definition.unwrap().place.file.as_str(), class.total_references), ("z/thing.py", 5));
    let none = world
        .ask(&FindReferencesRequest { kind: Some("macro".to_owned()), ..FindReferencesRequest::new("thing") })
        .unwrap();
    assert_eq!(none.definition, None);
}

#[test]
fn files_are_chosen_by_language_and_glob() {
    let world = World::new(&[
        ("src/a.rs", "fn name() {}\n"),
        ("src/deep/b.rs", "name();\n"),
        ("tests/c.rs", "name();\n"),
        ("d.py", "name()\n"),
    ]);
    let paths = |request: &FindReferencesRequest| -> Vec<_> {
        world.ask(request).unwrap().references.into_iter().map(|each| each.place.file).collect()
    };
    let globs = |globs: &[&str]| globs.iter().map(|&glob| glob.to_owned()).collect::<Vec<_>>();
    let all = FindReferencesRequest::new("name");
    assert_eq!(paths(&all), ["d.py", "src/a.rs", "src/deep/b.rs", "tests/c.rs"]);
    assert_eq!(paths(&FindReferencesRequest { lang: Some("py".to_owned()), ..all.clone() }), ["d.py"]);
    assert_eq!(
        paths(&FindReferencesRequest { glob: globs(&["src/**/*.rs"]), ..all.clone() }),
        ["src/a.rs", "src/deep/b.rs"]
    );
    assert_eq!(
        paths(&FindReferencesRequest { exclude: globs(&["tests/**", "*.py"]), ..all.clone() }),
        ["src/a.rs", "src/deep/b.rs"]
    );
    let mut both = FindReferencesRequest { glob: globs(&["*.rs"]), exclude: globs(&["src/deep"]), ..all };
    assert_eq!(paths(&both), ["src/a.rs", "tests/c.rs"]);
    both.lang = Some("go".to_owned());
    assert_eq!(paths(&both), [""; 0]);
}

#[test]
fn pages_joined_are_the_full_answer() {
    let text: String = (0..250).map(|line| format!("name {line} name\n")).collect();
    let world = World::new(&[("a.txt", &text), ("b.rs", "fn name() {}\n")]);
    let whole =
        world.ask(&FindReferencesRequest { limit: 10_000, ..FindReferencesRequest::new("name") }).unwrap();
    assert_eq!(whole.total_references, 501);
    let mut paged = Vec::new();
    let mut offset = 0;
    loop {
        let page = world
            .ask(&FindReferencesRequest { limit: 77, offset, ..FindReferencesRequest::new("name") })
            .unwrap();
        assert_eq!((page.pagination.offset, page.pagination.limit, page.pagination.total), (offset, 77, 501));
        assert_eq!(page.definition, whole.definition);
        offset += page.pagination.count;
        assert_eq!(page.pagination.count, page.references.len() as u64);
        paged.extend(page.references);
        if !page.pagination.has_more {
            break;
        }
    }
    assert_eq!(paged, whole.references);
    let past =
        world.ask(&FindReferencesRequest { offset: 1000, ..FindReferencesRequest::new("name") }).unwrap();
    assert_eq!((past.references.len(), past.total_references, past.pagination.has_more), (0, 501, false));
    let far =
        world.ask(&FindReferencesRequest { offset: u64::MAX, ..FindReferencesRequest::new("name") }).unwrap();
    assert_eq!(far.pagination.count, 0);
}

#[test]
fn broad_questions_need_force() {
    let text = "some name here\n".repeat(6000);
    let world = World::new(&[("many.txt", &text), ("x.rs", "fn if_() { ab(); }\n")]);
    let error: steelbank::Error = world.ask(&FindReferencesRequest::new("name")).unwrap_err().into();
    expect_text("many references", &Failure::from(error).to_string());
    let forced = world
        .ask(&FindReferencesRequest { force: true, offset: 5990, ..FindReferencesRequest::new("name") })
        .unwrap();
    assert_eq!((forced.total_references, forced.references.len()), (6000, 10));
    assert_eq!((forced.references[9].place.line, forced.references[9].place.column), (Some(6000), Some(6)));
    expect_text("short pattern", &world.ask(&FindReferencesRequest::new("ab")).unwrap_err().to_string());
    assert_eq!(world.find("ab").total_references, 1);
    assert_eq!(world.find("e n").total_references, 6000);
    assert!(matches!(world.ask(&FindReferencesRequest::new(" ")), Err(FindReferencesError::EmptyPattern)));
}

#[test]
fn file_changes_are_found_at_once() {
    let world = World::new(&[("a.rs", "fn first() {}\n"), ("sub/b.rs", "first();\n")]);
    assert_eq!(world.places("first"), ["a.rs:1:4", "sub/b.rs:1:1"]);
    world.write("a.rs", "\nfn first() {}\n");
    assert_eq!(world.places("first"), ["a.rs:2:4", "sub/b.rs:1:1"]);
    world.write("new/c.rs", "first()");
    assert_eq!(world.places("first"), ["a.rs:2:4", "new/c.rs:1:1", "sub/b.rs:1:1"]);
    fs::remove_file(world.path("a.rs")).unwrap();
    fs::rename(world.path("sub"), world.path("moved")).unwrap();
    assert_eq!(world.places("first"), ["moved/b.rs:1:1", "new/c.rs:1:1"]);
    assert_eq!(world.find("first").definition, None);
    world.write(".gitignore", "new/\n");
    assert_eq!(world.places("first"), ["moved/b.rs:1:1"]);
    world.write(".gitignore", "moved/\n");
    assert_eq!(world.places("first"), ["new/c.rs:1:1"]);
    // Make two changes of the same length within the clock's resolution.
    world.write("new/c.rs", "fxrst()");
    world.write("new/c.rs", "first()");
    assert_eq!(world.places("first"), ["new/c.rs:1:1"]);
    for round in 0..40 {
        world.write("new/c.rs", format!("first();\nword{round}();\n"));
        assert_eq!(world.places(&format!("word{round}")), ["new/c.rs:2:1"]);
        assert_eq!(world.places(&format!("word{}", round + 1)), [""; 0]);
        world.write(&format!("many/{round}.rs"), format!("each({round});\n"));
        assert_eq!(world.places("each").len(), round + 1);
    }
    let segments = fs::read_dir(world.index.folder()).unwrap().count();
    assert!(segments < 16, "{segments} files: small segments are merged");
}

#[test]
fn a_watched_tree_is_never_stale() {
    let world = World::new(&[("a.rs", "fn first() {}\n")]);
    assert!(world.index.watch());
    assert_eq!(world.places("first"), ["a.rs:1:4"]);
    assert_eq!(world.places("first"), ["a.rs:1:4"]);
    world.write("a.rs", "\nfn first() {}\n");
    assert!(world.index.wait_for_change(Duration::from_secs(30)));
    assert_eq!(world.places("first"), ["a.rs:2:4"]);
    fs::create_dir(world.path("sub")).unwrap();
    assert!(world.index.wait_for_change(Duration::from_secs(30)));
    assert_eq!(world.places("first"), ["a.rs:2:4"]);
    assert_eq!(world.places("first"), ["a.rs:2:4"]);
    world.write("sub/b.rs", "first();\n");
    assert!(world.index.wait_for_change(Duration::from_secs(30)));
    assert_eq!(world.places("first"), ["a.rs:2:4", "sub/b.rs:1:1"]);
}

#[test]
fn recreated_folder_is_watched_again() {
    let world = World::new(&[("a.rs", "fn first() {}\n"), ("src/deep/b.rs", "first();\n")]);
    assert!(world.index.watch());
    let settle = || (0..3).for_each(|_| drop(world.find("first")));
    settle();
    fs::remove_dir_all(world.path("src")).unwrap();
    fs::create_dir_all(world.path("src/deep")).unwrap();
    assert!(world.index.wait_for_change(Duration::from_secs(30)));
    assert_eq!(world.places("first"), ["a.rs:1:4"]);
    settle();
    world.write("src/deep/c.rs", "first();\n");
    assert_eq!(world.places("first"), ["a.rs:1:4", "src/deep/c.rs:1:1"]);
    // A folder that is moved away, and the new folder in its place, are also watched.
    fs::rename(world.path("src"), world.path("old")).unwrap();
    fs::create_dir_all(world.path("src/deep")).unwrap();
    assert_eq!(world.places("first"), ["a.rs:1:4", "old/deep/c.rs:1:1"]);
    settle();
    world.write("src/deep/d.rs", "first();\n");
    assert_eq!(world.places("first"), ["a.rs:1:4", "old/deep/c.rs:1:1", "src/deep/d.rs:1:1"]);
}

#[test]
fn removed_and_recreated_root_is_indexed_again() {
    for watched in [false, true] {
        let world = World::new(&[("a.rs", "fn first() {}\n"), ("sub/b.rs", "first();\n")]);
        assert!(!watched || world.index.watch());
        assert_eq!(world.places("first").len(), 2);
        let away = world.folder.path().join("away");
        for round in 0..3 {
            if round == 1 {
                fs::rename(world.path(""), &away).unwrap();
            } else {
                fs::remove_dir_all(world.path("")).unwrap();
            }
            for ask in
                [world.ask(&FindReferencesRequest::new("first")).unwrap_err(), build_error(&world.index)]
            {
                let root = world.index.root().to_str().unwrap();
                expect_text("missing root", &ask.to_string().replace(root, "{root}"));
            }
            assert!(world.index.status(&IndexControl::none()).is_err());
            world.write("new/c.rs", "first();\nfirst();\n");
            assert_eq!(world.places("first"), ["new/c.rs:1:1", "new/c.rs:2:1"], "round {round}");
            let later = world.reopened(Freshness::Automatic);
            let found =
                find_references(&later, &FindReferencesRequest::new("first"), None, &IndexControl::none())
                    .unwrap();
            assert_eq!(found.total_references, 2);
            world.write("new/d.rs", "first();\n");
            let three = ["new/c.rs:1:1", "new/c.rs:2:1", "new/d.rs:1:1"];
            assert_eq!(world.places("first"), three);
            let found =
                find_references(&later, &FindReferencesRequest::new("first"), None, &IndexControl::none())
                    .unwrap();
            assert_eq!(found.total_references, 3);
            fs::remove_file(world.path("new/d.rs")).unwrap();
        }
    }
}

#[test]
fn loaded_references_carry_their_symbol() {
    own_process!();
    use steelbank::tools::{Call, Session};
    let root = super::project::folder("text");
    let cache = super::project::folder("text-cache");
    fs::write(root.join("app.asd"), "(defsystem \"app\" :components ((:file \"app\")))").unwrap();
    let text =
        "(defpackage #:app (:use #:cl))\n(in-package #:app)\n(defun greet () (print 'greet)) ; greet\n";
    fs::write(root.join("app.lisp"), text).unwrap();
    let bank = super::project::project(&root, &cache);
    let tree = root.to_path_buf();
    let session = Session::new(bank).with_text(move || {
        TextIndex::open(&tree, &cache, Freshness::Automatic).map_err(|error| error.to_string())
    });
    let symbols = || {
        let arguments = serde_json::json!({"pattern": "greet"});
        let tools = steelbank::actions::tools();
        let tool = tools.get("find_references").unwrap();
        let answer = tool.call(&session, arguments.as_object().unwrap().clone(), &Call::default()).unwrap();
        let references = answer.structured["references"].as_array().unwrap().clone();
        references.into_iter().map(|each| each["symbol"].as_str().map(str::to_owned)).collect::<Vec<_>>()
    };
    assert_eq!(symbols(), [None, None, None]);
    super::project::load(session.bank().unwrap(), "app");
    let symbol = Some("app::greet".to_owned());
    assert_eq!(symbols(), [symbol.clone(), symbol, None]);
    fs::write(root.join("app.lisp"), text.replace("greet ()", "greet (x)")).unwrap();
    assert_eq!(symbols(), [None, None, None], "the loaded version is stale");
}
