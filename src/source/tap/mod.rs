//! The tap's record of a file: its sidecar, and the roles of the tokens in it.

pub(crate) mod from_text;
pub mod roles;
pub mod sidecar;
pub mod walk;

pub use steelbank_reader::operators;
