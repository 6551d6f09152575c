//! Parses JSON and rejects objects with duplicate keys, because a client would see only one of the
//! values.

use std::collections::HashSet;
use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// A JSON value without duplicate keys in any object.
pub(crate) struct KeysOnce;

impl<'de> Deserialize<'de> for KeysOnce {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Self)
    }
}

impl<'de> Visitor<'de> for KeysOnce {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut keys = HashSet::new();
        while let Some((key, _)) = map.next_entry::<String, Self>()? {
            if keys.contains(&key) {
                return Err(Error::custom(format!("the key {key:?} occurs twice in an object")));
            }
            keys.insert(key);
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element::<Self>()?.is_some() {}
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }
}

#[test]
fn a_key_that_stands_twice_is_told() {
    let read = |text| serde_json::from_str::<KeysOnce>(text).map(drop);
    assert!(read(r#"{"a":[{"b":1,"c":null}],"b":{"a":1.5,"c":-1},"c":"x"}"#).is_ok());
    assert!(
        read(r#"{"a":[true,{"b":1,"c":2,"b":1}]}"#).unwrap_err().to_string().contains("\"b\" occurs twice")
    );
}
