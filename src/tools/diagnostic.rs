//! What the compiler, the reader or a load says, as every tool that loads lists it.

use schemars::JsonSchema;
use serde::Serialize;

use crate::query::load_system::{Diagnostic, Severity};

/// A diagnostic of the compiler, the reader or the load.
#[derive(Debug, Serialize, JsonSchema)]
pub(super) struct ShownDiagnostic {
    severity: Severity,
    /// `file:line:column`, as far as it is known.
    #[serde(skip_serializing_if = "String::is_empty")]
    at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    column: Option<u32>,
    message: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    form: Option<String>,
}

impl ShownDiagnostic {
    /// `said`, with its file as `shown` shows it; with `detail`, its whole path, line and column apart.
    pub(super) fn new(said: Diagnostic, shown: impl Fn(&str) -> String, detail: bool) -> Self {
        let part = |part: Option<u32>| part.map(|part| format!(":{part}")).unwrap_or_default();
        let place = |path: &str| format!("{}{}{}", shown(path), part(said.line), part(said.column));
        Self {
            severity: said.severity,
            at: said.path.as_deref().filter(|_| !detail).map(place).unwrap_or_default(),
            line: said.line.filter(|_| detail),
            column: said.column.filter(|_| detail),
            path: said.path.filter(|_| detail),
            message: said.message,
            form: said.form,
        }
    }
}
