//! check: whether systems still load with edited files. Request and answer; a scratch image does the work.

use std::collections::BTreeSet;
use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::load_system::{Diagnostic, LoadAnswer, LoadFailure, LoadStatus};

/// A file whose text replaces, in the scratch image, what is on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// The file. A relative path is the project's.
    pub path: PathBuf,
    /// Its text; none if the file counts as deleted.
    pub text: Option<String>,
}

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
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct CheckAnswer {
    /// Whether everything loads.
    pub loads: bool,
    /// The systems that were loaded in the scratch image.
    pub systems: Vec<String>,
    /// The files that were compiled: those that have changed, and what depends on them.
    pub compiled: Vec<String>,
    /// What was said, the worst first, then in order.
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

/// The most diagnostics that an answer lists.
const MOST_DIAGNOSTICS: usize = 200;

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
        self.diagnostics.extend(loaded.diagnostics);
        self.failures.extend(loaded.failure);
    }

    /// Sorts the diagnostics, the worst first, and cuts them at [`MOST_DIAGNOSTICS`].
    pub(crate) fn finish(&mut self) {
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.severity);
        if self.diagnostics.len() > MOST_DIAGNOSTICS {
            self.diagnostics_total.get_or_insert(self.diagnostics.len());
            self.diagnostics.truncate(MOST_DIAGNOSTICS);
        }
    }
}
