//! The doors, through which requests come in and answers go out. Each speaks a protocol of its own, and
//! nothing else.

// For `main`.
#[doc(hidden)]
pub mod cli;
pub mod lsp;
pub mod mcp;
mod restart;
mod share;
mod streams;
