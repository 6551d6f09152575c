//! Sidecars, the records that the tap (`lisp/tap/`) writes about files, and the syntactic roles of
//! the tokens in them.

pub(crate) mod from_text;
pub mod roles;
pub mod sidecar;
pub mod walk;

pub use steelbank_reader::operators;
