//! Who uses a definition, where exactly, and what follows from a change of it.

pub mod call_graph;
pub mod code_find_references;
pub(crate) mod graph;
pub mod impact;
pub(crate) mod kept;
pub mod occurrences;
pub mod open_text;
pub mod outline;
pub(crate) mod symbol_uses;
pub mod unseen;
pub(crate) mod use_counts;
pub(crate) mod via;
pub mod who;
pub(crate) mod working_tree;
