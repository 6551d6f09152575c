//! Sidecars, the tap's records of files, and the syntactic roles of the tokens in them.

pub(crate) mod from_text;
pub mod roles;
pub mod sidecar;
pub mod walk;

pub use steelbank_reader::operators;
