//! The doors, through which requests come in and answers go out: thin, each with a protocol of its own.

// For `main`.
#[doc(hidden)]
pub mod cli;
pub mod mcp;
