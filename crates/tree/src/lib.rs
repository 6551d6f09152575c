//! Which files in a folder are the project's own, and how they are read.
//!
//! [`walk`] finds a project's files by Git's rules: one place for all who walk. [`belonging`] says the same of one
//! path. Whatever lies in a tree may have been put there by somebody else, so files are opened by [`read_plain`] and its
//! kin alone: plain files of a bounded size, and nothing that makes the reader wait.

#![forbid(unsafe_code)]

mod git;
mod lisp;
mod plain;
mod rules;
mod vendored;
mod walk;

pub use git::{Nested, exclude_file, is_in_working_tree, nested};
pub use lisp::{defines_systems, is_lisp, is_lisp_by_name, may_be_lisp};
pub use plain::{ReadRefusal, open_plain, read_plain, read_source, read_unlinked};
pub use rules::{DECIDING_ABOVE, IGNORE_FILES, users_ignore_file};
pub use vendored::is_vendored;
pub use walk::{Found, LeftOut, WalkState, admits, belonging, read_definitions, walk};
