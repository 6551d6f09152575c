//! Makes JSON schemas (draft 2020-12) of Rust types, as MCP wants them.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// Makes the schema of a tool's arguments.
pub(crate) fn input<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(names_only));
    let mut schema = made::<T>(settings);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            // Drop a default that means the same as leaving the property out: "", [], false and null.
            let is_nothing =
                |value: &Value| value.is_null() || [json!(""), json!([]), json!(false)].contains(value);
            property.retain(|key, value| key != "default" || !is_nothing(value));
        }
    }
    // Forbid further properties here: serde cannot, for structs that are flattened into others.
    schema.insert("additionalProperties".to_owned(), Value::Bool(false));
    schema
}

/// Leaves of an enumeration only its names, which hosts and the command line look for; the property's own description
/// explains them.
fn names_only(schema: &mut Schema) {
    if let Some(Value::Array(choices)) = schema.remove("oneOf") {
        let names = choices.iter().filter_map(|choice| choice.get("const")).cloned().collect();
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), Value::Array(names));
    }
}

/// Makes the schema of a type, without references, the type's name and description, and keywords that the standard does
/// not have.
fn made<T: JsonSchema>(settings: SchemaSettings) -> Map<String, Value> {
    let settings = settings.with(|settings| settings.inline_subschemas = true);
    let settings = settings.with_transform(RecursiveTransform(plain));
    let mut schema = settings.into_generator().into_root_schema_for::<T>();
    for key in ["$schema", "title", "description"] {
        schema.remove(key);
    }
    let mut schema = match schema.to_value() {
        Value::Object(schema) => schema,
        _ => Map::new(),
    };
    // Add properties to the schema of a type without fields: some hosts insist on them.
    schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    schema
}

/// Makes the schema of a tool's structured answer: an outline of the serialized type, for programs that
/// validate. It has no descriptions, since the keys and the tool's description explain the answer; no inner
/// structure below [`DEPTH`]; and no types of items, nor of optional numbers and flags.
pub(crate) fn output<T: JsonSchema>() -> Map<String, Value> {
    let schema = made::<T>(SchemaSettings::draft2020_12().for_serialize());
    let required = schema.get("required").cloned();
    let Value::Object(mut outline) = outline(&Value::Object(schema), DEPTH) else {
        return Map::new();
    };
    outline.insert("type".to_owned(), "object".into());
    let is_required = |name: &str| {
        required.as_ref().and_then(Value::as_array).is_some_and(|all| all.iter().any(|each| each == name))
    };
    if let Value::Object(properties) =
        outline.entry("properties").or_insert_with(|| Value::Object(Map::new()))
    {
        properties.retain(|name, property| {
            is_required(name)
                || !matches!(
                    property.get("type").and_then(Value::as_str),
                    Some("integer" | "number" | "boolean")
                )
        });
        for (_, property) in properties.iter_mut().filter(|(name, _)| !is_required(name)) {
            if let Value::Object(property) = property {
                property.remove("items");
            }
        }
    }
    outline.extend(required.map(|required| ("required".to_owned(), required)));
    outline
}

/// The levels of nested objects in an output schema: only the answer itself. With many tools, more would take
/// too much of a model's context.
const DEPTH: usize = 1;

/// Strips `schema` of descriptions and bounds. The result
/// accepts all that `schema` accepts.
fn outline(schema: &Value, depth: usize) -> Value {
    let Value::Object(schema) = schema else { return json!({}) };
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        // Drop null from an optional property, which serde leaves out instead. Keep it in a required one.
        let is_null = |choice: &&Value| choice.get("type").is_some_and(|kind| kind == "null");
        let others: Vec<Value> =
            choices.iter().filter(|choice| !is_null(choice)).map(|choice| outline(choice, depth)).collect();
        let with_null = schema.contains_key(KEEPS_NULL);
        return match (others.as_slice(), with_null) {
            ([only], false) => only.clone(),
            _ => json!({ "anyOf": choices.iter().map(|choice| outline(choice, depth)).collect::<Vec<_>>() }),
        };
    }
    match schema.get("type").and_then(Value::as_str) {
        Some("object") if depth > 0 && schema.get("properties").is_some_and(Value::is_object) => {
            let required = schema.get("required").and_then(Value::as_array);
            let is_required =
                |name: &str| required.is_some_and(|required| required.iter().any(|other| other == name));
            let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
            let properties = properties.map(|(name, property)| {
                let mut property = property.clone();
                if let (Value::Object(property), true) = (&mut property, is_required(name)) {
                    property.insert(KEEPS_NULL.to_owned(), Value::Bool(true));
                }
                (name.clone(), outline(&property, depth - 1))
            });
            json!({ "type": "object", "properties": properties.collect::<Map<_, _>>() })
        }
        Some("array") => match schema.get("items") {
            Some(items) => json!({ "type": "array", "items": outline(items, depth) }),
            None => json!({ "type": "array" }),
        },
        Some(kind) => json!({ "type": kind }),
        // Reduce an enumeration of strings, whose variants have descriptions, to its type.
        None if schema
            .get("oneOf")
            .and_then(Value::as_array)
            .is_some_and(|choices| is_of_strings(choices)) =>
        {
            json!({ "type": "string" })
        }
        None => json!({}),
    }
}

