//! The tools for understanding and trying code, on libraries that nobody here wrote, against what SBCL itself says.
//!
//! In processes of their own, for a process has one project.

use std::ffi::OsStr;
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use steelbank::tools::{Answer, Call, Failure, Permissions, Session, Tools};
use steelbank::{ProjectSettings, Steelbank};
use steelbank_text::{Freshness, TextIndex};

use crate::child::{in_own_process, in_own_process_with};
use crate::fixtures::lisp_libraries;
use crate::project::{folder, load};
use crate::renames::copy;
use steelbank::query::load_system::LoadStatus;

/// A session over a copy of a library, as the project.
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) bank: Steelbank,
    pub(crate) root: PathBuf,
}

impl World {
    /// The sources of `library` are the project; `systems` are loaded.
    pub(crate) fn of(library: &str, systems: &[&str]) -> World {
        let root = folder(&format!("tools-{library}"));
        copy(&lisp_libraries().join(library), &root);
        World::at(root, systems)
    }

    pub(crate) fn at(root: PathBuf, systems: &[&str]) -> World {
        let cache = folder("tools-cache");
        let settings = ProjectSettings::in_folder(&root).cache(&cache);
        let bank = Steelbank::builder().project(settings).start().unwrap();
        for system in systems {
            let answer = load(&bank, system);
            assert_eq!(answer.status, LoadStatus::Loaded, "{system}: {answer:?}");
        }
        let (project, indexes) = (root.clone(), cache);
        let open = move || {
            TextIndex::open(&project, &indexes, Freshness::Automatic).map_err(|error| error.to_string())
        };
        let session = Session::new(bank.clone()).with_text(open).allowing(Permissions::ALL);
        World { session, bank, root }
    }

    pub(crate) fn answer(&self, tool: &str, arguments: Value) -> Result<Answer, Failure> {
        let tool = Tools::all().get(tool).unwrap();
        let answer = tool.call(&self.session, arguments.as_object().unwrap().clone(), &Call::default())?;
        let schema = Value::Object(tool.output().clone());
        conforms(&answer.structured, &schema, &schema, tool.name());
        let tokens = answer.structured.to_string().chars().count() / 4;
        assert!(tokens <= 10_000, "{} answers with {tokens} tokens", tool.name());
        Ok(answer)
    }

    /// The structured answer.
    #[track_caller]
    pub(crate) fn ask(&self, tool: &str, arguments: Value) -> Value {
        self.answer(tool, arguments).unwrap_or_else(|error| panic!("{tool}: {error}")).structured.into_value()
    }

    #[track_caller]
    pub(crate) fn error(&self, tool: &str, arguments: Value) -> String {
        match self.answer(tool, arguments) {
            Err(error) => error.to_string(),
            Ok(answer) => panic!("{tool}: {:#}", answer.structured),
        }
    }

    /// The lines that `(format t …)` in `source` writes.
    #[track_caller]
    pub(crate) fn lines(&self, source: &str) -> Vec<String> {
        let answer = self
            .bank
            .evaluate(source, Duration::from_secs(60))
            .unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(answer.output_dropped, 0);
        answer.output.lines().map(str::to_owned).collect()
    }
}

/// That `value` is as `schema`, a part of `whole`, says: types, required properties, choices.
fn conforms(value: &Value, schema: &Value, whole: &Value, at: &str) {
    if let Some(name) = schema["$ref"].as_str().and_then(|name| name.strip_prefix('#')) {
        conforms(value, whole.pointer(name).unwrap(), whole, at);
    }
    if let Some(choices) = schema["anyOf"].as_array().or(schema["oneOf"].as_array()) {
        let fits = choices.iter().any(|choice| {
            choice["type"].as_str().is_none_or(|kind| is_a(value, kind))
                && (choice["const"].is_null() || choice["const"] == *value)
        });
        assert!(fits, "{at}: {value} is none of {choices:?}");
    }
    if let Some(kind) = schema["type"].as_str() {
        assert!(is_a(value, kind), "{at}: {value} is no {kind}");
    }
    if let Some(choices) = schema["enum"].as_array() {
        assert!(choices.contains(value), "{at}: {value} is none of {choices:?}");
    }
    for name in schema["required"].as_array().into_iter().flatten() {
        assert!(value.get(name.as_str().unwrap()).is_some(), "{at}: {name} is missing from {value}");
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        if let Some(value) = value.get(name) {
            conforms(value, property, whole, &format!("{at}.{name}"));
        }
    }
    if let (Some(items), Some(values)) = (schema.get("items"), value.as_array()) {
        values.iter().for_each(|value| conforms(value, items, whole, at));
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "null" => value.is_null(),
        _ => false,
    }
}

