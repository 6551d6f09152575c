//! Tests that need separate processes: they kill Lisp, configure a process, or watch one from
//! outside.
// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[macro_use]
#[path = "../child/mod.rs"]
mod child;

#[path = "../asks/mod.rs"]
mod asks;
mod cache;
mod changed_world;
mod check;
mod check_libraries;
mod cli;
#[path = "../client/mod.rs"]
mod client;
mod complete;
mod contracts;
#[path = "../contracts/mod.rs"]
mod contracts_table;
mod death;
mod descriptors;
mod edits;
mod edits_within_a_second;
mod examples;
mod export;
#[allow(dead_code)]
#[path = "../it/fixtures.rs"]
mod fixtures;
#[path = "../folder/mod.rs"]
mod folder;
#[path = "../framing/mod.rs"]
mod framing;
mod hermetic;
mod hostile_code;
mod hostile_trees;
mod hour;
mod http;
mod limits;
mod lsp;
mod missing_libraries;
mod one_file;
#[path = "../pages/mod.rs"]
mod pages;
mod permissions;
mod program;
mod reading_runs_nothing;
mod readme;
mod reference;
mod refusals;
mod rename;
mod rename_libraries;
#[path = "../renames/mod.rs"]
mod renames;
mod resources;
mod restart;
mod run_tests;
mod same_answers;
mod sbcl;
mod serve;
mod setup;
mod share;
mod share_editors;
mod snapshot;
mod swank;
mod tasks;
#[path = "../texts/mod.rs"]
mod texts;
mod tracer;
mod unwatched;
