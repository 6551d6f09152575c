//! The text index: occurrences and definitions of identifiers in every text file of a project.
//!
//! [`TextIndex`] is the index of one project, and [`search`](TextIndex::search) queries it. The
//! index is stored in a cache folder, never in the project. It consists of *segments*
//! (`store/segment.rs`), each written once, and a *manifest* (`store/manifest.rs`). The manifest
//! lists the segments and the files. For each file, it has the signature of the file when it was
//! read, and the file's segment or the reason why the file is skipped. An update writes a new
//! segment for the changed files and replaces the manifest, so readers need no lock. If a watch
//! reports only a few changed files, the new segment and manifest stay private to the process. All
//! data is verified by checksums when it is read. The next update rebuilds an index that is damaged
//! or has another version.

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
pub use lisp_names::{FileNameTokens, IndexedFile, IndexedText, LispNames, NameTokens};
pub use names::{FileTokens, PackageText, TextContext, TextToken, TokenClass};
pub use outline::{LispDefinition, lisp_definitions};
pub use pattern::Pattern;
pub use scan::TextRole;
pub use search::{DefinitionMatch, SearchAnswer, TextMatch, TextSearch};
pub use steelbank_watch::WatchRefusal;
pub use store::manifest::Skipped;
pub use words::WordMatch;
