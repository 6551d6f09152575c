//! Tests of snapshots: answers are the same with and without a snapshot, after any edit, and damage
//! is detected.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::{Value, json};
use steelbank::tools::{Call, Session};
use steelbank::{Control, LoadRequest, ProjectSettings, StartedFrom, Steelbank};

use crate::child::wait_until;
use crate::fixtures::library_registry;
use crate::program::{Folder, STEELBANK, ask};
use crate::texts::{expect_text, in_general};
use steelbank::actions::change::reload::ReloadRequest;

const LONG: Duration = Duration::from_secs(600);

/// The environment variable with the task of the tests' child process.
const CHILD: &str = "STEELBANK_TEST_SNAPSHOT";

/// Starts an image of the project at `root`, with its own cache.
fn bank(root: &Path, cache: &Path, systems: &[&str], snapshots: bool) -> Steelbank {
    let userinit = root.join("init.lisp");
    let project = ProjectSettings::in_folder(root).cache(cache).userinit(userinit);
    let systems = systems.iter().map(|&system| system.to_owned()).collect();
    Steelbank::builder()
        .project(project)
        .program(STEELBANK.into())
        .systems(systems)
        .snapshots(snapshots)
        .start()
        .unwrap()
}

/// Loads the systems, and prints the answers to all queries as JSON.
#[test]
#[ignore = "run by the tests below"]
fn answers() {
    let told: Value = serde_json::from_str(&std::env::var(CHILD).unwrap()).unwrap();
    let texts = |key: &str| -> Vec<String> {
        told[key].as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let path = |key: &str| PathBuf::from(told[key].as_str().unwrap());
    let systems = texts("systems");
    let systems: Vec<&str> = systems.iter().map(String::as_str).collect();
    let bank = bank(&path("root"), &path("cache"), &systems, told["snapshots"] == true);
    let control = Control::new(LONG);
    let mut said = Vec::new();
    if let Some(written) = told["written"].as_array() {
        let [path, text] = [0, 1].map(|at| written[at].as_str().unwrap());
        fs::write(path, text).unwrap();
        let compiled = match told["by"].as_str().unwrap() {
            "reload" => bank.run(&ReloadRequest::new(), &control).unwrap().load.compiled,
            "load-system" => {
                bank.run(&LoadRequest::system(systems[0]).failure_as_answer(), &control).unwrap().compiled
            }
            _ => bank.run(&LoadRequest::project().failure_as_answer(), &control).unwrap().compiled,
        };
        said.push(json!(compiled.len()));
    }
    for system in &systems {
        let answer = bank.run(&LoadRequest::system(*system).failure_as_answer(), &control).unwrap();
        let mut answer = serde_json::to_value(answer).unwrap();
        answer["duration_ms"] = Value::Null;
        // The order of independent files is not specified.
        for list in ["compiled", "cached"] {
            let mut files: Vec<String> = serde_json::from_value(answer[list].clone()).unwrap();
            files.sort();
            answer[list] = json!(files);
        }
        said.push(json!([system, answer]));
    }
    let session = Session::new(bank.clone()).with_tools(steelbank::actions::tools().clone());
    let mut ask = |tool: &str, arguments: Value| {
        let object = arguments.as_object().unwrap().clone();
        let answer = steelbank::actions::tools().get(tool).unwrap().call(&session, object, &Call::default());
        let answer = answer.map(|answer| json!([answer.text, answer.structured]));
        said.push(json!([tool, arguments, answer.unwrap_or_else(|failure| json!(failure.to_string()))]));
    };
    for name in texts("names") {
        ask("describe-symbol", json!({ "name": name }));
        ask("find-definition", json!({ "name": name }));
        ask("code-find-references", json!({ "symbol": name, "project_only": false }));
        for kind in ["calls", "references", "binds", "sets", "macroexpands", "specializes"] {
            ask(&format!("who-{kind}"), json!({ "name": name }));
        }
    }
    ask("list-systems", json!({}));
    // A second load has nothing to do.
    for system in &systems {
        let again = bank.run(&LoadRequest::system(*system).failure_as_answer(), &control).unwrap();
        said.push(json!([again.status, again.compiled, again.cached, again.diagnostics]));
    }
    let (fresh, part, why) = match bank.started_from() {
        StartedFrom::Snapshot => (true, false, None),
        StartedFrom::PartOfSnapshot { why } => (false, true, why),
        StartedFrom::Core { why } => (false, false, why),
        _ => unreachable!(),
    };
    println!("\nanswers {}", json!({ "fresh": fresh, "part": part, "why": why, "said": said }));
}

/// Runs the child on the project, with `snapshots` or without, and returns its answers.
fn told(root: &Path, cache: &Path, systems: &[&str], names: &[&str], snapshots: bool) -> Value {
    child_says(&json!({
        "root": root, "cache": cache, "systems": systems, "names": names, "snapshots": snapshots
    }))
}

/// Runs the child with its task, and returns its answers.
fn child_says(told: &Value) -> Value {
    let output: Output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "snapshot::answers", "--ignored", "--nocapture"])
        .env(CHILD, told.to_string())
        .env("CL_SOURCE_REGISTRY", library_registry())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    let line = text.lines().find_map(|line| line.strip_prefix("answers "));
    let errors = String::from_utf8_lossy(&output.stderr);
    serde_json::from_str(line.unwrap_or_else(|| panic!("{text}\n{errors}"))).unwrap()
}

