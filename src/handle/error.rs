//! The error type of questions and actions: [`Error`], and its classification [`ErrorKind`].

use std::path::PathBuf;

use crate::answer::{Advice, NotFound, designator};
use crate::engine::{LispError, StartError};
use crate::handle::loaded::{LoadAnswer, LoadStatus};
use crate::handle::scratch::ScratchError;
use crate::workspace::NoProject;
use steelbank_text::TextError;
use steelbank_xref::ApplyError;

/// The error of a question or an action. Its `Debug` form is the sentence of its `Display` form, so
/// that `main` can return it.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name cannot be parsed.
    #[error(transparent)]
    Name(#[from] designator::DesignatorError),
    /// The subject of the request does not exist.
    #[error(transparent)]
    NotFound(#[from] NotFound),
    /// A load failed, or the project has no system to load. The answer has the reason.
    #[error("{0}")]
    Load(Box<LoadAnswer>),
    /// There is no project.
    #[error(transparent)]
    NoProject(#[from] NoProject),
    /// The request is invalid.
    #[error(transparent)]
    Request(#[from] RequestError),
    /// The project's text cannot be searched or indexed.
    #[error(transparent)]
    Text(#[from] TextError),
    /// Searching or indexing the project's text exceeded the time limit.
    #[error("the project's text was not searched or indexed within {milliseconds} ms")]
    TextDeadlinePassed {
        /// The time limit in milliseconds.
        milliseconds: u64,
    },
    /// Lisp cannot answer.
    #[error(transparent)]
    Lisp(#[from] LispError),
    /// The time limit passed before the request started, because a load was in progress.
    #[error("the request never began, because a load was in progress until the time limit")]
    NeverBegan,
    /// A setup step failed: the qlot setup, the init file or ASDF's configuration before the first
    /// load, the start of the Swank server, or reading an overlay of a scratch image.
    #[error("{0}")]
    SetUp(String),
    /// SBCL did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// SBCL did not start from a snapshot.
    #[error("SBCL did not start from the snapshot {}, which was removed: {source}; start the program again", path.display())]
    Snapshot {
        /// The snapshot's folder, which was removed.
        path: PathBuf,
        /// The error of the start.
        source: StartError,
    },
    /// A scratch image could not be started or could not answer.
    #[error(transparent)]
    Scratch(#[from] ScratchError),
    /// The cache folder belongs to another user, or is open to other users.
    #[error(transparent)]
    Cache(#[from] steelbank_cache::CacheError),
    /// The index of cross references is damaged or cannot be read.
    #[error("the index of cross references cannot be read: {0}")]
    Index(String),
    /// Lisp's report of changes does not match the index.
    #[error("the cross-reference index could not apply Lisp's report ({0}); answers may lack newer code")]
    Apply(#[from] ApplyError),
}

/// The error of an invalid request. It wraps an error of the requested action, which
/// [`Error::request`] returns.
#[derive(Debug, thiserror::Error)]
#[error("{error}")]
pub struct RequestError {
    error: Box<dyn std::error::Error + Send + Sync>,
    advice: Option<Advice>,
}

/// The kinds of errors, for callers that handle them differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The request is invalid, or its subject does not exist: repeating it fails again.
    Request,
    /// There is no project.
    NoProject,
    /// The caller cancelled the request.
    Cancelled,
    /// The time limit passed.
    TimedOut,
    /// Lisp has died: see [`crate::engine::Lisp::died_at`].
    Dead,
    /// SBCL, or a scratch image, did not start.
    Start,
    /// The user's code or a setup step failed, or Lisp or a scratch image could not answer.
    Failed,
    /// Files of the program, its cache or the project cannot be used, or the index could not be
    /// updated.
    Files,
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl Error {
    /// Wraps the error of an action's request.
    pub(crate) fn of_request(
        error: impl std::error::Error + Send + Sync + 'static,
        advice: Option<Advice>,
    ) -> Self {
        Self::Request(RequestError { error: Box::new(error), advice })
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Name(_) | Self::NotFound(_) | Self::Request(_) => ErrorKind::Request,
            Self::Load(answer) => match answer.status {
                LoadStatus::Cancelled => ErrorKind::Cancelled,
                LoadStatus::TimedOut => ErrorKind::TimedOut,
                LoadStatus::Loaded | LoadStatus::Failed => ErrorKind::Failed,
            },
            Self::NoProject(_) => ErrorKind::NoProject,
            Self::Lisp(LispError::Cancelled) | Self::Text(TextError::Cancelled) => ErrorKind::Cancelled,
            Self::Lisp(LispError::DeadlinePassed { .. })
            | Self::TextDeadlinePassed { .. }
            | Self::NeverBegan => ErrorKind::TimedOut,
            Self::Lisp(LispError::Dead { .. }) => ErrorKind::Dead,
            Self::Lisp(_) | Self::SetUp(_) => ErrorKind::Failed,
            Self::Scratch(error) => match error {
                ScratchError::Overlay { .. } => ErrorKind::Request,
                ScratchError::Cancelled => ErrorKind::Cancelled,
                ScratchError::DeadlinePassed { .. } => ErrorKind::TimedOut,
                ScratchError::Ended(_) | ScratchError::Call(_) => ErrorKind::Failed,
                _ => ErrorKind::Start,
            },
            Self::Start(_) | Self::Snapshot { .. } => ErrorKind::Start,
            Self::Cache(_) | Self::Index(_) | Self::Apply(_) => ErrorKind::Files,
            Self::Text(_) => ErrorKind::Files,
        }
    }

    /// Returns the error of the requested action, if it is an `E`.
    pub fn request<E: std::error::Error + 'static>(&self) -> Option<&E> {
        match self {
            Self::Request(request) => request.error.downcast_ref(),
            _ => None,
        }
    }

    /// Returns advice on how to continue, if there is any.
    pub fn advice(&self) -> Option<Advice> {
        match self {
            Self::NotFound(NotFound::System(system)) => Some(Advice::LoadOrGivePath(system.clone())),
            Self::NoProject(_) => Some(Advice::SetProject),
            Self::Request(request) => request.advice.clone(),
            Self::Lisp(LispError::Dead { .. }) => Some(Advice::RestartProgram),
            _ => None,
        }
    }
}
