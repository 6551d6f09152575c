//! The errors of the text index.

use std::io;
use std::path::PathBuf;

/// An error of the text index.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The project root cannot be opened.
    #[error("cannot open the project root {}: {source}. Give a folder that exists and is readable.", path.display())]
    Root {
        /// The root.
        path: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },
    /// The cache folder cannot be written.
    #[error("cannot write the index of {} to {}: {source}. Free space there, or choose another cache folder.", root.display(), path.display())]
    Write {
        /// The root of the project.
        root: PathBuf,
        /// The folder of the index.
        path: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },
    /// The cache folder cannot be used, because it belongs to another user or others can access it.
    #[error(transparent)]
    Cache(#[from] steelbank_cache::CacheError),
    /// The index cannot be read.
    #[error("cannot read the index in {}: {source}. Call index_project with force to rebuild it.", path.display())]
    Read {
        /// The folder of the index.
        path: PathBuf,
        /// The error from the operating system.
        source: io::Error,
    },
    /// The index is damaged or has another version.
    #[error("the index in {} is damaged or has another version. Call index_project with force to rebuild it.", path.display())]
    Damaged {
        /// The folder of the index.
        path: PathBuf,
    },
    /// There is no index, and indexes are built only on request.
    #[error("Index not found for {}. Call index_project to build it.", root.display())]
    Missing {
        /// The root of the project.
        root: PathBuf,
    },
    /// Files have changed since the index was built, and it is updated only on request.
    #[error("The index of {} is stale: {changed} of its files were changed, added or removed. Call index_project to bring it up to date.", root.display())]
    Stale {
        /// The root of the project.
        root: PathBuf,
        /// The number of files that were changed, added or removed.
        changed: usize,
    },
    /// The caller cancelled the request.
    #[error("the request was cancelled")]
    Cancelled,
}
