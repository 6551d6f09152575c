//! Exports a loaded project for other programs. `Model` in `model` holds the definitions and
//! symbols of the project's files and determines the meaning of each token. Two writers use it:
//! [`scip`] writes an index for code-search engines, and [`site`] writes HTML pages for people.
//! `output` writes files and folders outside of the cache.

mod model;
pub(crate) mod output;
pub mod scip;
pub mod site;

use std::path::PathBuf;

use crate::engine::control::Control;
use crate::engine::{LispError, Progress, Step};
use crate::handle::Error;

/// The reason why nothing was exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A question about the project failed or was cancelled, or Lisp has died.
    #[error(transparent)]
    Question(#[from] Error),
    /// No file of the project is loaded.
    #[error(
        "No file of the project is loaded, so there is nothing to export. Load its systems first: --system auto, or --system NAME."
    )]
    Nothing,
    /// The folder has files that no earlier export of a site has written, or that were changed
    /// since.
    #[error(
        "{} has files that steelbank site did not write, or that were changed since, so it is left unchanged. Name another folder.",
        .0.display()
    )]
    Foreign(PathBuf),
    /// The index, or a file or folder of the site, cannot be read or written.
    #[error("{} cannot be written: {source}.", path.display())]
    Write {
        /// The file or folder, or `The index`.
        path: PathBuf,
        /// The operating system's error.
        source: std::io::Error,
    },
}

impl From<LispError> for ExportError {
    fn from(error: LispError) -> Self {
        Self::Question(error.into())
    }
}

impl ExportError {
    pub(crate) fn write(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> Self {
        let path = path.into();
        move |source| Self::Write { path, source }
    }
}

/// Reports that the export has reached the file `path`, after `done` of `total` steps.
fn report(control: &Control, path: &str, done: usize, total: usize) {
    let path = Some(path.to_owned());
    control.report(Progress { what: Step::Export, path, done: done as u64, total: Some(total as u64) });
}
