//! Implements check-structure, which reports whether all lists, strings, bars and comments of a
//! Lisp text are closed. If not, it uses the indentation to locate the error.

pub(crate) mod tool;

use std::path::Path;

use schemars::JsonSchema;
use serde::Serialize;

use steelbank_reader::Dialect;
use steelbank_reader::lines::{LineIndex, decode};
use steelbank_reader::structure::{self, ProblemKind};

use crate::answer::Location;
use crate::answer::location::as_line;

/// Whether a text is balanced, and the first problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct StructureAnswer {
    /// The file's path, if one was given.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// Whether every list, string, bar and comment is closed and there is no extra closing
    /// parenthesis. Absent if custom syntax makes this undecidable.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub balanced: Option<bool>,
    /// Number of lists that are open at the end.
    pub open: usize,
    /// The first problem.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub problem: Option<StructureProblem>,
    /// The place where the text changes its readtable or uses cl-interpol strings. The text after
    /// it is checked as standard syntax, so a problem there may be a false alarm.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub own_syntax: Option<OwnSyntax>,
}

/// The place where a text leaves the standard syntax.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct OwnSyntax {
    /// The line, from 1.
    #[serde(rename = "line", serialize_with = "as_line")]
    #[schemars(with = "u32")]
    pub place: Location,
    /// The line's text.
    pub text: String,
}

/// A problem in a text's structure.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(into = "ProblemInJson")]
#[schemars(with = "ProblemInJson")]
#[non_exhaustive]
pub struct StructureProblem {
    /// The kind of problem.
    pub kind: ProblemKind,
    /// The start of the unclosed form, or the position of an extra parenthesis.
    pub place: Location,
    /// The text of the line at `place`.
    pub text: String,
    /// The line where the problem becomes visible, such as a line with an indentation that
    /// contradicts the parentheses, or the last line.
    pub shows_at: Location,
    /// The text to insert at `mend`; if empty, delete the character there.
    pub insert: String,
    /// The position of the correction.
    pub mend: Location,
}

/// The JSON form of a [`StructureProblem`]. Its positions are lines and columns, because the answer
/// names the file.
#[derive(Serialize, JsonSchema)]
#[schemars(description = "A problem in a text's structure.")]
struct ProblemInJson {
    /// The kind of problem.
    kind: ProblemKind,
    /// The line of the form's start, or of an extra parenthesis, from 1.
    line: u32,
    /// The column, from 1, in characters.
    column: u32,
    /// The text of `line`.
    text: String,
    /// The line where the problem becomes visible, such as a line with an indentation that
    /// contradicts the parentheses, or the last line.
    shows_at_line: u32,
    /// The text to insert at `mend_line` and `mend_column`; if empty, delete the character there.
    insert: String,
    /// The line of the correction, from 1.
    mend_line: u32,
    /// The column of the correction, from 1, in characters.
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

/// Checks `text`. `path`, if given, is the file's path, and its extension selects the Lisp dialect.
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
    // Report `balanced: false` only if the problem is visible before the text leaves the standard
    // syntax. A problem after that place may be a false alarm.
    let before =
        problem.as_ref().is_some_and(|problem| own_line.is_none_or(|own| problem.shows_at.line < own));
    let balanced = match found.balanced {
        true => Some(true),
        false => (own_syntax.is_none() || before).then_some(false),
    };
    StructureAnswer { path: path.map(str::to_owned), balanced, open: found.open, problem, own_syntax }
}

/// Truncates a line to 200 characters.
fn shortened(line: &str) -> String {
    line.trim_end().chars().take(200).collect()
}
