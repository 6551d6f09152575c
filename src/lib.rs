//! Common Lisp code intelligence in one file: a Rust program with SBCL inside it.

pub mod engine;
pub mod query;
#[cfg(feature = "server")]
pub mod render;
pub mod source;
pub mod xref;
