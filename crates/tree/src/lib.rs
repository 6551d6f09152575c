//! Determines which files in a folder belong to the project, and reads them safely.
//!
//! [`walk`] lists a project's files by Git's rules, for all parts of the program. [`belonging`]
//! checks a single path. The contents of a tree may come from anyone, so files must be opened with
//! [`read_plain`] or a related function. These open only regular files of limited size and never
//! block.

#![forbid(unsafe_code)]

mod git;
mod lisp;
mod plain;
mod rules;
mod vendored;
mod walk;

pub use git::{Nested, exclude_file, is_in_working_tree, nested};
pub use lisp::{defines_systems, is_backup, is_lisp, is_lisp_by_name, may_be_lisp};
pub use plain::{ReadRefusal, open_plain, read_plain, read_source, read_unlinked};
pub use rules::{DECIDING_ABOVE, IGNORE_FILES, users_ignore_file};
pub use vendored::is_vendored;
pub use walk::{Found, LeftOut, WalkState, admits, belonging, read_definitions, walk};
