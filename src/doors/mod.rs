//! The interfaces of the program. [`mcp`] serves agents over the Model Context Protocol, [`lsp`]
//! serves editors over the Language Server Protocol, and [`cli`] is the command line. Each
//! interface parses requests, calls the tools or actions in a [`Session`](crate::tools::Session),
//! and formats the answers; the interfaces contain no analysis. `streams` protects the protocols'
//! descriptors from other code in the process. `share` connects client processes to a shared image,
//! and `restart` lets clients survive a restart of the program in place.

// Public for `main.rs` only.
#[doc(hidden)]
pub mod cli;
pub mod lsp;
pub mod mcp;
mod restart;
mod share;
mod streams;
