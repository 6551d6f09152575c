//! The questions: one file each, with typed answers. Rendering is the caller's.

#[macro_use]
mod words;

pub mod apropos;
#[cfg(feature = "text")]
pub mod call_graph;
pub mod check;
pub mod check_structure;
pub mod code_find_references;
pub mod compiler_notes;
pub mod context;
pub mod control;
pub mod describe_symbol;
pub mod designator;
pub mod disassemble;
pub mod edit_definition;
pub mod evaluate;
pub mod find_definition;
#[cfg(feature = "text")]
pub mod find_references;
#[cfg(feature = "text")]
mod graph;
#[cfg(feature = "text")]
pub mod impact;
#[cfg(feature = "text")]
pub mod index_project;
pub mod inspect;
#[cfg(feature = "text")]
pub(crate) mod kept;
mod lisp_kind;
pub mod list_systems;
pub mod load_system;
pub mod lookup;
pub mod macroexpand;
pub(crate) mod nearest;
#[cfg(feature = "text")]
pub mod outline;
pub mod package_info;
pub mod question;
pub mod reload;
pub mod rename;
pub mod run_tests;
mod step;
pub mod text;
pub mod trial;
mod unified;
mod use_counts;
mod uses;
mod via;
pub mod who;
#[cfg(feature = "text")]
mod working_tree;

pub(crate) use crate::answer::counted;
pub use crate::project::NoProject;
pub(crate) use crate::project::write::FileError;
pub use crate::source::positions::Evidence;
pub use lisp_kind::LispKind;
use std::path::PathBuf;
pub use step::Step;

use serde::de::DeserializeOwned;

use crate::answer::Advice;
use crate::engine::{LispError, StartError};
use code_find_references::CodeFindReferencesError;
#[cfg(feature = "text")]
use find_references::FindReferencesError;
#[cfg(feature = "text")]
use index_project::IndexProjectError;
use steelbank_xref::ApplyError;

/// Why a question has no answer. What is not found is an answer, not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name cannot be read.
    #[error(transparent)]
    Name(#[from] designator::DesignatorError),
    /// There is no project.
    #[error(transparent)]
    NoProject(#[from] NoProject),
    /// There is no such symbol, or no project to limit the question to.
    #[error(transparent)]
    References(#[from] CodeFindReferencesError),
    /// The request is wrong.
    #[error(transparent)]
    Apropos(#[from] apropos::AproposError),
    /// The request is wrong.
    #[cfg(feature = "text")]
    #[error(transparent)]
    Impact(#[from] impact::ImpactError),
    /// The request is wrong.
    #[cfg(feature = "text")]
    #[error(transparent)]
    Outline(#[from] outline::OutlineError),
    /// The request is wrong, or the text cannot be searched.
    #[cfg(feature = "text")]
    #[error(transparent)]
    FindReferences(#[from] FindReferencesError),
    /// The request is wrong, or the text cannot be indexed.
    #[cfg(feature = "text")]
    #[error(transparent)]
    IndexProject(#[from] IndexProjectError),
    /// Lisp cannot answer.
    #[error(transparent)]
    Lisp(#[from] LispError),
    /// The time ran out before the question began, as a load was under way.
    #[error("it never began: a load was under way all the time that it was given")]
    NeverBegan,
    /// The set-up before the first load failed: the init file, or ASDF's configuration.
    #[error("{0}")]
    SetUp(String),
    /// SBCL did not start.
    #[error(transparent)]
    Start(#[from] StartError),
    /// SBCL did not start from a snapshot.
    #[error("SBCL did not start from the snapshot {}, which is used no more: {source}; start the program again, which then does without", path.display())]
    Snapshot {
        /// The snapshot's folder, which was removed.
        path: PathBuf,
        /// What became of the start.
        source: StartError,
    },
    /// The cache folder is not its user's alone.
    #[error(transparent)]
    Cache(#[from] steelbank_cache::CacheError),
    /// The index of cross references is damaged.
    #[error("the index of cross references cannot be read: {0}")]
    Index(String),
    /// The index did not fit what Lisp reported.
    #[error(
        "the index of cross references could not take what Lisp reported ({0}); answers may lack newer code"
    )]
    Apply(#[from] ApplyError),
}

impl Error {
    /// Whether the request is wrong, rather than the engine.
    pub fn is_about_the_request(&self) -> bool {
        match self {
            Self::Name(_) | Self::References(_) | Self::Apropos(_) => true,
            #[cfg(feature = "text")]
            Self::Impact(_) | Self::Outline(_) => true,
            #[cfg(feature = "text")]
            Self::FindReferences(error) => !matches!(error, FindReferencesError::Text(_)),
            #[cfg(feature = "text")]
            Self::IndexProject(error) => matches!(error, IndexProjectError::Language { .. }),
            _ => false,
        }
    }

    /// Returns what can be done, if that is known.
    pub fn advice(&self) -> Option<Advice> {
        Some(match self {
            Self::NoProject(_) => Advice::SetProject,
            Self::References(CodeFindReferencesError::NoProject(_)) => Advice::SetProjectOrSearchAll,
            #[cfg(feature = "text")]
            Self::FindReferences(FindReferencesError::Broad { densest, .. }) => {
                Advice::Narrow(densest.clone())
            }
            #[cfg(feature = "text")]
            Self::Impact(impact::ImpactError::Nothing) => Advice::SayWhatChanges,
            #[cfg(feature = "text")]
            Self::Outline(outline::OutlineError::System { system }) => Advice::LoadOrGivePath(system.clone()),
            Self::Lisp(LispError::Dead { .. }) => Advice::RestartProgram,
            _ => return None,
        })
    }
}

/// Deserializes an operation's JSON answer.
pub(crate) fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, LispError> {
    serde_json::from_slice(bytes).map_err(|error| LispError::Unreadable(error.to_string()))
}
