//! How requests come in and answers go out: thin, each with a protocol of its own.

pub mod cli;
pub mod mcp;
