//! Compares tools on libraries with SBCL's own answers.
//!
//! Each test runs in its own process, as a process has one project.

use std::fs;
use std::time::Duration;

use serde_json::{Value, json};
use steelbank::tools::{Call, Failure, Permissions, Session, ToolAnswer};
use steelbank::{Control, EvaluateRequest, ProjectSettings, Steelbank};
use steelbank_text::{Freshness, TextIndex};

use crate::fixtures::{library_registry, lisp_libraries};
use crate::folder::Folder;
use crate::project::{folder, load};
use crate::renames::copy;
use crate::tools_agree::{
    apropos_agrees, apropos_is_exact_first, apropos_tells_how_to_widen, expansions_agree,
    outlines_agree_with_the_text, packages_agree, places_are_of_the_project,
};
use steelbank::loaded::LoadStatus;

/// A Lisp function that writes a symbol as it is written in code. Its names must have no lower-case
/// letters.
pub(crate) const WRITTEN: &str = "(lambda (symbol)
  (let* ((home (symbol-package symbol)) (package (if (eq home (find-package :cl)) \"cl\" (package-name home))))
    (format nil \"~(~a~)~:[::~;:~]~(~a~)\"
            package (eq (nth-value 1 (find-symbol (symbol-name symbol) home)) :external) (symbol-name symbol))))";

/// A session with a copy of a library as the project.
pub(crate) struct World {
    pub(crate) session: Session,
    pub(crate) bank: Steelbank,
    pub(crate) root: Folder,
    pub(crate) cache: Folder,
}

impl World {
    /// Copies the sources of `library` as the project, and loads `systems`.
    pub(crate) fn of(library: &str, systems: &[&str]) -> World {
        let root = folder(&format!("tools-{library}"));
        copy(&lisp_libraries().join(library), &root);
        World::at(root, systems)
    }

    pub(crate) fn at(root: Folder, systems: &[&str]) -> World {
        let cache = folder("tools-cache");
        let settings = ProjectSettings::in_folder(&root).cache(&cache);
        let bank = Steelbank::builder().project(settings).start().unwrap();
        for system in systems {
            let answer = load(&bank, system);
            assert_eq!(answer.status, LoadStatus::Loaded, "{system}: {answer:?}");
        }
        let (project, indexes) = (root.to_path_buf(), cache.to_path_buf());
        let open = move || {
            TextIndex::open(&project, &indexes, Freshness::Automatic).map_err(|error| error.to_string())
        };
        let session = Session::new(bank.clone())
            .with_tools(steelbank::actions::tools().clone())
            .with_text(open)
            .allowing(Permissions::ALL);
        World { session, bank, root, cache }
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

/// Checks that `value` conforms to `schema`, a part of the schema `whole`: types, required
/// properties, choices.
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
fn tools_agree_with_sbcl_on_cl_ppcre() {
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
fn tools_agree_with_sbcl_on_alexandria() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let world = World::of("alexandria", &["alexandria"]);
    outlines_agree_with_the_text(&world, "ALEXANDRIA");
    graphs_agree_with_the_who_tools(
        &world,
        // Not ensure-function: the graph lacks a caller made by DEFINE-MODIFY-MACRO.
        &["alexandria:ensure-list", "alexandria:with-gensyms"],
    );
}

#[test]
fn tools_agree_with_sbcl_on_yason() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let world = World::of("yason", &["yason"]);
    outlines_agree_with_the_text(&world, "YASON");
    graphs_agree_with_the_who_tools(&world, &["yason:encode", "yason::skip-whitespace"]);
}

/// Checks that the direct callers are those that who-calls and who-macroexpands list, and that the
/// function is among the callees of each caller.
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
            let bare = function.rsplit(':').next().unwrap().trim_end_matches(')').to_lowercase();
            let expander = function.replacen("(setf ", "(setf-expander ", 1);
            let definer = function.replacen("(setf ", "(%defsetf ", 1);
            assert!(
                known.contains(function)
                    || known.contains(&expander)
                    || known.contains(&definer)
                    || known.contains(&format!("(macro-function {function})"))
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
        // A deeper graph has at least as many nodes. Each edge joins two nodes.
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

/// Returns the first line of each top-level form with the symbol in a template.
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
