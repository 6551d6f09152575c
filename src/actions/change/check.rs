//! Implements check, which reports whether systems or files load, with proposed texts in place of
//! files on disk. The load runs in a scratch image, so the main image does not change.

pub mod alone;
mod run;
mod text;
pub(crate) mod tool;

use crate::handle::scratch::Overlay;
use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::actions::run::diagnostic::{LISTED_FILES, ShownDiagnostic};
use crate::handle::loaded::{Diagnostic, LoadAnswer, LoadFailure, LoadStatus, Severity};

/// A request to load systems or files in a scratch image, with edited texts in place of files on
/// disk.
#[derive(Debug, Clone, Default)]
pub struct CheckRequest {
    /// Files to compile, whether changed or not. Relative paths are relative to the project.
    pub paths: Vec<PathBuf>,
    /// Texts that replace files on disk in the scratch image, or files to treat as deleted.
    pub edits: Vec<Overlay>,
    /// The system to load; `None` for the systems that the main image has loaded.
    pub system: Option<String>,
    /// Whether to run in a confined scratch image, which can write only to its own folder.
    pub confined: bool,
}

/// The outcome of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CheckAnswer {
    /// Whether everything loads.
    pub loads: bool,
    /// The systems that were checked.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub systems: Vec<String>,
    /// The compiled files, such as changed files and their dependents. JSON lists only the first
    /// 30.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "first_files")]
    pub compiled: Vec<String>,
    /// Number of files that were compiled.
    pub compiled_count: usize,
    /// The diagnostics, those of libraries last, most severe first.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_shown")]
    #[schemars(with = "Vec<ShownDiagnostic>", default)]
    pub diagnostics: Vec<Diagnostic>,
    /// Number of diagnostics, if not all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnostics_total: Option<usize>,
    /// The number of diagnostics that the loads counted but did not return.
    #[serde(skip)]
    not_listed: usize,
    /// The errors that stopped loads.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<LoadFailure>,
    /// Edited files that no checked system contains. Empty if the load failed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_loaded: Vec<String>,
    /// Whether the image was confined: it could write only to its own folder.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub confined: bool,
    /// The first files that the confined image was not allowed to write.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// The commands of processes that the checked code left running. They were ended.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ended_processes: Vec<String>,
    /// Duration, in milliseconds.
    pub duration_ms: u64,
    #[serde(skip)]
    pub(crate) cached: BTreeSet<String>,
}

fn first_files<S: Serializer>(files: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(files.iter().take(LISTED_FILES))
}

fn as_shown<S: Serializer>(diagnostic: &[Diagnostic], serializer: S) -> Result<S::Ok, S::Error> {
    let shown = |diagnostic: &Diagnostic| ShownDiagnostic::new(diagnostic.clone(), str::to_owned, false);
    serializer.collect_seq(diagnostic.iter().map(shown))
}

/// The maximum number of diagnostics in an answer.
const LISTED_DIAGNOSTICS: usize = 200;

impl CheckAnswer {
    /// Adds the outcome of one load in the scratch image.
    pub(crate) fn add(&mut self, loaded: LoadAnswer) {
        // A load continues after some errors, such as a call that precedes its macro.
        self.loads &= loaded.status == LoadStatus::Loaded
            && loaded.diagnostics.iter().all(|found| found.severity > Severity::Error);
        self.cached.extend(loaded.cached);
        for path in loaded.compiled {
            if !self.compiled.contains(&path) {
                self.compiled.push(path);
            }
        }
        let listed = loaded.diagnostics.len();
        self.not_listed += loaded.diagnostics_total.map_or(0, |total| total.saturating_sub(listed));
        // Several systems may load the same file, so list its diagnostics only once.
        for diagnostic in loaded.diagnostics {
            let is_same = |known: &Diagnostic| {
                (&known.place, &known.message) == (&diagnostic.place, &diagnostic.message)
            };
            if !self.diagnostics.iter().any(is_same) {
                self.diagnostics.push(diagnostic);
            }
        }
        self.failures.extend(loaded.failure);
    }

    /// Counts the files, sorts the diagnostics by severity, and truncates them to
    /// [`LISTED_DIAGNOSTICS`].
    pub(crate) fn finish(&mut self) {
        self.compiled_count = self.compiled.len();
        self.diagnostics.sort_by_key(|diagnostic| (diagnostic.library, diagnostic.severity));
        let total = self.diagnostics.len() + self.not_listed;
        self.diagnostics.truncate(LISTED_DIAGNOSTICS);
        self.diagnostics_total = Some(total).filter(|total| *total > self.diagnostics.len());
    }
}
