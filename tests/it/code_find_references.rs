//! Tests code-find-references on sources with marks: ⟦x⟧ must be exact, ⟪x⟫ must not be exact, ⟨x⟩
//! may be exact. No other place may be exact.
//!
//! The first line of each file of `tests/torture/truth` lists the symbols to query.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use steelbank::actions::symbols::find_definition::{FindDefinitionRequest, FoundDefinition};

use steelbank::Steelbank;
use steelbank::actions::uses::code_find_references::{CodeFindReferencesAnswer, CodeFindReferencesRequest};
use steelbank::answer::{Caution, LispKind};
use steelbank::loaded::LoadStatus;
use steelbank::source::positions::Evidence;

use crate::asks::Asks;
use crate::project::{folder, load, project};

type Places = BTreeSet<(u32, u32)>;

/// A source without its marks, and the marked places.
struct Marked {
    text: String,
    asked: Vec<String>,
    package: String,
    /// (line, column, name) of the places that must be exact, must not be exact, and may be exact.
    marks: [Vec<(u32, u32, String)>; 3],
}

fn read(path: &Path) -> Marked {
    let source = fs::read_to_string(path).unwrap();
    let first = source.lines().next().unwrap();
    let asked = first.strip_prefix(";;; ask: ").unwrap().split_whitespace().map(str::to_owned).collect();
    let package = source.split("(in-package :").nth(1).unwrap().split(')').next().unwrap().to_owned();
    let (mut text, mut marks) = (String::new(), [const { Vec::new() }; 3]);
    let (mut line, mut column, mut open) = (1, 1, None);
    for char in source.chars() {
        match char {
            '⟦' | '⟪' | '⟨' => open = Some((text.len(), line, column)),
            '⟧' | '⟫' | '⟩' => {
                let (start, line, column) = open.take().unwrap();
                let token = text[start..].rsplit(':').next().unwrap().trim_start_matches("#.").to_owned();
                marks["⟧⟫⟩".chars().position(|mark| mark == char).unwrap()].push((line, column, token));
            }
            _ => {
                text.push(char);
                (line, column) = if char == '\n' { (line + 1, 1) } else { (line, column + 1) };
            }
        }
    }
    Marked { text, asked, package, marks }
}

impl Marked {
    fn places(&self, kind: usize, name: &str) -> Places {
        let named = self.marks[kind].iter().filter(|(.., token)| token.eq_ignore_ascii_case(name));
        named.map(|&(line, column, _)| (line, column)).collect()
    }
}

fn exact(answer: &CodeFindReferencesAnswer, path: &str) -> Places {
    let lines = answer.refs.iter().filter(|found| found.place.file == path);
    lines.flat_map(|found| found.tokens.iter().map(|at| (at.line.unwrap(), at.column.unwrap()))).collect()
}

