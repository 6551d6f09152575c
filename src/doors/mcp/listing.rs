//! Lists the tools for MCP, with their schemas and hints about their effects.

use std::sync::Arc;

use rmcp::model::{Tool as Entry, ToolAnnotations};
use serde_json::{Value, json};

use crate::tools::{Effect, Tool, Tools};

/// Returns the result of `tools/list` for `tools`.
pub fn listing(tools: &Tools) -> Value {
    json!({ "tools": tools.list().iter().map(|tool| entry(tool)).collect::<Vec<_>>() })
}

fn entry(tool: &Tool) -> Entry {
    let about = tool.about();
    Entry::new(about.name, about.description, Arc::new(tool.input().clone()))
        .with_title(about.title)
        .with_raw_output_schema(Arc::new(tool.output().clone()))
        .with_annotations(annotations(about.effect))
}

fn annotations(effect: Effect) -> ToolAnnotations {
    ToolAnnotations::new()
        .read_only(effect == Effect::Reads)
        .destructive(effect != Effect::Reads)
        .idempotent(effect == Effect::Reads)
        .open_world(effect == Effect::Runs)
}
