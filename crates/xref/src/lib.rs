//! Cross references: SBCL's records of callers and other uses as an inverted index, with the
//! packages and symbols needed to look names up.
//!
//! The records of a core are baked into an index ([`bake`]) when the program is built or the core
//! is saved, and read in place. For code compiled later, the Lisp half sends exports. Each export
//! produces a new [`Index`] snapshot ([`Index::apply`]). Lookups need only a snapshot, so they work
//! while Lisp is busy and after it has died.
//!
//! A *record* states that a function uses a name in some form. The *principal symbol* of a name is
//! the symbol that it is built from: F for the names `F`, `(SETF F)` and `(METHOD F …)`. The *base*
//! is the index of the core that Lisp was started from. A function is *replaced* if its name has
//! another definition now, or none. A name without a definition does not count if a function
//! compiled together with the function is current: that function may install the definition later.
//! A function without a global name is replaced if no named function compiled together with it is
//! current. If there is no such named function, it is replaced if a newer version of its file has
//! been loaded.

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
pub use symbols::{Access, Package, Symbol, SymbolName, TextSymbol};

#[cfg(test)]
mod tests;
