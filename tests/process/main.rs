//! Tests that kill a Lisp, configure a process or look at one from outside: each in a process of its own.

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
