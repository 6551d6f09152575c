//! Formats the diagnostics of the compiler, the reader or a load for every tool that loads code.

use schemars::JsonSchema;
use serde::Serialize;

use crate::answer::Location;
use crate::handle::loaded::{Diagnostic, Severity};

/// The maximum number of compiled files in a JSON answer, unless `detail` is requested.
pub(crate) const LISTED_FILES: usize = 30;

/// A diagnostic of the compiler, the reader or the load.
#[derive(Debug, Serialize, JsonSchema)]
pub(crate) struct ShownDiagnostic {
    severity: Severity,
    /// `file:line:column`, as far as it could be determined.
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
    /// Converts `diagnostic`. Without `detail`, the position is one string with the path that
    /// `shown` returns. With `detail`, the absolute path, line and column are separate fields.
    pub(crate) fn new(diagnostic: Diagnostic, shown: impl Fn(&str) -> String, detail: bool) -> Self {
        let (place, at) = if detail { (diagnostic.place, None) } else { (None, diagnostic.place) };
        let at = at.map(|at| Location { file: shown(&at.file), ..at }.to_string());
        Self {
            severity: diagnostic.severity,
            at: at.unwrap_or_default(),
            place,
            end_line: diagnostic.end_line.filter(|_| detail),
            end_column: diagnostic.end_column.filter(|_| detail),
            message: diagnostic.message,
            form: diagnostic.form,
        }
    }
}
