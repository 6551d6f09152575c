//! Completeness: an answer about uses has all of them, or says what it does not cover, in projects that were
//! never loaded, or are half loaded, edited, broken and deleted.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use steelbank::Control;
use steelbank::Steelbank;
use steelbank::actions::uses::code_find_references::{CodeFindReferencesAnswer, CodeFindReferencesRequest};
use steelbank::actions::uses::unseen::TextState;
use steelbank::actions::uses::who::{PlaceDetail, WhoAnswer, WhoRequest};
use steelbank::actions::uses::{code_find_references, who};
use steelbank::answer::Wording;
use steelbank::loaded::LoadStatus;
use steelbank_xref::Kind;

use crate::project::{delete, folder, load, project};
use crate::tools_beside_sbcl::World;
use steelbank::ListSystemsRequest;
use steelbank::ProjectSettings;

fn write(root: &Path, name: &str, text: &str, seconds: u64) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    let date = SystemTime::now() + Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).unwrap().set_modified(date).unwrap();
}

fn references(bank: &Steelbank, symbol: &str) -> CodeFindReferencesAnswer {
    bank.ask(&CodeFindReferencesRequest::new(symbol), &Control::default()).unwrap()
}

fn who(bank: &Steelbank, kind: Kind, symbol: &str) -> WhoAnswer {
    bank.ask(&WhoRequest::new(kind, symbol).places(PlaceDetail::Lines), &Control::default()).unwrap()
}

/// Collects path and line of each entry, exact or not, and of each line of text.
fn lines(answer: &CodeFindReferencesAnswer) -> BTreeSet<(String, Option<u32>)> {
    let text = answer.text.iter().map(|found| (found.place.file.clone(), found.place.line));
    answer.refs.iter().map(|found| (found.place.file.clone(), found.place.line)).chain(text).collect()
}

fn unseen(answer: &WhoAnswer) -> Vec<(&str, usize)> {
    answer.unseen.files.iter().map(|file| (file.path.as_str(), file.count)).collect()
}

#[test]
fn nothing_is_never_said_falsely() {
    own_process!();
    let root = folder("nofalse");
    write(
        &root,
        "fail1.asd",
        "(defsystem \"fail1\" :serial t :components ((:file \"a\") (:file \"b\") (:file \"c\")))
         (defsystem \"fail1/tests\" :depends-on (\"fail1\") :components ((:file \"t\"))
           :perform (test-op (o c) (uiop:symbol-call :fl :unused 1)))",
        0,
    );
    let a = "(defpackage :fl (:use :cl) (:export #:f))\n(in-package :fl)\n(defun f (x) x)\n(defun unused (x) x)\n(defmacro twice (x) `(progn ,x ,x))\n";
    write(&root, "a.lisp", a, 0);
    write(
        &root,
        "b.lisp",
        "(in-package :fl)\n(defun g (x) (f x))\n(defun broken () (+ 1 \"a\"))\n(defun h (x) (unused x))\n",
        0,
    );
    write(&root, "c.lisp", "(in-package :fl)\n(defun k (x) (f (unused x)))\n#+nothing (unused 1)\n", 0);
    write(
        &root,
        "t.lisp",
        "(defpackage :tests (:use :cl :fl))\n(in-package :tests)\n(f 1)\n(fl::unused 2)\n(unused 3)\n",
        0,
    );
    write(&root, "grovel.lisp", "(in-package #:fl)\n(constant (unused \"X\"))\n", 0);
    write(&root, "inc.txt", "(unused \"in a file that code reads\")\n", 0);
    write(&root, "ocicl/lib-1.0/x.lisp", "(fl::unused :vendored)\n", 0);
    write(&root, "ocicl/lib-1.0/lib.asd", "(defsystem \"lib\" :components ((:file \"x\")))", 0);
    write(&root, "README.md", "(fl::unused)\n", 0);
    let settings = ProjectSettings::in_folder(&root).cache(root.join("cache"));
    let bank = Steelbank::builder().project(settings).watching(true).start().unwrap();

    let systems = bank.ask(&ListSystemsRequest::new(), &Control::default()).unwrap().systems;
    assert_eq!(
        systems.iter().map(|system| system.name.as_str()).collect::<Vec<_>>(),
        ["fail1", "fail1/tests"]
    );
    never_loaded(&bank);
    half_loaded(&bank);
    mended(&bank, &root);
    edited(&bank, &root, a);
    deleted(&bank, &root);
    delete(&root);
}