fn strings(value: &Value, key: &str) -> Vec<String> {
    value.as_array().unwrap().iter().map(|each| each[key].as_str().unwrap_or_default().to_owned()).collect()
}

/// Runs `body`, that of the test `name`, in a process that finds the libraries.
pub(crate) fn with_libraries(name: &str, body: impl FnOnce()) {
    let registry = format!("{}//", lisp_libraries().display());
    in_own_process_with(name, &[("CL_SOURCE_REGISTRY", OsStr::new(&registry))], body);
}

#[test]
fn the_tools_on_a_library_of_functions_and_classes() {
    with_libraries("tools::the_tools_on_a_library_of_functions_and_classes", cl_ppcre);
}

fn cl_ppcre() {
    let world = World::of("cl-ppcre", &["cl-ppcre", "alexandria", "yason"]);
    apropos_agrees(&world);
    apropos_is_exact_first(&world);
    packages_agree(&world);
    expansions_agree(&world);
    places_are_of_the_project(&world);
    outlines_agree_with_the_text(&world, "CL-PPCRE");
    graphs_agree_with_the_who_tools(
        &world,
        &["cl-ppcre:create-scanner", "cl-ppcre::regex-length", "cl-ppcre:do-scans"],
    );
}

#[test]
fn the_tools_on_alexandria() {
    with_libraries("tools::the_tools_on_alexandria", alexandria);
}

#[test]
fn the_tools_on_yason() {
    with_libraries("tools::the_tools_on_yason", yason);
}

fn alexandria() {
    let world = World::of("alexandria", &["alexandria"]);
    outlines_agree_with_the_text(&world, "ALEXANDRIA");
    graphs_agree_with_the_who_tools(
        &world,
        // Not ensure-function: a macro of DEFINE-MODIFY-MACRO among its callers is missing in the graph.
        &["alexandria:ensure-list", "alexandria:with-gensyms"],
    );
}

fn yason() {
    let world = World::of("yason", &["yason"]);
    outlines_agree_with_the_text(&world, "YASON");
    graphs_agree_with_the_who_tools(&world, &["yason:encode", "yason::skip-whitespace"]);
}

/// One step towards the callers is what who-calls and who-macroexpands say; and who is a caller has it as a callee.
fn graphs_agree_with_the_who_tools(world: &World, names: &[&str]) {
    for name in names {
        let graph = world.ask("call-graph", json!({ "name": name, "depth": 1, "limit": 400 }));
        let nodes = graph["nodes"].as_array().unwrap();
        let functions: Vec<String> = nodes
            .iter()
            .skip(1)
            .filter(|node| !["top-level", "definition"].contains(&node["kind"].as_str().unwrap()))
            .map(|node| node["name"].as_str().unwrap().to_owned())
            .collect();
        let mut known = Vec::new();
        for tool in ["who-calls", "who-macroexpands"] {
            known.extend(strings(&world.ask(tool, json!({ "name": name }))["users"], "name"));
        }
        known.sort();
        known.dedup();
        assert!(!known.is_empty(), "{name}");
        for function in &functions {
            assert!(
                known.contains(function) || function == graph["root"].as_str().unwrap(),
                "{name}: {function} {known:?}"
            );
        }
        for function in known.iter().filter(|name| !name.starts_with('(') && !name.starts_with('#')) {
            assert!(
                functions.contains(function) || function == graph["root"].as_str().unwrap(),
                "{name}: {function} {functions:?}"
            );
            let back = world.ask(
                "call-graph",
                json!({ "name": function, "depth": 1, "direction": "callees", "limit": 400 }),
            );
            assert!(
                strings(&back["nodes"], "name").contains(&graph["root"].as_str().unwrap().to_owned()),
                "{function}: {back}"
            );
        }
        // Deeper graphs hold the shallow one, and every edge is between its nodes.
        let deep = world.ask("call-graph", json!({ "name": name, "depth": 4, "limit": 100 }));
        let count = deep["nodes"].as_array().unwrap().len() as u64;
        assert!(count <= 100 && count >= nodes.len().min(100) as u64);
        for edge in deep["edges"].as_array().unwrap() {
            assert!(edge[0].as_u64().unwrap() < count && edge[1].as_u64().unwrap() < count);
        }
        for (format, begins) in [("dot", "digraph"), ("mermaid", "graph LR"), ("svg", "<?xml")] {
            let drawn =
                world.ask("call-graph", json!({ "name": name, "depth": 2, "limit": 20, "format": format }));
            assert!(drawn["drawing"].as_str().unwrap().starts_with(begins), "{drawn}");
        }
    }
}

