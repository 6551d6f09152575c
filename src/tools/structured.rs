//! Structured answers. [`Structured`] serializes an answer to JSON once. Most callers only forward
//! the JSON; a [`Value`] tree is parsed on first use for callers that read or change fields.

use std::fmt::{self, Debug, Display, Formatter};
use std::ops::{Deref, DerefMut};
use std::sync::OnceLock;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Error, Value};

/// A structured answer: JSON text, and a [`Value`] for callers that read fields.
#[derive(Clone, Default)]
pub struct Structured {
    json: OnceLock<String>,
    /// The tree parsed from `json`, on first use.
    read: OnceLock<Value>,
    /// The tree that replaces `json`, once a caller has had mutable access.
    changed: Option<Value>,
}

impl Structured {
    /// Serializes `answer`.
    ///
    /// # Errors
    /// A map has keys that are not strings.
    pub fn new<T: Serialize + ?Sized>(answer: &T) -> Result<Self, Error> {
        Ok(Self { json: OnceLock::from(serde_json::to_string(answer)?), ..Self::default() })
    }

    /// Returns the answer as JSON text.
    pub fn json(&self) -> &str {
        self.json.get_or_init(|| self.changed.as_ref().unwrap_or(&Value::Null).to_string())
    }

    /// Sets a field of an object; no effect on other values. A new field is appended to the JSON
    /// text without parsing it.
    pub(crate) fn insert(&mut self, name: &str, value: impl Into<Value>) {
        let (value, field) = (value.into(), format!("{}:", Value::from(name)));
        match (&mut self.changed, self.json.get_mut()) {
            (None, Some(json)) if json.ends_with('}') && !json.contains(&field) => {
                let comma = if json.len() > 2 { "," } else { "" };
                json.pop();
                *json += &format!("{comma}{field}{value}}}");
                self.read = OnceLock::new();
            }
            _ => {
                if let Value::Object(fields) = &mut **self {
                    fields.insert(name.to_owned(), value);
                }
            }
        }
    }

    /// Returns the answer as a tree.
    pub fn into_value(mut self) -> Value {
        std::mem::take(&mut *self)
    }
}

impl Deref for Structured {
    type Target = Value;

    fn deref(&self) -> &Value {
        // Parsing cannot fail: this module wrote the text.
        let read = || self.json.get().and_then(|json| serde_json::from_str(json).ok()).unwrap_or_default();
        match &self.changed {
            Some(value) => value,
            None => self.read.get_or_init(read),
        }
    }
}

impl DerefMut for Structured {
    fn deref_mut(&mut self) -> &mut Value {
        if self.changed.is_none() {
            let _: &Value = self;
        }
        let Self { read, changed, .. } = std::mem::take(self);
        self.changed.insert(changed.or(read.into_inner()).unwrap_or_default())
    }
}

impl From<Value> for Structured {
    fn from(value: Value) -> Self {
        Self { changed: Some(value), ..Self::default() }
    }
}

impl PartialEq for Structured {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Debug for Structured {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        Debug::fmt(&**self, formatter)
    }
}

impl Display for Structured {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match formatter.alternate() {
            true => Display::fmt(&**self, formatter),
            false => formatter.write_str(self.json()),
        }
    }
}

impl Serialize for Structured {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        Value::serialize(self, serializer)
    }
}

impl<'de> Deserialize<'de> for Structured {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Value::deserialize(deserializer).map(Self::from)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn changed_answers_are_serialized_again() {
        let mut answer = Structured::new(&json!({ "b": 1, "a": [2] })).unwrap();
        assert_eq!(answer.json(), r#"{"a":[2],"b":1}"#);
        assert_eq!(answer["a"][0], 2);
        answer["b"] = json!("x");
        assert_eq!((answer.json(), answer.to_string()), (r#"{"a":[2],"b":"x"}"#, answer.json().to_owned()));
        assert_eq!(answer, Structured::from(json!({ "a": [2], "b": "x" })));
        assert_eq!(answer.into_value(), json!({ "a": [2], "b": "x" }));
    }

    #[test]
    fn fields_are_added_without_a_tree() {
        let mut answer = Structured::new(&json!({})).unwrap();
        answer.insert("b", "x\"");
        answer.insert("a", 1);
        assert!(answer.changed.is_none() && answer.read.get().is_none());
        assert_eq!(answer.json(), r#"{"b":"x\"","a":1}"#);
        assert_eq!(answer["a"], 1);
        answer.insert("a", 2);
        assert_eq!(answer["a"], 2);
        answer["a"] = json!([true]);
        answer.insert("c", 2);
        assert_eq!(answer.into_value(), json!({ "a": [true], "b": "x\"", "c": 2 }));
        let mut list = Structured::new(&[1]).unwrap();
        list.insert("a", 1);
        assert_eq!(list.json(), "[1]");
    }
}
