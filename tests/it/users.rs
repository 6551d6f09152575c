//! Who uses a definition: nobody is invented, and nobody is missing.

use std::collections::BTreeSet;
use std::fs;

use serde_json::{Value, json};

use crate::project::folder;
use crate::texts::write_project;
use crate::tools_beside_sbcl::{World, strings};

#[test]
fn users_are_those_that_the_text_has() {
    own_process!();
    let root = folder("users");
    write_project(&root, include_str!("../projects/users.txt"));
    let world = World::at(root, &["users"]);
    names_of_forms_are_no_definitions(&world);
    setf_functions_are_no_readers(&world);
    methods_of_others_end_at_the_makers(&world);
    siblings_are_users(&world);
    slots_have_users(&world);
    every_place_is_told(&world);
    misfits_are_told_in_all_files(&world);
    reading_errors_stand_where_the_text_goes_wrong(&world);
}

fn users(world: &World, name: &str) -> BTreeSet<String> {
    strings(&world.ask("impact", json!({ "names": [name] }))["users"], "name").into_iter().collect()
}

fn graph(world: &World, name: &str, direction: &str) -> BTreeSet<String> {
    let graph = world.ask("call-graph", json!({ "name": name, "direction": direction }));
    strings(&graph["nodes"], "name").into_iter().skip(1).collect()
}

fn set<const N: usize>(names: [&str; N]) -> BTreeSet<String> {
    names.map(str::to_owned).into()
}

fn names_of_forms_are_no_definitions(world: &World) {
    let expected = set([
        "TABLES::BY-NAME",
        "top level of tables.lisp:6, (define-kind :rest …)",
        "top level of tables.lisp:7, (define-kind \"list\" …)",
        "top level of tables.lisp:8",
    ]);
    assert_eq!(users(world, "tables::get-it"), expected);
    assert_eq!(graph(world, "tables::get-it", "callers"), expected);
    let outline = world.ask("outline", json!({ "path": "tables.lisp", "kinds": ["definition"] }));
    assert_eq!(strings(&outline["definitions"], "name"), [":rest", "\"list\""]);
}

fn setf_functions_are_no_readers(world: &World) {
    assert_eq!(users(world, "(setf places::level)"), set(["PLACES::WRITER", "PLACES::BOTH"]));
    assert_eq!(graph(world, "(setf places::level)", "callers"), set(["PLACES::WRITER", "PLACES::BOTH"]));
    assert_eq!(graph(world, "places::level", "callers"), set(["PLACES::READER", "PLACES::BOTH"]));
    let through = set(["(SETF PLACES::LEVEL)", "PLACES::WRITER", "PLACES::BOTH"]);
    assert_eq!(graph(world, "places::check", "callers"), through);
    assert_eq!(graph(world, "(setf places::level)", "callees"), set(["PLACES::CHECK"]));
    assert_eq!(graph(world, "places::level", "callees"), set([]));
    assert_eq!(graph(world, "places::writer", "callees"), set(["(SETF PLACES::LEVEL)", "PLACES::CHECK"]));
}

fn methods_of_others_end_at_the_makers(world: &World) {
    let method = "(METHOD COMMON-LISP::INITIALIZE-INSTANCE :AFTER (MAKES::A))";
    let own = "(METHOD MAKES::COST (MAKES::A))";
    let expected = set([method, "MAKES::MAKE-A", "MAKES::MAKE-B", own, "MAKES::BILL"]);
    assert_eq!(users(world, "makes::helper"), expected);
    assert_eq!(graph(world, "makes::helper", "callers"), expected);
    let impact = world.ask("impact", json!({ "names": ["makes::helper"] }));
    let users = impact["users"].as_array().unwrap();
    let through = |name: &str| users.iter().find(|user| user["name"] == name).unwrap()["through"].clone();
    assert_eq!(
        [through(method), through("MAKES::MAKE-B"), through("MAKES::BILL")],
        [Value::Null, json!(method), json!(own)]
    );
    let printed = set(["(METHOD COMMON-LISP::PRINT-OBJECT (MAKES::A COMMON-LISP::T))"]);
    assert_eq!(self::users(world, "makes::shown"), printed);
    // What methods call is called by their generic function.
    assert_eq!(graph(world, "makes::cost", "callees"), set(["MAKES::HELPER"]));
}