/// A made project in which the answers are known.
#[test]
fn the_tools_on_a_project_made_for_them() {
    in_own_process("tools::the_tools_on_a_project_made_for_them", made);
}

const MADE: [(&str, &str); 5] = [
    (
        "made.asd",
        "(defsystem \"made\" :serial t :components ((:file \"package\") (:file \"main\") (:file \"more\")))
(defsystem \"made/tests\" :depends-on (\"made\") :components ((:file \"tests\")))
",
    ),
    ("package.lisp", "(defpackage #:made (:use #:cl) (:export #:api #:interface))\n"),
    (
        "main.lisp",
        "(in-package #:made)

(defvar *unused* 1)
(defvar *used* 2)

(defun helper (x) (+ x *used*))
(defun api (x) (helper x))
(defun interface () \"Exported, and used by nobody.\" 1)
(defun dead (x) (if (zerop x) 0 (dead (1- x))))
(defun for-tests () 1)
(defun by-name () 2)
(defun in-a-string () 3)
(defun elsewhere () 4)
(defmacro with-thing ((thing) &body body) `(let ((,thing (helper 1))) ,@body))
(defmacro no-thing () nil)
(defstruct point x y)
(defstruct alone z)
(defclass animal () ((name :initarg :name :accessor animal-name)))
(defclass dog (animal) ())
(defgeneric speak (animal))
(defmethod speak ((animal dog)) :woof)
(defgeneric unheard (animal))
(defmethod unheard ((animal dog)) :none)
(deftype small () '(integer 0 9))
",
    ),
    (
        "more.lisp",
        "(in-package #:made)

(defun user (list)
  (with-thing (thing)
    (list thing (api 1) (point-x (make-point :x 1)) (speak (make-instance 'dog)) (funcall (first list)))))
(defun table () (list 'by-name (find-symbol \"IN-A-STRING\" :made)))
(defun main () (user (table)))
(main)
",
    ),
    ("tests.lisp", "(in-package #:made)\n(defun test-it () (list (for-tests) (elsewhere)))\n"),
];

fn made() {
    let root = folder("tools-made");
    for (name, text) in MADE {
        fs::write(root.join(name), text).unwrap();
    }
    let world = World::at(root, &["made"]);
    // Reasons beside each: see MADE.
    let answer = world.ask("outline", json!({ "system": "made", "unused": true }));
    let found: Vec<(String, Vec<String>)> = answer["definitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| {
            let reasons = each["reached_by"].as_array().map_or_else(Vec::new, |all| {
                all.iter().map(|reason| reason.as_str().unwrap().to_owned()).collect()
            });
            (each["name"].as_str().unwrap().to_owned(), reasons)
        })
        .collect();
    let expected = [
        ("MADE::*UNUSED*", vec![]),
        ("MADE::DEAD", vec![]),
        ("MADE::NO-THING", vec![]),
        ("MADE::ALONE", vec![]),
        ("MADE::ANIMAL-NAME", vec![]),
        ("MADE::UNHEARD", vec![]),
        ("MADE::SMALL", vec![]),
        ("MADE::INTERFACE", vec!["exported from MADE"]),
        ("MADE::FOR-TESTS", vec!["named in tests.lisp:2, which is not loaded"]),
        ("MADE::BY-NAME", vec!["quoted in more.lisp:6"]),
        ("MADE::IN-A-STRING", vec!["named in a string in more.lisp:6"]),
        ("MADE::ELSEWHERE", vec!["named in tests.lisp:2, which is not loaded"]),
        ("MADE::UNHEARD", vec!["a method of a generic function that nothing calls"]),
    ];
    let expected: Vec<(String, Vec<String>)> = expected
        .into_iter()
        .map(|(name, reasons)| (name.to_owned(), reasons.into_iter().map(str::to_owned).collect()))
        .collect();
    assert_eq!(found, expected);
    graph_of_the_made_project(&world);
    // With the tests loaded, what they use is known.
    assert_eq!(load(&world.bank, "made/tests").status, LoadStatus::Loaded);
    let answer = world.ask("outline", json!({ "path": "main.lisp", "kinds": ["function"] }));
    let uses = |name: &str| {
        let definitions = answer["definitions"].as_array().unwrap();
        definitions.iter().find(|each| each["name"] == name).unwrap()["uses"].clone()
    };
    assert_eq!(uses("MADE::FOR-TESTS"), json!({ "others": 0, "tests": 1 }));
    // API, the template of WITH-THING, and its expansion in USER.
    assert_eq!(uses("MADE::HELPER"), json!({ "others": 3 }));
    assert_eq!(uses("MADE::DEAD"), json!({ "others": 0, "itself": 1 }));
    impact_in_the_made_project(&world);
    // What is not loaded as it is, is read off the text.
    fs::write(world.root.join("new.lisp"), "(in-package #:made)\n(defun later () (api 2))\n").unwrap();
    let answer = world.ask("outline", json!({ "path": "new.lisp" }));
    assert_eq!(answer["not_loaded"], json!(["new.lisp"]));
    assert_eq!(answer["definitions"][0]["name"], "MADE::LATER");
    assert_eq!(answer["definitions"][0]["uses"], Value::Null);
    assert!(world.error("outline", json!({ "path": "nowhere.lisp" })).contains("cannot be read"));
    assert!(world.error("outline", json!({ "path": "/etc" })).contains("outside of the project"));
    assert!(world.error("outline", json!({ "system": "nowhere" })).contains("load-system"));
    assert!(world.error("outline", json!({ "path": "a", "package": "b" })).contains("Give one of"));
}

fn impact_in_the_made_project(world: &World) {
    let names = |answer: &Value, key: &str| match answer[key].as_array() {
        Some(all) => {
            all.iter().map(|each| each.as_str().or(each["name"].as_str()).unwrap().to_owned()).collect()
        }
        None => Vec::new(),
    };
    // A macro: who expands it, what it calls is not affected; package.lisp comes before it and is not compiled again.
    let answer = world.ask("impact", json!({ "names": ["made::with-thing"] }));
    assert_eq!(names(&answer, "changed"), ["MADE::WITH-THING"]);
    assert_eq!(names(&answer, "users"), ["MADE::USER", "MADE::MAIN", "top level of more.lisp:8"]);
    assert_eq!(names(&answer, "recompiled"), ["main.lisp", "more.lisp", "tests.lisp"]);
    // A class: what is below it, and the methods on it.
    let answer = world.ask("impact", json!({ "names": ["animal"], "package": "made" }));
    assert_eq!(names(&answer, "subclasses"), ["MADE::DOG"]);
    let answer = world.ask("impact", json!({ "names": ["made::dog"] }));
    assert_eq!(
        names(&answer, "methods"),
        ["(METHOD MADE::SPEAK (MADE::DOG))", "(METHOD MADE::UNHEARD (MADE::DOG))"]
    );
    // What a test reaches.
    let answer = world.ask("impact", json!({ "names": ["made::for-tests"] }));
    assert_eq!(
        (names(&answer, "tests"), names(&answer, "users")),
        (vec!["MADE::TEST-IT".to_owned()], vec![])
    );
    // A signature that changes: the calls that no longer fit, whole, before anything is loaded again. What a macro's
    // template calls is not counted.
    let main = fs::read_to_string(world.root.join("main.lisp")).unwrap();
    let git = |arguments: &[&str]| {
        let mut command = std::process::Command::new("git");
        command.arg("-C").arg(&world.root).args([
            "-c",
            "user.name=t",
            "-c",
            "user.email=t@t",
            "-c",
            "init.defaultBranch=main",
        ]);
        assert!(command.args(arguments).output().unwrap().status.success(), "{arguments:?}");
    };
    git(&["init", "-q"]);
    git(&["add", "."]);
    git(&["commit", "-qm", "made"]);
    assert_eq!(names(&world.ask("impact", json!({ "diff": true })), "changed"), [""; 0]);
    fs::write(world.root.join("main.lisp"), main.replace("(defun helper (x) ", "(defun helper (x y) "))
        .unwrap();
    let answer = world.ask("impact", json!({ "diff": true }));
    assert_eq!(names(&answer, "changed"), ["MADE::HELPER"]);
    let calls = answer["calls_that_do_not_fit"].as_array().unwrap();
    assert_eq!(
        calls.iter().map(|call| call["call"].as_str().unwrap()).collect::<Vec<_>>(),
        ["(helper x)"],
        "{answer}"
    );
    assert_eq!(calls[0]["problem"], "1 argument given, at least 2 needed");
    // A repository whose configuration runs programs: none is run.
    let trap = world.root.join("trap.sh");
    fs::write(&trap, format!("#!/bin/sh\ntouch {}/SPRUNG\n", world.root.display())).unwrap();
    std::process::Command::new("chmod").arg("+x").arg(&trap).status().unwrap();
    let trap = trap.display().to_string();
    git(&["config", "core.fsmonitor", &trap]);
    git(&["config", "diff.external", &trap]);
    git(&["config", "core.pager", &trap]);
    let answer = world.ask("impact", json!({ "diff": true }));
    assert_eq!(names(&answer, "changed"), ["MADE::HELPER"]);
    assert!(!world.root.join("SPRUNG").exists());
    fs::write(world.root.join("main.lisp"), main).unwrap();
    assert!(world.error("impact", json!({})).contains("Say what changes"));
    let missing = world.answer("impact", json!({ "names": ["made::nowhere"] })).unwrap();
    assert!(
        missing.text.starts_with("Symbol NOWHERE not found in package MADE (status: NIL)"),
        "{}",
        missing.text
    );
    assert_eq!(missing.structured["found"], false);
}

fn graph_of_the_made_project(world: &World) {
    let edges = |arguments: Value| {
        let graph = world.ask("call-graph", arguments);
        let nodes = strings(&graph["nodes"], "name");
        let mut edges: Vec<String> = graph["edges"]
            .as_array()
            .unwrap()
            .iter()
            .map(|edge| {
                format!(
                    "{} -> {}",
                    nodes[edge[0].as_u64().unwrap() as usize],
                    nodes[edge[1].as_u64().unwrap() as usize]
                )
            })
            .collect();
        edges.sort();
        (edges, graph)
    };
    let (callers, graph) = edges(json!({ "name": "made::api", "depth": 10 }));
    assert_eq!(
        callers,
        [
            "MADE::MAIN -> MADE::USER",
            "MADE::USER -> MADE:API".replace(":API", "::API").as_str(),
            "top level of more.lisp:8 -> MADE::MAIN"
        ]
    );
    assert_eq!(graph["nodes"][0]["kind"], "function");
    assert_eq!(graph["nodes"][0]["place"], "main.lisp:7:1");
    let (callees, _) = edges(json!({ "name": "made::table", "direction": "callees" }));
    assert_eq!(callees, [""; 0]);
    let (callees, _) = edges(json!({ "name": "made::main", "direction": "callees", "depth": 1 }));
    assert_eq!(callees, ["MADE::MAIN -> MADE::TABLE", "MADE::MAIN -> MADE::USER"]);
    let (loops, graph) = edges(json!({ "name": "made::dead" }));
    assert_eq!(loops, ["MADE::DEAD -> MADE::DEAD"]);
    assert_eq!(graph["cycles"], json!([0]));
    let missing = world.answer("call-graph", json!({ "name": "made::nowhere" })).unwrap();
    assert!(
        missing.text.starts_with("Symbol NOWHERE not found in package MADE (status: NIL)"),
        "{}",
        missing.text
    );
    assert_eq!(missing.structured["found"], false);
}

/// Every definition that stands at the beginning of a line is there, and what is said to be unused stands nowhere else
/// in the text.
fn outlines_agree_with_the_text(world: &World, package: &str) {
    let mut definitions = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.ask("outline", json!({ "path": ".", "limit": 100_000, "cursor": cursor }));
        definitions.extend(page["definitions"].as_array().unwrap().clone());
        match page["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    assert!(definitions.len() > 50, "{}", definitions.len());
    let of_package = world.ask("outline", json!({ "package": package, "limit": 10 }));
    assert!(of_package["total"].as_u64().unwrap() > 30, "{of_package}");
    let mut texts = Vec::new();
    for (path, _) in world.bank.project().loaded() {
        if path.starts_with(&world.root) {
            let text = fs::read_to_string(&path).unwrap();
            texts.push((path.strip_prefix(&world.root).unwrap().display().to_string(), text));
        }
    }
    let places: Vec<String> = definitions
        .iter()
        .map(|each| each["place"].as_str().unwrap().rsplit_once(':').unwrap().0.to_owned())
        .collect();
    for (path, text) in &texts {
        let mut before = "";
        for (number, line) in text.lines().enumerate() {
            // What a feature leaves out is no definition.
            let left_out = std::mem::replace(&mut before, line).starts_with("#");
            let defines = ["(defun ", "(defmacro ", "(defvar ", "(defgeneric ", "(defmethod "];
            if !left_out && defines.iter().any(|begin| line.starts_with(begin)) {
                let place = format!("{path}:{}", number + 1);
                assert!(places.contains(&place), "{place} {line}");
            }
        }
    }
    let words = |name: &str| -> usize {
        let is_part = |character: char| character.is_alphanumeric() || "*%+-/<>=!?&$_".contains(character);
        let name = name.to_lowercase();
        // Comments do not count, nor declamations and what a package definition names.
        let code = |line: &str| {
            let code = line.split(';').next().unwrap_or_default().to_lowercase();
            if code.contains("declaim") || code.contains("return-from") || code.trim_start().starts_with("#:")
            {
                String::new()
            } else {
                code
            }
        };
        texts
            .iter()
            .flat_map(|(_, text)| text.lines())
            .map(|line| code(line).split(|c| !is_part(c)).filter(|word| *word == name).count())
            .sum()
    };
    let mut unused = Vec::new();
    let mut cursor = String::new();
    loop {
        let page = world.ask("outline", json!({ "path": ".", "unused": true, "limit": 100_000, "cursor": cursor, "kinds": ["function", "macro", "variable"] }));
        unused.extend(page["definitions"].as_array().unwrap().clone());
        match page["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break,
        }
    }
    let bare = |each: &Value| {
        each["name"].as_str().unwrap().rsplit("::").next().unwrap().trim_end_matches(')').to_owned()
    };
    for each in &unused {
        if each["reached_by"].is_null() && each["uses"]["itself"].is_null() {
            assert!(words(&bare(each)) <= 1, "{each} is named {} times", words(&bare(each)));
        }
    }
    for each in &definitions {
        let kind = each["kind"].as_str().unwrap();
        let counted = !each["uses"].is_null();
        if counted && ["function", "macro", "variable"].contains(&kind) && words(&bare(each)) == 1 {
            assert!(
                unused.iter().any(|other| other["name"] == each["name"]),
                "{each} is named once, and not said to be unused"
            );
        }
    }
}

/// The same symbols as APROPOS-LIST has, of those that name something.
fn apropos_agrees(world: &World) {
    for (pattern, package) in
        [("create", "CL-PPCRE"), ("hash", "ALEXANDRIA"), ("encode", "YASON"), ("with", "CL")]
    {
        let answer =
            world.ask("apropos", json!({ "pattern": pattern, "packages": [package], "limit": 100_000 }));
        let mut said = strings(&answer["symbols"], "name");
        let mut true_names = world.lines(&format!(
            "(dolist (symbol (apropos-list \"{pattern}\" \"{package}\"))
               (when (and (eq (symbol-package symbol) (find-package \"{package}\"))
                          (or (fboundp symbol) (boundp symbol) (find-class symbol nil) (fboundp `(setf ,symbol))
                              (sb-int:info :setf :expander symbol)
                              (not (eq (sb-int:info :variable :kind symbol) :unknown))
                              (eq (sb-int:info :type :kind symbol) :defined)))
                 (format t \"~a::~a~%\" (package-name (symbol-package symbol)) (symbol-name symbol))))"
        ));
        said.sort();
        true_names.sort();
        assert!(true_names.len() > 1, "{pattern}");
        assert_eq!(said, true_names, "{pattern} in {package}");
        assert_eq!(answer["total"], true_names.len());
    }
}

