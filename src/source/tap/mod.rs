//! What the tap saw while a file was compiled or loaded: its sidecar, and the roles of the tokens in it.

pub mod operators;
pub mod roles;
pub mod sidecar;
pub mod walk;
