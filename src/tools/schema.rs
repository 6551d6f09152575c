//! Generates JSON schemas (draft 2020-12) from Rust types, in the form that MCP hosts accept.
//! [`input`] makes the schema of a tool's arguments, [`output`] the schema of its structured
//! answer.

use schemars::generate::SchemaSettings;
use schemars::transform::RecursiveTransform;
use schemars::{JsonSchema, Schema};
use serde_json::{Map, Value, json};

/// Generates the schema of a tool's arguments.
pub(crate) fn input<T: JsonSchema>() -> Map<String, Value> {
    let settings = SchemaSettings::draft2020_12().with_transform(RecursiveTransform(names_only));
    let mut schema = root_schema::<T>(settings);
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for property in properties.values_mut().filter_map(Value::as_object_mut) {
            // Drop a default that is equivalent to omitting the property: "", [], false and null.
            let is_nothing =
                |value: &Value| value.is_null() || [json!(""), json!([]), json!(false)].contains(value);
            property.retain(|key, value| key != "default" || !is_nothing(value));
        }
    }
    schema
}

/// Reduces an enumeration to its names, because hosts and the command line expect a plain list of
/// names. The property's description explains the names. Also accepts additional properties,
/// because hosts add their own.
fn names_only(schema: &mut Schema) {
    schema.remove("additionalProperties");
    if let Some(Value::Array(choices)) = schema.remove("oneOf") {
        let names = choices.iter().filter_map(|choice| choice.get("const")).cloned().collect();
        schema.insert("type".to_owned(), "string".into());
        schema.insert("enum".to_owned(), Value::Array(names));
    }
}

/// Generates the schema of a type with all references inlined and in portable form (see [`plain`]),
/// without the type's title and description.
fn root_schema<T: JsonSchema>(settings: SchemaSettings) -> Map<String, Value> {
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
    // Some hosts require `properties` even for a type without fields.
    schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    schema
}

/// Generates the schema of a tool's structured answer: an outline of the serialized type, for
/// programs that validate. To be short, it omits nested structure below [`DEPTH`], optional numbers
/// and flags, and the types of items of optional lists. It also omits descriptions, because the
/// keys and the tool's description explain the answer.
pub(crate) fn output<T: JsonSchema>() -> Map<String, Value> {
    let schema = root_schema::<T>(SchemaSettings::draft2020_12().for_serialize());
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

/// The number of levels of nested objects in an output schema: only the answer itself. More levels
/// would use too much of a model's context when there are many tools.
const DEPTH: usize = 1;

/// Strips descriptions, bounds and nested structure from `schema`. The result accepts every value
/// that `schema` accepts, except null in optional properties.
fn outline(schema: &Value, depth: usize) -> Value {
    let Value::Object(schema) = schema else { return json!({}) };
    if let Some(choices) = schema.get("anyOf").and_then(Value::as_array) {
        // Drop null from an optional property, because serde omits the property instead. Keep null
        // in a required property.
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
        // Reduce an enumeration of strings with described variants to its type.
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

/// Marks a required property during generation, so that null stays one of its types.
const KEEPS_NULL: &str = "x-keeps-null";

fn is_of_strings(choices: &[Value]) -> bool {
    choices.iter().all(|choice| choice.get("type").is_some_and(|kind| kind == "string"))
}

/// Makes a schema portable. Removes Rust's number formats (`uint32`, …), which JSON schema does not
/// define, and null from lists of types, which some hosts reject. Optional properties are never
/// null in answers, and callers can omit them. A required property that may be null becomes an
/// `anyOf`.
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

/// Replaces a property's list of types by the only type that is not null, or by an `anyOf` of the
/// types.
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
        /// The first.
        One,
        /// The second.
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
    fn properties_have_one_type_and_no_rust_formats() {
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
    fn input_schemas_inline_enumerations() {
        let names = json!(["One", "Other"]);
        let expected = json!({
            "choice": { "description": "Which.", "type": "string", "enum": names },
            "some": { "type": "array", "items": { "type": "string", "enum": names } },
            "other": { "type": "string" },
        });
        assert_eq!(input::<Given>()["properties"], expected);
        assert!(!input::<Given>().contains_key("$defs"));
        assert!(!input::<Given>().contains_key("additionalProperties"));
    }

    #[test]
    fn output_schemas_omit_definitions_and_nested_objects() {
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
