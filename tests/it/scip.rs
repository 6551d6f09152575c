//! Tests `steelbank scip`: reads its output with the crate `scip`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use protobuf::Message;
use scip::symbol::parse_symbol;
use scip::types::{Index, Occurrence, Relationship, SymbolInformation, SymbolRole, descriptor::Suffix};
use steelbank::export::scip::{ScipFormat, write_scip};
use steelbank::{Control, Steelbank};

use crate::asks::Asks;
use crate::fixtures::library_registry;
use crate::project::{folder, libraries_project, load, project};
use crate::texts::expect_text;

fn index(bank: &Steelbank, diagnostics: &[steelbank::loaded::Diagnostic]) -> (Vec<u8>, Index) {
    let mut bytes = Vec::new();
    let summary =
        write_scip(bank, ScipFormat::Protobuf, diagnostics, &mut bytes, &Control::default()).unwrap();
    let read = Index::parse_from_bytes(&bytes).unwrap();
    let places: usize = read.documents.iter().map(|document| document.occurrences.len()).sum();
    assert_eq!(
        (summary.documents, summary.occurrences, summary.external_symbols),
        (read.documents.len(), places, read.external_symbols.len())
    );
    (bytes, read)
}

/// Returns the name in the last descriptor of a SCIP symbol, such as `name` for `(setf name)`.
fn own_name(symbol: &str) -> String {
    let parsed = parse_symbol(symbol).unwrap_or_else(|error| panic!("{symbol}: {error:?}"));
    assert_eq!(parsed.scheme, "steelbank");
    let last = parsed.descriptors.last().unwrap();
    let name = last.name.strip_prefix("(setf ").or(last.name.strip_prefix("(compiler-macro "));
    let name = name.or(last.name.strip_prefix("(slot ")).map(|name| name.strip_suffix(')').unwrap());
    let name = name.unwrap_or(&last.name);
    if last.suffix == Suffix::Term.into() { name.rsplit("::").next().unwrap() } else { name }.to_owned()
}

/// Whether an occurrence has the role.
fn has(found: &Occurrence, role: SymbolRole) -> bool {
    found.symbol_roles & role as i32 != 0
}

/// Checks an index against the files below `root`. Returns the number of its occurrences.
fn check(index: &Index, root: &Path) -> usize {
    let mut told = BTreeSet::new();
    let all = index.documents.iter().flat_map(|document| &document.symbols).chain(&index.external_symbols);
    for information in all.filter(|information| !information.symbol.starts_with("local ")) {
        own_name(&information.symbol);
        assert!(told.insert(information.symbol.clone()), "{} is told twice", information.symbol);
    }
    let related = index.documents.iter().flat_map(|document| &document.symbols);
    for related in related.flat_map(|information| &information.relationships) {
        own_name(&related.symbol);
    }
    let mut count = 0;
    for document in &index.documents {
        let text = match document.text.is_empty() {
            true => fs::read_to_string(root.join(&document.relative_path)).unwrap(),
            false => document.text.clone(),
        };
        let lines: Vec<&str> = text.split('\n').collect();
        let locals: BTreeMap<&str, &str> = document
            .symbols
            .iter()
            .filter(|information| information.symbol.starts_with("local "))
            .map(|information| (&*information.symbol, &*information.display_name))
            .collect();
        let mut end = (-1, 0);
        for found in document.occurrences.iter().filter(|found| !found.symbol.is_empty()) {
            let [line, from, to] = found.range[..] else { panic!("{found:?}") };
            assert!((line, from) >= end, "{}:{} overlaps {end:?}", document.relative_path, found);
            end = (line, to);
            let token = &lines[line as usize][from as usize..to as usize];
            let token = token.replace(['|', '\\'], "");
            let name = match locals.get(&*found.symbol) {
                Some(name) => (*name).to_owned(),
                None => {
                    assert!(told.contains(&found.symbol), "{} is not told", found.symbol);
                    match found.symbol.ends_with('/') {
                        true => parse_symbol(&found.symbol).unwrap().descriptors[0].name.clone(),
                        false => own_name(&found.symbol),
                    }
                }
            };
            let name = name.replace(['|', '\\'], "");
            assert!(token.eq_ignore_ascii_case(&name), "{}: {token} {found}", document.relative_path);
            count += 1;
        }
    }
    count
}

