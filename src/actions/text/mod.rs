//! The project's text in any language.

pub(crate) mod check_index_status;
pub mod find_references;
pub mod index_project;
mod run;
