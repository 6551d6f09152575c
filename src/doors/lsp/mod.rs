//! The language server: answers an editor's requests with the help of the actions. Only this module
//! implements the Language Server Protocol.
//!
//! `server` reads the editor's messages and runs each request on a thread. `documents` holds the
//! open documents, `view` maps places between their text and the loaded text, and `convert`
//! converts positions, ranges and URIs. `restart` lets the session survive a restart of the
//! program. Each other module implements some of the requests.

mod complete;
mod convert;
mod diagnostics;
mod documents;
mod forms;
mod hierarchy;
mod hints;
mod indent;
mod navigate;
mod outline;
mod rename;
mod restart;
mod server;
mod view;
mod workspace;

pub use diagnostics::CheckCopies;
pub use server::{FirstLoad, ServedEditor, ServerOptions, serve};