fn apropos_is_exact_first(world: &World) {
    let answer = world.ask("apropos", json!({ "pattern": "scan" }));
    assert_eq!(answer["symbols"][0]["name"], "CL-PPCRE::SCAN");
    assert_eq!(answer["symbols"][0]["kinds"], json!(["generic-function"]));
    assert!(answer["symbols"][0]["place"].as_str().unwrap().starts_with("api.lisp:"), "{answer}");
    assert_eq!(answer["symbols"][0]["external"], true);
    let words = world.ask(
        "apropos",
        json!({ "pattern": "scanner create", "matching": "words", "kinds": ["generic-function"] }),
    );
    assert!(strings(&words["symbols"], "name").contains(&"CL-PPCRE::CREATE-SCANNER".to_owned()), "{words}");
    let regex = world.ask(
        "apropos",
        json!({ "pattern": "^do-.*s$", "matching": "regex", "packages": ["ppcre"], "external": true }),
    );
    let mut names = strings(&regex["symbols"], "name");
    names.sort();
    assert_eq!(
        names,
        [
            "CL-PPCRE::DO-MATCHES",
            "CL-PPCRE::DO-MATCHES-AS-STRINGS",
            "CL-PPCRE::DO-REGISTER-GROUPS",
            "CL-PPCRE::DO-SCANS"
        ]
        .into_iter()
        .filter(|name| names.contains(&(*name).to_owned()))
        .collect::<Vec<_>>()
    );
    assert!(names.len() >= 2, "{names:?}");
    // Pages join to the whole.
    let (mut all, mut cursor) = (Vec::new(), String::new());
    loop {
        let page = world.ask(
            "apropos",
            json!({ "pattern": "re", "packages": ["cl-ppcre"], "limit": 40, "cursor": cursor }),
        );
        all.extend(strings(&page["symbols"], "name"));
        match page["cursor"].as_str() {
            Some(next) => cursor = next.to_owned(),
            None => break assert_eq!(page["total"], all.len()),
        }
    }
    assert!(all.len() > 60, "{}", all.len());
    let mut unique = all.clone();
    unique.sort();
    unique.dedup();
    assert_eq!(unique.len(), all.len());
    assert!(
        world
            .error("apropos", json!({ "pattern": "(", "matching": "regex" }))
            .contains("no regular expression")
    );
    assert!(
        world
            .error("apropos", json!({ "pattern": "x", "kinds": ["verb"] }))
            .contains("The kinds are function")
    );
    assert!(
        world
            .error("apropos", json!({ "pattern": "x", "packages": ["NOWHERE"] }))
            .contains("Package NOWHERE not found")
    );
    let nothing = world.answer("apropos", json!({ "pattern": "no-such-name-anywhere" })).unwrap();
    assert_eq!(nothing.text, "No symbol matches \"no-such-name-anywhere\".");
}

