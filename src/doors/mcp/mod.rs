//! The MCP server: the tools over a pair of streams. The only place that knows the Model Context Protocol.
//!
//! `message` reads and writes JSON-RPC; `protocol` is what is agreed with the client; `input` and `output` are the
//! streams; `calls` is what runs and how it is cancelled; `call` carries out one; `restart` executes the program again
//! with the same client; `server` puts them together. What needs no Lisp is answered on the thread that read it.
//!
//! rmcp is for what the messages are. The loop over the streams is ours: rmcp's service hops between tasks for each message.

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

/// Whether `line` is a message of the protocol. For fuzzing: it must survive all bytes.
#[doc(hidden)]
pub fn reads_as_message(line: &[u8]) -> bool {
    message::read(line).is_ok()
}
