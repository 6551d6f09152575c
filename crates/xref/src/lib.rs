//! The cross references: SBCL's records of who uses what as an inverted index, and the packages and symbols to ask by.
//!
//! The records of the saved core are baked into an index when the program is built ([`bake`]) and read in place.
//! What is compiled later arrives as exports of the Lisp half, and each makes a new [`Index`] snapshot
//! ([`Index::apply`]). A question is answered from a snapshot alone: it works while Lisp is busy, and after it has
//! died.

pub mod bake;
pub mod columns;
pub mod export;
pub mod format;
mod index;
mod kinds;
pub mod places;
mod spelling;
mod symbols;
#[cfg(any(test, feature = "writer"))]
pub mod writer;

pub use index::{ApplyError, FiledUnder, Index, Record, Use, UseNumber, UsePlace};
pub use kinds::{FunctionKind, Kind, NameRole};
pub use spelling::Spellings;
pub use symbols::{Access, Package, Symbol, TextSymbol};

#[cfg(test)]
mod tests;
