//! The MCP server, which offers the tools to a client over a pair of streams. Only this module
//! implements the Model Context Protocol.
//!
//! A `client` holds everything that belongs to one client: its streams, the state of the
//! `protocol`, its `calls` in progress and its session. `reader` reads the client's lines and
//! passes each to `dispatch`, which parses it with `message`. `call` runs tools; `query` uses tools
//! to answer requests about `resources` and `completion`. `server` is the entry point, and
//! `restart` lets a client survive a restart of the program. `http` forwards each HTTP session to
//! such a client line by line.
//!
//! rmcp provides the types of the messages, but not the loop over the streams: its service would
//! switch tasks for each message.

mod about;
mod call;
mod calls;
mod client;
mod completion;
mod dispatch;
#[cfg(feature = "http")]
pub mod http;
mod instructions;
mod listing;
mod message;
mod progress;
mod prompts;
mod protocol;
mod query;
mod reader;
mod resources;
mod restart;
mod roots;
mod server;
#[cfg(test)]
mod tests;

pub use crate::doors::restart::{RestartHooks, ServedClients, SharedSocket};
pub use instructions::INSTRUCTIONS;
pub use listing::listing;
pub use server::{ServeError, ServedClient, serve_on, serve_stdio, serve_with_restarts};

/// Returns whether `line` parses as a message of the protocol. For fuzzing: no input may panic.
#[doc(hidden)]
pub fn reads_as_message(line: &[u8]) -> bool {
    message::read(line).is_ok()
}
