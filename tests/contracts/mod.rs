//! Tables of the contracts of the seven tools in docs/internals/contracts.md, one text file for
//! each tool or family. A row is a call with the answer that the contract requires. The same rows
//! run over MCP (tests/it) and on the command line (tests/process).
//!
//! A row's heading is `== REQUIREMENT FLAGS: TOOL {arguments}`; the expected text is below it. The
//! flags are `error`; `missing`: the requested object does not exist, which is no error; and
//! `manual`: the server builds its index only on request. Before the text, a line `@POINTER JSON`
//! has an expected field of the structured answer, `null` for an absent field; `@writes FILE JSON`
//! writes a file before the call. Below `== instead` is the text of a deviation that
//! docs/internals/contracts.md declares. In a text, `…` matches any text; as the last line it also
//! matches no lines. `{n}` matches a number, `{root}` the project's folder, `{cr}` a carriage
//! return. An empty text matches any text.
#![allow(dead_code, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use regex::Regex;
use serde_json::Value;

/// A requirement of a contract: a call, and the expected answer.
#[derive(Debug, Clone)]
pub(crate) struct Row {
    /// The requirement's number in docs/internals/contracts.md.
    pub(crate) id: &'static str,
    pub(crate) tool: &'static str,
    /// The arguments, as JSON.
    pub(crate) given: &'static str,
    /// The text that the contract requires.
    text: &'static str,
    /// The text of a declared deviation.
    instead: Option<&'static str>,
    is_error: bool,
    is_missing: bool,
    /// Whether the server must build its index only on request.
    pub(crate) is_manual: bool,
    /// A file to write before the call, and its text as JSON.
    written: Option<(&'static str, &'static str)>,
    /// Expected fields of the structured answer: JSON pointer and JSON value, `null` for an absent
    /// field. Strings may contain the placeholders of texts.
    fields: Vec<(&'static str, &'static str)>,
}

/// Parses the rows of a table.
fn table(text: &'static str) -> Vec<Row> {
    let mut rows: Vec<Row> = Vec::new();
    for part in text.split("\n== ").skip(1) {
        let (head, below) = part.split_once('\n').unwrap_or((part, ""));
        // A line that begins with a number sign is a comment on the row below it.
        let mut text = below.split("\n# ").next().unwrap();
        if head == "instead" {
            rows.last_mut().unwrap().instead = Some(text.trim_end());
            continue;
        }
        let (signs, call) = head.split_once(": ").unwrap();
        let (id, signs) = signs.split_once(' ').unwrap_or((signs, ""));
        let signs: Vec<&str> = signs.split_whitespace().collect();
        assert!(signs.iter().all(|sign| ["error", "missing", "manual"].contains(sign)), "{head}");
        let (tool, given) = call.split_once(' ').unwrap_or((call, "{}"));
        let (mut fields, mut written) = (Vec::new(), None);
        while let Some(line) = text.strip_prefix('@') {
            let (line, rest) = line.split_once('\n').unwrap_or((line, ""));
            let (name, json) = line.split_once(' ').unwrap();
            match name {
                "writes" => written = json.split_once(' '),
                pointer => fields.push((pointer, json)),
            }
            text = rest;
        }
        let text = if text.trim().is_empty() { "…" } else { text.trim_end() };
        let [is_error, is_missing, is_manual] =
            ["error", "missing", "manual"].map(|sign| signs.contains(&sign));
        let row =
            Row { id, tool, given, text, instead: None, is_error, is_missing, is_manual, written, fields };
        rows.push(row);
    }
    rows
}

impl Row {
    /// Whether the row tests the list of tools.
    pub(crate) fn is_of_list(&self) -> bool {
        self.tool == "tools/list"
    }

    /// Whether the answer is an error because the requested object does not exist.
    pub(crate) fn is_missing_error(&self) -> bool {
        self.is_error && self.is_missing
    }

    /// Writes the file that the row needs, if any.
    pub(crate) fn write_before(&self, project: &Path) {
        if let Some((path, json)) = self.written {
            fs::write(project.join(path), serde_json::from_str::<String>(json).unwrap()).unwrap();
        }
    }

    /// Whether the row needs the structured answer.
    pub(crate) fn has_fields(&self) -> bool {
        !self.fields.is_empty()
    }
}

/// An answer over MCP or on the command line.
#[derive(Debug)]
pub(crate) struct Answer {
    /// `None` if the command line prints another text, for people.
    pub(crate) text: Option<String>,
    pub(crate) is_error: bool,
    /// Whether the answer reports that the requested object does not exist. `None`: the exit code
    /// does not distinguish that from an error.
    pub(crate) is_missing: Option<bool>,
    pub(crate) structured: Value,
}

/// Returns all rows.
pub(crate) fn rows() -> Vec<Row> {
    [
        include_str!("describe_symbol.txt"),
        include_str!("who.txt"),
        include_str!("code_find_references.txt"),
        include_str!("find_references.txt"),
    ]
    .map(table)
    .concat()
}

