//! A plan tells the truth about text that is not loaded, and about what forms make in other packages.

use serde_json::{Value, json};

use crate::project::folder;
use crate::texts::write_project;
use crate::tools_beside_sbcl::World;

const PROJECT: &str = r#"//- text.asd
(defsystem "text" :components ((:file "import") (:file "words") (:file "steps")))
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
//- t.lisp
(defpackage :imp/tests (:use :cl) (:import-from :imp #:yield))
(in-package :imp/tests)
(defun check () (assert (= 1 (yield 1))))
(defpackage :words/tests (:use :cl :words))
(in-package :words/tests)
(defun check () (loop for i from 1 to 3 collect (for i)) (loop for x on '(1 2) when (on) collect on))
"#;

#[test]
fn text_that_is_not_loaded_is_read_as_it_will_be() {
    own_process!();
    let root = folder("rename-text");
    write_project(&root, PROJECT);
    let world = World::at(root, &["text"]);
    let found = world.ask("code-find-references", json!({ "symbol": "imp:yield" }));
    let text: Vec<Value> =
        found["text"].as_array().unwrap().iter().map(|line| line["line"].clone()).collect();
    assert_eq!(text, [json!(1), json!(3)], "{found:#}");
    // The words of LOOP are not the macro; its calls in a LOOP are.
    let found = world.ask("code-find-references", json!({ "symbol": "words:for" }));
    assert_eq!(found["text"][0]["columns"], json!([50]), "{found:#}");
    assert_eq!(found["text_total"], 1, "{found:#}");
    let said = found["cautions"].to_string();
    assert!(said.contains("1 occurrence is left out: it is a word of LOOP there."), "{said}");
    let found = world.ask("code-find-references", json!({ "symbol": "words:on" }));
    assert_eq!(found["text"][0]["columns"], json!([86, 98]), "{found:#}");
    // A form makes the same name in another package.
    let plan = world.ask("rename", json!({ "name": "steps:start", "new_name": "begin" }));
    assert_eq!(plan["derived"][0]["name"], "STEP-FUNCTIONS::START", "{plan:#}");
    assert!(plan["cautions"].to_string().contains("STEP-FUNCTIONS::START"), "{plan:#}");
}