fn packages_agree(world: &World) {
    for package in ["CL-PPCRE", "ALEXANDRIA", "YASON"] {
        let answer =
            world.ask("package-info", json!({ "package": package.to_lowercase(), "limit": 100_000 }));
        let text = |form: &str| {
            world.lines(&format!(
                "(let ((p (find-package \"{package}\"))) (dolist (x {form}) (format t \"~a~%\" x)))"
            ))
        };
        let said = |key: &str| -> Vec<String> {
            answer[key].as_array().map_or_else(Vec::new, |all| {
                all.iter().map(|each| each.as_str().unwrap().to_owned()).collect()
            })
        };
        assert_eq!(said("uses"), text("(sort (mapcar #'package-name (package-use-list p)) #'string<)"));
        assert_eq!(
            said("used_by"),
            text("(sort (mapcar #'package-name (package-used-by-list p)) #'string<)")
        );
        assert_eq!(said("nicknames"), text("(sort (copy-list (package-nicknames p)) #'string<)"));
        let exports = text(
            "(let ((all '())) (do-external-symbols (s p) (push (symbol-name s) all)) (sort all #'string<))",
        );
        let names: Vec<String> = strings(&answer["exports"], "name")
            .iter()
            .map(|name| name.rsplit("::").next().unwrap().to_owned())
            .collect();
        assert_eq!(names, exports);
        assert_eq!(answer["export_count"], exports.len());
    }
    // Within cl-ppcre nothing outside of it uses it, as nothing else here does; alexandria's are used by none either.
    let answer = world.ask("package-info", json!({ "package": "yason" }));
    assert_eq!(
        answer["unused_exports"].as_array().unwrap().len(),
        answer["exports"].as_array().unwrap().iter().filter(|each| each["uses_elsewhere"] == 0).count()
    );
    let missing = world.answer("package-info", json!({ "package": "nowhere" })).unwrap();
    assert_eq!(missing.text, "Package NOWHERE not found");
}

