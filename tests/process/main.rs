//! Tests that kill a Lisp, configure a process or watch one from outside: each in a process of its own.
// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod again;
mod cache;
mod check;
mod check_libraries;
#[path = "../child/mod.rs"]
mod child;
mod cli;
#[path = "../client/mod.rs"]
mod client;
mod contracts;
#[path = "../contracts/mod.rs"]
mod contracts_table;
mod death;
mod edits;
mod examples;
#[allow(dead_code)]
#[path = "../it/fixtures.rs"]
mod fixtures;
mod hermetic;
mod hostile;
mod limits;
mod one_file;
mod permissions;
mod program;
mod readme;
mod refusals;
mod rename;
mod rename_libraries;
#[path = "../renames/mod.rs"]
mod renames;
mod rerun;
mod run_tests;
mod second;
mod serve;
mod setup;
mod snapshot;
mod tasks;
mod tracer;
mod traps;
mod trees;
mod unwatched;
