//! Tests that names in answers are written as in Lisp code, and that all tools accept them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use steelbank::tools::CallOutcome;

use crate::project::folder;
use crate::texts::write_project;
use crate::tools_beside_sbcl::World;

const MORE: &str = r#"//- more.asd
(defsystem "more" :serial t :components ((:file "more")))
//- more.lisp
(defpackage :more (:use :cl) (:export #:area #:shape #:*scale* "Mixed"))
(defpackage "my pkg" (:use :cl) (:export "a b"))
(in-package :more)
(defvar *scale* 2)
(defclass shape () ((name :accessor shape-name :initarg :name) (|odd Slot| :reader odd-slot)))
(defclass square (shape) ())
(define-condition too-big (error) ())
(defstruct (point (:predicate is-point)) x y)
(defgeneric area (shape &key))
(defmethod area ((shape shape) &key) (error 'too-big))
(defmethod area :around ((shape square) &key) (* *scale* (call-next-method)))
(defmethod area ((shape (eql :none)) &key) (|Mixed| shape))
(defmethod (setf area) (new (shape shape)) (setf (shape-name shape) new))
(defmethod print-object ((shape shape) stream) (princ (area shape) stream))
(defun |Mixed| (x) (setf *scale* 3) (list x (make-point :x 1) (make-instance 'square)))
(defun my-first (list) (let ((*scale* 1)) (|my pkg|:|a b| list)))
(defun |my pkg|:|a b| (list) (mapcar (lambda (each) (area each)) list))
(defmacro with-scale ((scale) &body body) `(let ((*scale* ,scale)) ,@body))
(defun scaled () (with-scale (4) (area :none)))
(define-compiler-macro my-first (&whole form list) (declare (ignore list)) form)
(deftype size () 'integer)
"#;

/// The fields that are names, or lists of names.
const FIELDS: [&str; 25] = [
    "name", "symbol", "root", "from", "to", "class", "by", "caller", "through", "metaclass", "predicate",
    "copier", "macro", "superclasses", "precedence", "subclasses", "readers", "writers", "methods",
    "properties", "exports", "imports", "unused_exports", "unused_imports", "shadowing",
];

/// Adds the names in an answer to `names`.
fn collect(answer: &Value, names: &mut BTreeSet<String>) {
    for (key, value) in answer.as_object().into_iter().flatten() {
        // Skip requested names, definition lines, exact names of symbols, and names outside Lisp.
        if ["asked", "defined"].contains(&key.as_str()) {
            continue;
        }
        let is_exact = answer["accessibility"].is_string() || answer["own_symbols"].is_u64();
        let is_other = (key == "name" && is_exact)
            || ["package", "system", "top-level"].iter().any(|kind| answer["kind"] == *kind);
        let texts = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
        if FIELDS.contains(&key.as_str()) && !is_other {
            names.extend(texts.iter().filter_map(Value::as_str).map(str::to_owned));
        }
        texts.iter().for_each(|value| collect(value, names));
    }
}

/// Returns whether `name` describes nameless code: a top-level form, a function in a top-level
/// form, or internal SBCL code.
fn is_nameless(name: &str) -> bool {
    let heads = [
        "top level of ", "#:", "(inst-printer ", "(optimized-data-vector-", "(handler-case ",
        "(%handler-bind ",
    ];
    let is_local = ["(lambda ", "(flet ", "(labels "].iter().any(|head| name.starts_with(head));
    let is_in_function = name.contains(" :in ") && !name.contains(" :in \"") && !name.contains(".lisp)");
    heads.iter().any(|head| name.starts_with(head)) || (is_local && !is_in_function)
}

#[test]
fn names_in_answers_are_accepted_by_all_tools() {
    own_process!();
    let root = folder("names");
    write_project(&root, include_str!("../projects/odd.txt"));
    write_project(&root, MORE);
    let world = World::at(root, &["odd", "more"]);
    let mut names = BTreeSet::new();
    for (tool, arguments) in [
        ("outline", json!({ "path": "." })),
        ("outline", json!({ "path": ".", "unused": true })),
        ("interface", json!({ "package": "odd.core" })),
        ("package-info", json!({ "package": "more" })),
        ("package-info", json!({ "package": "my pkg" })),
        ("apropos", json!({ "pattern": ".", "matching": "regex", "packages": ["more"] })),
        ("apropos", json!({ "pattern": "o", "packages": ["odd.core"] })),
        ("path", json!({ "from": "more::my-first", "to": "more:area" })),
        ("who-makes", json!({ "name": "more:shape" })),
        ("macroexpand", json!({ "form": "(more::with-scale (1) 2)" })),
        ("rename", json!({ "name": "more::point", "new_name": "|Dot|" })),
        ("find_references", json!({ "pattern": "area" })),
    ] {
        let answer = world.answer(tool, arguments).unwrap_or_else(|error| panic!("{tool}: {error}"));
        assert_ne!(answer.outcome, CallOutcome::NotFound, "{tool}: {}", answer.text);
        collect(&answer.structured, &mut names);
    }
    let plan = world.ask("rename", json!({ "name": "more:|Mixed|", "new_name": "mixed" }));
    assert_eq!((&plan["symbol"], &plan["new_name"]), (&json!("more:|Mixed|"), &json!("mixed")));
    let asked = |name: &str| {
        [
            ("describe-symbol", json!({ "name": name, "uses": true })),
            ("find-definition", json!({ "name": name })),
            ("who-calls", json!({ "name": name })),
            ("who-references", json!({ "name": name })),
            ("who-sets", json!({ "name": name })),
            ("who-binds", json!({ "name": name })),
            ("who-macroexpands", json!({ "name": name })),
            ("who-specializes", json!({ "name": name })),
            ("who-makes", json!({ "name": name })),
            ("code-find-references", json!({ "symbol": name })),
            ("call-graph", json!({ "name": name, "depth": 2 })),
            ("call-graph", json!({ "name": name, "depth": 2, "direction": "callees" })),
            ("impact", json!({ "names": [name] })),
            ("disassemble", json!({ "name": name })),
            ("compiler-notes", json!({ "name": name })),
        ]
    };
    let (mut known, mut waiting) = (BTreeSet::new(), names);
    while let Some(name) = waiting.pop_first() {
        if !known.insert(name.clone()) || is_nameless(&name) {
            continue;
        }
        let bare: String = name.split('"').step_by(2).collect();
        let bare: String = bare.split('|').step_by(2).collect();
        assert_eq!(bare, bare.to_lowercase(), "{name} is not written as in Lisp code");
        let own = ["more:", "odd.core:", "|my pkg|:"].iter().any(|package| name.contains(package));
        for (tool, arguments) in asked(&name).into_iter().take(if own { 15 } else { 2 }) {
            let answer =
                world.answer(tool, arguments).unwrap_or_else(|error| panic!("{tool} {name}: {error}"));
            // A name without a function has no code, but is found.
            let found = answer.structured["found"] == true || answer.structured["symbol"].is_string();
            assert!(found, "{tool} {name}: {}", answer.text);
            if own {
                collect(&answer.structured, &mut waiting);
            }
        }
    }
    for name in [
        "more:area",
        "more::scaled",
        "more:|Mixed|",
        "|my pkg|:|a b|",
        "(setf more:area)",
        "cl:t",
        "cl:standard-class",
        "(method more:area :around (more::square))",
        "(method more:area ((eql :none)))",
        "(method (setf more:area) (cl:t more:shape))",
        "(compiler-macro odd.core:total)",
        "more::|odd Slot|",
        "(setf-expander odd.core:place-of)",
        "odd.core:|lower-exported|",
        "odd.core::|lower name|",
    ] {
        assert!(known.contains(name), "{name}: {known:#?}");
    }
    println!("seen: {} names", known.len());
}