#[test]
fn index_can_be_read_back() {
    own_process!([("CL_SOURCE_REGISTRY", library_registry())]);
    let (_home, bank) = libraries_project("scip");
    let (bytes, read) = index(&bank, &[]);
    let count = check(&read, bank.root().unwrap());
    assert!(count > 15_000, "{count}");
    assert_eq!(index(&bank, &[]).0, bytes, "two runs differ");
    let mut json = Vec::new();
    write_scip(&bank, ScipFormat::Json, &[], &mut json, &Control::default()).unwrap();
    let json = String::from_utf8(json).unwrap();
    assert_eq!(protobuf_json_mapping::parse_from_str::<Index>(&json).unwrap(), read);
    // Symbols have the version of their library.
    let external = read.external_symbols.iter().map(|information| &*information.symbol);
    assert!(external.clone().any(|symbol| symbol.starts_with("steelbank asdf sbcl 2.5.2 COMMON-LISP/")));
    // The code of the libraries has all roles and relationships.
    let libraries = read.documents.iter().filter(|document| !document.relative_path.starts_with("torture/"));
    let places: Vec<&Occurrence> = libraries.clone().flat_map(|document| &document.occurrences).collect();
    for role in [
        SymbolRole::Definition,
        SymbolRole::Import,
        SymbolRole::ReadAccess,
        SymbolRole::WriteAccess,
        SymbolRole::Generated,
        SymbolRole::Test,
    ] {
        assert!(places.iter().any(|found| has(found, role)), "no place is {role:?}");
    }
    assert!(places.iter().any(|found| found.symbol.starts_with("local ")));
    assert!(places.iter().filter(|found| !found.enclosing_range.is_empty()).count() > 500);
    let told: Vec<&SymbolInformation> = libraries.flat_map(|document| &document.symbols).collect();
    let related: Vec<&Relationship> = told.iter().flat_map(|told| &told.relationships).collect();
    assert!(related.iter().any(|to| to.is_implementation) && related.iter().any(|to| to.is_definition));
    assert!(told.iter().filter(|told| !told.documentation.is_empty()).count() > 300);
    assert!(told.iter().filter(|told| !told.signature_documentation.text.is_empty()).count() > 500);
    assert!(read.external_symbols.iter().filter(|told| !told.documentation.is_empty()).count() > 200);
}

