//! Tests that an answer about uses is complete or states its limits, in projects that were never
//! loaded, are partly loaded, edited, broken or deleted.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use crate::child::Random;
use crate::texts::write_project;
use steelbank::actions::uses::code_find_references::{CodeFindReferencesAnswer, CodeFindReferencesRequest};
use steelbank::actions::uses::who::WhoRequest;
use steelbank::{Control, Error};

use crate::project::{folder, load, project};

fn write(root: &Path, name: &str, text: &str, seconds: u64) {
    let path = root.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    let date = SystemTime::now() + Duration::from_secs(seconds);
    fs::File::options().write(true).open(path).unwrap().set_modified(date).unwrap();
}

/// Collects path and line of each entry, exact or not, and of each unloaded match.
fn lines(answer: &CodeFindReferencesAnswer) -> BTreeSet<(String, Option<u32>)> {
    let text = answer.text.iter().map(|found| (found.place.file.clone(), found.place.line));
    answer.refs.iter().map(|found| (found.place.file.clone(), found.place.line)).chain(text).collect()
}

const NAMES: [&str; 5] = ["f0", "f1", "f2", "f3", "f4"];

/// Writes a file that uses some of the names in functions, at top level, and in excluded code. With
/// `broken`, it has one of three errors.
fn random_text(random: &mut Random, file: &str, broken: bool) -> String {
    let mut text = match (file, random.below(2)) {
        ("t.lisp", 0) => "(defpackage :pt (:use :cl :pa))\n(in-package :pt)\n".to_owned(),
        _ => "(in-package :pa)\n".to_owned(),
    };
    let stem = file.trim_end_matches(".lisp");
    for line in 0..random.below(6) + 1 {
        let name = NAMES[random.below(5)];
        let other = NAMES[random.below(5)];
        text += &match random.below(5) {
            0 => format!("(defvar *{stem}{line}* (pa::{name} 1))\n"),
            1 => format!("#+nothing (pa::{name} 1)\n"),
            2 => format!("\n;; {other} is no use here\n(defun {stem}{line} (x) (PA::{name} x))\n"),
            _ => format!("(defun {stem}{line} (x) (list (pa::{name} x) (pa::{other} 2)))\n"),
        };
        if broken && line == 0 {
            text += ["(defun open-ended (x\n", "(error \"stops here\")\n", "(no-package:name)\n"]
                [random.below(3)];
        }
    }
    text
}

/// Finds `name` by a plain scan of the words. Returns the lines in each file, except definitions
/// and comments.
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
fn uses_are_complete_in_any_project_state() {
    own_process!();
    let root = folder("nofalse-random");
    write_project(&root, include_str!("../projects/nofalse_random.txt"));
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
            let file = ["b.lisp", "c.lisp", "t.lisp"][random.below(3)];
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
            let named = |error: &Error| {
                for (file, _) in &uses {
                    assert!(error.to_string().contains(file), "step {step}, {name}: {file}: {error}");
                }
            };
            match bank.ask(&CodeFindReferencesRequest::new(asked.as_str()), &Control::default()) {
                Ok(answer) => {
                    let missing: Vec<_> = uses.difference(&lines(&answer)).cloned().collect();
                    assert!(missing.is_empty(), "step {step}, {name}: {missing:?}\n{answer:?}");
                    silent += usize::from(answer.total + answer.text_total == 0);
                }
                Err(error) => named(&error),
            }
            match bank.ask(&WhoRequest::calls(asked.as_str()), &Control::default()) {
                Ok(answer) => {
                    let denied =
                        answer.users.is_empty() && answer.toplevel.is_empty() && answer.unloaded.is_empty();
                    assert!(uses.is_empty() || !denied, "step {step}, {name}: {answer}\n{uses:?}");
                }
                Err(error) => named(&error),
            }
            checked += 1;
        }
    }
    println!("seen: nofalse: {checked} questions in 40 states, {silent} with nothing to say");
}
