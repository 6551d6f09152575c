//! Tests that kill a Lisp, configure a process or look at one from outside: each in a process of its own.
// Clippy takes only functions marked #[test] for tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod child;
mod cli;
#[path = "../client/mod.rs"]
mod client;
mod death;
mod examples;
mod hostile;
mod one_file;
mod program;
mod serve;
mod setup;
