//! Who uses a definition, where exactly, and what follows from a change of it.

pub mod call_graph;
pub mod code_find_references;
pub(crate) mod graph;
pub mod impact;
pub mod interface;
pub(crate) mod kept;
pub mod occurrences;
pub mod open_text;
pub mod outline;
pub mod path;
pub(crate) mod symbol_uses;
pub mod unseen;
pub(crate) mod use_counts;
pub(crate) mod via;
pub mod who;
pub mod who_makes;
pub(crate) mod working_tree;
