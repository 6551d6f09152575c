//! Compares the occurrences in a file with code-find-references, which searches all files for one
//! symbol.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use steelbank::Steelbank;
use steelbank::actions::uses::code_find_references::CodeFindReferencesRequest;
use steelbank::actions::uses::occurrences::{FileOccurrence, OccurrenceKind, OccurrencesRequest};
use steelbank::reader::Range;
use steelbank::source::positions::{Evidence, PlaceAccess};
use steelbank::xref::SymbolName;

use crate::asks::Asks;
use crate::fixtures::{library_registry, lisp_libraries};
use crate::project::{folder, load, project};
use crate::renames::copy;

fn occurrences(bank: &Steelbank, path: &Path) -> (String, Vec<FileOccurrence>) {
    let answer = bank.answer(&OccurrencesRequest::new(path));
    (answer.text, answer.occurrences)
}

#[test]
fn occurrences_match_code_find_references() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    const LIBRARIES: [&str; 3] = ["alexandria", "cl-ppcre", "yason"];
    let root = folder("occurrences");
    for library in LIBRARIES {
        copy(&lisp_libraries().join(library), &root.join(library));
    }
    let bank = project(&root, &root.join("cache"));
    LIBRARIES.iter().for_each(|library| drop(load(&bank, library)));
    let mut by_file: BTreeMap<String, BTreeSet<(Range, String)>> = BTreeMap::new();
    let mut symbols = BTreeSet::new();
    for (path, _) in
        bank.loaded_files().into_iter().filter(|(path, _)| path.starts_with(bank.root().unwrap()))
    {
        let (text, found) = occurrences(&bank, &path);
        assert!(text.is_empty() || !found.is_empty(), "{}", path.display());
        let shown = path.strip_prefix(bank.root().unwrap()).unwrap().display().to_string();
        let exact = by_file.entry(shown).or_default();
        for found in found {
            symbols.insert((*found.symbol).clone());
            let token = text[found.name_range.indices()].trim_matches(['|', '"', ':', '#']);
            assert!(
                token.replace(['\\', '|'], "").eq_ignore_ascii_case(&found.symbol.name),
                "{token} {found:?}"
            );
            if found.use_type.is_some() && found.evidence == Evidence::Exact {
                exact.insert((found.range, format!("{}::{}", found.symbol.package, found.symbol.name)));
            }
        }
    }
    let mut by_symbol: BTreeMap<String, BTreeSet<(Range, String)>> = BTreeMap::new();
    for SymbolName { package, name } in &symbols {
        let quoted = format!("|{}|", name.replace('\\', "\\\\").replace('|', "\\|"));
        let mut request = CodeFindReferencesRequest::new(quoted);
        (request.package, request.limit) = (Some(package.clone()), usize::MAX);
        for found in bank.answer(&request).refs {
            let exact = by_symbol.entry(found.place.file.clone()).or_default();
            exact.extend(
                found.tokens.iter().map(|token| (token.range.unwrap(), format!("{package}::{name}"))),
            );
        }
    }
    let all = |places: &BTreeMap<String, BTreeSet<(Range, String)>>| -> BTreeSet<(String, Range, String)> {
        let flat = places.iter().flat_map(|(file, found)| {
            found.iter().map(move |(range, name)| (file.clone(), *range, name.clone()))
        });
        flat.collect()
    };
    let (by_file, by_symbol) = (all(&by_file), all(&by_symbol));
    assert!(by_file.len() > 10_000, "{}", by_file.len());
    let only =
        |one: &BTreeSet<_>, other: &BTreeSet<_>| one.difference(other).take(20).cloned().collect::<Vec<_>>();
    assert_eq!(only(&by_file, &by_symbol), [], "of files only");
    assert_eq!(only(&by_symbol, &by_file), [], "of symbols only");
}

const SHOP: &str = "(defpackage :occ-shop (:use :cl) (:export #:price))
(in-package :occ-shop)
(defvar *open* nil)
(defclass item () ((price :accessor price :initarg :price)))
(defun twice (item &key (price 2))
  (incf (price item) price)
  (setf (slot-value item 'price) 1)
  (push 1 *open*)
  (setq *open* t)
  (with-slots (price) item (setf price 3) price)
  (flet ((price (x) x)) (price (slot-value item 'price))))
";

#[test]
fn occurrences_distinguish_reads_writes_and_locals() {
    own_process!();
    let root = folder("occurrences-shop");
    fs::write(root.join("occ-shop.asd"), "(defsystem \"occ-shop\" :components ((:file \"shop\")))").unwrap();
    fs::write(root.join("shop.lisp"), SHOP).unwrap();
    let bank = project(&root, &root.join("cache"));
    load(&bank, "occ-shop");
    let (text, found) = occurrences(&bank, Path::new("shop.lisp"));
    let told: Vec<String> = found
        .iter()
        .filter(|found| {
            ["PRICE", "*OPEN*"].contains(&found.symbol.name.as_str()) && found.symbol.package == "OCC-SHOP"
        })
        .map(|found| {
            let line = text[..found.range.start as usize].matches('\n').count() + 1;
            let bound = found.binding.map(|at| text[..at.start as usize].matches('\n').count() + 1);
            let bound = bound.map(|line| format!(" of {line}")).unwrap_or_default();
            let access = match found.access {
                PlaceAccess::Read => "",
                PlaceAccess::Write => " write",
                PlaceAccess::ReadWrite => " read-write",
            };
            format!("{line} {:?}{access}{bound}", found.kind)
        })
        .collect();
    let expected = [
        "1 Function", "3 Variable", "4 Slot", "4 Function", "5 LocalVariable write of 5",
        "6 Function read-write", "6 LocalVariable of 5", "7 Slot write", "8 Variable read-write",
        "9 Variable write", "10 Slot", "10 Slot write", "10 Slot", "11 LocalFunction write of 11",
        "11 LocalFunction of 11", "11 Slot",
    ];
    assert_eq!(told, expected);
    assert!(
        found
            .iter()
            .any(|found| found.kind == OccurrenceKind::SpecialOperator && found.symbol.name == "SETQ")
    );
    drop(bank);
}

#[test]
fn diagnostic_ends_with_its_form() {
    own_process!();
    let root = folder("occurrences-undefined");
    let text = "(defun f (x)
  (list (+ 1 (* x nowhere)) (missing
                              x)))
";
    fs::write(root.join("undefined.lisp"), text).unwrap();
    let bank = project(&root, &root.join("cache"));
    let request = steelbank::LoadRequest::file(root.join("undefined.lisp")).failure_as_answer();
    let answer = bank.done(&request);
    let told: Vec<(String, u32, u32)> = answer
        .diagnostics
        .iter()
        .map(|said| {
            let place = said.place.as_ref().unwrap().in_file();
            (place, said.end_line.unwrap(), said.end_column.unwrap())
        })
        .collect();
    assert_eq!(told, [("2:19".to_owned(), 2, 26), ("2:30".to_owned(), 2, 37)], "{:?}", answer.diagnostics);
    drop(bank);
}
