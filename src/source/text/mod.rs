//! The text index: where identifiers occur, and where they are defined, in every text file of a project.
//!
//! [`TextIndex`] is the index of one project; [`search`](TextIndex::search) asks it. The index lives in a folder of
//! the cache, never in the project. It is made of *segments* (`segment.rs`), each written once, and a *manifest*
//! (`manifest.rs`) that names them and says which file, as it was when it was read, is where. A change writes a new
//! segment for the files that changed and replaces the manifest, so that readers need no lock. Whatever is read is
//! verified by checksums; what is damaged, or of another version, is built anew.

mod analysis;
mod cache;
mod codec;
mod definitions;
mod error;
mod globs;
mod grammars;
mod index;
mod language;
mod manifest;
mod packages;
mod pages;
mod pattern;
mod postings;
mod scan;
mod scan_lisp;
mod search;
mod segment;
mod snapshot;
mod tree;
mod update;
mod watch;

pub use error::TextError;
pub use globs::{BadGlob, Globs};
pub use index::{Built, Control, Freshness, Status, TextIndex};
pub use language::{Language, Rule};
pub use manifest::Skipped;
pub use pattern::Pattern;
pub use scan::Role;
pub use search::{Answer, Found, Located, Search};
