//! Searches the project's text in any language, without an image. `find_references` lists
//! definitions and occurrences of a name, and `index_project` builds the text index and reports its
//! state. The index itself is the crate `steelbank_text`; this module adds requests, answers,
//! limits and tools. For Lisp files that are loaded, answers also name the image's symbols.

pub(crate) mod check_index_status;
pub mod find_references;
pub mod index_project;
mod run;
pub mod search;
