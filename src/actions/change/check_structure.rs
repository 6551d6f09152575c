//! check-structure: whether the parentheses of a Lisp text are balanced and, judged by indentation, where
//! not.

pub(crate) mod tool;

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use steelbank_reader::Dialect;
use steelbank_reader::lines::{LineIndex, decode};
use steelbank_reader::structure::{self, ProblemKind};

use crate::answer::Location;
use crate::answer::location::as_line;

/// Whether a text is balanced, and what is wrong first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct OwnSyntax {
    /// The line, from 1.
    #[serde(rename = "line", serialize_with = "as_line")]
    #[schemars(with = "u32")]
    pub place: Location,
    /// That line's text.
    pub text: String,
}

/// What is wrong with a text's structure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(into = "ProblemInJson")]
#[schemars(with = "ProblemInJson")]
#[non_exhaustive]
pub struct StructureProblem {
    /// What it is.
    pub kind: ProblemKind,
    /// Where the form begins; of a parenthesis too many, its own place.
    pub place: Location,
    /// That line's text.
    pub text: String,
    /// The line on which it shows: where the indentation contradicts, or the text ends.
    pub shows_at: Location,
    /// What to insert at `mend`; empty: take the character there out.
    pub insert: String,
    /// Where to mend.
    pub mend: Location,
}

/// A [`StructureProblem`] as JSON has it: its places are all of one file, which the answer names.
#[derive(Serialize, JsonSchema)]
#[schemars(description = "What is wrong with a text's structure.")]
struct ProblemInJson {
    /// What it is.
    kind: ProblemKind,
    /// The line on which the form begins, from 1; of a parenthesis too many, its own.
    line: u32,
    /// The column, from 1, in characters.
    column: u32,
    /// That line's text.
    text: String,
    /// The line on which it shows: where the indentation contradicts, or the text ends.
    shows_at_line: u32,
    /// What to insert at `mend_line` and `mend_column`; empty: take the character there out.
    insert: String,
    /// The line to mend, from 1.
    mend_line: u32,
    /// The column to mend at, from 1, in characters.
    mend_column: u32,
}

impl From<StructureProblem> for ProblemInJson {
    fn from(problem: StructureProblem) -> Self {
        let StructureProblem { kind, place, text, shows_at, insert, mend } = problem;
        Self {
            kind,
            line: place.line.unwrap_or_default(),
            column: place.column.unwrap_or_default(),
            text,
            shows_at_line: shows_at.line.unwrap_or_default(),
            insert,
            mend_line: mend.line.unwrap_or_default(),
            mend_column: mend.column.unwrap_or_default(),
        }
    }
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
    let place = |at: u32| Location::new(path.unwrap_or_default()).at(lines.position(text, at));
    let line_of = |at: u32| shortened(&decode(lines.bytes(text, lines.line(at))));
    let problem = found.problem.map(|problem| StructureProblem {
        kind: problem.kind,
        place: place(problem.start),
        text: line_of(problem.start),
        shows_at: place(problem.shows).whole_line(),
        insert: problem.mend.1.to_owned(),
        mend: place(problem.mend.0),
    });
    let own_syntax =
        found.own_syntax.map(|at| OwnSyntax { place: place(at).whole_line(), text: line_of(at) });
    let own_line = own_syntax.as_ref().map(|own| own.place.line);
    // Trusts a problem only before the text leaves the standard syntax: after that it may be a false alarm.
    let before =
        problem.as_ref().is_some_and(|problem| own_line.is_none_or(|own| problem.shows_at.line < own));
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
