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
//! * [`query`]: the questions, one module each, with their requests and answers (all serialize to JSON);
//!   [`Steelbank::ask`] asks any [`query::question::Question`].
//! * [`render`]: the answers as text; [`answer`]: what they are made of.
//! * [`xref`]: the index of cross references that the who-calls family is answered from.
//! * [`reader`]: Lisp text without Lisp.
//! * `text` (feature `text`): the index of any source tree's text.
//! * `tools` and `doors` (feature `server`): the tools, their MCP server, and the command line.
//! * [`engine`]: jobs for the Lisp thread, deadlines, interrupts, faults; for questions of one's own.
//!
//! # What it runs
//!
//! No code of the project, unless a call is there for it: loading, evaluating, inspecting an expression,
//! running tests, and expanding macros, which compiler notes do too. Only describe-symbol runs print-object
//! methods besides, to print a variable's value. A question never interns a symbol.
//!
//! # Features
//!
//! * `text`: the text index, with its grammars and file watching.
//! * `server` (default, brings `text`): the `steelbank` program, with its command line and its MCP server.

#![deny(unsafe_code)]
#![warn(missing_debug_implementations)]
#![cfg_attr(
    not(feature = "server"),
    allow(
        dead_code,
        unused_imports,
        reason = "only the program runs as its own copy, which saves and tries"
    )
)]

/// The Rust of the pages is compiled with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../docs/library.md")]
struct Readme;

pub mod answer;
#[cfg(feature = "server")]
pub mod doors;
pub mod engine;
#[cfg(feature = "server")]
#[doc(hidden)]
pub mod fuzzing;
mod project;
pub mod query;
pub mod render;
// Public for the tests and the fuzzing, which read sidecars and the table of operators.
#[doc(hidden)]
pub mod source;
mod steelbank;
#[cfg(feature = "server")]
pub mod tools;

pub use project::ProjectSettings;
pub use query::Error;
pub use query::control::{Cancellation, Control};
pub use steelbank::{Builder, IndexData, Installation, LoadListener, LoadRequest, Steelbank};
pub use steelbank::{recovery, scratch, snapshot};
pub use steelbank_reader as reader;
#[cfg(feature = "text")]
pub use steelbank_text as text;
pub use steelbank_xref as xref;
pub use steelbank_xref::Kind;
