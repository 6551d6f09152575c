//! The places in source files of the who-calls family's answers.

use std::collections::BTreeSet;
use std::fs;

use steelbank::actions::uses::who::{PlaceDetail, RecordedPlace, Referrer, WhoRequest};
use steelbank::source::positions::Evidence;
use steelbank_xref::{Kind, NameRole};

use crate::asks::Asks;
use crate::folder::Folder;
use crate::image::{bank, evaluate};

#[test]
fn uses_in_a_file_have_their_own_line_and_column() {
    let folder = Folder::new("places");
    let file = folder.join("places.lisp");
    let text = ";;; Ünïcode before\n(defun places::f (x)\n  (list (places::g x)\n\t(places::g 2)))\n\n(defmethod places::m ((x places::c)) (places::g x))\n";
    fs::write(&file, text).unwrap();
    evaluate("(defpackage :places (:use :cl))");
    evaluate("(progn (defun places::g (x) x) (defclass places::c () ()) (defgeneric places::m (x)))");
    evaluate(&format!("(progn (load (compile-file {file:?} :external-format :utf-8)) t)"));

    let calls = WhoRequest::new(Kind::Calls, "places::g");
    let answer = bank().answer(&calls);
    assert!(answer.users.iter().flat_map(|user| user.places).all(|place| place.position.is_none()));
    let calls = calls.places(PlaceDetail::Lines);
    let answer = bank().answer(&calls);
    let users: Vec<_> = answer.users.iter().collect();
    let found: Vec<(&str, u32, u32, Evidence)> = users
        .iter()
        .flat_map(|user| user.places.iter().map(move |place| (user, place.position.as_ref().unwrap())))
        .map(|(user, at)| {
            (user.name.canonical(), at.place.line.unwrap(), at.place.column.unwrap(), at.evidence)
        })
        .collect();
    let method = "(METHOD PLACES::M (PLACES::C))";
    assert_eq!(
        found,
        [
            ("PLACES::F", 3, 10, Evidence::Exact),
            ("PLACES::F", 4, 3, Evidence::Exact),
            (method, 6, 39, Evidence::Exact)
        ]
    );

    let specializes = WhoRequest::new(Kind::Specializes, "places::c").places(PlaceDetail::Lines);
    let answer = bank().answer(&specializes);
    let first = answer.users.get(0).unwrap();
    assert_eq!(first.name.canonical(), method);
    assert_eq!(first.places[0].position.as_ref().unwrap().place.line, Some(6));

    fs::write(&file, format!("\n{text}")).unwrap();
    // Write dates are kept in seconds.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    fs::File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
    let answer = bank().answer(&calls);
    for place in answer.users.iter().flat_map(|user| user.places) {
        if let Some(position) = &place.position {
            assert!(position.stale, "{place:?}");
            assert_ne!(position.evidence, Evidence::Exact, "{place:?}");
        }
    }
}

#[test]
fn a_place_that_is_surely_one_use_is_not_taken_for_another() {
    let folder = Folder::new("taken");
    let file = folder.join("taken.lisp");
    fs::write(&file, "(defun taken::f ()\n  (taken::with (taken::g 1))\n  #+taken-feature (list 1)\n  2)\n(defun taken::h ()\n  (taken::with (taken::g 1)))\n").unwrap();
    evaluate("(defpackage :taken (:use :cl))");
    evaluate("(progn (defun taken::g (x) x) (defmacro taken::with (x) `(list (taken::g 0) ,x)))");
    evaluate(&format!("(progn (load (compile-file {file:?} :external-format :utf-8)) t)"));
    let request = WhoRequest::new(Kind::Calls, "taken::g").places(PlaceDetail::Lines);
    let answer = bank().answer(&request);
    let found = |name: &str| -> Vec<(u32, u32, Evidence, Option<String>)> {
        let user = answer.users.iter().find(|user| user.name == name).unwrap();
        let positions = user.places.iter().map(|place| place.position.clone().unwrap());
        positions.map(|at| (at.place.line.unwrap(), at.place.column.unwrap(), at.evidence, at.via)).collect()
    };
    let with = || Some("with".to_owned());
    assert_eq!(found("taken::h"), [(6, 3, Evidence::Via, with()), (6, 17, Evidence::Exact, None)]);
    // Whether the feature was there when the file was compiled, the text does not tell: the numbers are not sure.
    for (line, _, evidence, _) in found("taken::f") {
        assert_eq!((line, evidence), (2, Evidence::Approximate));
    }
}

#[test]
fn sbcls_own_functions_have_the_line_of_their_form() {
    let request = WhoRequest::new(Kind::References, "*print-base*").package("CL").places(PlaceDetail::Lines);
    let answer = bank().answer(&request);
    let first = answer.users.get(0).unwrap();
    let place = &first.places[0];
    assert!(place.file.as_deref().unwrap().starts_with("SYS:SRC;"), "{place:?}");
    let position = place.position.as_ref().unwrap();
    assert!(position.place.line > Some(1));
    assert_eq!(
        (position.place.column.unwrap(), position.evidence),
        (1, Evidence::Approximate),
        "top-level forms start lines"
    );
}

/// A function's name, and the file and form number of each of its places.
type FunctionPlaces = (String, BTreeSet<(Option<String>, Option<u32>)>);

/// Compares answers, which read the index lazily, with its uses grouped by hand.
#[test]
fn the_functions_of_an_answer_are_those_of_the_index() {
    let index = bank().index();
    let mut compared = 0;
    for symbol in index.symbols().step_by(10) {
        for kind in Kind::ALL {
            let mut expected: Vec<FunctionPlaces> = Vec::new();
            for found in index.who(kind, symbol, NameRole::denotes_function) {
                let place = (found.file.map(String::from), found.form);
                match expected.last_mut() {
                    Some((name, places)) if *name == found.function => drop(places.insert(place)),
                    _ => expected.push((found.function.into_owned(), BTreeSet::from([place]))),
                }
            }
            let request = WhoRequest::new(kind, index.symbol_text(symbol));
            let answer = request.answer_from_index(&index).unwrap();
            if answer.symbol.is_none() {
                continue; // No name leads to it.
            }
            let place =
                |place: &RecordedPlace<'_>| (place.file.as_deref().map(String::from), place.form_number);
            let of = |user: Referrer<'_>| {
                (String::from(user.name.canonical()), user.places.iter().map(place).collect())
            };
            assert_eq!(answer.users.iter().map(of).collect::<Vec<_>>(), expected, "{}", request.symbol.name);
            assert_eq!(answer.count, expected.len());
            let names: Vec<_> = answer.users.names().collect();
            assert!(names.iter().eq(expected.iter().map(|(name, _)| name)), "{names:?}");
            compared += expected.len();
            let page = WhoRequest { offset: 1, limit: 2, ..request }.answer_from_index(&index).unwrap();
            assert!(page.users.iter().eq(answer.users.iter().skip(1).take(2)), "{page:?}");
        }
    }
    assert!(compared > 10_000, "{compared}");
}
