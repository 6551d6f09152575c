//! The text index: where identifiers occur, and where they are defined, in every text file of a project.
//!
//! [`TextIndex`] is the index of one project; [`search`](TextIndex::search) asks it. The index lives in a folder of the
//! cache, never in the project. It is made of *segments* (`store/segment.rs`), each written once, and a *manifest*
//! (`store/manifest.rs`) that lists them, and for each file its segment and its state when it was read. A change writes
//! a new segment for the files that changed and replaces the manifest, so that readers need no lock. Whatever is read
//! is verified by checksums; what is damaged, or of another version, is built anew.

mod analysis;
mod cache;
mod control;
mod definitions;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod globs;
mod index;
mod kind;
mod language;
mod limits;
mod lisp_names;
mod names;
mod outline;
mod packages;
mod parallel;
mod pattern;
mod retry;
mod scan;
mod search;
mod store;
mod tree;
mod update;
mod watch;
mod words;

pub use control::{IndexControl, IndexProgress};
pub use error::TextError;
pub use globs::{BadGlob, Globs};
pub use index::{Built, Freshness, TextIndex, TreeStatus};
pub use kind::DefinitionKind;
pub use language::{Language, Rule};
pub use lisp_names::{IndexedFile, IndexedText, LispNames, Named, NamedIn};
pub use names::{FileTokens, PackageText, TextContext, TextToken, TokenClass};
pub use outline::{LispDefinition, lisp_definitions};
pub use pattern::Pattern;
pub use scan::TextRole;
pub use search::{DefinitionMatch, SearchAnswer, TextMatch, TextSearch};
pub use steelbank_watch::WatchRefusal;
pub use store::manifest::Skipped;
pub use words::WordMatch;
