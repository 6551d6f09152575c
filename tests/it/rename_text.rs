//! Tests references and renames in text that is not loaded, and in names that macros generate.

use serde_json::{Value, json};

use crate::project::folder;
use crate::texts::{expect_text, write_project};
use crate::tools_beside_sbcl::World;

const PROJECT: &str = r#"//- text.asd
(defsystem "text" :components ((:file "import") (:file "words") (:file "steps") (:file "loop") (:file "own")))
(defsystem "text/tests" :depends-on ("text") :components ((:file "t")))
//- import.lisp
(defpackage :imp.core (:use :cl) (:export #:yield))
(in-package :imp.core)
(defun yield (x) x)
(defpackage :imp (:use :cl :imp.core) (:export #:yield))
//- words.lisp
(defpackage :words (:use :cl) (:export #:for #:on))
(in-package :words)
(defmacro for (x) `(list :for ,x))
(defun on () (for 1))
(defun loaded (list) (loop for x in list collect x))
//- steps.lisp
(defpackage :step-functions (:use) (:export #:start #:stop))
(defpackage :steps (:use :cl) (:export #:start #:define-step))
(in-package :steps)
(defmacro define-step (name args &body body) `(defun ,(find-symbol (symbol-name name) :step-functions) ,args ,@body))
(defun start (x) (list :start x))
(define-step start (x) (list :step (start x)))
(defmacro go-on (x) `(step-functions:start ,x))
//- loop.lisp
(defpackage :gen (:use :cl) (:export #:io-loop #:discount))
(in-package :gen)
(defclass io-loop () ())
(defgeneric run (io-loop))
(defun discount (x) x)
(defun total (&optional (discount 0)) discount)
//- own.lisp
(defpackage :own (:use :cl) (:export #:own))
(in-package :own)
(defun own () (find-symbol "CAR" '#:own))
//- t.lisp
(defpackage :imp/tests (:use :cl) (:import-from :imp #:yield))
(in-package :imp/tests)
(defun check () (assert (= 1 (yield 1))))
(defpackage :words/tests (:use :cl :words))
(in-package :words/tests)
(defun check () (loop for i from 1 to 3 collect (for i)) (loop for x on '(1 2) when (on) collect on))
(defpackage :gen/tests (:use :cl :gen))
(in-package :gen/tests)
(defgeneric walk (io-loop &key other) (:method ((x io-loop) &key other) other))
(defun price (&optional (discount 0)) (discount discount))
(defpackage :own/tests (:use :cl :own))
(in-package :own/tests)
(defun check () (list (find-symbol "OWN" :own) (own)))
"#;

fn cautions(answer: &Value) -> String {
    answer["cautions"].as_array().unwrap().iter().map(|caution| format!("{caution:#}\n")).collect()
}

#[test]
fn unloaded_text_is_read_with_its_packages() {
    own_process!();
    let root = folder("rename-text");
    write_project(&root, PROJECT);
    let world = World::at(root, &["text"]);
    let found = world.ask("code-find-references", json!({ "symbol": "imp:yield" }));
    let text: Vec<Value> =
        found["text"].as_array().unwrap().iter().map(|line| line["line"].clone()).collect();
    assert_eq!(text, [json!(1), json!(3)], "{found:#}");
    // A LOOP keyword is not a use of the macro with that name. A call of the macro inside LOOP is a
    // use.
    let found = world.ask("code-find-references", json!({ "symbol": "words:for" }));
    assert_eq!(found["text"][0]["columns"], json!([50]), "{found:#}");
    assert_eq!(found["text_total"], 1, "{found:#}");
    expect_text("words of LOOP", &cautions(&found));
    let found = world.ask("code-find-references", json!({ "symbol": "words:on" }));
    assert_eq!(found["text"][0]["columns"], json!([86, 98]), "{found:#}");
    // A parameter of a generic function is not a use of the class. A parameter with a default is
    // not a call.
    let found = world.ask("code-find-references", json!({ "symbol": "gen:io-loop" }));
    assert_eq!(found["text"][0]["columns"], json!([52]), "{found:#}");
    assert_eq!((&found["text_total"], &found["total"]), (&json!(1), &json!(1)), "{found:#}");
    expect_text("parameters", &cautions(&found));
    let edits = |name: &str, scope: &str| -> Vec<String> {
        let plan = world.ask("rename", json!({ "name": name, "new_name": "new-name", "scope": scope }));
        let edits =
            plan["hunks"].as_array().unwrap().iter().flat_map(|hunk| hunk["edits"].as_array().unwrap());
        let places = edits.map(|edit| edit["at"].as_str().unwrap().to_owned());
        places.chain([plan["scope"].as_str().unwrap().to_owned()]).collect()
    };
    assert_eq!(edits("gen:io-loop", "auto"), ["loop.lisp:1:40", "loop.lisp:3:11", "t.lisp:9:52", "narrow"]);
    let all = ["loop.lisp:1:40", "loop.lisp:3:11", "loop.lisp:4:18", "t.lisp:9:19", "t.lisp:9:52", "symbol"];
    assert_eq!(edits("gen:io-loop", "symbol"), all);
    assert_eq!(edits("gen:discount", "auto").last().unwrap(), "symbol");
    let found = world.ask("find_references", json!({ "pattern": "discount" }));
    let roles: Vec<&str> =
        found["references"].as_array().unwrap().iter().map(|each| each["role"].as_str().unwrap()).collect();
    assert_eq!(
        roles,
        ["reference", "definition", "reference", "reference", "reference", "call", "reference"],
        "{found:#}"
    );
    // The argument next to the name of a looked-up symbol names a package.
    let plan = world.ask("rename", json!({ "name": "own:own", "new_name": "mine" }));
    assert_eq!((&plan["scope"], &plan["edits"]), (&json!("narrow"), &json!(4)), "{plan:#}");
    assert_eq!((&plan["doubtful"], &plan["cautions"]), (&Value::Null, &Value::Null), "{plan:#}");
    // A macro generates the same name in another package.
    let plan = world.ask("rename", json!({ "name": "steps:start", "new_name": "begin" }));
    assert_eq!(plan["derived"][0]["name"], "step-functions:start", "{plan:#}");
    expect_text("name in another package", &cautions(&plan));
}
