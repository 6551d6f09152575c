//! Where things stand in the text: the structural reader for Lisp, and the text index.
//!
//! Nothing here runs or loads anyone's code, and nothing here knows the engine.

pub mod kind;
pub mod lines;
pub mod lisp;
pub mod positions;
pub mod sbcl;
pub mod sidecar;
mod sidecar_operators;
pub mod sidecar_roles;
pub mod text;
