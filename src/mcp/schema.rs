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

/// Makes a schema portable, at every depth. Rust's number formats (`uint32`, …) are none of JSON schema's. A list of
/// types with null in it is refused by some hosts: what may be absent is never null in what is written, and may be left
/// out of what is read, so null goes; what is required becomes a choice.
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
            let required = object.get("required").cloned().unwrap_or_default();
            let is_required = |name: &str| {
                required.as_array().is_some_and(|required| required.iter().any(|other| other == name))
            };
            if let Some(Value::Object(properties)) = object.get_mut("properties") {
                for (name, property) in properties {
                    single_type(property, is_required(name));
                }
            }
            object.values_mut().for_each(plain);
        }
        Value::Array(array) => array.iter_mut().for_each(plain),
        _ => (),
    }
}

/// Replaces a property's list of types: by the one that is not null, or by a choice between them.
fn single_type(property: &mut Value, may_be_null: bool) {
    let Value::Object(property) = property else { return };
    let Some(Value::Array(types)) = property.get("type").cloned() else { return };
    match types.iter().filter(|kind| *kind != "null").collect::<Vec<_>>().as_slice() {
        [only] if !may_be_null => {
            property.insert("type".to_owned(), (*only).clone());
        }
        _ => {
            property.remove("type");
            let choices = types.iter().map(|kind| {
                let mut choice = Map::from_iter([("type".to_owned(), kind.clone())]);
                if kind != "null" {
                    for bound in ["minimum", "maximum", "items"] {
                        choice.extend(property.remove(bound).map(|value| (bound.to_owned(), value)));
                    }
                }
                Value::Object(choice)
            });
            let choices = choices.collect();
            property.insert("anyOf".to_owned(), Value::Array(choices));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::Serialize;
    use serde_json::json;

    #[derive(Serialize, JsonSchema)]
    struct Sample {
        count: u32,
        line: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
    }

    #[test]
    fn schemas_have_one_type_a_property_and_no_formats_of_rusts() {
        let expected = json!({
            "count": { "type": "integer", "minimum": 0 },
            "line": { "anyOf": [{ "type": "integer", "minimum": 0 }, { "type": "null" }] },
            "path": { "type": "string" },
        });
        assert_eq!(output::<Sample>()["properties"], expected);
    }
}
