//! Common Lisp code intelligence in one file: a Rust program with SBCL inside it.
//!
//! [`Steelbank`] is the way in. It starts SBCL on a thread of its own in this process, and answers questions about the
//! code in it with typed answers:
//!
//! ```
//! use steelbank::Steelbank;
//!
//! # fn main() -> Result<(), steelbank::query::Error> {
//! let bank = Steelbank::builder().start()?;
//! let callers = bank.who_calls("mapcar", "CL")?;
//! assert!(callers.count > 300);
//! for user in callers.users.iter().take(3) {
//!     println!("{} in {:?}", user.name, user.places[0].file);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! There is one SBCL in a process: a second `start` is an error, and clones of the handle share the first.
//!
//! # Map
//!
//! * [`Steelbank`], [`Builder`], [`Installation`]: start SBCL, ask questions.
//! * [`query`]: the questions, one module each, with their requests and answers (all serialize to JSON).
//! * [`render`]: the answers as text.
//! * [`xref`]: the index of cross references that the who-calls family is answered from.
//! * [`source`]: positions in source text, and reading Lisp text without Lisp.
//! * `mcp` and `cli` (feature `server`): the tools, their server, and the command line.
//! * [`engine`]: jobs for the Lisp thread, deadlines, interrupts, faults; for questions of one's own.
//!
//! # What it runs
//!
//! Nobody's code, unless told to: only [`Steelbank::evaluate`] and the loading of systems run code, and
//! describe-symbol runs print-object methods to print a variable's value. A question never interns a symbol.
//!
//! # Features
//!
//! * `server` (default): the `steelbank` program, with its command line and its MCP server.

#![deny(unsafe_code)]

#[cfg(feature = "server")]
pub mod cli;
pub mod engine;
#[cfg(feature = "server")]
pub mod mcp;
mod project;
pub mod query;
pub mod render;
pub mod source;
mod steelbank;
pub mod xref;

pub use project::LoadListener;
pub use query::project::ProjectSettings;
pub use steelbank::{Builder, IndexData, Installation, Steelbank};
