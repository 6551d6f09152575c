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
pub(crate) use crate::project::write::FileError;
pub use crate::source::positions::Evidence;
pub use lisp_kind::LispKind;
use std::path::PathBuf;
pub use step::Step;

use serde::de::DeserializeOwned;

use crate::engine::{LispError, StartError};
use steelbank_xref::ApplyError;

/// Why a question has no answer. What is not found is an answer, not an error.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The name cannot be read.
    #[error(transparent)]
    Name(#[from] designator::DesignatorError),
    /// There is no such symbol, or no project.
    #[error(transparent)]
    References(#[from] code_find_references::CodeFindReferencesError),
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
    FindReferences(#[from] find_references::FindReferencesError),
    /// The request is wrong, or the text cannot be indexed.
    #[cfg(feature = "text")]
    #[error(transparent)]
    IndexProject(#[from] index_project::IndexProjectError),
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

/// Deserializes an operation's JSON answer.
pub(crate) fn read_json<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, LispError> {
    serde_json::from_slice(bytes).map_err(|error| LispError::Unreadable(error.to_string()))
}
