//! check: whether systems still load with edited files. Request and answer; a scratch image does the work.

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
use crate::handle::loaded::{Diagnostic, LoadAnswer, LoadFailure, LoadStatus};

/// A request to load systems with edited files in a scratch image.
#[derive(Debug, Clone, Default)]
pub struct CheckRequest {
    /// Files to compile, changed or not. Relative paths are the project's.
    pub paths: Vec<PathBuf>,
    /// Texts that replace files on disk in the scratch image.
    pub edits: Vec<Overlay>,
    /// The system to load; none for those that the main image has loaded.
    pub system: Option<String>,
    /// Whether to try it in a confined scratch image, which may write in its own folder only.
    pub confined: bool,
}

/// The outcome of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CheckAnswer {
    /// Whether everything loads.
    pub loads: bool,
    /// The systems that were loaded in the scratch image.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub systems: Vec<String>,
    /// The files that were compiled: those that have changed, and what depends on them; in JSON the first ones.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "first_files")]
    pub compiled: Vec<String>,
    /// How many files were compiled.
    pub compiled_count: usize,
    /// What was said, the worst first, then in order.
    #[serde(skip_serializing_if = "Vec::is_empty", serialize_with = "as_shown")]
    #[schemars(with = "Vec<ShownDiagnostic>", default)]
    pub diagnostics: Vec<Diagnostic>,
    /// How many diagnostics there were, if not all are listed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub diagnostics_total: Option<usize>,
    /// What stopped those that do not load.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub failures: Vec<LoadFailure>,
    /// Files among the edits that none of the systems has: of them, nothing was tried.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub not_loaded: Vec<String>,
    /// Whether it was tried in a confined image, which may write in its own folder only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub confined: bool,
    /// Files to which writes were refused in a confined image: the first ones, if there are many.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub refused: Vec<String>,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    #[serde(skip)]
    pub(crate) cached: BTreeSet<String>,
}

fn first_files<S: Serializer>(files: &[String], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(files.iter().take(LISTED_FILES))
}

fn as_shown<S: Serializer>(said: &[Diagnostic], serializer: S) -> Result<S::Ok, S::Error> {
    let shown = |said: &Diagnostic| ShownDiagnostic::new(said.clone(), str::to_owned, false);
    serializer.collect_seq(said.iter().map(shown))
}

/// The most diagnostics that an answer lists.
const LISTED_DIAGNOSTICS: usize = 200;

impl CheckAnswer {
    /// Adds the outcome of one load in the scratch image.
    pub(crate) fn add(&mut self, loaded: LoadAnswer) {
        self.loads &= loaded.status == LoadStatus::Loaded;
        self.cached.extend(loaded.cached);
        for path in loaded.compiled {
            if !self.compiled.contains(&path) {
                self.compiled.push(path);
            }
        }
        if let Some(total) = loaded.diagnostics_total {
            *self.diagnostics_total.get_or_insert(0) += total;
        }
        // Tell once what a file says that each of several systems loads.
        for said in loaded.diagnostics {
            let is_same = |known: &Diagnostic| (&known.place, &known.message) == (&said.place, &said.message);
            if !self.diagnostics.iter().any(is_same) {
                self.diagnostics.push(said);
            }
        }
        self.failures.extend(loaded.failure);
    }

    /// Counts the files; sorts the diagnostics, the worst first, and cuts them at [`LISTED_DIAGNOSTICS`].
    pub(crate) fn finish(&mut self) {
        self.compiled_count = self.compiled.len();
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.severity);
        if self.diagnostics.len() > LISTED_DIAGNOSTICS {
            self.diagnostics_total.get_or_insert(self.diagnostics.len());
            self.diagnostics.truncate(LISTED_DIAGNOSTICS);
        }
    }
}
