//! A project as others read it: one model of what stands in its files, and two writers, [`scip`] for code-search
//! engines and [`site`] for people.

mod model;
pub mod scip;
pub mod site;

use std::path::PathBuf;

use crate::engine::control::Control;
use crate::engine::{LispError, Progress, Step};
use crate::handle::Error;

/// Why nothing was exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExportError {
    /// A question was cancelled, or Lisp is gone.
    #[error(transparent)]
    Question(#[from] Error),
    /// Nothing of a project is loaded.
    #[error(
        "No file of the project is loaded, so there is nothing to export. Load its systems first: --system auto, or --system NAME."
    )]
    Nothing,
    /// The folder has files of somebody else.
    #[error(
        "{} is not empty, and no site was written into it before: it is left as it is. Name another folder.", .0.display()
    )]
    Foreign(PathBuf),
    /// A file cannot be written.
    #[error("{} cannot be written: {source}.", path.display())]
    Write {
        /// The file or folder.
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

/// Reports that the file called `path`, the `done`th of `total`, is exported.
fn report(control: &Control, path: &str, done: usize, total: usize) {
    let path = Some(path.to_owned());
    control.report(Progress { what: Step::Export, path, done: done as u64, total: Some(total as u64) });
}