/// Marks a property that must be there, so that its null counts.
const KEEPS_NULL: &str = "x-keeps-null";

fn is_of_strings(choices: &[Value]) -> bool {
    choices.iter().all(|choice| choice.get("type").is_some_and(|kind| kind == "string"))
}

/// Makes a schema portable. Removes Rust's number formats (`uint32`, …), which JSON schema
/// does not know, and null from lists of types, which some hosts refuse: optional properties are never null
/// in answers, and may be left out of arguments. A required property becomes a choice.
fn plain(schema: &mut Schema) {
    let number = schema.get("format").and_then(Value::as_str).is_some_and(|format| {
        format.starts_with("uint") || format.starts_with("int") || matches!(format, "float" | "double")
    });
    if number {
        schema.remove("format");
    }
    let required = schema.get("required").cloned().unwrap_or_default();
    let is_required =
        |name: &str| required.as_array().is_some_and(|required| required.iter().any(|other| other == name));
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            single_type(property, is_required(name));
        }
    }
}

/// Replaces a property's list of types by the only type that is not null, or by a choice between the types.
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

    #[derive(Serialize, JsonSchema)]
    struct Sample {
        count: u32,
        line: Option<u32>,
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        #[serde(skip_serializing_if = "Option::is_none")]
        size: Option<u32>,
        #[serde(skip_serializing_if = "Vec::is_empty")]
        rest: Vec<u32>,
    }

    #[derive(Serialize, serde::Deserialize, JsonSchema)]
    #[allow(dead_code)]
    enum Choice {
        /// One.
        One,
        /// The other.
        Other,
    }

    #[derive(Serialize, JsonSchema)]
    struct Outer {
        list: Vec<Sample>,
        choice: Choice,
        deep: Deep,
    }

    #[derive(Serialize, JsonSchema)]
    struct Deep {
        deeper: Sample,
    }

    #[test]
    fn schemas_have_one_type_a_property_and_no_formats_of_rusts() {
        let expected = json!({
            "count": { "type": "integer" },
            "line": { "anyOf": [{ "type": "integer" }, { "type": "null" }] },
            "path": { "type": "string" },
            "rest": { "type": "array" },
        });
        assert_eq!(output::<Sample>()["properties"], expected);
        assert_eq!(output::<Sample>()["required"], json!(["count", "line"]));
    }

    #[derive(serde::Deserialize, JsonSchema)]
    #[allow(dead_code)]
    struct Given {
        /// Which.
        choice: Choice,
        #[serde(default)]
        some: Vec<Choice>,
        #[serde(default)]
        other: Option<String>,
    }

    #[test]
    fn what_a_tool_takes_stands_in_one_place() {
        let names = json!(["One", "Other"]);
        let expected = json!({
            "choice": { "description": "Which.", "type": "string", "enum": names },
            "some": { "type": "array", "items": { "type": "string", "enum": names } },
            "other": { "type": "string" },
        });
        assert_eq!(input::<Given>()["properties"], expected);
        assert!(!input::<Given>().contains_key("$defs"));
    }

    #[test]
    fn outlines_have_no_definitions_and_no_depths() {
        let expected = json!({
            "type": "object",
            "properties": {
                "list": { "type": "array", "items": { "type": "object" } },
                "choice": { "type": "string" },
                "deep": { "type": "object" },
            },
            "required": ["list", "choice", "deep"],
        });
        assert_eq!(Value::Object(output::<Outer>()), expected);
    }
}
