//! JSON schemas (draft 2020-12) from Rust types, as MCP wants them.

use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value};

/// The schema of a tool's arguments.
pub(super) fn input<T: JsonSchema>() -> Map<String, Value> {
    finish(SchemaSettings::draft2020_12().into_generator().into_root_schema_for::<T>().to_value())
}

/// The schema of a tool's structured answer: what serializing writes.
pub(super) fn output<T: JsonSchema>() -> Map<String, Value> {
    finish(
        SchemaSettings::draft2020_12()
            .for_serialize()
            .into_generator()
            .into_root_schema_for::<T>()
            .to_value(),
    )
}

/// Takes away what says nothing to a model (the Rust type's name and words) or is not of the standard.
fn finish(schema: Value) -> Map<String, Value> {
    let Value::Object(mut schema) = schema else { return Map::new() };
    schema.remove("title");
    schema.remove("description");
    // A type without fields has no properties in its schema, and some hosts insist on them.
    schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    let mut schema = Value::Object(schema);
    plain(&mut schema);
    match schema {
        Value::Object(schema) => schema,
        _ => Map::new(),
    }
}

/// Rust's number formats (`uint32`, …) are no formats of JSON schema; strict validators refuse them.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            let number = object.get("format").and_then(Value::as_str).is_some_and(|format| {
                format.starts_with("uint")
                    || format.starts_with("int")
                    || matches!(format, "float" | "double")
            });
            if number {
                object.remove("format");
            }
            object.values_mut().for_each(plain);
        }
        Value::Array(array) => array.iter_mut().for_each(plain),
        _ => (),
    }
}