fn never_loaded(bank: &Steelbank) {
    let error =
        bank.ask(&CodeFindReferencesRequest::new("fl::unused"), &Control::default()).unwrap_err().to_string();
    for named in
        ["Package FL not found", "a.lisp (1)", "b.lisp (1)", "c.lisp (2)", "grovel.lisp (1)", "inc.txt (1)"]
    {
        assert!(error.contains(named), "{named}: {error}");
    }
    assert!(!error.contains("ocicl") && !error.contains("README"), "{error}");
    let answer = who(bank, Kind::Calls, "fl::unused");
    assert!(!answer.unseen.is_empty() && who::text::who(&answer).starts_with("Package FL not found"));
}

fn half_loaded(bank: &Steelbank) {
    assert_eq!(load(bank, "fail1").status, LoadStatus::Failed);
    let answer = references(bank, "fl::unused");
    let found = lines(&answer);
    for place in
        [("b.lisp", 4), ("c.lisp", 2), ("c.lisp", 3), ("grovel.lisp", 2), ("inc.txt", 1), ("t.lisp", 4)]
    {
        assert!(found.contains(&(place.0.to_owned(), Some(place.1))), "{place:?} {answer:?}");
    }
    assert!(found.contains(&("fail1.asd".to_owned(), Some(3))), "{answer:?}");
    assert!(!found.iter().any(|(path, _)| path.starts_with("ocicl")), "{answer:?}");
    let unqualified =
        answer.text.iter().find(|found| found.place.file == "t.lisp" && found.place.line == Some(5));
    assert!(unqualified.is_none(), "TESTS uses FL, which does not export it: {answer:?}");
    let possible = answer.text.iter().find(|found| found.place.file == "inc.txt").unwrap();
    assert!(possible.possible && possible.state == TextState::NotLoaded);
    let text = code_find_references::text::references(&answer, Wording::Tools);
    assert!(
        !text.contains("No references found")
            && text.lines().next().unwrap().contains("in text that is not loaded"),
        "{text}"
    );

    let answer = who(bank, Kind::Calls, "fl::unused");
    assert_eq!(answer.count, 0);
    let files = unseen(&answer);
    for file in [("b.lisp", 1), ("c.lisp", 2), ("t.lisp", 1)] {
        assert!(files.contains(&file), "{files:?}");
    }
    let text = who::text::who(&answer);
    assert!(text.starts_with("No callers found for FL::UNUSED\n") && text.contains("b.lisp (1)"), "{text}");
}

fn mended(bank: &Steelbank, root: &Path) {
    write(
        root,
        "b.lisp",
        "(in-package :fl)\n(defun g (x) (f x))\n(twice (print (unused 1)))\n(defun h (x) (unused x))\n(defvar *v* (unused 3))\n",
        5,
    );
    for file in ["grovel.lisp", "inc.txt", "t.lisp"] {
        fs::remove_file(root.join(file)).unwrap();
    }
    assert_eq!(load(bank, "fail1").status, LoadStatus::Loaded);
    let answer = references(bank, "fl::unused");
    let text: Vec<(&str, u32, TextState)> = answer
        .text
        .iter()
        .map(|found| (found.place.file.as_str(), found.place.line.unwrap(), found.state))
        .collect();
    assert_eq!(
        text.iter().filter(|found| found.0 != "fail1.asd").collect::<Vec<_>>(),
        [&("c.lisp", 3, TextState::LeftOut)]
    );
    // Top-level code is listed by the family too.
    let answer = who(bank, Kind::Calls, "fl::unused");
    let names: Vec<_> = answer.users.names().collect();
    assert_eq!(names, ["FL::H", "FL::K"]);
    let toplevel: Vec<(&str, u32)> = answer
        .toplevel
        .iter()
        .map(|found| (found.position.place.file.as_str(), found.position.place.line.unwrap()))
        .collect();
    assert_eq!(toplevel, [("b.lisp", 3), ("b.lisp", 5)]);
    assert!(who::text::who(&answer).contains("at top level:\n    b.lisp:3:"), "{answer:?}");
    let answer = who(bank, Kind::Macroexpands, "fl::twice");
    assert_eq!((answer.count, answer.toplevel.len()), (0, 1));
    assert!(!who::text::who(&answer).contains("No expansions found"));
    // The wrong question names the right one.
    let answer = who(bank, Kind::References, "fl::unused");
    assert!(who::text::who(&answer).contains("ask who-calls"), "{answer:?}");
}

