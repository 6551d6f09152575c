//! Checks a call's arguments against the tool's schema before serde reads them, so that an error
//! names the wrong argument. It also accepts common mistakes of models: null or an empty string for
//! an omitted argument, another tool's name for an argument, and a number, flag or list written as
//! a string. A single value and a list of one element are equivalent. Arguments that hosts add are
//! ignored with a note.

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

use super::phrases::quoted;
use crate::answer::lookup::DEFAULT_PACKAGE;
use crate::answer::{nearest, shortened};

/// An empty list of arguments.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct NoArguments {}

pub(crate) fn default_package() -> String {
    DEFAULT_PACKAGE.to_owned()
}

/// Limits the time of a tool that runs code.
#[derive(Debug, Deserialize, JsonSchema)]
pub(crate) struct Timeout {
    /// The time limit in seconds.
    #[serde(default = "default_timeout")]
    #[schemars(range(min = 1, max = 86_400))]
    pub(crate) timeout_seconds: u64,
}

fn default_timeout() -> u64 {
    300
}

/// Reads the arguments of the tool called `tool`. Null counts as omitted, and so does an empty
/// string for an optional argument, because some models write these for arguments that they do not
/// use. Also returns a note on ignored arguments.
pub(crate) fn read<T: DeserializeOwned>(
    tool: &str,
    schema: &Map<String, Value>,
    mut given: Map<String, Value>,
) -> Result<(T, Option<String>), String> {
    given.retain(|_, value| !value.is_null());
    rename_arguments(schema, &mut given);
    drop_empty(schema, &mut given);
    convert(schema, &mut given);
    let ignored = take_unknown(tool, schema, &mut given)?;
    check(tool, schema, &given)?;
    let read = serde_json::from_value(Value::Object(given))
        .map_err(|error| format!("The arguments of {tool} cannot be read: {error}."))?;
    let note = format!("{tool} ignored arguments that it does not have: {}.", ignored.join(", "));
    Ok((read, Some(note).filter(|_| !ignored.is_empty())))
}

/// Converts values to the types of the schema: JSON in strings, as some models and hosts write
/// numbers, flags and lists, and a single value for a list.
fn convert(schema: &Map<String, Value>, given: &mut Map<String, Value>) {
    for (name, value) in given {
        let Some(property) = schema.get("properties").and_then(|properties| properties.get(name)) else {
            continue;
        };
        let Some(kind) = wanted(property).filter(|kind| !is_a(value, kind)) else { continue };
        if let Some(text) = value.as_str() {
            // Python writes True and False.
            let text = if kind == "boolean" { text.to_lowercase() } else { text.to_owned() };
            let read = serde_json::from_str(&text).ok().filter(|read| is_a(read, kind));
            read.into_iter().for_each(|read| *value = read);
        }
        if let Some([only]) = value.as_array().map(Vec::as_slice)
            && is_a(only, kind)
        {
            *value = only.clone();
        }
        if kind == "array" && property.get("items").and_then(wanted).is_some_and(|item| is_a(value, item)) {
            *value = Value::Array(vec![value.take()]);
        }
    }
}

/// Removes the arguments that the schema does not have, and returns their names.
///
/// # Errors
/// Such an argument is spelt like an argument of the schema, or is a synonym of one.
fn take_unknown(
    tool: &str,
    schema: &Map<String, Value>,
    given: &mut Map<String, Value>,
) -> Result<Vec<String>, String> {
    let properties = schema.get("properties").and_then(Value::as_object);
    let known: Vec<&str> = properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
    let unknown = given.keys().filter(|name| !known.contains(&name.as_str())).cloned();
    let unknown: Vec<String> = unknown.collect();
    for name in &unknown {
        let near = nearest::among(name, known.iter().copied());
        let is_synonym = SYNONYMS
            .iter()
            .any(|group| group.contains(&name.as_str()) && group.iter().any(|other| known.contains(other)));
        if near.is_empty() && !is_synonym {
            given.remove(name);
            continue;
        }
        let meant = near.first().map(|near| format!(" Did you mean {near}?")).unwrap_or_default();
        return Err(format!(
            "{tool} has no argument {}. It takes {}.{meant}",
            quoted(name),
            known.join(", ")
        ));
    }
    Ok(unknown.iter().map(|name| quoted(name)).collect())
}