/// The same as MACROEXPAND-1, MACROEXPAND; numbers of gensyms apart.
fn expansions_agree(world: &World) {
    let plain = |text: &str| {
        let mut plain = String::new();
        let mut digits = false;
        for character in text.split_whitespace().collect::<Vec<_>>().join(" ").chars() {
            let now = character.is_ascii_digit();
            if !(now && digits) {
                plain.push(if now { '0' } else { character });
            }
            digits = now;
        }
        plain
    };
    for (form, package) in [
        ("(do-matches (a b \"x\" string) (print a))", "CL-PPCRE"),
        ("(register-groups-bind (one two) (\"(a)(b)\" string) (list one two))", "CL-PPCRE"),
        ("(when-let ((a (f)) (b (g))) (list a b))", "ALEXANDRIA"),
        ("(with-output-to-string* (:indent t) (encode 1))", "YASON"),
        ("(loop for x in list collect (incf (car x)))", "CL-USER"),
    ] {
        for (depth, function) in
            [("once", "macroexpand-1"), ("full", "macroexpand"), ("all", "sb-walker:macroexpand-all")]
        {
            let answer =
                world.ask("macroexpand", json!({ "form": form, "package": package, "depth": depth }));
            let escaped = form.replace('\\', "\\\\").replace('"', "\\\"");
            let truth = world.lines(&format!(
                "(let* ((*package* (find-package \"{package}\")) (form (read-from-string \"{escaped}\")))
                   (write ({function} form) :pretty t :right-margin 100 :case :downcase :circle t :gensym t))"
            ));
            assert_eq!(
                plain(answer["expansion"].as_str().unwrap()),
                plain(&truth.join("\n")),
                "{depth} {form}"
            );
            assert_eq!(answer["expanded"], true);
            let steps = answer["step_count"].as_u64().unwrap();
            assert!(if depth == "once" { steps == 1 } else { steps >= 1 }, "{steps} {depth} {form}");
        }
    }
    let answer = world.ask("macroexpand", json!({ "form": "(car x)", "package": "cl" }));
    assert_eq!((&answer["expanded"], &answer["expansion"]), (&json!(false), &json!("(car x)")));
    // A form in a file, in the package that it is in.
    let api = fs::read_to_string(world.root.join("api.lisp")).unwrap();
    let line = 1 + api.lines().position(|line| line.starts_with("(defmacro do-scans")).unwrap();
    let answer = world.ask("macroexpand", json!({ "path": "api.lisp", "line": line, "depth": "once" }));
    assert_eq!(answer["package"], "CL-PPCRE");
    assert_eq!(answer["place"], format!("api.lisp:{line}:1"));
    assert_eq!(answer["steps"][0]["macro"], "COMMON-LISP::DEFMACRO");
    let failing = world.error("macroexpand", json!({ "form": "(with-open-file)" }));
    assert!(failing.contains("WITH-OPEN-FILE") || failing.contains("argument"), "{failing}");
    assert!(world.error("macroexpand", json!({ "form": "#.(error \"run\")" })).contains("*READ-EVAL*"));
    let unfinished = world.error("macroexpand", json!({ "form": "(a" }));
    assert!(unfinished.to_lowercase().contains("end"), "{unfinished}");
    assert!(world.error("macroexpand", json!({})).contains("Give a form"));
}