/// Returns the numbers of all requirements. `wc1` to `wc12` are the same requirements as `wr1` to
/// `wr12`, so the documents' total is 59.
fn demands() -> BTreeSet<String> {
    let numbered = |prefix: &str, numbers: std::ops::RangeInclusive<u32>| {
        numbers.map(|number| format!("{prefix}{number}")).collect::<Vec<_>>()
    };
    let all = [numbered("ds", 1..=22), numbered("wc", 1..=12), numbered("wr", 1..=14)];
    let all = all.into_iter().chain([numbered("cf", 1..=11), numbered("fr", 1..=12)]);
    all.flatten().collect()
}

/// Creates the project of the rows in `folder`.
pub(crate) fn make_project(folder: &Path) -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contracts/project");
    copy(&from, folder);
    fs::write(folder.join(".gitignore"), "made/\n").unwrap();
    folder.canonicalize().unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

/// Makes the call of every row, and compares the answers with the expected answers. Every
/// difference must be declared in docs/internals/contracts.md, and every declared row must differ.
pub(crate) fn check(root: &Path, rows: &[Row], mut ask: impl FnMut(&Row) -> Answer) {
    let declared = declared();
    let (mut wrong, mut differ) = (Vec::new(), BTreeSet::new());
    for row in rows {
        let answer = ask(row);
        let is = |text: &str| answer.text.as_deref().is_none_or(|answered| matches(text, answered, root));
        let says = match row.instead {
            Some(instead) => {
                differ.insert(row.id);
                let differs = answer.text.is_none() || !is(row.text);
                is(instead) && differs && declared.contains_key(row.id)
            }
            None => is(row.text),
        };
        let missing = answer.is_missing.is_none_or(|missing| missing == row.is_missing);
        let fields = row.fields.iter().all(|(pointer, wanted)| {
            let wanted: Value = serde_json::from_str(wanted).unwrap_or_else(|_| panic!("{wanted}"));
            agrees(&wanted, answer.structured.pointer(pointer).unwrap_or(&Value::Null), root)
        });
        if !says || !missing || !fields || row.is_error != answer.is_error {
            let wanted = row.instead.unwrap_or(row.text);
            let answered = answer.text.as_deref().unwrap_or_default();
            wrong.push(format!(
                "{}: {} {}\nwanted (error {}, missing {}):\n{wanted}\n{:?}\nanswered (error {}, missing {:?}):\n{answered}\n{}",
                row.id, row.tool, row.given, row.is_error, row.is_missing, row.fields, answer.is_error,
                answer.is_missing, answer.structured,
            ));
        }
    }
    assert!(wrong.is_empty(), "{} rows differ from the contracts:\n{}", wrong.len(), wrong.join("\n\n"));
    let idle: Vec<&String> = declared.keys().filter(|id| !differ.contains(id.as_str())).collect();
    assert!(idle.is_empty(), "docs/internals/contracts.md declares needless deviations: {idle:?}");
    let asked: BTreeSet<String> = rows.iter().map(|row| row.id.to_owned()).collect();
    assert_eq!(asked, demands(), "each requirement must have a row");
}

/// Reads the declared deviations: the table below "## Deviations" in docs/internals/contracts.md.
/// Maps their numbers to the reasons.
fn declared() -> BTreeMap<String, String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/internals/contracts.md");
    let text = fs::read_to_string(path).unwrap();
    let table = text.split_once("\n## Deviations\n").unwrap().1;
    let table = table.split("\n## ").next().unwrap();
    let mut declared = BTreeMap::new();
    for line in table.lines().filter(|line| line.starts_with('|')).skip(2) {
        let cells: Vec<&str> = line.trim_matches('|').split(" | ").map(str::trim).collect();
        let [ids, .., reason] = cells.as_slice() else { panic!("{line}") };
        assert!(reason.len() > 20, "a deviation has its reason: {line}");
        for id in ids.split(", ") {
            assert!(demands().contains(id), "{id}");
            declared.insert(id.to_owned(), (*reason).to_owned());
        }
    }
    declared
}

/// Whether `text` matches `pattern`.
fn matches(pattern: &str, text: &str, root: &Path) -> bool {
    let pattern = regex::escape(pattern)
        .replace("\n…", "(?s:\n.*)?")
        .replace('…', "(?s:.*)")
        .replace(r"\{n\}", "[0-9]+")
        .replace(r"\{cr\}", "\r")
        .replace(r"\{root\}", &regex::escape(&root.display().to_string()));
    Regex::new(&format!("^{pattern}$")).unwrap().is_match(text)
}

/// Whether the value `found` matches `wanted`. Additional keys of objects are ignored.
fn agrees(wanted: &Value, found: &Value, root: &Path) -> bool {
    match (wanted, found) {
        (Value::String(wanted), Value::String(found)) => matches(wanted, found, root),
        (Value::Array(wanted), Value::Array(found)) => {
            wanted.len() == found.len()
                && wanted.iter().zip(found).all(|(wanted, found)| agrees(wanted, found, root))
        }
        (Value::Object(wanted), Value::Object(found)) => {
            wanted.iter().all(|(key, wanted)| agrees(wanted, found.get(key).unwrap_or(&Value::Null), root))
        }
        _ => wanted == found,
    }
}