fn edited(bank: &Steelbank, root: &Path, a: &str) {
    write(
        root,
        "c.lisp",
        "(in-package :fl)\n\n(defun k (x) (f x))\n(defun new (x) (list #'twice-over (g x)))\n",
        10,
    );
    assert!(lines(&references(bank, "fl::g")).contains(&("c.lisp".to_owned(), Some(4))));
    assert_eq!(unseen(&who(bank, Kind::Calls, "fl::g")), [("c.lisp", 1)]);
    // A broken edit changes nothing.
    write(root, "c.lisp", "(in-package :fl)\n(defun k (x) (f x)\n(defun new (x) (g x))\n", 15);
    assert_eq!(load(bank, "fail1").status, LoadStatus::Failed);
    assert!(lines(&references(bank, "fl::g")).contains(&("c.lisp".to_owned(), Some(3))));
    assert_eq!(unseen(&who(bank, Kind::Calls, "fl::g")), [("c.lisp", 1)]);
    // A name that only the edited package definition brings.
    write(root, "a.lisp", &a.replace("#:f", "#:f #:unused"), 20);
    write(
        root,
        "t.lisp",
        "(defpackage :tests (:use :cl :fl))\n(in-package :tests)\n(unused 3)\n(fl::unused 4)\n",
        20,
    );
    assert!(lines(&references(bank, "fl::unused")).contains(&("t.lisp".to_owned(), Some(3))));
}

fn deleted(bank: &Steelbank, root: &Path) {
    for file in ["a.lisp", "b.lisp", "c.lisp"] {
        fs::remove_file(root.join(file)).unwrap();
    }
    let answer = references(bank, "fl::unused");
    assert!(lines(&answer).contains(&("t.lisp".to_owned(), Some(4))), "{answer:?}");
    assert!(answer.cautions.iter().any(|caution| caution.to_string().contains("b.lisp")), "{answer:?}");
}

const NAMES: [&str; 5] = ["f0", "f1", "f2", "f3", "f4"];

/// A generator of pseudo-random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % most
    }
}

/// Writes a file that uses some of the names: in functions, at top level, and in code that is left out;
/// `broken` in one of three ways.
fn random_text(random: &mut Random, file: &str, broken: bool) -> String {
    let mut text = match (file, random.below(2)) {
        ("t.lisp", 0) => "(defpackage :pt (:use :cl :pa))\n(in-package :pt)\n".to_owned(),
        _ => "(in-package :pa)\n".to_owned(),
    };
    let stem = file.trim_end_matches(".lisp");
    for line in 0..random.below(6) + 1 {
        let name = NAMES[random.below(5) as usize];
        let other = NAMES[random.below(5) as usize];
        text += &match random.below(5) {
            0 => format!("(defvar *{stem}{line}* (pa::{name} 1))\n"),
            1 => format!("#+nothing (pa::{name} 1)\n"),
            2 => format!("\n;; {other} is no use here\n(defun {stem}{line} (x) (PA::{name} x))\n"),
            _ => format!("(defun {stem}{line} (x) (list (pa::{name} x) (pa::{other} 2)))\n"),
        };
        if broken && line == 0 {
            text += ["(defun open-ended (x\n", "(error \"stops here\")\n", "(no-package:name)\n"]
                [random.below(3) as usize];
        }
    }
    text
}

/// Finds `name` by a plain scan of the tokens: the lines in each file, without definitions and comments.
fn scan(root: &Path, name: &str) -> BTreeSet<(String, Option<u32>)> {
    let mut found = BTreeSet::new();
    for entry in fs::read_dir(root).unwrap().flatten() {
        let file = entry.file_name().into_string().unwrap();
        let Some(text) = file.ends_with(".lisp").then(|| fs::read_to_string(entry.path()).unwrap()) else {
            continue;
        };
        for (number, line) in text.lines().enumerate() {
            let line = line.to_lowercase();
            let code = line.split(';').next().unwrap();
            let mut words = code.split(|char: char| char.is_whitespace() || "()'#".contains(char));
            let is_definition = code.starts_with(&format!("(defun {name} "));
            if !is_definition && words.any(|word| word.rsplit(':').next() == Some(name)) {
                found.insert((file.clone(), Some(number as u32 + 1)));
            }
        }
    }
    found
}