/// Drops optional arguments that are empty strings. An empty `text` stays, because it is a valid
/// value.
fn drop_empty(schema: &Map<String, Value>, given: &mut Map<String, Value>) {
    let required = schema.get("required").and_then(Value::as_array);
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|other| other == name));
    given.retain(|name, value| value != "" || name == "text" || is_required(name));
}

/// Groups of synonymous argument names. A tool with an argument of a group also accepts the other
/// names of that group.
const SYNONYMS: [&[&str]; 9] = [
    &["name", "symbol", "names", "pattern", "query"],
    &["code", "forms", "form", "expression"],
    &["form", "code", "expression"],
    &["package", "packages", "name"],
    &["system", "name", "systems"],
    &["path", "file", "paths", "files"],
    &["unused", "dead"],
    &["test", "name", "tests"],
    &["handle", "id"],
];

/// Replaces synonyms by the tool's argument names. Converts the value of a renamed argument if its
/// type requires this: a single value to a list, or a list of one element to a single value.
fn rename_arguments(schema: &Map<String, Value>, given: &mut Map<String, Value>) {
    let property = |name: &str| schema.get("properties").and_then(|properties| properties.get(name));
    let unknown: Vec<String> = given.keys().filter(|name| property(name).is_none()).cloned().collect();
    for other in unknown {
        let groups = SYNONYMS.iter().filter(|group| group.contains(&other.as_str()));
        let mut owners = groups.flat_map(|group| group.iter()).filter(|name| property(name).is_some());
        let own = match (owners.next(), owners.next()) {
            // Ambiguous: the value may be a package or a system.
            (Some(&"package"), Some(&"system")) => continue,
            (Some(own), _) if !given.contains_key(*own) => *own,
            _ => continue,
        };
        let is_list = property(own).and_then(wanted) == Some("array");
        let value = match given.remove(&other) {
            Some(Value::Array(mut values)) if !is_list && values.len() == 1 => values.remove(0),
            Some(value) if is_list && !value.is_array() => Value::Array(vec![value]),
            Some(value) => value,
            None => continue,
        };
        given.insert(own.to_owned(), value);
    }
}

fn check(tool: &str, schema: &Map<String, Value>, given: &Map<String, Value>) -> Result<(), String> {
    let none = Map::new();
    let properties = schema.get("properties").and_then(Value::as_object).unwrap_or(&none);
    let required = schema.get("required").and_then(Value::as_array).into_iter().flatten();
    if let Some(name) = required.filter_map(Value::as_str).find(|name| !given.contains_key(*name)) {
        let kind = properties.get(name).and_then(wanted);
        let kind = kind.map_or(String::new(), |kind| format!(" ({})", described(kind)));
        return Err(format!("{tool} needs the argument \"{name}\"{kind}, which is missing."));
    }
    for (name, value) in given {
        let property = properties.get(name).unwrap_or(&Value::Null);
        if let Some(must) = unmet(property, value) {
            let shown = shortened(&value.to_string());
            return Err(format!("The argument \"{name}\" of {tool} must be {must}, but {shown} was given."));
        }
        if value == "" && ["path", "package", "definition"].contains(&name.as_str()) {
            return Err(format!("The argument \"{name}\" of {tool} is empty."));
        }
        let items = property.get("items").unwrap_or(&Value::Null);
        for element in value.as_array().into_iter().flatten() {
            let empty = (element == "").then(|| "a string that is not empty".to_owned());
            if let Some(must) = unmet(items, element).or(empty) {
                let shown = shortened(&element.to_string());
                return Err(format!(
                    "Each element of the argument \"{name}\" of {tool} must be {must}, but {shown} was given."
                ));
            }
            if let (Some(items), Some(element)) = (items.as_object(), element.as_object()) {
                check(&format!("the {name} of {tool}"), items, element)?;
            }
        }
    }
    Ok(())
}

