//! The MCP server: the tools over a pair of streams. Only this module knows the Model Context Protocol.
//!
//! `client` is what is one client's: its streams, the state agreed with it (`protocol`), its calls
//! (`calls`) and its session. `reader` is the transport; it hands each line to `dispatch`, which has `message` read it and
//! `call` carry out a tool's call, or `ask` ask tools for what `resources` and `completion` tell. `server` is the entry; `restart`
//! takes a client through a restart of the program. `http` makes a client of each session over HTTP: it carries
//! the client's lines, and dispatches nothing.
//!
//! rmcp provides the types of the messages. The loop over the streams is ours: rmcp's service switches tasks
//! for each message.

mod about;
mod ask;
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
mod reader;
mod resources;
mod restart;
mod roots;
mod server;
#[cfg(test)]
mod tests;

pub use crate::doors::restart::{Joined, RestartHooks, ServedClients};
pub use instructions::INSTRUCTIONS;
pub use listing::listing;
pub use server::{SeatedClient, ServeError, serve_on, serve_stdio, serve_with_restarts};

/// Whether `line` parses as a message of the protocol. For fuzzing: no input may panic.
#[doc(hidden)]
pub fn reads_as_message(line: &[u8]) -> bool {
    message::read(line).is_ok()
}
