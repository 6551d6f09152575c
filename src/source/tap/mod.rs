//! The tap's record of a file: its sidecar, and the roles of the tokens in it.

pub mod operators;
pub mod roles;
pub mod sidecar;
pub mod walk;