/// Returns the requirement of `schema` that `value` does not meet.
fn unmet(schema: &Value, value: &Value) -> Option<String> {
    if let Some(choices) = schema.get("enum").and_then(Value::as_array) {
        let known: Vec<String> = choices.iter().map(Value::to_string).collect();
        return (!choices.contains(value)).then(|| format!("one of {}", known.join(", ")));
    }
    if let Some(kind) = wanted(schema).filter(|kind| !is_a(value, kind)) {
        let properties = schema.get("properties").and_then(Value::as_object);
        let names: Vec<&str> = properties.into_iter().flat_map(Map::keys).map(String::as_str).collect();
        let with = if names.is_empty() { String::new() } else { format!(" with {}", names.join(", ")) };
        return Some(format!("{}{with}", described(kind)));
    }
    let (least, most) = (schema.get("minimum"), schema.get("maximum"));
    let is_outside = |number: f64| {
        least.and_then(Value::as_f64).is_some_and(|least| number < least)
            || most.and_then(Value::as_f64).is_some_and(|most| number > most)
    };
    value.as_f64().filter(|number| is_outside(*number)).map(|_| match (least, most) {
        (Some(least), Some(most)) => format!("from {least} to {most}"),
        (Some(least), None) => format!("{least} or more"),
        (None, most) => format!("{} or less", most.unwrap_or(&Value::Null)),
    })
}

/// Returns the type that a property's schema names.
fn wanted(property: &Value) -> Option<&str> {
    property.get("type").and_then(Value::as_str)
}

fn described(kind: &str) -> &str {
    match kind {
        "string" => "a string",
        "integer" => "an integer",
        "number" => "a number",
        "boolean" => "true or false",
        "array" => "a list",
        "object" => "an object",
        other => other,
    }
}

