//! Implements reload, which brings the image up to date with the files on disk.

mod run;
pub(crate) mod tool;

use crate::answer::{LispKind, LispName};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::handle::loaded::LoadAnswer;

/// A request to bring the image up to date with the files on disk.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ReloadRequest {
    /// Default: all files that changed after they were loaded.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Remove definitions from the image that are no longer in their file.
    #[serde(default)]
    pub remove: bool,
    /// Continue after files that fail to compile.
    #[serde(default)]
    pub keep_going: bool,
}

impl ReloadRequest {
    /// Creates a request for all changed files.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds files to reload. If none are added, all changed files are reloaded.
    #[must_use]
    pub fn paths(mut self, paths: impl IntoIterator<Item = String>) -> Self {
        self.paths.extend(paths);
        self
    }

    /// Sets whether definitions that are no longer in their files are removed.
    #[must_use]
    pub fn remove(self, remove: bool) -> Self {
        Self { remove, ..self }
    }
}

/// A definition that is in the image but no longer in the project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Leftover {
    /// The kind: `function`, `macro`, `generic-function`, `method`, `compiler-macro`, `variable`,
    /// `class`, `structure` or `condition`.
    pub kind: LispKind,
    /// The definition's name.
    pub name: LispName,
    /// The file that contained it, relative to the project's root.
    pub path: String,
    /// Whether it was removed from the image.
    pub removed: bool,
}

/// The outcome of a reload.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ReloadAnswer {
    /// The files that had changed after they were loaded, relative to the project's root.
    pub changed: Vec<String>,
    /// Definitions that are in the image but no longer in the project.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left: Vec<Leftover>,
    /// True if nothing of the project was loaded, so that there was nothing to reload.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub nothing_loaded: bool,
    /// The load, as in load-system's answer.
    #[serde(flatten)]
    pub load: LoadAnswer,
}
