//! check-structure: whether the parentheses of a Lisp text are balanced and, judged by indentation, where
//! not.

pub(crate) mod tool;

use std::path::Path;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use steelbank_reader::Dialect;
use steelbank_reader::lines::{LineColumn, LineIndex, decode};
use steelbank_reader::structure::{self, ProblemKind};

/// Whether a text is balanced, and what is wrong first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct StructureAnswer {
    /// The file, if it was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// Whether every list, string, bar and comment is closed and nothing closes too much. Absent if a syntax of the text's
    /// own hides it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub balanced: Option<bool>,
    /// How many lists are open at the end.
    pub open: usize,
    /// What is wrong first.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<StructureProblem>,
    /// Where the text changes its readtable or uses cl-interpol's strings: what follows is judged as the standard syntax
    /// would read it, and may be right although there is a problem.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub own_syntax: Option<OwnSyntax>,
}

/// Where a text leaves the standard syntax.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct OwnSyntax {
    /// The line, from 1.
    pub line: u32,
    /// That line's text.
    pub text: String,
}

/// What is wrong with a text's structure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct StructureProblem {
    /// What it is.
    pub kind: ProblemKind,
    /// The line on which the form begins, from 1; of a parenthesis too many, its own.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// That line's text.
    pub text: String,
    /// The line on which it shows: where the indentation contradicts, or the text ends.
    pub shows_at_line: u32,
    /// What to insert at `mend_line` and `mend_column`; empty: take the character there out.
    pub insert: String,
    /// The line to mend, from 1.
    pub mend_line: u32,
    /// The column to mend at, from 1, in characters.
    pub mend_column: u32,
}

/// Checks `text`, of the file `path` if it is one; the file's name tells which Lisp it is.
pub fn check_structure(text: &[u8], path: Option<&str>) -> StructureAnswer {
    let extension =
        path.and_then(|path| Path::new(path).extension()).and_then(|extension| extension.to_str());
    let dialect = match extension {
        Some("el") => Dialect::EmacsLisp,
        Some("scm" | "ss" | "sld" | "rkt") => Dialect::Scheme,
        Some("clj" | "cljs" | "cljc" | "edn") => Dialect::Clojure,
        _ => Dialect::CommonLisp,
    };
    let found = structure::check_structure(text, dialect);
    let lines = LineIndex::new(text);
    let problem = found.problem.map(|problem| {
        let LineColumn { line, column } = lines.position(text, problem.start);
        let mend = lines.position(text, problem.mend.0);
        StructureProblem {
            kind: problem.kind,
            line,
            column,
            text: shortened(&decode(lines.bytes(text, line))),
            shows_at_line: lines.line(problem.shows),
            insert: problem.mend.1.to_owned(),
            mend_line: mend.line,
            mend_column: mend.column,
        }
    });
    let own_syntax = found.own_syntax.map(|at| {
        let line = lines.line(at);
        OwnSyntax { line, text: shortened(&decode(lines.bytes(text, line))) }
    });
    let own_line = own_syntax.as_ref().map(|own| own.line);
    // Trusts a problem only before the text leaves the standard syntax: after that it may be a false alarm.
    let before =
        problem.as_ref().is_some_and(|problem| own_line.is_none_or(|own| problem.shows_at_line < own));
    let balanced = match found.balanced {
        true => Some(true),
        false => (own_syntax.is_none() || before).then_some(false),
    };
    StructureAnswer { path: path.map(str::to_owned), balanced, open: found.open, problem, own_syntax }
}

/// Shortens a line to 200 characters.
fn shortened(line: &str) -> String {
    line.trim_end().chars().take(200).collect()
}
