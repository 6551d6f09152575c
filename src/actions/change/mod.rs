//! Changes of the project's text: planned, tried in a copy, written, and loaded again.

pub mod check;
pub mod check_structure;
pub mod edit_definition;
pub mod reload;
pub mod rename;
pub(crate) mod unified;
