//! Lists the tools for MCP, with their schemas and hints about their effects.

use std::sync::Arc;

use rmcp::model::{Tool as Entry, ToolAnnotations};
use serde_json::{Value, json};

use crate::tools::{Effect, Object, Tool, Tools};

/// Returns the result of `tools/list` for `tools`.
pub fn listing(tools: &Tools) -> Value {
    json!({ "tools": tools.list().iter().map(|tool| entry(tool)).collect::<Vec<_>>() })
}

fn entry(tool: &Tool) -> Entry {
    let about = tool.about();
    Entry::new(about.name, about.description, Arc::new(tool.input().clone()))
        .with_title(about.title)
        .with_raw_output_schema(Arc::new(required_only(tool.output())))
        .with_annotations(annotations(about.effect))
}

/// Reduces an output schema to the names of required fields. The rest would only lengthen the list,
/// which hosts pass to the model.
fn required_only(schema: &Object) -> Object {
    schema.iter().filter(|(key, _)| *key != "properties").map(|(key, it)| (key.clone(), it.clone())).collect()
}

/// Omits the hints on destruction and repetition, which have no meaning for tools that only read.
/// For other tools their defaults are right.
fn annotations(effect: Effect) -> ToolAnnotations {
    ToolAnnotations::new().read_only(effect == Effect::Reads).open_world(effect == Effect::Runs)
}
