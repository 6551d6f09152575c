//! Tests that the index loses code that is replaced, unbound, removed or garbage-collected.

use crate::asks::Asks;
use crate::folder::Folder;
use crate::image::{bank, evaluate};
use steelbank::{Control, WhoRequest};

#[track_caller]
fn callers(name: &str, expected: &[&str]) {
    let answer = bank().answer(&WhoRequest::calls(name).package("CL-USER"));
    let found: Vec<_> = answer.users.names().collect();
    assert_eq!(found, expected, "callers of {name}");
}

#[test]
fn redefinition_replaces_callees() {
    evaluate("(defpackage :fresh-1 (:use :cl))");
    evaluate(
        "(progn (defun fresh-1::old () 1) (defun fresh-1::new () 2) (defun fresh-1::f () (fresh-1::old)))",
    );
    callers("fresh-1::old", &["FRESH-1::F"]);
    callers("fresh-1::new", &[]);
    evaluate("(defun fresh-1::f () (fresh-1::new))");
    callers("fresh-1::old", &[]);
    callers("fresh-1::new", &["FRESH-1::F"]);
}

#[test]
fn replaced_function_keeps_no_callees() {
    evaluate("(defpackage :fresh-2 (:use :cl))");
    evaluate("(progn (defun fresh-2::used () 1) (defun fresh-2::f () (fresh-2::used)))");
    evaluate("(defvar fresh-2::*kept* #'fresh-2::f)");
    evaluate("(defun fresh-2::f () 3)");
    callers("fresh-2::used", &[]);
    evaluate("(setf (fdefinition 'fresh-2::other-name) fresh-2::*kept*)");
    callers("fresh-2::used", &["FRESH-2::F"]);
}

#[test]
fn fmakunbound_and_setf_fdefinition_are_followed() {
    evaluate("(defpackage :fresh-3 (:use :cl))");
    evaluate(
        "(progn (defun fresh-3::used () 1) (defun fresh-3::f () (fresh-3::used)) (defun fresh-3::g () (fresh-3::used)))",
    );
    callers("fresh-3::used", &["FRESH-3::F", "FRESH-3::G"]);
    evaluate("(fmakunbound 'fresh-3::f)");
    callers("fresh-3::used", &["FRESH-3::G"]);
    evaluate("(setf (fdefinition 'fresh-3::g) #'list)");
    callers("fresh-3::used", &[]);
}

#[test]
fn removed_methods_are_not_listed() {
    evaluate("(defpackage :fresh-4 (:use :cl))");
    evaluate(
        "(progn (defun fresh-4::old () 1) (defun fresh-4::new () 2) (defclass fresh-4::thing () ())
                (defgeneric fresh-4::g (x y))
                (defmethod fresh-4::g ((x fresh-4::thing) (y (eql :key))) (fresh-4::old))
                (defmethod fresh-4::g :around ((x fresh-4::thing) y) (fresh-4::old) (call-next-method)))",
    );
    let around = "(METHOD FRESH-4::G :AROUND (FRESH-4::THING COMMON-LISP::T))";
    let primary = "(METHOD FRESH-4::G (FRESH-4::THING (EQL :KEY)))";
    callers("fresh-4::old", &[primary, around]);
    evaluate("(defmethod fresh-4::g ((x fresh-4::thing) (y (eql :key))) (fresh-4::new))");
    callers("fresh-4::old", &[around]);
    callers("fresh-4::new", &[primary]);
    let specializes = || {
        let request = steelbank::actions::uses::who::WhoRequest::new(
            steelbank_xref::Kind::Specializes,
            "fresh-4::thing",
        );
        bank().answer(&request).users.names().map(String::from).collect::<Vec<_>>()
    };
    assert_eq!(specializes(), [primary, around]);
    evaluate(
        "(remove-method #'fresh-4::g (find-method #'fresh-4::g '(:around) (list (find-class 'fresh-4::thing) t)))",
    );
    callers("fresh-4::old", &[]);
    assert_eq!(specializes(), [primary]);
}

#[test]
fn collected_code_is_not_listed() {
    evaluate("(defpackage :fresh-5 (:use :cl))");
    evaluate("(progn (defun fresh-5::used () 1) (defvar fresh-5::*held* nil))");
    evaluate("(progn (setf fresh-5::*held* (compile nil '(lambda () (fresh-5::used)))) t)");
    callers("fresh-5::used", &["(LAMBDA ())"]);
    evaluate("(progn (setf fresh-5::*held* nil) (sb-sys:scrub-control-stack) t)");
    evaluate("(progn (sb-ext:gc :full t) t)");
    callers("fresh-5::used", &[]);
}