/// Makes a snapshot in a separate process, as the command line does. Returns whether that
/// succeeded, and the output.
fn make(root: &Path, cache: &Path, systems: &[&str]) -> (bool, String) {
    let told = json!({ "root": root, "cache": cache, "systems": systems });
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "snapshot::maker", "--ignored", "--nocapture"])
        .env(CHILD, told.to_string())
        .env("CL_SOURCE_REGISTRY", library_registry())
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    (text.lines().any(|line| line.starts_with("made: ")), text)
}

#[test]
#[ignore = "run by the tests below"]
fn maker() {
    let told: Value = serde_json::from_str(&std::env::var(CHILD).unwrap()).unwrap();
    let root = PathBuf::from(told["root"].as_str().unwrap());
    let systems = told["systems"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
    let init = root.join("init.lisp");
    let project = ProjectSettings::in_folder(root).cache(told["cache"].as_str().unwrap()).userinit(init);
    let builder = Steelbank::builder().project(project).program(STEELBANK.into()).systems(systems.collect());
    match builder.make_snapshot(|news| println!("{news}")) {
        Ok(made) => println!("\nmade: {} bytes", made.bytes),
        Err(error) => println!("not made: {error}"),
    }
}

/// Replaces the addresses of printed objects, which differ between processes.
fn without_addresses(value: &Value) -> Value {
    serde_json::from_str(&in_general(&value.to_string(), &[])).unwrap()
}

/// Compares the answers of two processes.
fn assert_same(plain: &Value, snapshot: &Value, when: &str) {
    let part = snapshot["part"] == true;
    let (plain, snapshot) = (plain["said"].as_array().unwrap(), snapshot["said"].as_array().unwrap());
    assert_eq!(plain.len(), snapshot.len(), "{when}");
    for (one, other) in plain.iter().zip(snapshot) {
        let (mut one, other) = (without_addresses(one), without_addresses(other));
        // This load did not load the dependencies that the snapshot contains.
        if part && let Some(cached) = one[1].get_mut("cached").and_then(Value::as_array_mut) {
            cached.retain(|file| other[1]["cached"].as_array().unwrap().contains(file));
        }
        if one != other {
            panic!("{when}: without a snapshot\n{one:#}\nwith one\n{other:#}");
        }
    }
}

const NAMES: [&str; 10] = [
    "app:price", "app::*rate*", "app:with-rate", "app::item", "app::total", "app::extra",
    "alexandria:with-gensyms", "alexandria:when-let", "cl-ppcre:scan", "cl:mapcar",
];

fn write(root: &Path, name: &str, text: &str) {
    fs::write(root.join(name), text).unwrap();
}

/// Writes a project that uses two external libraries and a third library in the project.
fn write_project(root: &Path) {
    fs::create_dir_all(root.join("lib")).unwrap();
    write(root, "init.lisp", "(push :first-init *features*)\n");
    write(root, "lib/lib.asd", "(defsystem \"lib\" :components ((:file \"lib\")))");
    write(
        root,
        "lib/lib.lisp",
        "(defpackage :lib (:use :cl) (:export #:twice))\n(in-package :lib)\n(defun twice (x) (list x x))\n",
    );
    write(
        root,
        "app.asd",
        "(defsystem \"app\" :serial t :depends-on (\"alexandria\" \"cl-ppcre\" \"lib\")
           :components ((:file \"package\") (:file \"macros\") (:file \"main\")))",
    );
    write(
        root,
        "package.lisp",
        "(defpackage :app (:use :cl) (:export #:price #:with-rate))\n(in-package :app)\n",
    );
    write(
        root,
        "macros.lisp",
        "(in-package :app)\n(defvar *rate* 2)\n(defmacro with-rate ((rate) &body body)\n  `(let ((*rate* ,rate)) ,@body))\n",
    );
    write(
        root,
        "main.lisp",
        "(in-package :app)
(defclass item () ((name :initarg :name)))
(defgeneric price (item))
(defmethod price ((item item))
  (with-rate (3) (* *rate* (length (slot-value item 'name)))))
(defun total (items unused)
  (alexandria:when-let (all (mapcar #'price items))
    (cl-ppcre:scan \"a+\" \"b\")
    (lib:twice (reduce #'+ all))))
#+first-init (defun extra () (total nil 1))
",
    );
}

#[test]
fn answers_are_equal_with_and_without_snapshot() {
    let folder = Folder::new("snapshots");
    let root = folder.canonicalize().unwrap().join("project");
    let caches = [folder.join("plain"), folder.join("snapshot")];
    write_project(&root);
    let plain = || told(&root, &caches[0], &["app"], &NAMES, false);
    let with = || told(&root, &caches[1], &["app"], &NAMES, true);
    let both = || {
        std::thread::scope(|scope| {
            let one = scope.spawn(plain);
            let other = with();
            (one.join().unwrap(), other)
        })
    };
    let read = |name: &str| fs::read_to_string(root.join(name)).unwrap();

    let (one, other) = both();
    assert_eq!(other["fresh"], false);
    expect_text("no snapshot", other["why"].as_str().unwrap());
    assert_same(&one, &other, "the first load");
    let (made, said) = make(&root, &caches[1], &["app"]);
    assert!(made, "{said}");
    let (one, other) = both();
    assert_eq!(other["fresh"], true, "{}", other["why"]);
    assert_same(&one, &other, "from a fresh snapshot");

    let edit = |name: &str, from: &str, to: &str| {
        let text = read(name);
        assert!(text.contains(from), "{name}: {from}");
        write(&root, name, &text.replace(from, to));
    };
    type Edit<'a> = (&'a str, &'a dyn Fn());
    let edits: [Edit<'_>; 14] = [
        ("a function changed", &|| edit("main.lisp", "(reduce #'+ all)", "(reduce #'+ (print all))")),
        ("a function added", &|| {
            write(&root, "main.lisp", &(read("main.lisp") + "(defun added () (extra))\n"))
        }),
        ("a function removed", &|| edit("main.lisp", "(defun added () (extra))\n", "")),
        ("a macro changed", &|| edit("macros.lisp", "(let ((*rate* ,rate))", "(let ((*rate* (1+ ,rate)))")),
        ("a variable's value changed", &|| edit("macros.lisp", "*rate* 2", "*rate* 5")),
        ("a class changed", &|| {
            edit("main.lisp", "((name :initarg :name))", "((name :initarg :name) (size))")
        }),
        ("a file added", &|| {
            write(&root, "more.lisp", "(in-package :app)\n(defun more () (price 1))\n");
            edit("app.asd", "(:file \"main\")", "(:file \"main\") (:file \"more\")");
        }),
        ("a file renamed", &|| {
            fs::rename(root.join("more.lisp"), root.join("renamed.lisp")).unwrap();
            edit("app.asd", "\"more\"", "\"renamed\"");
        }),
        ("a file removed", &|| {
            fs::remove_file(root.join("renamed.lisp")).unwrap();
            edit("app.asd", " (:file \"renamed\")", "");
        }),
        ("a component moved", &|| {
            edit(
                "app.asd", "(:file \"package\") (:file \"macros\")", "(:file \"macros\") (:file \"package\")",
            );
        }),
        ("moved back", &|| {
            edit(
                "app.asd", "(:file \"macros\") (:file \"package\")", "(:file \"package\") (:file \"macros\")",
            );
        }),
        ("another dependency", &|| edit("app.asd", "\"lib\"", "\"lib\" \"cl-who\"")),
        ("a dependency changed", &|| edit("lib/lib.lisp", "(list x x)", "(list x x x)")),
        ("another init file", &|| edit("init.lisp", ":first-init", ":second-init")),
    ];
    for (number, (what, change)) in edits.iter().enumerate() {
        // ASDF compares modification times in seconds.
        std::thread::sleep(Duration::from_millis(1100));
        change();
        let (one, other) = both();
        assert_same(&one, &other, what);
        // The snapshot of the unchanged dependencies is used, except after a change of the init
        // file.
        assert_eq!(other["part"], *what != "another init file", "{what}: {}", other["why"]);
        if number % 4 == 1 {
            // Ask again with all files compiled.
            let (one, other) = both();
            assert_same(&one, &other, &format!("{what}, once more"));
        }
        if number == 1 {
            // Make the snapshot of the dependencies again, too.
            let (made, said) = make(&root, &caches[1], &["app"]);
            assert!(made, "{said}");
        }
    }
    let (made, said) = make(&root, &caches[1], &["app"]);
    assert!(made, "{said}");
    let (one, other) = (plain(), with());
    assert_eq!(other["fresh"], true, "{}", other["why"]);
    assert_same(&one, &other, "from a new snapshot after all changes");
}

#[test]
fn loads_see_changes_after_a_snapshot_start() {
    for by in ["reload", "load-system", "load-project"] {
        let folder = Folder::new("snapshot-written");
        let (root, cache) = (folder.join("project"), folder.join("cache"));
        write_project(&root);
        assert!(make(&root, &cache, &["app"]).0);
        let file = root.join("main.lisp");
        let text = format!("{}\n(defun written-later () 1)\n", fs::read_to_string(&file).unwrap());
        let said = child_says(&json!({
            "root": root, "cache": cache, "systems": ["app"], "snapshots": true,
            "names": ["app::written-later"], "written": [file, text], "by": by,
        }));
        assert_eq!(said["fresh"], true, "{said}");
        assert_ne!(said["said"][0], 0, "{by}: {said}");
        let described = said["said"].to_string();
        assert!(described.contains("APP::WRITTEN-LATER"), "{by}: {described}");
    }
}

#[test]
fn libraries_answer_alike_from_a_snapshot() {
    let folder = Folder::new("snapshot-libraries");
    let root = folder.canonicalize().unwrap();
    let systems = ["local-time", "cl-interpol", "fiveam", "yason", "cffi", "iterate", "cl-who"];
    let names = [
        "local-time:now", "local-time::timestamp", "fiveam:is", "fiveam::*suite*", "yason:encode",
        "flexi-streams:make-flexi-stream", "cffi:defcfun", "iterate:iter", "cl-who:with-html-output",
        "cl-unicode:general-category", "cl:print-object", "cl:mapcar",
    ];
    let cache = root.join("cache");
    told(&root, &cache, &systems, &[], false);
    let (made, said) = make(&root, &cache, &systems);
    assert!(made, "{said}");
    let one = told(&root, &cache, &systems, &names, false);
    let other = told(&root, &cache, &systems, &names, true);
    assert_eq!(other["fresh"], true, "{}", other["why"]);
    assert_same(&one, &other, "libraries");
}

#[test]
fn obstacles_to_a_snapshot_are_named() {
    let folder = Folder::new("snapshot-unfit");
    let root = folder.canonicalize().unwrap();
    let cases = [
        ("thread", "(sb-thread:make-thread (lambda () (sleep 1000)) :name \"the poller\")"),
        (
            "timer",
            "(sb-ext:schedule-timer (sb-ext:make-timer (lambda ()) :name \"the tick\") 0.1 :repeat-interval 0.1)",
        ),
        ("stream", "(defvar cl-user::*log* (open \"/dev/zero\"))"),
        (
            "hook",
            "(defun cl-user::never () (error \"not this image\"))\n(push 'cl-user::never sb-ext:*save-hooks*)",
        ),
        // Foreign functions are called inline, as in compiled code, and by name, as CFFI does.
        ("keeper", "(defvar cl-user::*kept* (sb-alien:make-alien sb-alien:int 10))"),
        (
            "strings",
            "(defvar cl-user::*text* (sb-alien:alien-funcall (sb-alien:extern-alien \"strdup\" \
             (function (* char) sb-alien:c-string)) \"kept\"))",
        ),
        (
            "finder",
            "(sb-alien:alien-funcall (sb-alien:sap-alien (sb-sys:int-sap \
             (sb-sys:find-dynamic-foreign-symbol-address \"calloc\")) (function sb-sys:system-area-pointer \
             sb-alien:size-t sb-alien:size-t)) 3 4)",
        ),
        // A list has the string's address, too.
        (
            "shared",
            "(defvar cl-user::*text* (sb-alien:alien-sap (sb-alien:make-alien-string \"kept\")))
             (defvar cl-user::*texts* (list cl-user::*text*))",
        ),
        // Memory that is no string may contain addresses.
        ("zeros", "(defvar cl-user::*zeros* (sb-alien:alien-sap (sb-alien:make-alien sb-alien:int 10)))"),
        // A failed reallocation keeps the block. A partial unmapping keeps the rest of the mapping.
        (
            "failing",
            "(defvar cl-user::*kept* (sb-alien:make-alien sb-alien:char 100))
             (sb-alien:alien-funcall (sb-alien:extern-alien \"realloc\" (function sb-sys:system-area-pointer \
             sb-sys:system-area-pointer sb-alien:size-t)) (sb-alien:alien-sap cl-user::*kept*) (expt 2 60))",
        ),
        (
            "halves",
            "(let ((at (sb-alien:alien-funcall (sb-alien:extern-alien \"mmap\" (function sb-sys:system-area-pointer \
             sb-alien:unsigned sb-alien:size-t sb-alien:int sb-alien:int sb-alien:int sb-alien:long)) \
             0 20000 3 #x22 -1 0)))
               (dolist (place '(4096 12288))
                 (sb-alien:alien-funcall (sb-alien:extern-alien \"munmap\" (function sb-alien:int \
                  sb-sys:system-area-pointer sb-alien:size-t)) (sb-sys:sap+ at place) 4096)))",
        ),
        ("broken", "(error \"not today\")"),
    ];
    for (name, text) in cases {
        write(&root, &format!("{name}.asd"), &format!("(defsystem {name:?} :components ((:file {name:?})))"));
        write(&root, &format!("{name}.lisp"), text);
        let cache = root.join("cache");
        let (made, said) = make(&root, &cache, &[name]);
        assert!(!made, "{name}: {said}");
        expect_text(name, said.split_once("not made: ").unwrap().1.lines().next().unwrap());
        let left: Vec<String> = fs::read_dir(cache.join("snapshots"))
            .unwrap()
            .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
            .filter(|name| ![".lock", ".refused", ".index"].iter().any(|end| name.ends_with(end)))
            .collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Freed foreign memory does not prevent a snapshot. A process that starts from a snapshot uses C's
/// original functions.
#[test]
fn freed_foreign_memory_is_no_obstacle() {
    let folder = Folder::new("snapshot-memory");
    let root = folder.canonicalize().unwrap();
    crate::texts::write_project(&root, include_str!("../projects/snapshot_memory.txt"));
    let (cache, systems) = (root.join("cache"), ["giver"]);
    told(&root, &cache, &systems, &[], false);
    let (made, said) = make(&root, &cache, &systems);
    assert!(made, "{said}");
    let one = told(&root, &cache, &systems, &["cl-user::give"], false);
    let other = told(&root, &cache, &systems, &["cl-user::give"], true);
    assert_eq!(other["fresh"], true, "{}", other["why"]);
    assert_same(&one, &other, "memory that was given back");
}

/// A process that starts from a snapshot allocates the C strings that variables point to.
#[test]
fn foreign_strings_are_restored() {
    let folder = Folder::new("snapshot-strings");
    let root = folder.canonicalize().unwrap();
    crate::texts::write_project(&root, include_str!("../projects/snapshot_memory.txt"));
    let cache = root.join("cache");
    let texts = || run(&root, &cache, &["--system", "speaker", "evaluate", "(cl-user::texts)"]);
    let loaded = texts();
    assert!(loaded.contains("(\"foreign text\" \"text\" \"foreign text\" :HERE)"), "{loaded}");
    run(&root, &cache, &["--system", "speaker", "snapshot"]);
    for _ in 0..2 {
        assert_eq!(texts(), loaded.replace(":HERE", ":ELSEWHERE"));
    }
    // A process that started from the snapshot of the dependencies can be saved, too.
    std::thread::sleep(Duration::from_millis(1100));
    let file = root.join("speaker.lisp");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, format!("{text}(defvar cl-user::*more* 1)\n")).unwrap();
    run(&root, &cache, &["--system", "speaker", "snapshot"]);
    assert_eq!(texts(), loaded.replace(":HERE", ":ELSEWHERE"));
}

/// Runs a command in the project at `root`, and returns its output.
fn run(root: &Path, cache: &Path, arguments: &[&str]) -> String {
    let (text, errors, code) = ask(root, cache, arguments);
    assert_eq!(code, Some(0), "{errors}");
    text
}

/// Lists the snapshots and refusals in the cache.
fn kept(cache: &Path) -> Vec<PathBuf> {
    fs::read_dir(cache.join("projects/snapshots"))
        .into_iter()
        .flatten()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_none_or(|end| end == "refused"))
        .collect()
}

/// Counts the worker processes of `cache`: all, and those that run Lisp.
fn copies(cache: &Path) -> (usize, usize) {
    let wanted = format!("STEELBANK_CACHE={}", cache.display());
    let all = fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).filter(|process| {
        let has = |file: &str, text: &str| {
            fs::read(process.join(file))
                .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|part| part == text.as_bytes()))
        };
        has("cmdline", "helper") && has("environ", &wanted)
    });
    let lisp = |process: &PathBuf| {
        fs::read_dir(process.join("task")).into_iter().flatten().flatten().any(|thread| {
            fs::read_to_string(thread.path().join("comm")).is_ok_and(|name| name.trim_end() == "sbcl")
        })
    };
    let all: Vec<PathBuf> = all.collect();
    (all.len(), all.iter().filter(|process| lisp(process)).count())
}

#[test]
fn auto_makes_snapshots_and_remembers_refusals() {
    let folder = Folder::new("snapshot-auto");
    let home = folder.canonicalize().unwrap();
    let (root, other, cache) = (home.join("project"), home.join("other"), home.join("cache"));
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(&other).unwrap();
    crate::texts::write_project(&root, include_str!("../projects/snapshot_auto.txt"));
    let text = "(defun cl-user::keeper () (cl-user::before))\n";
    let keeps = "(defvar cl-user::*kept* (sb-alien:make-alien sb-alien:int 10))\n";
    write(&root, "keeper.lisp", &format!("{text}{keeps}"));
    write(&other, "other.asd", "(defsystem \"other\" :components ((:file \"other\")))");
    write(&other, "other.lisp", "(defun cl-user::other () 1)\n");

    let ask = || run(&root, &cache, &["--system", "auto", "who-calls", "cl-user::before"]);
    let answer = ask();
    run(&other, &cache, &["--system", "auto", "describe-symbol", "cl-user::other"]);
    wait_until("a snapshot or the refusal is missing", || {
        let (all, lisp) = copies(&cache);
        assert!(lisp <= 1, "one makes a snapshot at a time");
        // Ask again: on a busy machine, snapshot writers may stop early because of their low
        // priority.
        if all == 0 && kept(&cache).len() < 3 {
            ask();
            run(&other, &cache, &["--system", "auto", "describe-symbol", "cl-user::other"]);
        }
        kept(&cache).len() == 3
    });
    wait_until("snapshot writers still run", || copies(&cache).0 == 0);
    let of = |project: &Path| {
        let (listed, project) = (run(&root, &cache, &["cache"]), project.display().to_string());
        listed.lines().filter(|line| line.contains(&project)).count()
    };
    assert_eq!((of(&root), of(&other)), (1, 1));
    let status = || run(&root, &cache, &["--system", "auto", "status"]);
    let reports = |text: &str| text.lines().any(|line| line.contains("keeper") && line.contains("40 bytes"));
    assert!(reports(&status()) && reports(&run(&root, &cache, &["--system", "auto", "doctor"])));
    assert_eq!(ask(), answer);
    assert_eq!(copies(&cache).0, 0, "a refused snapshot was tried again without a change");

    // After a change of the code, a snapshot is tried again.
    std::thread::sleep(Duration::from_millis(1100));
    write(&root, "keeper.lisp", text);
    assert_eq!(ask(), answer);
    wait_until("there is no complete snapshot", || {
        if copies(&cache).0 == 0 {
            ask();
        }
        kept(&cache).iter().all(|path| path.extension().is_none())
    });
    wait_until("snapshot writers still run", || copies(&cache).0 == 0);
    assert!(!reports(&status()));
    assert_eq!((of(&root), of(&other)), (2, 1));
    assert_eq!(ask(), answer);
    assert_eq!(copies(&cache).0, 0, "a snapshot was created again without a change");
}

/// After an edit of a small project, no snapshot is made until the loads have taken as long as
/// making a snapshot takes.
#[test]
fn snapshot_is_renewed_when_it_pays() {
    let folder = Folder::new("snapshot-pays");
    let root = folder.canonicalize().unwrap().join("project");
    fs::create_dir_all(&root).unwrap();
    write(&root, "small.asd", "(defsystem \"small\" :components ((:file \"small\")))");
    // Two loads take as long as making a snapshot.
    let text = |number: u32| {
        format!(
            "(defun cl-user::small-{number} (x) (cl-user::small x))\n(defun cl-user::small (x) x)\n(sleep 1.1)\n"
        )
    };
    write(&root, "small.lisp", &text(0));
    let cache = folder.join("cache");
    let run = |arguments: &[&str]| run(&root, &cache, &[&["--system", "small"], arguments].concat());
    run(&["snapshot"]);
    let before = kept(&cache);
    assert_eq!(before.len(), 1);
    std::thread::sleep(Duration::from_millis(1100));
    write(&root, "small.lisp", &text(1));
    let ask = || assert!(run(&["who-calls", "cl-user::small"]).contains("USER::SMALL-1"));
    ask();
    assert_eq!((copies(&cache).0, kept(&cache)), (0, before.clone()), "one load costs less than saving");
    ask();
    assert_eq!(copies(&cache).0, 1, "two cost as much");
    wait_until("no new snapshot was saved", || copies(&cache).0 == 0 && kept(&cache) != before);
    assert_eq!(kept(&cache).len(), 1);
}

#[test]
fn misspelled_system_makes_no_snapshot() {
    let folder = Folder::new("snapshot-misspelled");
    let root = folder.canonicalize().unwrap().join("project");
    fs::create_dir_all(&root).unwrap();
    write(&root, "small.asd", "(defsystem \"small\" :components ((:file \"small\")))");
    write(&root, "small.lisp", "(defun cl-user::small () 1)\n");
    let cache = folder.join("cache");
    let made = || fs::read_dir(cache.join("projects/snapshots")).map_or(0, Iterator::count);
    for systems in [&["--system", "smal"][..], &["--system", "small", "--system", "smal"]] {
        let (text, _, code) = ask(&root, &cache, &[systems, &["describe-symbol", "cl:car"]].concat());
        assert!(text.contains("COMMON-LISP::CAR") && code == Some(3), "{text}");
        assert_eq!((copies(&cache).0, made()), (0, 0), "{systems:?}");
    }
    let (_, errors, code) = ask(&root, &cache, &["--system", "smal", "snapshot"]);
    assert_eq!((errors.as_str(), code), ("steelbank: ASDF cannot find system smal.\n", Some(3)));
    assert_eq!((copies(&cache).0, kept(&cache).len()), (0, 0));
    // The right name makes one.
    run(&root, &cache, &["--system", "small", "describe-symbol", "cl:car"]);
    assert_eq!(copies(&cache).0, 1);
}

#[test]
fn damaged_snapshot_is_replaced() {
    let folder = Folder::new("snapshot-damage");
    let root = folder.canonicalize().unwrap().join("project");
    fs::create_dir_all(&root).unwrap();
    write(&root, "small.asd", "(defsystem \"small\" :components ((:file \"small\")))");
    write(&root, "small.lisp", "(defun cl-user::small () 1)\n(defun cl-user::user () (cl-user::small))\n");
    let cache = folder.join("cache");
    let run = |arguments: &[&str]| run(&root, &cache, &[&["--system", "small"], arguments].concat());
    let ask = || run(&["who-calls", "cl-user::small"]);
    let snapshots = || kept(&cache);
    let answer = run(&["--no-snapshot", "who-calls", "cl-user::small"]);
    assert!(answer.contains("USER") && snapshots().is_empty());
    // The snapshot is made in the background, once no Lisp file has been written for some seconds.
    assert_eq!(ask(), answer);
    wait_until("no snapshot was created", || snapshots().len() == 1);
    assert_eq!(ask(), answer);
    // The snapshot's index contains the places in SBCL's sources, which are not installed.
    let definition = run(&["find-definition", "cl:mapcar"]);
    assert!(definition.contains("LIST.LISP:"), "{definition}");
    assert_eq!(definition, run(&["--no-snapshot", "find-definition", "cl:mapcar"]));
    let listed = run(&["cache"]);
    assert!(listed.contains("fresh") && listed.contains("small"), "{listed}");

    for (part, damage) in [("core", 200), ("index", 100), ("manifest", 60)] {
        let before = snapshots();
        let path = before[0].join(part);
        let mut bytes = fs::read(&path).unwrap();
        bytes[damage] ^= 0xff;
        fs::write(&path, &bytes).unwrap();
        assert_eq!(ask(), answer, "{part}");
        // The process that made the last snapshot may still hold the lock.
        wait_until("the snapshot was not created again", || {
            ask() == answer && snapshots() != before && snapshots().len() == 1
        });
        if part != "core" {
            continue;
        }
        let before = snapshots();
        let path = before[0].join(part);
        let length = fs::metadata(&path).unwrap().len();
        fs::File::options().write(true).open(&path).unwrap().set_len(length / 2).unwrap();
        assert_eq!(ask(), answer, "{part}, cut");
        // The process that made the last snapshot may still hold the lock.
        wait_until("the snapshot was not created again", || {
            ask() == answer && snapshots() != before && snapshots().len() == 1
        });
    }
    let cleared = run(&["cache", "--clear", "snapshots"]);
    assert!(snapshots().is_empty(), "{cleared}");
}
