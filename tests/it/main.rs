//! Integration tests that share one running image. Tests that kill or configure a process are in
//! tests/process.
// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

#[macro_use]
#[path = "../child/mod.rs"]
mod child;

mod agreement;
mod answer_size;
#[path = "../asks/mod.rs"]
mod asks;
#[path = "../client/mod.rs"]
mod client;
mod code_find_references;
mod contracts;
#[path = "../contracts/mod.rs"]
mod contracts_table;
mod describe_symbol;
mod displayed;
mod edit_definition;
mod edit_loop;
mod evaluate;
mod faults;
mod find_references;
mod find_references_ripgrep;
mod fixtures;
#[path = "../folder/mod.rs"]
mod folder;
mod freshness;
mod hermetic;
mod image;
mod loads;
mod mcp;
mod names;
mod not_found;
mod occurrences;
mod open_text;
mod operators;
mod oracle;
mod pages;
mod positions;
mod project;
mod removable;
mod rename;
mod rename_apply;
mod rename_cautions;
mod rename_plan;
mod rename_text;
#[path = "../renames/mod.rs"]
mod renames;
mod resources;
mod run_tests;
mod scip;
mod sessions;
mod site;
mod text_index;
#[path = "../texts/mod.rs"]
mod texts;
mod three_libraries;
mod tool_inputs;
mod tools_agree;
mod tools_beside_sbcl;
mod unusual_names;
mod uses_complete;
mod ways;
mod who;