#[test]
fn reloaded_file_replaces_its_uses() {
    let folder = Folder::new("fresh");
    let file = folder.join("fresh.lisp");
    let load = |text: &str, written: u64| {
        std::fs::write(&file, text).unwrap();
        let time = std::time::UNIX_EPOCH + std::time::Duration::from_secs(written);
        std::fs::File::options().write(true).open(&file).unwrap().set_modified(time).unwrap();
        evaluate(&format!("(progn (load (compile-file {file:?})) t)"));
    };
    evaluate("(defpackage :fresh-6 (:use :cl) (:export #:used))");
    evaluate("(defun fresh-6:used () 1)");
    load(
        "(defvar cl-user::*fresh-6-a* (lambda () (fresh-6:used)))\n(defun fresh-6::f () (fresh-6:used))",
        1_600_000_000,
    );
    let lambda = format!("(LAMBDA () :IN {file:?})");
    callers("fresh-6::used", &[&lambda, "FRESH-6::F"]);
    load("(defvar cl-user::*fresh-6-b* (lambda () (list)))\n(defun fresh-6::f () 2)", 1_600_000_100);
    // A variable still holds the first version's lambda, but the file no longer contains it.
    callers("fresh-6::used", &[]);
}

#[test]
fn callers_include_all_code_of_a_name() {
    evaluate("(defpackage :fresh-7 (:use :cl))");
    evaluate(
        "(progn (defun fresh-7::f (x) x)
                (defun (setf fresh-7::f) (value x) (list value x))
                (define-compiler-macro fresh-7::f (&whole form x) (if (constantp x) x form)))",
    );
    evaluate(
        "(progn (defun fresh-7::reads (x) (fresh-7::f x))
                (defun fresh-7::writes (x) (setf (fresh-7::f x) 1))
                (defun fresh-7::expands () (fresh-7::f 3))
                (defstruct fresh-7::point x)
                (defun fresh-7::uses-struct (p) (list (fresh-7::point-x p) (fresh-7::make-point))))",
    );
    callers("fresh-7::f", &["FRESH-7::EXPANDS", "FRESH-7::READS", "FRESH-7::WRITES"]);
    callers("(setf fresh-7::f)", &["FRESH-7::WRITES"]);
    callers("fresh-7::point-x", &["FRESH-7::USES-STRUCT"]);
    callers("fresh-7::make-point", &["FRESH-7::USES-STRUCT"]);
}

#[test]
fn deleted_symbols_and_packages_are_not_found() {
    let status = |name: &str, package: &str| {
        let answer = bank().ask(&WhoRequest::calls(name).package(package), &Control::default());
        answer.ok().and_then(|answer| answer.symbol).map(|symbol| symbol.text.to_string())
    };
    assert_eq!(status("fresh-8::x", "CL-USER"), None);
    evaluate("(progn (defpackage :fresh-8 (:use :cl) (:nicknames :fresh-eight)) (intern \"X\" :fresh-8) t)");
    assert_eq!(status("x", "fresh-eight").as_deref(), Some("fresh-8::x"));
    assert_eq!(status("y", "fresh-8"), None, "asking does not intern");
    assert_eq!(status("y", "fresh-8"), None);
    evaluate(
        "(progn (export (find-symbol \"X\" :fresh-8) :fresh-8) (make-package \"FRESH-9\" :use '(:fresh-8)) t)",
    );
    assert_eq!(status("x", "fresh-9").as_deref(), Some("fresh-8:x"));
    evaluate("(progn (shadow \"X\" :fresh-9) t)");
    assert_eq!(status("x", "fresh-9").as_deref(), Some("fresh-9::x"));
    evaluate("(progn (delete-package :fresh-9) t)");
    assert_eq!(status("x", "fresh-9"), None);
    evaluate("(progn (sb-ext:add-package-local-nickname :f8 :fresh-8 :cl-user) t)");
    assert_eq!(status("f8:x", "CL-USER").as_deref(), Some("fresh-8:x"));
    assert_eq!(status("f8:x", "CL"), None);
}