const SHOP: &str = "(defpackage :scip-shop (:use :cl) (:export #:price))
(in-package :scip-shop)
(defvar *open* nil \"Whether it is <open>.\")
(defclass item () ((price :accessor price :initarg :price)))
(defclass book (item) ((pages :initarg :pages)))
(defstruct shelf height)
(defgeneric show (thing))
(defmethod show ((thing item)) thing)
(defmethod show :after ((thing book)) thing)
(defun (setf size) (new thing) (setf (slot-value thing 'pages) new))
(defun twice (item)
  (incf (price item))
  (setf (price item) 1)
  (setf (slot-value item 'price) 2)
  (setf (size item) (shelf-height (make-shelf)))
  (setq *open* (missing item)))
(defstruct (box (:constructor nil) (:copier nil) (:predicate nil)))
(defmacro define-op (name) `(setf (get ',name 'op) 1))
(define-op if)
";

#[test]
fn kinds_roles_and_relationships_are_exported() {
    own_process!();
    let root = folder("scip-shop");
    fs::write(
        root.join("scip shop.asd"),
        "(defsystem \"scip shop\" :version \"1.2\" :components ((:file \"shop\")))",
    )
    .unwrap();
    fs::write(root.join("shop.lisp"), SHOP).unwrap();
    let bank = project(&root, &root.join("cache"));
    let said = load(&bank, "scip shop").diagnostics;
    let (_, read) = index(&bank, &said);
    check(&read, bank.root().unwrap());
    let document = read.documents.iter().find(|document| document.relative_path == "shop.lisp").unwrap();
    let told: Vec<String> = document
        .occurrences
        .iter()
        .filter(|found| found.symbol.contains(" scip  shop "))
        .map(|found| {
            let roles = [
                (SymbolRole::Definition, "definition"),
                (SymbolRole::ReadAccess, "read"),
                (SymbolRole::WriteAccess, "write"),
            ];
            let roles = roles.iter().filter(|(role, _)| has(found, *role)).map(|(_, name)| *name);
            let symbol = found.symbol.strip_prefix("steelbank asdf scip  shop 1.2 SCIP-SHOP/").unwrap();
            format!("{} {symbol} {}", found.range[0] + 1, roles.collect::<Vec<_>>().join(" "))
        })
        .collect();
    let expected = [
        "1  definition", "1 price(). ", "2  ", "3 `*open*`. definition", "4 item# definition",
        "4 item#price. definition", "4 price(). definition", "5 book# definition", "5 item# ",
        "5 book#pages. definition", "6 shelf# definition", "6 shelf#height. definition",
        "7 show(). definition", "8 show(item). definition", "8 item# ", "9 show(after+book). definition",
        "9 book# ", "10 `(setf size)`(). definition", "10 book#pages. write", "11 twice(). definition",
        "12 price(). read write", "13 price(). write", "14 item#price. write", "15 `(setf size)`(). write",
        "15 shelf-height(). read", "15 make-shelf(). read", "16 `*open*`. write", "16 missing(). read",
        "17 box# definition", "18 define-op! definition", "19 define-op! read",
    ];
    assert_eq!(told, expected);
    // The index defines no standard symbol: not NIL for `(:copier nil)`, and not IF for
    // `(define-op if)`.
    let standard = document.occurrences.iter().filter(|found| found.symbol.contains(" COMMON-LISP/"));
    let standard: Vec<_> = standard.filter(|found| has(found, SymbolRole::Definition)).collect();
    assert!(standard.is_empty(), "{standard:?}");
    let related: Vec<String> = document
        .symbols
        .iter()
        .flat_map(|information| information.relationships.iter().map(move |to| (information, to)))
        .map(|(from, to)| {
            let short = |symbol: &str| symbol.rsplit('/').next().unwrap().to_owned();
            let kinds = [
                (to.is_implementation, "implements"),
                (to.is_definition, "defined-by"),
                (to.is_reference, "refers"),
            ];
            let kinds = kinds.iter().filter(|(is, _)| *is).map(|(_, kind)| *kind);
            format!("{} {} {}", short(&from.symbol), kinds.collect::<Vec<_>>().join("+"), short(&to.symbol))
        })
        .collect();
    let expected = [
        "book# implements item#",
        "copy-shelf(). defined-by shelf#",
        "make-shelf(). defined-by shelf#",
        "price(). refers item#price.",
        "shelf-height(). defined-by+refers shelf#height.",
        "shelf-p(). defined-by shelf#",
        "show(after+book). implements+refers show().",
        "show(item). implements+refers show().",
    ];
    assert_eq!(related, expected);
    let open = document.symbols.iter().find(|information| information.display_name == "*open*").unwrap();
    assert_eq!(open.documentation, ["Whether it is <open>."]);
    assert_eq!(open.signature_documentation.text, "(defvar *open*)");
    let undefined: Vec<(Vec<i32>, &str)> = document
        .occurrences
        .iter()
        .flat_map(|found| found.diagnostics.iter().map(|said| (found.range.clone(), &*said.message)))
        .collect();
    let (_, message) = undefined.iter().find(|(range, _)| range[..2] == [15, 16]).unwrap();
    expect_text("undefined function", message);
    let show = document.occurrences.iter().find(|found| found.symbol.ends_with("show(item).")).unwrap();
    assert_eq!(show.enclosing_range, [7, 0, 37]);
}

#[test]
fn export_without_loaded_files_is_an_error() {
    own_process!();
    let root = folder("scip-empty");
    let bank = project(&root, &root.join("cache"));
    let error = write_scip(&bank, ScipFormat::Protobuf, &[], &mut Vec::new(), &Control::default());
    expect_text("nothing loaded", &error.unwrap_err().to_string());
    let cancelled = Control::default();
    cancelled.cancellation().cancel();
    fs::write(root.join("a.lisp"), "(defun a ())").unwrap();
    let request = steelbank::LoadRequest::file(root.join("a.lisp")).failure_as_answer();
    bank.done(&request);
    assert!(write_scip(&bank, ScipFormat::Protobuf, &[], &mut Vec::new(), &cancelled).is_err());
}
