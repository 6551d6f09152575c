//! What the compiler, the reader or a load says, as every tool that loads lists it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::Location;
use crate::handle::loaded::{Diagnostic, Severity};

/// The most compiled files that an answer names.
pub(crate) const LISTED_FILES: usize = 30;

/// A diagnostic of the compiler, the reader or the load.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShownDiagnostic {
    severity: Severity,
    /// `file:line:column`, as far as it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    at: String,
    #[serde(flatten)]
    place: Option<Location>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    end_column: Option<u32>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<String>,
}

impl ShownDiagnostic {
    /// `said`, with its file as `shown` shows it; with `detail`, its whole path, line and column apart.
    pub(crate) fn new(said: Diagnostic, shown: impl Fn(&str) -> String, detail: bool) -> Self {
        let (place, at) = if detail { (said.place, None) } else { (None, said.place) };
        let at = at.map(|at| Location { file: shown(&at.file), ..at }.to_string());
        Self {
            severity: said.severity,
            at: at.unwrap_or_default(),
            place,
            end_line: said.end_line.filter(|_| detail),
            end_column: said.end_column.filter(|_| detail),
            message: said.message,
            form: said.form,
        }
    }
}