#[test]
fn no_use_is_denied_in_any_state_of_a_project() {
    own_process!();
    let root = folder("nofalse-random");
    write(
        &root,
        "pa.asd",
        "(defsystem \"pa\" :serial t :components ((:file \"a\") (:file \"b\") (:file \"c\")))
         (defsystem \"pa/t\" :depends-on (\"pa\") :components ((:file \"t\")))",
        0,
    );
    let defined: String = NAMES.iter().map(|name| format!("(defun {name} (x) x)\n")).collect();
    write(&root, "a.lisp", &format!("(defpackage :pa (:use :cl))\n(in-package :pa)\n{defined}"), 0);
    let mut random = Random(20_261_122);
    for file in ["b.lisp", "c.lisp", "t.lisp"] {
        let text = random_text(&mut random, file, false);
        write(&root, file, &text, 0);
    }
    let bank = project(&root, &root.join("cache"));
    let (mut silent, mut checked) = (0, 0);
    for step in 0..40 {
        if step > 0 {
            let file = ["b.lisp", "c.lisp", "t.lisp"][random.below(3) as usize];
            match random.below(6) {
                0 | 1 => {
                    let text = random_text(&mut random, file, false);
                    write(&root, file, &text, step);
                }
                2 => {
                    let text = random_text(&mut random, file, true);
                    write(&root, file, &text, step);
                }
                3 => drop(fs::remove_file(root.join(file))),
                4 => drop(load(&bank, "pa")),
                _ => drop(load(&bank, "pa/t")),
            }
        }
        for name in NAMES {
            let asked = format!("pa::{name}");
            let uses = scan(&root, name);
            match bank.ask(&CodeFindReferencesRequest::new(asked.as_str()), &Control::default()) {
                Ok(answer) => {
                    let missing: Vec<_> = uses.difference(&lines(&answer)).cloned().collect();
                    assert!(missing.is_empty(), "step {step}, {name}: {missing:?}\n{answer:?}");
                    silent += usize::from(answer.total + answer.text_total == 0);
                }
                Err(error) => {
                    for (file, _) in &uses {
                        assert!(error.to_string().contains(file), "step {step}, {name}: {file}: {error}");
                    }
                }
            }
            let answer = who(&bank, Kind::Calls, &asked);
            let text = who::text::who(&answer);
            let denied = answer.users.is_empty() && answer.toplevel.is_empty() && answer.unseen.is_empty();
            assert!(uses.is_empty() || !denied, "step {step}, {name}: {text}\n{uses:?}");
            checked += 1;
        }
    }
    println!("seen: nofalse: {checked} questions in 40 states, {silent} with nothing to say");
    delete(&root);
}

/// Checks that every tool that lists uses counts those in files that are not loaded, and in strings that are
/// read.
#[test]
fn what_is_not_loaded_is_not_silent_in_any_tool() {
    own_process!();
    let root = folder("not-silent");
    let system = "(defsystem \"ns\" :components ((:file \"a\")))\n(defsystem \"ns/tests\" :components ((:file \"t\")))";
    write(&root, "ns.asd", system, 0);
    let text = "(defpackage :ns (:use :cl) (:export #:f #:show))\n(in-package :ns)\n(defun f (x) x)\n\
            (defun print-it (stream it &rest more) (declare (ignore more)) (princ it stream))\n\
            (defun show (it) (format t \"~/ns::print-it/~%\" it))\n(defun unused () 1)\n";
    write(&root, "a.lisp", text, 0);
    write(
        &root,
        "t.lisp",
        "(in-package :ns)\n(print (f 1))\n(print (list (f 2) (f 3)))\n(print #'later)\n",
        0,
    );
    let world = World::at(root, &["ns"]);
    let unseen = json!({ "count": 3, "files": [{ "path": "t.lisp", "count": 3 }] });
    for (tool, arguments) in [
        ("who-calls", json!({ "name": "ns:f" })),
        ("call-graph", json!({ "name": "ns:f" })),
        ("call-graph", json!({ "name": "ns:f", "format": "mermaid" })),
        ("impact", json!({ "names": ["ns:f"] })),
    ] {
        assert_eq!(world.ask(tool, arguments)["unseen"], unseen, "{tool}");
    }
    let answer = world.answer("impact", json!({ "names": ["ns:f", "ns:show"] })).unwrap();
    assert!(answer.text.contains("3 places that are not loaded: t.lisp (3)"), "{}", answer.text);
    assert_eq!(world.ask("impact", json!({ "paths": ["a.lisp"] }))["unseen"]["files"][1]["path"], "t.lisp");
    assert_eq!(world.ask("code-find-references", json!({ "symbol": "ns:f" }))["text_total"], 3);
    // Expect none for callees: they are in the definition.
    let callees = json!({ "name": "ns:f", "direction": "callees" });
    assert_eq!(world.ask("call-graph", callees)["unseen"], Value::Null);
    // A name that is nowhere but there.
    let later = json!({ "name": "later", "package": "ns" });
    assert!(world.ask("call-graph", later)["note"].as_str().unwrap().contains("t.lisp (1)"));
    // A directive of FORMAT calls what it names.
    let unused = world.ask("outline", json!({ "path": "a.lisp", "unused": true }));
    let reached = |name: &str| {
        let all = unused["definitions"].as_array().unwrap();
        all.iter().find(|each| each["name"] == name).unwrap()["reached_by"].clone()
    };
    assert_eq!(reached("NS::UNUSED"), Value::Null, "{unused}");
    assert_eq!(reached("NS::PRINT-IT"), json!(["named in a string in a.lisp:5"]), "{unused}");
}
