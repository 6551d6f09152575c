//! The MCP server: the tools over a pair of streams. Only this module knows the Model Context Protocol.
//!
//! `message` reads and writes JSON-RPC; `protocol` holds the state agreed with the client; `input` and
//! `output` are the streams; `calls` tracks and cancels calls; `call` carries out one; `restart` executes the
//! program again with the same client; `server` combines them. A request that needs no Lisp is answered on
//! the thread that read it.
//!
//! rmcp provides the types of the messages. The loop over the streams is ours: rmcp's service switches tasks
//! for each message.

mod about;
mod call;
mod calls;
mod input;
mod instructions;
mod lead;
mod listing;
mod message;
mod output;
mod progress;
mod protocol;
mod restart;
mod roots;
mod server;
mod stdio;
#[cfg(test)]
mod tests;

pub use instructions::INSTRUCTIONS;
pub use listing::listing;
pub use restart::Again;
pub use server::{ServeError, serve_again, serve_on, serve_stdio};
pub(super) use stdio::take as take_streams;

/// Whether `line` parses as a message of the protocol. For fuzzing: no input may panic.
#[doc(hidden)]
pub fn reads_as_message(line: &[u8]) -> bool {
    message::read(line).is_ok()
}
