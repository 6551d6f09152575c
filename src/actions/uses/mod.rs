//! Finds the uses of definitions and the consequences of changing them.
//!
//! Two sources are combined. SBCL's cross-reference records (the `Index`) give the kind of each
//! use, the function around it and the number of its form, but no line or column. The sidecars,
//! which steelbank writes while SBCL compiles a file, hold the positions of all forms and symbols.
//! `symbol_uses` collects the records of one symbol and places each of them on a token of the
//! source text. Tokens without a record (types, quoted symbols, macro templates, exports) are
//! classified by their syntax and marked as not recorded. The function around such a token is the
//! innermost definition in the text (`enclosing`).
//!
//! [`code_find_references`] lists the uses of a symbol line by line; the who family ([`who`])
//! groups the same uses by function. `graph` connects definitions with their users for
//! [`call_graph`], [`path`], [`impact`] and [`who_makes`]. [`occurrences`] and [`open_text`] answer
//! the inverse question: which symbols a file contains. [`unloaded`] searches files that are not
//! loaded or are stale, where only the text is available.

pub mod call_graph;
pub mod code_find_references;
pub(crate) mod computed;
pub(crate) mod enclosing;
pub(crate) mod graph;
pub mod impact;
pub mod interface;
pub(crate) mod memo;
pub mod occurrences;
pub mod open_text;
pub mod outline;
pub mod path;
pub(crate) mod source_text;
pub(crate) mod strings;
pub(crate) mod symbol_uses;
pub(crate) mod text_places;
pub mod unloaded;
pub(crate) mod use_counts;
pub(crate) mod via;
pub mod who;
pub mod who_makes;
pub(crate) mod working_tree;
