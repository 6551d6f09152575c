//! Answers after files were loaded again, changed, moved or deleted.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};
use steelbank::actions::symbols::find_definition::FindDefinitionRequest;

use steelbank::Control;
use steelbank::Steelbank;
use steelbank::actions::symbols::find_definition::FoundDefinition;
use steelbank::actions::uses::code_find_references::{
    CodeFindReferencesAnswer, CodeFindReferencesRequest, CodeReference,
};
use steelbank::answer::location::columns;
use steelbank::loaded::LoadStatus;
use steelbank::source::positions::Evidence;

use crate::project::{delete, folder, load, project};
use steelbank::EvaluateRequest;

const PACKAGE: &str = "(defpackage :re (:use :cl))\n(in-package :re)\n";

const USES: &str = "(in-package :re)
(defun g () (f 1))
(defun h () (list (f 2) 'f *v*))
(defmethod m ((x k)) (f x))
";

#[test]
fn answers_follow_the_files() {
    own_process!();
    let root = folder("reload");
    fs::write(
        root.join("re.asd"),
        "(asdf:defsystem \"re\" :serial t :components ((:file \"a\") (:file \"b\") (:file \"c\")))",
    )
    .unwrap();
    let a = "(defvar *v* 1)\n(defclass k () ())\n(defgeneric m (x))\n(define-condition c () ())\n(deftype ty () t)\n(defun f (x) x)\n";
    fs::write(root.join("a.lisp"), format!("{PACKAGE}{a}")).unwrap();
    write(&root, "b.lisp", USES, 0);
    write(&root, "c.lisp", "(in-package :re)\n(defun made () (make-instance 'k))\n", 0);
    let bank = project(&root, &root.join("cache"));
    assert_eq!(load(&bank, "re").status, LoadStatus::Loaded);

    definitions_are_exact(&bank);
    what_is_gone_is_not_shown(&bank, &root);
    the_same_date_is_not_the_same_file(&bank, &root);
    a_renamed_package_has_its_uses(&bank);
    a_file_that_vanished_is_named(&bank, &root);
    delete(&root);
}

/// Writes a file, dated `seconds` from now: ASDF compares dates in seconds.
fn write(root: &Path, name: &str, text: &str, seconds: u64) {
    fs::write(root.join(name), text).unwrap();
    date(root, name, SystemTime::now() + Duration::from_secs(seconds));
}

fn date(root: &Path, name: &str, date: SystemTime) {
    fs::File::options().write(true).open(root.join(name)).unwrap().set_modified(date).unwrap();
}

fn references(bank: &Steelbank, symbol: &str) -> CodeFindReferencesAnswer {
    bank.ask(&CodeFindReferencesRequest::new(symbol), &Control::default()).unwrap()
}

fn exact(found: &CodeReference) -> Option<(u32, Vec<u32>)> {
    (found.evidence == Evidence::Exact).then(|| (found.place.line.unwrap(), columns(&found.tokens)))
}

fn definitions_are_exact(bank: &Steelbank) {
    for (name, kind, place) in [
        ("*v*", "variable", (3, 9)),
        ("k", "class", (4, 11)),
        ("c", "condition", (6, 19)),
        ("ty", "type", (7, 10)),
        ("f", "function", (8, 8)),
    ] {
        let answer = bank
            .ask(&FindDefinitionRequest::new(format!("re::{name}")).package("CL-USER"), &Control::default())
            .unwrap();
        let found: Vec<_> = answer.definitions.iter().map(place_of).collect();
        assert_eq!(found, [(kind, place)], "{answer:?}");
    }
    let answer =
        bank.ask(&FindDefinitionRequest::new("re::m").package("CL-USER"), &Control::default()).unwrap();
    let found: Vec<_> = answer.definitions.iter().map(place_of).collect();
    assert_eq!(found, [("generic-function", (5, 13)), ("method", (4, 12))]);
}

fn place_of(found: &FoundDefinition) -> (&str, (u32, u32)) {
    assert!(found.evidence == Evidence::Exact && !found.stale, "{found:?}");
    (found.kind.name(), (found.place.line.unwrap(), found.place.column.unwrap()))
}

fn what_is_gone_is_not_shown(bank: &Steelbank, root: &Path) {
    let text = USES.replace("(defun h ", "(defun h2 ").replace("(defun g", "\n(defun g");
    write(root, "b.lisp", &text, 5);
    assert_eq!(load(bank, "re").status, LoadStatus::Loaded);
    let answer = references(bank, "re::f");
    assert_eq!(answer.stale, [""; 0]);
    let lines: Vec<_> = answer.refs.iter().filter_map(exact).collect();
    assert_eq!(lines, [(3, vec![14]), (4, vec![21, 27]), (5, vec![23])]);
    // H is still in the image, and still calls F; but no line of the file says so.
    let gone: Vec<_> = answer.refs.iter().filter(|found| exact(found).is_none()).collect();
    assert_eq!(gone.len(), 1, "{gone:?}");
    assert_eq!((gone[0].place.line, gone[0].caller.as_deref()), (None, Some("RE::H")));
    assert!(
        answer.cautions.iter().any(|caution| caution.to_string().contains("still holds")),
        "{:?}",
        answer.cautions
    );
}

fn the_same_date_is_not_the_same_file(bank: &Steelbank, root: &Path) {
    let text = fs::read_to_string(root.join("b.lisp")).unwrap();
    let before = fs::metadata(root.join("b.lisp")).unwrap().modified().unwrap();
    fs::write(root.join("b.lisp"), text.replace("(defun g () (f 1))", "(defun g () 1 (f))")).unwrap();
    date(root, "b.lisp", before);
    let answer = references(bank, "re::f");
    assert_eq!(answer.stale, ["b.lisp"]);
    assert!(answer.refs.iter().all(|found| exact(found).is_none()), "{:?}", answer.refs);
    fs::write(root.join("b.lisp"), text).unwrap();
    date(root, "b.lisp", before);
    assert_eq!(references(bank, "re::f").stale, [""; 0]);
}

fn a_renamed_package_has_its_uses(bank: &Steelbank) {
    let before = references(bank, "re::f").refs;
    let rename = |from: &str, to: &str| {
        bank.run(
            &EvaluateRequest::new(format!("(progn (rename-package {from:?} {to:?} '({from:?})) nil)"))
                .values(),
            &Control::new(Duration::from_secs(5)),
        )
        .unwrap();
    };
    rename("RE", "RE-NEW");
    let lines = |refs: &[CodeReference]| refs.iter().filter_map(exact).collect::<Vec<_>>();
    let after = references(bank, "re-new::f").refs;
    rename("RE-NEW", "RE");
    assert_eq!(lines(&after), lines(&before));
}

fn a_file_that_vanished_is_named(bank: &Steelbank, root: &Path) {
    fs::remove_file(root.join("c.lisp")).unwrap();
    fs::remove_file(root.join("b.lisp")).unwrap();
    let answer = references(bank, "re::k");
    assert!(
        answer.cautions.iter().any(|caution| caution.to_string().contains("c.lisp")),
        "{:?}",
        answer.cautions
    );
    let answer = references(bank, "re::f");
    assert!(answer.refs.iter().all(|found| found.place.line.is_none()), "{:?}", answer.refs);
    assert_eq!(answer.stale, ["b.lisp"]);
}
