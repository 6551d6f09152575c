//! Where in the sources the who-calls family's answers are.

use std::fs;

use steelbank::query::code_find_references::Certainty;
use steelbank::query::who::WhoRequest;
use steelbank::xref::Kind;

use crate::image::{bank, evaluate};

#[test]
fn uses_in_a_file_have_their_own_line_and_column() {
    let folder = std::env::temp_dir().join(format!("steelbank-places-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join("places.lisp");
    let text = ";;; Ünïcode before\n(defun places::f (x)\n  (list (places::g x)\n\t(places::g 2)))\n\n(defmethod places::m ((x places::c)) (places::g x))\n";
    fs::write(&file, text).unwrap();
    evaluate("(defpackage :places (:use :cl))");
    evaluate("(progn (defun places::g (x) x) (defclass places::c () ()) (defgeneric places::m (x)))");
    evaluate(&format!("(progn (load (compile-file {file:?} :external-format :utf-8)) t)"));

    let mut answer = bank().who_calls("places::g", "CL-USER").unwrap();
    assert!(answer.users.iter().flat_map(|user| &user.places).all(|place| place.position.is_none()));
    bank().locate(&mut answer);
    let found: Vec<(&str, u32, u32, Certainty)> = answer
        .users
        .iter()
        .flat_map(|user| user.places.iter().map(move |place| (user, place.position.as_ref().unwrap())))
        .map(|(user, at)| (user.name.as_str(), at.line, at.column, at.evidence))
        .collect();
    let method = "(METHOD PLACES::M (PLACES::C))";
    assert_eq!(
        found,
        [
            ("PLACES::F", 3, 10, Certainty::Exact),
            ("PLACES::F", 4, 3, Certainty::Exact),
            (method, 6, 39, Certainty::Exact)
        ]
    );

    let mut answer = bank().who(&WhoRequest::new(Kind::Specializes, "places::c")).unwrap();
    bank().locate(&mut answer);
    assert_eq!(answer.users[0].name, method);
    assert_eq!(answer.users[0].places[0].position.as_ref().unwrap().line, 6);

    fs::write(&file, format!("\n{text}")).unwrap();
    // Write dates are kept in seconds.
    let later = std::time::SystemTime::now() + std::time::Duration::from_secs(60);
    fs::File::options().write(true).open(&file).unwrap().set_modified(later).unwrap();
    let mut answer = bank().who_calls("places::g", "CL-USER").unwrap();
    bank().locate(&mut answer);
    for place in answer.users.iter().flat_map(|user| &user.places) {
        if let Some(position) = &place.position {
            assert!(position.stale, "{place:?}");
            assert_ne!(position.evidence, Certainty::Exact, "{place:?}");
        }
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn sbcls_own_functions_have_the_line_of_their_form() {
    let mut answer = bank().who_references("*print-base*", "CL").unwrap();
    bank().locate(&mut answer);
    let place = &answer.users[0].places[0];
    assert!(place.file.as_deref().unwrap().starts_with("SYS:SRC;"), "{place:?}");
    let position = place.position.as_ref().unwrap();
    assert!(position.line > 1);
    assert_eq!(
        (position.column, position.evidence),
        (1, Certainty::Approximate),
        "top-level forms start lines"
    );
}
