//! Integration tests that share one running image. Tests that kill or configure a process are in
//! tests/process.
// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[path = "../child/mod.rs"]
mod child;
#[path = "../client/mod.rs"]
mod client;
mod contracts;
#[path = "../contracts/mod.rs"]
mod contracts_table;
mod describe;
mod edges;
mod edit_loop;
mod edits;
mod faults;
mod fixtures;
mod freshness;
mod hermetic;
mod image;
mod lean;
mod loads;
mod mcp;
mod missing;
mod nofalse;
mod odd;
mod operators;
mod oracle;
mod pages;
mod positions;
mod project;
mod reload;
mod rename;
mod rename_apply;
mod rename_cautions;
mod rename_plan;
#[path = "../renames/mod.rs"]
mod renames;
mod run_tests;
mod text;
mod text_index;
mod text_ripgrep;
mod three_libraries;
mod tools;
mod tools_agree;
mod truth;
mod trying;
mod who_places;
