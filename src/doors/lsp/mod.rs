//! The language server: what the actions know, at the places of an editor's text. Only this module knows the Language
//! Server Protocol.
//!
//! `server` is the loop over the streams, `documents` what the editor has open, `view` what stands in it, `convert` makes
//! positions and places of the protocol, `restart` survives Lisp's death; the others carry out requests.

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
pub use server::{FirstLoad, SeatedEditor, ServerOptions, serve};
