//! Tests paths between definitions, interfaces of modules, constructors of classes, and uses of
//! variables.

use std::time::Duration;

use serde_json::{Value, json};
use steelbank::actions::uses::outline::OutlineTarget;
use steelbank::{
    CallGraphRequest, Control, InterfaceRequest, OutlineRequest, PathRequest, RenameRequest, WhoMakesRequest,
    WhoRequest,
};

use crate::project::folder;
use crate::texts::{expect_text, write_project};
use crate::tools_beside_sbcl::World;

const PROJECT: &str = r#"//- ways.asd
(defsystem "ways" :serial t :components ((:file "keys") (:file "handlers") (:file "main")))
(defsystem "ways/tests" :depends-on ("ways") :components ((:file "tests/check")))
//- README.md
Set `*depth*` first.
//- keys.lisp
(defpackage :ways (:use :cl) (:export #:dispatch #:*depth*))
(in-package :ways)
(defvar *handlers* (make-hash-table))
(defvar *hook* nil)
(defvar *depth* 3 "How deep.")
(defstruct point x)
(defclass shape () ())
(defclass square (shape) ())
(defmacro define-handler (key args &body body)
  `(setf (gethash ,key *handlers*) (lambda ,args ,@body)))
(defun dispatch (key) (funcall (gethash key *handlers*) key))
(defun run-hook () (mapc #'funcall *hook*))
//- handlers.lisp
(in-package :ways)
(defun helper (x) (list x *depth*))
(defun act (x) (helper x))
(define-handler :press (key) (act key))
(defun on-end () (act nil))
(push 'on-end *hook*)
//- main.lisp
(in-package :ways)
(defun main () (let ((*depth* 4)) (dispatch :press)))
(defun make-all () (list (make-instance 'square) (make-point :x 1)))
(defun deepen () (incf *depth*) (make-instance 'shape))
(defun nobody () 1)
(defclass token () ())
(defun make-token (&rest more) (make 'token :more more) (typep more 'token))
(defun applied (&rest more) (apply 'make (find-class 'token) more) (apply #'make 'token more))
(defun make-sure () (apply 'make-instance 'token '()))
(defvar *settings* nil)
(defun send () (finish))
(defun finish () 1)
(defun copier (db)
  `(lambda () (let* ((*settings* ',db) (*hook* nil)) (push 'send *hook*) (send))))
(defun connect () (list *settings*))
(defun both () (try-finish) (first-step))
(defun first-step () (second-step))
(defun second-step () (finish))
//- tests/check.lisp
(in-package :ways)
(defun try-finish () (finish))
"#;

#[test]
fn paths_interfaces_and_constructors_are_found() {
    own_process!();
    let root = folder("ways");
    write_project(&root, PROJECT);
    let world = World::at(root, &["ways/tests"]);
    paths(&world);
    interfaces(&world);
    makers(&world);
    variables(&world);
    texts(&world);
}

/// Compares the displayed answers of the library with the texts of the tools.
fn texts(world: &World) {
    let control = Control::new(Duration::from_secs(60));
    let tool = |name: &str, arguments: Value| world.answer(name, arguments).unwrap().text;
    let path = world.bank.ask(&PathRequest::new("ways::main", "ways::helper"), &control).unwrap();
    assert_eq!(tool("path", json!({ "from": "ways::main", "to": "ways::helper" })), path.to_string());
    let makers = world.bank.ask(&WhoMakesRequest::new("ways::shape"), &control).unwrap();
    assert_eq!(tool("who-makes", json!({ "name": "ways::shape" })), makers.to_string());
    let file = || OutlineTarget::Path("keys.lisp".to_owned());
    let outline = world.bank.ask(&OutlineRequest::new(file()), &control).unwrap();
    assert_eq!(tool("outline", json!({ "path": "keys.lisp" })), outline.to_string());
    let interface = world.bank.ask(&InterfaceRequest::new(file()), &control).unwrap();
    assert_eq!(tool("interface", json!({ "path": "keys.lisp" })), interface.to_string());
    let graph = world.bank.ask(&CallGraphRequest::new("ways::helper"), &control).unwrap();
    assert_eq!(tool("call-graph", json!({ "name": "ways::helper" })), graph.to_string());
    let plan = world.bank.ask(&RenameRequest::new("ways::helper", "help"), &control).unwrap().to_string();
    let planned = tool("rename", json!({ "name": "ways::helper", "new_name": "help" }));
    assert_eq!(planned.lines().next(), plan.lines().next());
    let missing = world.bank.ask(&WhoRequest::calls("ways::nothing"), &control).unwrap_err();
    expect_text("missing symbol", &missing.to_string());
}

fn paths(world: &World) {
    let steps = |from: &str, to: &str| -> Vec<String> {
        let answer = world.ask("path", json!({ "from": from, "to": to }));
        let steps = answer["steps"].as_array().unwrap().iter();
        let text = |value: &Value| value.as_str().unwrap_or("-").to_owned();
        let step = |step: &Value| {
            let guess = if step["guess"] == true { " guess" } else { "" };
            format!("{} {} {}{guess}", text(&step["name"]), text(&step["place"]), text(&step["does"]))
        };
        steps.map(step).collect()
    };
    assert_eq!(steps("ways::act", "ways::helper"), ["ways::act handlers.lisp:3:17 call", "ways::helper - -"]);
    // Steps through a table that a macro fills, and through a hook, are guesses.
    assert_eq!(
        steps("ways::main", "ways::helper"),
        [
            "ways::main main.lisp:2:36 call",
            "ways:dispatch keys.lisp:11:45 reference guess",
            "ways::*handlers* handlers.lisp:4:31 holds guess",
            "ways::act handlers.lisp:3:17 call",
            "ways::helper - -",
        ]
    );
    assert_eq!(
        steps("ways::run-hook", "ways::act"),
        [
            "ways::run-hook keys.lisp:12:36 reference guess",
            "ways::*hook* handlers.lisp:6:8 holds guess",
            "ways::on-end handlers.lisp:5:19 call",
            "ways::act - -",
        ]
    );
    // A variable that a template binds does not hold what the template calls. It may hold what is
    // stored in it.
    assert!(steps("ways::connect", "ways::send").is_empty());
    assert_eq!(
        steps("ways::run-hook", "ways::send")[1..],
        ["ways::*hook* main.lisp:14:61 holds guess", "ways::send - -"]
    );
    // A longer path avoids tests.
    assert_eq!(
        steps("ways::both", "ways::finish")
            .iter()
            .map(|step| step.split(' ').next().unwrap())
            .collect::<Vec<_>>(),
        ["ways::both", "ways::first-step", "ways::second-step", "ways::finish"]
    );
    assert!(steps("ways::nobody", "ways::helper").is_empty());
    let text = world.answer("path", json!({ "from": "ways::main", "to": "ways::helper" })).unwrap().text;
    expect_text("path", &text);
}

fn interfaces(world: &World) {
    let answer = world.ask("interface", json!({ "path": "handlers.lisp" }));
    let names = |side: &str| -> Vec<String> {
        let names = answer[side].as_array().unwrap().iter();
        names
            .map(|each| format!("{} {} {} {}", each["name"], each["exported"], each["count"], each["files"]))
            .collect()
    };
    assert_eq!(
        names("uses"),
        [
            r#""ways:*depth*" true 1 ["keys.lisp"]"#,
            r#""ways::*hook*" false 1 ["keys.lisp"]"#,
            r#""ways::define-handler" false 1 ["keys.lisp"]"#,
        ],
        "{answer:#}"
    );
    assert!(names("used").is_empty(), "{answer:#}");
    let answer = world.ask("interface", json!({ "path": "keys.lisp" }));
    let used: Vec<&Value> = answer["used"].as_array().unwrap().iter().map(|each| &each["name"]).collect();
    let expected = [
        "ways:*depth*", "ways::*hook*", "ways::define-handler", "ways:dispatch", "ways::make-point",
        "ways::shape", "ways::square",
    ];
    assert_eq!(used, expected.map(|name| json!(name)).iter().collect::<Vec<_>>(), "{answer:#}");
    assert_eq!(answer["used"][0]["files"], json!(["handlers.lisp", "main.lisp"]), "{answer:#}");
    // All uses are inside the package.
    let answer = world.ask("interface", json!({ "package": "ways" }));
    assert_eq!((&answer["used"], &answer["uses"]), (&json!([]), &json!([])), "{answer:#}");
}

fn makers(world: &World) {
    let made = |class: &str| -> Vec<String> {
        let answer = world.ask("who-makes", json!({ "name": class }));
        let makers = answer["makers"].as_array().unwrap().iter();
        makers.map(|each| format!("{} {} {}", each["class"], each["at"], each["by"])).collect()
    };
    assert_eq!(
        made("ways::shape"),
        [
            r#""ways::shape" "main.lisp:4:49" "ways::deepen""#,
            r#""ways::square" "main.lisp:3:42" "ways::make-all""#
        ]
    );
    assert_eq!(made("ways::point"), [r#""ways::point" "main.lisp:3:51" "ways::make-all""#]);
    assert!(made("ways::nobody").is_empty());
    // A function that gets the class may construct an instance. A type test constructs no instance.
    let answer = world.ask("who-makes", json!({ "name": "ways::token" }));
    let makers: Vec<String> = answer["makers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|each| format!("{} {} {}", each["at"], each["by"], each["possible"]))
        .collect();
    assert_eq!(
        makers,
        [
            r#""main.lisp:9:44" "ways::make-sure" null"#,
            r#""main.lisp:7:39" "ways::make-token" true"#,
            r#""main.lisp:8:83" "ways::applied" true"#,
        ],
        "{answer:#}"
    );
}

fn variables(world: &World) {
    let answer = world.answer("describe-symbol", json!({ "name": "ways:*depth*", "uses": true })).unwrap();
    expect_text("uses of a variable", &answer.text);
    let plain = world.answer("describe-symbol", json!({ "name": "ways:*depth*" })).unwrap();
    assert!(
        plain.structured["variable_uses"].is_null() && answer.text.len() > plain.text.len(),
        "{}",
        plain.text
    );
}
