//! reload: brings the image up to date with the files on disk.

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
    /// Files, relative to the project. Left out: all that have changed since they were loaded.
    #[serde(default)]
    pub paths: Vec<String>,
    /// Delete definitions from the image that are no longer in their file. They are listed in any case.
    #[serde(default)]
    pub remove: bool,
    /// Go on behind files that do not compile.
    #[serde(default)]
    pub keep_going: bool,
}

impl ReloadRequest {
    /// Makes a request for all files that have changed.
    pub fn new() -> Self {
        Self::default()
    }

    /// Looks at `paths` only, unless there are none.
    #[must_use]
    pub fn paths(mut self, paths: impl IntoIterator<Item = String>) -> Self {
        self.paths.extend(paths);
        self
    }

    /// Removes definitions that are gone from their files, if `remove`.
    #[must_use]
    pub fn remove(mut self, remove: bool) -> Self {
        self.remove = remove;
        self
    }
}

/// A definition that the image has and its file does not have any more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Leftover {
    /// `function`, `macro`, `generic-function`, `method`, `compiler-macro`, `variable`, `class`, `structure` or
    /// `condition`.
    pub kind: LispKind,
    /// Its name.
    pub name: LispName,
    /// The file that it stood in, relative to the project's root.
    pub path: String,
    /// Whether it was removed from the image.
    pub removed: bool,
}

/// What was loaded again, and what is left over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct ReloadAnswer {
    /// The files that had changed since they were loaded, relative to the project's root.
    pub changed: Vec<String>,
    /// Definitions that the image has and their files do not.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left: Vec<Leftover>,
    /// True if nothing of the project was loaded, so that there was nothing to bring up to date.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub nothing_loaded: bool,
    /// The load, as load-system tells it.
    #[serde(flatten)]
    pub load: LoadAnswer,
}
