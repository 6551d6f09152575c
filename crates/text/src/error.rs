//! The errors of the text index.

use std::io;
use std::path::PathBuf;

/// Why the text index could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The project root cannot be opened.
    #[error("the project root {} cannot be opened: {source}. Name a folder that exists and can be read.", path.display())]
    Root {
        /// The root.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The cache folder cannot be written.
    #[error("the index of {} cannot be written under {}: {source}. Make room there, or choose another cache folder.", root.display(), path.display())]
    Write {
        /// The root of the project.
        root: PathBuf,
        /// The index's folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The cache folder is not its user's alone.
    #[error(transparent)]
    Cache(#[from] steelbank_cache::CacheError),
    /// The index cannot be read.
    #[error("the index in {} cannot be read: {source}. Call index_project with force to build it anew.", path.display())]
    Read {
        /// The index's folder.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The index is damaged.
    #[error("the index in {} is damaged. Call index_project with force to build it anew.", path.display())]
    Damaged {
        /// The index's folder.
        path: PathBuf,
    },
    /// There is no index, and none may be made.
    #[error("Index not found for {}. Call index_project to build it.", root.display())]
    Missing {
        /// The root of the project.
        root: PathBuf,
    },
    /// The index is older than the files, and may not be brought up to date.
    #[error("The index of {} is stale: {changed} of its files were changed, added or removed. Call index_project to bring it up to date.", root.display())]
    Stale {
        /// The root of the project.
        root: PathBuf,
        /// The number of changed files.
        changed: usize,
    },
    /// The caller gave up.
    #[error("the request was cancelled")]
    Cancelled,
}