fn siblings_are_users(world: &World) {
    let outline = world.ask("outline", json!({ "path": "siblings.lisp", "unused": true }));
    let found: Vec<_> = outline["definitions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| (each["name"].as_str().unwrap(), each["reached_by"][0].as_str().unwrap_or_default()))
        .collect();
    let expected = [
        ("SIBLINGS::DEAD", ""),
        ("SIBLINGS::TROUBLE-WHY", "used in its own form"),
        ("SIBLINGS::RUN", "exported from SIBLINGS"),
    ];
    assert_eq!(found, expected);
}

fn slots_have_users(world: &World) {
    let answer = world.ask("impact", json!({ "names": ["slots::weight"], "depth": 1 }));
    let direct: BTreeSet<String> = strings(&answer["users"], "name").into_iter().collect();
    let expected = ["SLOTS::BOUND", "SLOTS::GROW", "SLOTS::GROW-WITH", "SLOTS::HEAVY", "SLOTS::NODE"];
    assert_eq!(direct, set(expected));
}

fn every_place_is_told(world: &World) {
    let places = |tool: &str, name: &str| -> Vec<(String, Value)> {
        let answer = world.ask(tool, json!({ "name": name }));
        let users = answer["users"].as_array().unwrap().iter();
        users.map(|user| (user["name"].as_str().unwrap().to_owned(), user["places"].clone())).collect()
    };
    let deep = ("TABLES::DEEP".to_owned(), json!(["tables.lisp:12:19", "tables.lisp:13:19"]));
    let deeper = ("TABLES::DEEPER".to_owned(), json!(["tables.lisp:15:20"]));
    assert_eq!(places("who-references", "tables::*depth*"), [deep, deeper]);
    let deeper = ("TABLES::DEEPER".to_owned(), json!(["tables.lisp:15:9", "tables.lisp:16:9"]));
    assert_eq!(places("who-sets", "tables::*depth*"), [deeper]);
    let answer = world.answer("who-calls", json!({ "name": "tables::get-it" })).unwrap();
    assert!(answer.text.contains("named as a function, from where it may be called: tables.lisp:10:43."));
}

/// A macro whose lambda list has changed: the calls that do not fit, before it is loaded and when it is tried.
fn misfits_are_told_in_all_files(world: &World) {
    let path = world.root.join("macros.lisp");
    let old = fs::read_to_string(&path).unwrap();
    let new = old
        .replace("(window &body body)", "((window &key raise) &body body)")
        .replace("`(let", "raise `(let");
    fs::write(&path, &new).unwrap();
    let answer = world.ask("impact", json!({ "names": ["macros::with-focus"] }));
    let misfits = strings(&answer["calls_that_do_not_fit"], "place");
    assert_eq!(misfits, ["macros.lisp:4:26", "more.lisp:2:26"], "{answer:#}");
    let answer = world.answer("reload", json!({ "keep_going": true })).unwrap();
    let told: Vec<&str> = answer.text.lines().filter_map(|line| line.strip_prefix("error: ")).collect();
    // (list 1) has a key that is none.
    let places = ["macros.lisp:4:25", "macros.lisp:5:25", "more.lisp:2:25"];
    assert_eq!(told, places.map(|place| format!("{place}: during macroexpansion of")), "{}", answer.text);
    assert!(answer.text.contains("users: not loaded. macros.lisp does not compile"), "{}", answer.text);
    fs::write(&path, &old).unwrap();
    let answer = world.ask("reload", json!({}));
    assert_eq!(answer["compiled_count"], 2, "{answer:#}");
}

fn reading_errors_stand_where_the_text_goes_wrong(world: &World) {
    let begin = "(defpackage :wrong (:use :cl))\n(in-package :wrong)\n";
    for (text, place, says) in [
        ("(defun f (x) (no-such-package:twice x))", "3:15", ""),
        ("(defun f () (cl:no-such-symbol))", "3:14", ""),
        ("(defun f () (list #\\Nosuch))", "3:19", ""),
        ("(defun f ()\n  (list \"open))", "4:9", "string that begins here has no end"),
        ("(defun f () 1)\n#| open", "4:1", "comment that begins here has no end"),
        ("(defun f (unused) 1)", "3:11", "never used"),
    ] {
        fs::write(world.root.join("wrong.lisp"), format!("{begin}{text}\n")).unwrap();
        let answer = world.answer("load-file", json!({ "path": "wrong.lisp" })).unwrap();
        let at = format!("wrong.lisp:{place}: ");
        let line =
            answer.text.lines().find(|line| line.contains(&at)).unwrap_or_else(|| panic!("{}", answer.text));
        assert!(line.contains(says), "{line}");
    }
}
