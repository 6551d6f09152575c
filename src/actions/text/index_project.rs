//! index_project and check_index_status: building the text index, and telling how old it is.

pub(crate) mod tool;

use crate::answer::counted;
use crate::answer::words::words;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use steelbank_text::{IndexControl, Language, Skipped, TextError, TextIndex, TreeStatus};

/// What is asked of index_project.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct IndexProjectRequest {
    /// Build the index from nothing, also where it is up to date.
    #[serde(default)]
    pub force: bool,
    /// Index only files of these languages, until the project is indexed again; all if there is none.
    #[serde(default)]
    pub languages: Vec<String>,
}

impl IndexProjectRequest {
    /// Makes a request to bring the index of all languages up to date.
    pub fn new() -> Self {
        Self::default()
    }
}

/// A request to tell whether the index of the project's text covers the files as they are. Changes nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct IndexStatusRequest;

impl IndexStatusRequest {
    /// Makes the request.
    pub fn new() -> Self {
        Self
    }
}

/// The reason why there is no answer.
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

/// What index_project did.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Indexed {
    /// Files that the index now covers.
    pub files_indexed: usize,
    /// Files of the project that it leaves out. What `.gitignore` and friends name does not count.
    pub files_skipped: usize,
    /// Files that were read this time: those that were new or changed.
    pub files_updated: usize,
    /// How many were left out for each reason: binary, huge (more than 16 MiB), unreadable, language.
    pub skipped: BTreeMap<String, usize>,
    /// Some that were left out and are no other language's: at most 20.
    pub skipped_files: Vec<SkippedFile>,
    /// Folders or files that could not be listed or read, or are no part of the project, and why: at most 20.
    pub failures: Vec<String>,
    /// Bytes of text that the index covers.
    pub text_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// Where the index is.
    pub index_path: String,
    /// How long it took.
    pub duration_ms: u64,
}

/// A file that is not indexed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SkippedFile {
    /// Relative to the project.
    pub path: String,
    /// Why.
    pub reason: Skipped,
}

words! {
    /// The age of the index.
    IndexState {
        /// It covers the files as they are.
        Fresh = "fresh",
        /// Files were changed, added or removed since.
        Stale = "stale",
        /// There is none.
        Missing = "missing",
    }
}

/// What check_index_status tells.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct IndexStatus {
    /// The age of the index.
    pub status: IndexState,
    /// Why it is not fresh.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub action_required: Option<String>,
    /// How many files were changed, added or removed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub files_modified: Option<usize>,
}

/// How many left-out files an answer names.
const SHOWN_FILES: usize = 20;

/// Builds the index, or brings it up to date.
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

/// Tells how old the index is, without changing it.
///
/// # Errors
///
/// The caller cancels.
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
