//! What runs code: loads, forms, tests, macros; and what Lisp says of itself.

pub mod compiler_notes;
pub(crate) mod diagnostic;
pub mod disassemble;
pub mod evaluate;
pub mod inspect;
pub mod list_systems;
pub(crate) mod load_file;
pub(crate) mod load_system;
pub mod macroexpand;
pub(crate) mod restart_lisp;
pub mod run_tests;
pub(crate) mod status;
pub mod trial;
