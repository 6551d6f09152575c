//! Checks the tools for understanding and trying code on libraries of other authors, against SBCL's own
//! answers.
//!
//! Each test has a process of its own, as a process has one project.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use steelbank::tools::{Call, Failure, Permissions, Session, ToolAnswer};
use steelbank::{ProjectSettings, Steelbank};
use steelbank_text::{Freshness, TextIndex};

use crate::fixtures::{library_registry, lisp_libraries};
use crate::project::{folder, load};
use crate::renames::copy;
use crate::texts::write_project;
use crate::tools_agree::{
    apropos_agrees, apropos_is_exact_first, apropos_tells_how_to_widen, expansions_agree,
    outlines_agree_with_the_text, packages_agree, places_are_of_the_project,
};
use steelbank::loaded::LoadStatus;
use steelbank::{Control, EvaluateRequest};

/// A session with a copy of a library as the project.
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) bank: Steelbank,
    pub(crate) root: PathBuf,
}

impl World {
    /// Copies the sources of `library` as the project, and loads `systems`.
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
        let session = Session::new(bank.clone())
            .with_tools(steelbank::actions::tools().clone())
            .with_text(open)
            .allowing(Permissions::ALL);
        World { session, bank, root }
    }

    pub(crate) fn answer(&self, tool: &str, arguments: Value) -> Result<ToolAnswer, Failure> {
        let tool = steelbank::actions::tools().get(tool).unwrap();
        let answer = tool.call(&self.session, arguments.as_object().unwrap().clone(), &Call::default())?;
        let schema = Value::Object(tool.output().clone());
        conforms(&answer.structured, &schema, &schema, tool.name());
        let tokens = answer.structured.to_string().chars().count() / 4;
        assert!(tokens <= 10_000, "{} answers with {tokens} tokens", tool.name());
        Ok(answer)
    }

    /// Returns the structured answer.
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

    /// Returns the lines that `(format t …)` in `source` writes.
    #[track_caller]
    pub(crate) fn lines(&self, source: &str) -> Vec<String> {
        let answer = self
            .bank
            .run(&EvaluateRequest::new(source).values(), &Control::new(Duration::from_secs(60)))
            .unwrap_or_else(|error| panic!("{source}: {error}"));
        assert_eq!(answer.output_dropped, 0);
        answer.output.lines().map(str::to_owned).collect()
    }
}

/// Checks that `value` conforms to `schema`, a part of `whole`: types, required properties, choices.
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

pub(crate) fn strings(value: &Value, key: &str) -> Vec<String> {
    value.as_array().unwrap().iter().map(|each| each[key].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn the_tools_on_a_library_of_functions_and_classes() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let world = World::of("cl-ppcre", &["cl-ppcre", "alexandria", "yason"]);
    apropos_agrees(&world);
    apropos_is_exact_first(&world);
    apropos_tells_how_to_widen(&world);
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
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let world = World::of("alexandria", &["alexandria"]);
    outlines_agree_with_the_text(&world, "ALEXANDRIA");
    graphs_agree_with_the_who_tools(
        &world,
        // Not ensure-function: a macro of DEFINE-MODIFY-MACRO among its callers is missing in the graph.
        &["alexandria:ensure-list", "alexandria:with-gensyms"],
    );
}

#[test]
fn the_tools_on_yason() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let world = World::of("yason", &["yason"]);
    outlines_agree_with_the_text(&world, "YASON");
    graphs_agree_with_the_who_tools(&world, &["yason:encode", "yason::skip-whitespace"]);
}

/// Checks that one step towards the callers is what who-calls and who-macroexpands say, and that each caller
/// has the function as a callee.
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
        let made = names_above_templates(world, name);
        for function in &functions {
            let bare = function.rsplit("::").next().unwrap().trim_end_matches(')').to_lowercase();
            let expander = function.replacen("(SETF ", "(SETF-EXPANDER ", 1);
            let definer = function.replacen("(SETF ", "(%DEFSETF ", 1);
            assert!(
                known.contains(function)
                    || known.contains(&expander)
                    || known.contains(&definer)
                    || known.contains(&format!("(MACRO-FUNCTION {function})"))
                    || made.iter().any(|line| line.contains(&bare))
                    || function == graph["root"].as_str().unwrap(),
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
                world.ask("call-graph", json!({ "name": name, "depth": 2, "limit": 12, "format": format }));
            let read = |file: &Value| fs::read_to_string(file.as_str().unwrap()).unwrap();
            let text = match format {
                "svg" => read(&drawn["drawing_file"]),
                _ => drawn["drawing"].as_str().unwrap().to_owned(),
            };
            assert!(text.starts_with(begins) && !drawn["nodes"].as_array().unwrap().is_empty(), "{drawn}");
        }
    }
}

/// Reads off the text the first line of each top-level form with a template that has the symbol.
fn names_above_templates(world: &World, name: &str) -> Vec<String> {
    let found = world.ask("code-find-references", json!({ "name": name }));
    let templates = found["refs"].as_array().unwrap().iter().filter(|found| found["type"] == "template");
    let lines = templates.filter_map(|found| {
        let text = fs::read_to_string(world.root.join(found["path"].as_str()?)).ok()?;
        let before: Vec<&str> = text.lines().take(found["line"].as_u64()? as usize).collect();
        Some(before.iter().rev().find(|line| line.contains("(def"))?.to_lowercase())
    });
    lines.collect()
}

/// Checks the tools on a project made for them, in which the answers are known.
#[test]
fn the_tools_on_a_project_made_for_them() {
    own_process!();
    let root = folder("tools-made");
    write_project(&root, include_str!("../projects/made.txt"));
    let world = World::at(root, &["made"]);
    // Reasons beside each: see the project.
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
    // Load the tests, so that their uses are known.
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
    // Outline a file that is not loaded, off its text.
    fs::write(world.root.join("new.lisp"), "(in-package #:made)\n(defun later () (api 2))\n").unwrap();
    let answer = world.ask("outline", json!({ "path": "new.lisp" }));
    assert_eq!(answer["not_loaded"], json!(["new.lisp"]));
    assert_eq!(answer["definitions"][0]["name"], "MADE::LATER");
    assert_eq!(answer["definitions"][0]["uses"], Value::Null);
    assert_eq!(
        world.ask("outline", json!({ "path": "nowhere.lisp" }))["message"],
        "Path nowhere.lisp not found"
    );
    assert!(world.error("outline", json!({ "path": "/etc" })).contains("outside of the project"));
    assert_eq!(world.ask("outline", json!({ "system": "nowhere" }))["message"], "System nowhere not found");
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
    // Ask about a function that only a test reaches.
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
