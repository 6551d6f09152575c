//! Who uses a definition, where exactly, and what follows from a change of it.
//!
//! Compiler records say which form uses a symbol; sidecars say where forms are. A use is a record placed on a token of
//! the text. A token that no record explains is classified by its syntax and marked as not recorded. The function around
//! a use is the one that the compiler recorded, or else the innermost definition in the text.

pub mod call_graph;
pub mod code_find_references;
pub(crate) mod enclosing;
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
