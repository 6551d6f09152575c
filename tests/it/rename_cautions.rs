//! Code in which a rename breaks more than its edits show, as found in libraries: the plan must warn of it.

use std::fs;

use steelbank::Steelbank;
use steelbank::query::control::Control;
use steelbank::query::load_system::LoadStatus;
use steelbank::query::rename::{CautionKind, RenamePlan, RenameRequest};

use crate::child::in_own_process;
use crate::project::{delete, folder, load, project};

#[test]
fn what_may_break_is_told() {
    in_own_process("rename_cautions::what_may_break_is_told", told);
}

const MAIN: &str = r#"(defpackage #:ct (:use #:cl))
(in-package #:ct)
(defmacro def-record (name &rest slots)
  `(progn ,@(loop for (slot) in slots
                  collect `(defun ,(intern (format nil "~A-~A" name slot)) (x) (getf x ',slot)))))
(deftype thing-kind () 'fixnum)
(def-record thing (kind :type thing-kind))
(defun kind-of (x) (declare (type thing-kind x)) (thing-kind (list x)))
(defstruct chain (next nil))
(defmacro part-of (slot object) `(,(intern (format nil "CHAIN-~A" slot)) ,object))
(defun after (chain) (part-of next chain))
(defun q (text) (read-from-string text))
(defun starter () 1)
(defun started () (funcall (q "ct::starter")))
(eval-when (:compile-toplevel :load-toplevel :execute)
  (defun known (name) (find-symbol (string name) :cl))
  (defun weakness (x) x)
  (defun fun-name (what) (intern (format nil "~A-~A" :use what))))
(defun weak () #.(if (known 'weakness) 1 2))
(defun strong () 1)
(defun asked () (known 'strong))
(defun use-only (x) x)
#.`(defun made (x) (,(fun-name :only) x))
(defmacro walk (&body clauses) `',clauses)
(defun start () 1)
(defun walks () (list (walk (from x start 1)) (walk (from x :start 1))))
(defun loose () 1)
(defun names () '(#:loose))
(defun plain (x) (list x 'plain))
"#;

fn told() {
    let root = folder("rename-cautions");
    let system = "(defsystem \"ct\" :components ((:file \"main\") (:file \"own\")))\n";
    fs::write(root.join("ct.asd"), system).unwrap();
    fs::write(root.join("main.lisp"), MAIN).unwrap();
    let contrib =
        "(in-package :ct)\n(defstruct item (id))\n(defun item-of (x) (list (item-id x) (make-item :id 1)))\n";
    fs::write(root.join("contrib.lisp"), contrib).unwrap();
    let own = format!("(in-package :ct)\n(compile-file {:?})\n", root.join("contrib.lisp"));
    fs::write(root.join("own.lisp"), own).unwrap();
    let bank = project(&root, &root.join("cache"));
    let loaded = load(&bank, "ct");
    assert_eq!(loaded.status, LoadStatus::Loaded, "{loaded:#?}");

    for (name, kind) in [
        ("thing-kind", CautionKind::UseMade),
        ("chain", CautionKind::UseMade),
        ("starter", CautionKind::InString),
        ("weakness", CautionKind::UseMade),
        ("strong", CautionKind::UseMade),
        ("use-only", CautionKind::UseMade),
        ("start", CautionKind::LoopWord),
        ("loose", CautionKind::UseMade),
    ] {
        let plan = plan(&bank, name);
        let kinds: Vec<CautionKind> = plan.cautions.iter().map(|caution| caution.kind).collect();
        assert_eq!(kinds, [kind], "{name}: {plan:#?}");
        assert!(plan.conflicts.is_empty(), "{name}: {plan:#?}");
    }
    let plain = plan(&bank, "plain");
    assert!(plain.cautions.is_empty() && plain.edits == 2, "{plain:#?}");

    // A structure of a file that was compiled and not loaded: its accessors have no definitions in the image.
    let item = plan(&bank, "item");
    let edits: Vec<(&str, u32, &str)> = item
        .files
        .iter()
        .flat_map(|file| {
            file.edits.iter().map(|edit| (file.path.as_str(), edit.place.line.unwrap(), edit.new.as_str()))
        })
        .collect();
    assert_eq!(
        edits,
        [("contrib.lisp", 2, "item-2"), ("contrib.lisp", 3, "item-2-id"), ("contrib.lisp", 3, "make-item-2")],
        "{item:#?}"
    );
    delete(&root);
}

fn plan(bank: &Steelbank, name: &str) -> RenamePlan {
    let request = RenameRequest::new(format!("ct::{name}"), format!("{name}-2"));
    bank.rename_plan(&request, &Control::default()).unwrap()
}
