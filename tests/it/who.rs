//! Tests the places in answers of the who family.

use std::fs;

use steelbank::actions::uses::who::{User, WhoRequest};
use steelbank::source::positions::Evidence;
use steelbank_xref::{Kind, NameRole};

use crate::asks::Asks;
use crate::folder::Folder;
use crate::image::{bank, evaluate};

#[test]
fn each_use_has_its_line_and_column() {
    let folder = Folder::new("places");
    let file = folder.join("places.lisp");
    let text = ";;; Ünïcode before\n(defun places::f (x)\n  (list (places::g x)\n\t(places::g 2)))\n\n(defmethod places::m ((x places::c)) (places::g x))\n";
    fs::write(&file, text).unwrap();
    evaluate("(defpackage :places (:use :cl))");
    evaluate("(progn (defun places::g (x) x) (defclass places::c () ()) (defgeneric places::m (x)))");
    evaluate(&format!("(progn (load (compile-file {file:?} :external-format :utf-8)) t)"));

    let calls = WhoRequest::new(Kind::Calls, "places::g");
    let answer = bank().answer(&calls.clone().recorded());
    assert!(answer.users.iter().all(|user| user.position.is_none()));
    let answer = bank().answer(&calls);
    let found: Vec<_> = answer.users.iter().map(first_place).collect();
    let method = "(METHOD PLACES::M (PLACES::C))";
    let exact = Evidence::Exact;
    assert_eq!(found, [("PLACES::F".to_owned(), 3, 10, exact, 2), (method.to_owned(), 6, 39, exact, 1)]);

    let specializes = WhoRequest::new(Kind::Specializes, "places::c");
    let answer = bank().answer(&specializes);
    let (name, line, ..) = first_place(answer.users.get(0).unwrap());
    assert_eq!((name.as_str(), line), (method, 6));

    fs::write(&file, format!("\n{text}")).unwrap();
    // Modification times are stored in seconds.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    fs::File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
    let answer = bank().answer(&calls);
    for user in answer.users.iter() {
        if let Some(position) = &user.position {
            assert!(position.stale, "{user:?}");
            assert_ne!(position.evidence, Evidence::Exact, "{user:?}");
        }
    }
}

/// Returns a user's name; the line, column and evidence of its first use; and its number of uses.
fn first_place(user: User<'_>) -> (String, u32, u32, Evidence, usize) {
    let at = user.position.unwrap();
    let (line, column) = (at.place.line.unwrap(), at.place.column.unwrap());
    (user.name.canonical().to_owned(), line, column, at.evidence, user.uses)
}

#[test]
fn certain_place_is_not_assigned_to_another_use() {
    let folder = Folder::new("taken");
    let file = folder.join("taken.lisp");
    fs::write(&file, "(defun taken::f ()\n  (taken::with (taken::g 1))\n  #+taken-feature (list 1)\n  2)\n(defun taken::h ()\n  (taken::with (taken::g 1)))\n").unwrap();
    evaluate("(defpackage :taken (:use :cl))");
    evaluate("(progn (defun taken::g (x) x) (defmacro taken::with (x) `(list (taken::g 0) ,x)))");
    evaluate(&format!("(progn (load (compile-file {file:?} :external-format :utf-8)) t)"));
    let answer = bank().answer(&WhoRequest::new(Kind::Calls, "taken::g"));
    let found: Vec<_> = answer.users.iter().map(first_place).collect();
    // The text does not show whether the feature existed at compile time, so form numbers are
    // uncertain.
    let (f, h) = ("TAKEN::F".to_owned(), "TAKEN::H".to_owned());
    assert_eq!(found, [(f, 2, 3, Evidence::Approximate, 2), (h, 6, 17, Evidence::Exact, 2)]);
}

#[test]
fn sbcl_functions_have_their_forms_line() {
    let answer = bank().answer(&WhoRequest::new(Kind::References, "*print-base*").package("CL"));
    let position = answer.users.get(0).unwrap().position.unwrap();
    assert!(position.place.file.starts_with("SYS:SRC;"), "{position:?}");
    assert!(position.place.line > Some(1));
    assert_eq!(
        (position.place.column.unwrap(), position.evidence),
        (1, Evidence::Approximate),
        "top-level forms start lines"
    );
}

/// Compares answers, which read the index lazily, with uses grouped by hand.
#[test]
fn lazy_answers_match_grouped_index() {
    let index = bank().index();
    let mut compared = 0;
    for symbol in index.symbols().step_by(10) {
        for kind in Kind::ALL {
            let mut expected: Vec<String> = Vec::new();
            for found in index.who(kind, symbol, NameRole::denotes_function) {
                if expected.last().is_none_or(|name| *name != found.function) {
                    expected.push(found.function.into_owned());
                }
            }
            let request = WhoRequest::new(kind, index.symbol_text(symbol));
            let answer = request.answer_from_index(&index).unwrap();
            if answer.symbol.is_none() {
                continue; // No name leads to it.
            }
            let of = |user: User<'_>| user.name.canonical().to_owned();
            assert_eq!(answer.users.iter().map(of).collect::<Vec<_>>(), expected, "{}", request.symbol.name);
            assert_eq!(answer.count, expected.len());
            let names: Vec<_> = answer.users.names().collect();
            assert!(names.iter().eq(&expected), "{names:?}");
            compared += expected.len();
        }
    }
    assert!(compared > 10_000, "{compared}");
}
