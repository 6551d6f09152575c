//! Implements index_project and check_index_status, which build the text index and report its
//! state.

pub(crate) mod tool;

use crate::answer::counted;
use crate::answer::words::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use steelbank_text::{IndexControl, Language, Skipped, TextError, TextIndex, TreeStatus};

/// A request to build the text index.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IndexProjectRequest {
    /// Rebuild the index even if it is up to date.
    #[serde(default)]
    pub force: bool,
    /// Only files of these languages, until the next call. Default: all.
    #[serde(default)]
    pub languages: Vec<String>,
}

impl IndexProjectRequest {
    /// Creates a request to update the index of all languages.
    pub fn new() -> Self {
        Self::default()
    }
}

/// A request for the state of the text index. Changes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct IndexStatusRequest;

impl IndexStatusRequest {
    /// Creates the request.
    pub fn new() -> Self {
        Self
    }
}

/// Why the index could not be built.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum IndexProjectError {
    /// An unknown language.
    #[error("There is no language {lang:?}. The languages are {}.", Language::all().map(Language::name).collect::<Vec<_>>().join(", "))]
    Language {
        /// The language as given.
        lang: String,
    },
    /// The index cannot be built.
    #[error(transparent)]
    Text(#[from] TextError),
}

/// The outcome of index_project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Indexed {
    /// Number of files in the index.
    pub files_indexed: usize,
    /// Number of project files that are not in the index. Files that `.gitignore` excludes are not
    /// counted.
    pub files_skipped: usize,
    /// Number of files that were read because they were new or changed.
    pub files_updated: usize,
    /// Number of skipped files by reason: binary, huge (more than 16 MiB), unreadable, language.
    pub skipped: BTreeMap<String, usize>,
    /// Skipped files, except those in other languages; at most 20.
    pub skipped_files: Vec<SkippedFile>,
    /// Folders and files that could not be listed or read or do not belong to the project, and why;
    /// at most 20.
    pub failures: Vec<String>,
    /// Bytes of text in the index.
    pub text_bytes: u64,
    /// Size of the index in bytes.
    pub index_bytes: u64,
    /// The folder of the index.
    pub index_path: String,
    /// Duration, in milliseconds.
    pub duration_ms: u64,
}

/// A file that is not indexed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SkippedFile {
    /// The path, relative to the project.
    pub path: String,
    /// The reason.
    pub reason: Skipped,
}

words! {
    /// The state of the index.
    IndexState {
        /// The index reflects the current files.
        Fresh = "fresh",
        /// Files were changed, added or removed after it was built.
        Stale = "stale",
        /// There is no index.
        Missing = "missing",
    }
}

/// The answer to check_index_status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct IndexStatus {
    /// The state of the index.
    pub status: IndexState,
    /// Why it is not fresh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The action that makes the index fresh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_required: Option<String>,
    /// Number of files that were changed, added or removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_modified: Option<usize>,
}

/// The maximum number of skipped files in an answer.
const SHOWN_FILES: usize = 20;

/// Builds or updates the index.
///
/// # Errors
///
/// See [`IndexProjectError`].
pub fn index_project(
    index: &TextIndex,
    request: &IndexProjectRequest,
    control: &IndexControl<'_>,
) -> Result<Indexed, IndexProjectError> {
    let language = |lang: &String| {
        Language::named(lang).ok_or_else(|| IndexProjectError::Language { lang: lang.clone() })
    };
    let languages = request.languages.iter().map(language).collect::<Result<Vec<_>, IndexProjectError>>()?;
    let built = index.build(request.force, &languages, control)?;
    let mut skipped = BTreeMap::new();
    for (_, reason) in &built.skipped {
        *skipped.entry(reason.name().to_owned()).or_default() += 1;
    }
    let named = built.skipped.iter().filter(|(_, reason)| *reason != Skipped::Language);
    Ok(Indexed {
        files_indexed: built.indexed,
        files_skipped: built.skipped.len(),
        files_updated: built.analysed,
        skipped,
        skipped_files: named
            .take(SHOWN_FILES)
            .map(|(path, reason)| SkippedFile { path: path.to_string_lossy().into_owned(), reason: *reason })
            .collect(),
        failures: built
            .failures
            .iter()
            .take(SHOWN_FILES)
            .map(|(path, why)| format!("{}: {why}", path.display()))
            .collect(),
        text_bytes: built.text_bytes,
        index_bytes: built.index_bytes,
        index_path: index.folder().to_string_lossy().into_owned(),
        duration_ms: built.duration.as_millis() as u64,
    })
}

/// Reports the state of the index, without changing it.
///
/// # Errors
///
/// Fails if the state cannot be determined, or if the caller cancels.
pub fn check_index_status(
    index: &TextIndex,
    control: &IndexControl<'_>,
) -> Result<IndexStatus, IndexProjectError> {
    let (status, reason, files_modified) = match index.status(control)? {
        TreeStatus::Fresh => (IndexState::Fresh, None, None),
        TreeStatus::Stale(changed) => {
            let changed_files = counted(changed, "file was", "files were");
            let why = format!("{changed_files} changed, added or removed since the project was indexed");
            (IndexState::Stale, Some(why), Some(changed))
        }
        TreeStatus::Missing(reason) => (IndexState::Missing, Some(reason), None),
    };
    let action_required = (status != IndexState::Fresh).then(|| "Call index_project.".to_owned());
    Ok(IndexStatus { status, reason, action_required, files_modified })
}

impl From<IndexProjectError> for crate::Error {
    fn from(error: IndexProjectError) -> Self {
        match error {
            IndexProjectError::Text(error) => Self::Text(error),
            error => Self::of_request(error, None),
        }
    }
}