/// describe-symbol's places, relative to the project, at the definition's own line.
fn places_are_of_the_project(world: &World) {
    let first_line = |place: &str| {
        let mut parts = place.rsplitn(3, ':');
        let (column, line, path) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
        assert_eq!(column, "1", "{place}");
        let text = fs::read_to_string(world.root.join(path)).unwrap();
        text.lines().nth(line.parse::<usize>().unwrap() - 1).unwrap().to_lowercase()
    };
    for (name, facet, begins) in [
        ("cl-ppcre:scan", "function", "(defgeneric scan"),
        ("cl-ppcre:do-scans", "function", "(defmacro do-scans"),
        ("cl-ppcre::str", "class", "(defclass str"),
        ("cl-ppcre:ppcre-error", "class", "(define-condition ppcre-error"),
        ("cl-ppcre:*use-bmh-matchers*", "variable", "(defvar *use-bmh-matchers*"),
        ("cl-ppcre::charset", "class", "(defstruct (charset"),
        ("cl-ppcre::regex-length", "function", "(defgeneric regex-length"),
    ] {
        let answer = world.answer("describe-symbol", json!({ "name": name })).unwrap();
        let sources = &answer.structured["description"][facet]["sources"];
        let place = sources[0]["place"].as_str().unwrap_or_else(|| panic!("{name}: {:#}", answer.structured));
        assert!(first_line(place).starts_with(begins), "{name}: {place}");
        assert!(answer.text.contains(place), "{}", answer.text);
    }
    let answer = world.ask("describe-symbol", json!({ "name": "cl-ppcre::regex-length" }));
    let methods = answer["description"]["function"]["methods"].as_array().unwrap();
    assert!(methods.len() > 5);
    for method in methods {
        assert!(
            first_line(method["sources"][0]["place"].as_str().unwrap())
                .starts_with("(defmethod regex-length")
        );
    }
    let names = world.lines(
        "(dolist (m (sb-mop:generic-function-methods #'cl-ppcre::regex-length))
           (format t \"~a~%\" (class-name (first (sb-mop:method-specializers m)))))",
    );
    assert_eq!(methods.len(), names.len());
}