fn is_a(value: &Value, kind: &str) -> bool {
    match kind {
        "string" => value.is_string(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "boolean" => value.is_boolean(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[derive(Debug, PartialEq, Deserialize, JsonSchema)]
    #[serde(deny_unknown_fields)]
    struct Sample {
        name: String,
        #[serde(default = "ten")]
        #[schemars(range(min = 1, max = 20))]
        limit: usize,
    }

    fn ten() -> usize {
        10
    }

    fn check(given: Value) -> Result<Sample, String> {
        let Value::Object(given) = given else { panic!("not an object") };
        let (read, note) = read("sample", &super::super::schema::input::<Sample>(), given)?;
        assert_eq!(note, None);
        Ok(read)
    }

    #[test]
    fn optional_arguments_default_when_missing_or_null() {
        let expected = Sample { name: "x".into(), limit: 10 };
        assert_eq!(check(json!({ "name": "x" })).as_ref(), Ok(&expected));
        assert_eq!(check(json!({ "name": "x", "limit": null })).as_ref(), Ok(&expected));
    }

    #[test]
    fn strings_are_converted_to_argument_types() {
        let expected = Sample { name: "x".into(), limit: 5 };
        assert_eq!(check(json!({ "name": "x", "limit": "5" })), Ok(expected));
        let schema = crate::actions::tools().get("impact").unwrap().input();
        for (given, expected) in [
            (json!({ "names": "[\"a\", \"b\"]" }), json!({ "names": ["a", "b"] })),
            (json!({ "names": "a" }), json!({ "names": ["a"] })),
            (json!({ "package": ["p"] }), json!({ "package": "p" })),
            (json!({ "diff": "True", "depth": " 2" }), json!({ "diff": true, "depth": 2 })),
            (json!({ "diff": "yes", "names": 5 }), json!({ "diff": "yes", "names": 5 })),
            (json!({ "package": "5" }), json!({ "package": "5" })),
        ] {
            let Value::Object(mut given) = given else { panic!("not an object") };
            convert(schema, &mut given);
            assert_eq!(Value::Object(given), expected);
        }
    }

    #[test]
    fn unknown_arguments_are_ignored_with_a_note() {
        let given = json!({ "name": "x", "task_progress": "- [ ] look", "other": 1 });
        let Value::Object(given) = given else { panic!("not an object") };
        let schema = super::super::schema::input::<Sample>();
        let (read, note) = read::<Sample>("sample", &schema, given).unwrap();
        assert_eq!(read, Sample { name: "x".into(), limit: 10 });
        let note = note.unwrap();
        assert_eq!(note, "sample ignored arguments that it does not have: \"other\", \"task_progress\".");
    }

    #[test]
    fn synonyms_of_argument_names_are_accepted() {
        for (tool, given, own) in [
            ("apropos", json!({ "pattern": "x", "package": "p" }), json!({ "name": "x", "packages": ["p"] })),
            ("outline", json!({ "file": "a", "dead": true }), json!({ "path": "a", "unused": true })),
            ("evaluate", json!({ "forms": "1" }), json!({ "code": "1" })),
            ("package-info", json!({ "name": "p" }), json!({ "package": "p" })),
            ("macroexpand", json!({ "code": "1" }), json!({ "form": "1" })),
            ("load-system", json!({ "name": "s" }), json!({ "system": "s" })),
            ("impact", json!({ "name": "f" }), json!({ "names": ["f"] })),
            ("find_references", json!({ "query": "f" }), json!({ "pattern": "f" })),
            ("who-calls", json!({ "names": ["f"] }), json!({ "name": "f" })),
        ] {
            let schema = crate::actions::tools().get(tool).unwrap().input().clone();
            let mut given = given.as_object().unwrap().clone();
            rename_arguments(&schema, &mut given);
            // Compare only the expected arguments, because some synonyms are left unchanged.
            given.retain(|name, _| own.get(name).is_some());
            for (name, value) in &given {
                assert_eq!(&own[name], value, "{tool}");
            }
            assert!(!given.is_empty(), "{tool}");
        }
        let schema = crate::actions::tools().get("outline").unwrap().input().clone();
        let mut given = json!({ "name": "x" }).as_object().unwrap().clone();
        rename_arguments(&schema, &mut given);
        assert_eq!(given.keys().collect::<Vec<_>>(), ["name"]);
    }

    #[test]
    fn list_elements_are_checked_and_empty_strings_dropped() {
        #[derive(Debug, Deserialize, JsonSchema)]
        struct Part {
            path: String,
        }
        #[derive(Debug, Deserialize, JsonSchema)]
        struct Lists {
            #[serde(default)]
            package: String,
            #[serde(default)]
            names: Vec<String>,
            #[serde(default)]
            parts: Vec<Part>,
        }
        let schema = super::super::schema::input::<Lists>();
        let read = |given: Value| {
            read::<Lists>("sample", &schema, given.as_object().unwrap().clone()).map(|(read, _)| read)
        };
        let given = read(json!({ "package": "", "names": ["x"], "parts": [{ "path": "a" }] })).unwrap();
        assert_eq!((given.package.as_str(), given.names.len(), given.parts[0].path.as_str()), ("", 1, "a"));
        for (given, expected) in [
            (json!({ "names": [5] }), "\"names\" of sample must be a string, but 5 was given"),
            (json!({ "names": [""] }), "\"names\" of sample must be a string that is not empty"),
            (json!({ "parts": [5] }), "\"parts\" of sample must be an object with path, but 5 was given"),
            (json!({ "parts": [{}] }), "the parts of sample needs the argument \"path\""),
            (json!({ "parts": [{ "path": "" }] }), "The argument \"path\" of the parts of sample is empty."),
        ] {
            let error = read(given).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
    }

    #[test]
    fn errors_name_the_wrong_argument() {
        let cases = [
            (json!({}), "sample needs the argument \"name\" (a string), which is missing."),
            (json!({ "name": 5 }), "The argument \"name\" of sample must be a string, but 5 was given."),
            (
                json!({ "name": "x", "limit": "y" }),
                "The argument \"limit\" of sample must be an integer, but \"y\" was given.",
            ),
            (
                json!({ "name": "x", "limit": 0 }),
                "The argument \"limit\" of sample must be from 1 to 20, but 0 was given.",
            ),
            (
                json!({ "name": "x", "limit": 21 }),
                "The argument \"limit\" of sample must be from 1 to 20, but 21 was given.",
            ),
            (
                json!({ "name": "x", "limitt": "y" }),
                "sample has no argument \"limitt\". It takes limit, name. Did you mean limit?",
            ),
        ];
        for (given, expected) in cases {
            assert_eq!(check(given), Err(expected.to_owned()));
        }
    }
}