#[test]
fn exact_places_match_the_marks() {
    own_process!();
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/torture/truth");
    let root = folder("truth");
    let only = std::env::var("STEELBANK_TRUTH").ok();
    let mut names: Vec<String> = fs::read_dir(sources.as_path())
        .unwrap()
        .filter_map(|entry| entry.unwrap().file_name().to_str()?.strip_suffix(".lisp").map(str::to_owned))
        .filter(|name| only.as_ref().is_none_or(|only| only == name))
        .collect();
    names.sort();
    let components: String = names.iter().map(|name| format!("(:file {name:?})")).collect();
    fs::write(root.join("truth.asd"), format!("(defsystem \"truth\" :serial t :components ({components}))"))
        .unwrap();
    let files: Vec<(String, Marked)> = names
        .into_iter()
        .map(|name| (format!("{name}.lisp"), read(&sources.join(format!("{name}.lisp")))))
        .collect();
    for (path, marked) in &files {
        fs::write(root.join(path), &marked.text).unwrap();
    }
    let bank = project(&root, &root.join("cache"));
    let answer = load(&bank, "truth");
    assert_eq!(answer.status, LoadStatus::Loaded, "{answer:#?}");
    let mut wrong = Vec::new();
    let mut checked = 0;
    for (path, marked) in &files {
        for name in &marked.asked {
            let request = CodeFindReferencesRequest::new(format!("{}::{name}", marked.package));
            let answer = bank.answer(&request);
            let found = exact(&answer, path);
            let (must, may) = (marked.places(0, name), marked.places(2, name));
            checked += must.len();
            for place in must.difference(&found) {
                wrong.push(format!("{path}:{}:{} {name} is not exact", place.0, place.1));
            }
            for place in found.difference(&must).filter(|place| !may.contains(place)) {
                wrong.push(format!("{path}:{}:{} {name} is called exact", place.0, place.1));
            }
            let doubts = answer.refs.iter().filter(|found| found.evidence == Evidence::Approximate).count();
            if doubts > 0 {
                println!("seen: truth: {path} {name}: {doubts} lines with a doubt");
            }
        }
    }
    if only.is_none() {
        generated(&bank);
    }
    println!("seen: truth: {checked} places in {} files", files.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Checks definitions and uses generated by macros.
fn generated(bank: &Steelbank) {
    let definitions = |name: &str| -> Vec<String> {
        let answer = bank.answer(&FindDefinitionRequest::new(name).package("CL-USER"));
        let text = |found: &FoundDefinition| {
            let by = found.generated_by.as_deref().unwrap_or("-");
            let defines = found.defines.as_ref().map_or("-", LispKind::name);
            format!(
                "{} {defines} {:?} {}:{} {by}",
                found.kind,
                found.evidence,
                found.place.file,
                found.place.line.unwrap()
            )
        };
        answer.definitions.iter().map(text).collect()
    };
    assert_eq!(definitions("truth.defined::named-thing"), ["defcommand function Exact defined.lisp:7 -"]);
    assert_eq!(definitions("truth.defined::other-thing"), ["def-listed function Exact defined.lisp:10 -"]);
    assert_eq!(definitions("truth.defined::frame-x"), ["function - Via defined.lisp:16 define-accessor"]);
    assert_eq!(
        definitions("truth.wrong::counter-value"),
        [
            "type - Exact wrong.lisp:31 -", "function - Via wrong.lisp:31 defstruct",
            "function - Via wrong.lisp:31 defstruct"
        ]
    );
    assert_eq!(
        definitions("truth.wrong::connected"),
        ["generic-function - Exact wrong.lisp:6 -", "method - Via wrong.lisp:6 defgeneric"]
    );
    assert_eq!(
        definitions("truth.cheap::typed"),
        ["declaration - Exact cheap.lisp:15 -", "function - Exact cheap.lisp:16 -"]
    );
    assert_eq!(
        definitions("truth.defined::methodical"),
        [
            "generic-function - Exact defined.lisp:18 -",
            "method - Via defined.lisp:19 defgeneric",
            "method - Via defined.lisp:20 defgeneric"
        ]
    );
    let answer = bank.answer(&CodeFindReferencesRequest::new("truth.defined::frame-x"));
    let via: Vec<_> =
        answer.refs.iter().map(|found| (found.via.as_deref(), found.via_name_parts.clone())).collect();
    assert_eq!(via, [(Some("call-accessor"), Some(vec!["X".to_owned()]))], "{answer:#?}");
    assert!(
        answer.cautions.iter().any(|caution| matches!(caution, Caution::UsesFromNameParts { .. })),
        "{answer:#?}"
    );
    let answer = bank.answer(&CodeFindReferencesRequest::new("truth.defined::parted"));
    let via = answer.refs.iter().find(|found| found.via.is_some()).unwrap();
    assert_eq!(
        (via.via.as_deref(), via.via_template.as_ref().map(ToString::to_string)),
        (Some("call-parted"), Some("defined.lisp:15".to_owned())),
        "{answer:#?}"
    );
}
