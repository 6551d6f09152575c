//! JSON whose objects have their keys in the order of their characters, as `serde_json`'s trees have them, without the tree.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::ops::Range;

use serde::Serialize;
use serde::ser::{
    SerializeMap, SerializeSeq, SerializeStruct, SerializeStructVariant, SerializeTuple,
    SerializeTupleStruct, SerializeTupleVariant, Serializer,
};
use serde_json::Error;

/// `value` as JSON. Of entries with the same key, the last one counts.
///
/// # Errors
/// A map has keys that are no texts, or what writes `value` says so.
pub(super) fn sorted<T: Serialize + ?Sized>(value: &T) -> Result<String, Error> {
    let mut writer =
        JsonWriter { json: String::with_capacity(1024), entries: Vec::new(), spare: String::new() };
    value.serialize(&mut writer)?;
    Ok(writer.json)
}

/// Writes `text` as a JSON string, piece by piece.
pub(crate) fn string(text: &str, mut write: impl FnMut(&str)) {
    write("\"");
    let mut rest = text;
    while let Some(at) = position_of_escaped(rest.as_bytes()) {
        write(&rest[..at]);
        match rest.as_bytes()[at] {
            b'"' => write("\\\""),
            b'\\' => write("\\\\"),
            0x08 => write("\\b"),
            0x0c => write("\\f"),
            b'\n' => write("\\n"),
            b'\r' => write("\\r"),
            b'\t' => write("\\t"),
            other => write(&format!("\\u{other:04x}")),
        }
        rest = &rest[at + 1..];
    }
    write(rest);
    write("\"");
}

/// Where the first byte stands that JSON has another way of writing for.
fn position_of_escaped(bytes: &[u8]) -> Option<usize> {
    let escaped = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    let (chunks, rest) = bytes.as_chunks::<16>();
    for (number, chunk) in chunks.iter().enumerate() {
        // Without a branch for each byte, so that all are compared at once.
        if chunk.iter().fold(false, |any, byte| any | escaped(byte)) {
            return chunk.iter().position(escaped).map(|at| number * 16 + at);
        }
    }
    rest.iter().position(escaped).map(|at| chunks.len() * 16 + at)
}

struct JsonWriter {
    json: String,
    /// The entries of the objects that are open, the innermost's last.
    entries: Vec<Entry>,
    /// Where entries are put in order.
    spare: String,
}

struct Entry {
    /// The key, between its quotes.
    key: Range<usize>,
    end: usize,
}

impl Entry {
    fn start(&self) -> usize {
        self.key.start - 1
    }
}

/// An object or a list that is open.
struct OpenContainer<'a> {
    writer: &'a mut JsonWriter,
    /// Where it starts.
    start: usize,
    /// How many entries those around it have.
    outer: usize,
    /// What ends it.
    close: &'static str,
    empty: bool,
    /// Whether the keys so far came in order.
    in_order: bool,
    /// Whether all of them stand there as they are.
    plain: bool,
}

impl JsonWriter {
    fn open(&mut self, open: &str, close: &'static str) -> OpenContainer<'_> {
        self.json.push_str(open);
        let (start, outer) = (self.json.len(), self.entries.len());
        OpenContainer { writer: self, start, outer, close, empty: true, in_order: true, plain: true }
    }

    fn object(&mut self) -> OpenContainer<'_> {
        self.open("{", "}")
    }

    fn list(&mut self) -> OpenContainer<'_> {
        self.open("[", "]")
    }

    fn string(&mut self, text: &str) {
        string(text, |piece| self.json.push_str(piece));
    }

    /// What a variant of an enumeration is: an object with its name for key.
    fn variant(&mut self, name: &str) {
        self.json.push('{');
        self.string(name);
        self.json.push(':');
    }

    fn display(&mut self, value: impl std::fmt::Display) {
        // Writing to a string cannot fail.
        let _ = write!(self.json, "{value}");
    }
}

impl OpenContainer<'_> {
    fn separate(&mut self) {
        if !std::mem::take(&mut self.empty) {
            self.writer.json.push(',');
        }
    }

    fn element<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.separate();
        value.serialize(&mut *self.writer)
    }

    fn key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.separate();
        let json = &mut self.writer.json;
        let start = json.len();
        key.serialize(&mut *self.writer)?;
        let json = &mut self.writer.json;
        if !json[start..].starts_with('"') {
            // A number.
            let text = json.split_off(start);
            self.writer.string(&text);
        }
        self.note_key(start)
    }

    fn note_key(&mut self, start: usize) -> Result<(), Error> {
        let JsonWriter { json, entries, .. } = &mut *self.writer;
        let key = start + 1..json.len() - 1;
        let text = &json[key.clone()];
        self.plain &= !text.contains('\\');
        self.in_order &= entries[self.outer..].last().is_none_or(|before| json[before.key.clone()] < *text);
        entries.push(Entry { key, end: 0 });
        json.push(':');
        Ok(())
    }

    fn value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        value.serialize(&mut *self.writer)?;
        if let Some(entry) = self.writer.entries.last_mut() {
            entry.end = self.writer.json.len();
        }
        Ok(())
    }

    fn field<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<(), Error> {
        self.separate();
        let start = self.writer.json.len();
        self.writer.string(name);
        self.note_key(start)?;
        self.value(value)
    }

    fn close(self) -> Result<(), Error> {
        let JsonWriter { json, entries, spare } = self.writer;
        if !(self.in_order && self.plain) {
            let key = |entry: &Entry| -> Result<Cow<'_, str>, Error> {
                match self.plain {
                    true => Ok(Cow::Borrowed(&json[entry.key.clone()])),
                    false => serde_json::from_str(&json[entry.start()..=entry.key.end]).map(Cow::Owned),
                }
            };
            let own = &entries[self.outer..];
            let mut own =
                own.iter().map(|entry| Ok((key(entry)?, entry))).collect::<Result<Vec<_>, Error>>()?;
            own.sort_by(|(left, _), (right, _)| left.cmp(right));
            spare.clear();
            for (at, (key, entry)) in own.iter().enumerate() {
                if own.get(at + 1).is_some_and(|(next, _)| next == key) {
                    continue;
                }
                if !spare.is_empty() {
                    spare.push(',');
                }
                spare.push_str(&json[entry.start()..entry.end]);
            }
            json.truncate(self.start);
            json.push_str(spare);
        }
        entries.truncate(self.outer);
        json.push_str(self.close);
        Ok(())
    }
}

impl<'a> Serializer for &'a mut JsonWriter {
    type Ok = ();
    type Error = Error;
    type SerializeSeq = OpenContainer<'a>;
    type SerializeTuple = OpenContainer<'a>;
    type SerializeTupleStruct = OpenContainer<'a>;
    type SerializeTupleVariant = OpenContainer<'a>;
    type SerializeMap = OpenContainer<'a>;
    type SerializeStruct = OpenContainer<'a>;
    type SerializeStructVariant = OpenContainer<'a>;

    fn serialize_bool(self, value: bool) -> Result<(), Error> {
        self.json.push_str(if value { "true" } else { "false" });
        Ok(())
    }

    fn serialize_i8(self, value: i8) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i16(self, value: i16) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i32(self, value: i32) -> Result<(), Error> {
        self.serialize_i64(value.into())
    }

    fn serialize_i64(self, value: i64) -> Result<(), Error> {
        self.display(value);
        Ok(())
    }

    fn serialize_u8(self, value: u8) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u16(self, value: u16) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u32(self, value: u32) -> Result<(), Error> {
        self.serialize_u64(value.into())
    }

    fn serialize_u64(self, value: u64) -> Result<(), Error> {
        self.display(value);
        Ok(())
    }

    fn serialize_f32(self, value: f32) -> Result<(), Error> {
        self.serialize_f64(value.into())
    }

    fn serialize_f64(self, value: f64) -> Result<(), Error> {
        self.json.push_str(&serde_json::Value::from(value).to_string());
        Ok(())
    }

    fn serialize_char(self, value: char) -> Result<(), Error> {
        self.serialize_str(value.encode_utf8(&mut [0; 4]))
    }

    fn serialize_str(self, value: &str) -> Result<(), Error> {
        self.string(value);
        Ok(())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<(), Error> {
        let mut list = self.list();
        value.iter().try_for_each(|byte| list.element(byte))?;
        list.close()
    }

    fn serialize_none(self) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_unit(self) -> Result<(), Error> {
        self.json.push_str("null");
        Ok(())
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<(), Error> {
        self.serialize_unit()
    }

    fn serialize_unit_variant(self, _: &'static str, _: u32, variant: &'static str) -> Result<(), Error> {
        self.serialize_str(variant)
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        value: &T,
    ) -> Result<(), Error> {
        self.variant(variant);
        value.serialize(&mut *self)?;
        self.json.push('}');
        Ok(())
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<OpenContainer<'a>, Error> {
        Ok(self.list())
    }

    fn serialize_tuple(self, _: usize) -> Result<OpenContainer<'a>, Error> {
        Ok(self.list())
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<OpenContainer<'a>, Error> {
        Ok(self.list())
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<OpenContainer<'a>, Error> {
        self.variant(variant);
        Ok(self.open("[", "]}"))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<OpenContainer<'a>, Error> {
        Ok(self.object())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<OpenContainer<'a>, Error> {
        Ok(self.object())
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        _: u32,
        variant: &'static str,
        _: usize,
    ) -> Result<OpenContainer<'a>, Error> {
        self.variant(variant);
        Ok(self.open("{", "}}"))
    }
}

/// What opens a list writes its elements.
macro_rules! elements {
    ($($kind:ident $method:ident),*) => {$(
        impl $kind for OpenContainer<'_> {
            type Ok = ();
            type Error = Error;

            fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
                self.element(value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )*};
}

elements!(
    SerializeSeq serialize_element, SerializeTuple serialize_element, SerializeTupleStruct serialize_field,
    SerializeTupleVariant serialize_field
);

/// What opens a structure writes its fields.
macro_rules! fields {
    ($($kind:ident),*) => {$(
        impl $kind for OpenContainer<'_> {
            type Ok = ();
            type Error = Error;

            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                name: &'static str,
                value: &T,
            ) -> Result<(), Error> {
                self.field(name, value)
            }

            fn end(self) -> Result<(), Error> {
                self.close()
            }
        }
    )*};
}

fields!(SerializeStruct, SerializeStructVariant);

impl SerializeMap for OpenContainer<'_> {
    type Ok = ();
    type Error = Error;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Error> {
        self.key(key)
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Error> {
        self.value(value)
    }

    fn end(self) -> Result<(), Error> {
        self.close()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use proptest::prelude::*;

    use super::*;

    #[track_caller]
    fn same<T: Serialize>(value: &T) {
        assert_eq!(sorted(value).unwrap(), serde_json::to_value(value).unwrap().to_string());
    }

    #[derive(Serialize)]
    enum Variant {
        Unit,
        New(f32),
        Tuple(u8, &'static str),
        Struct { z: Option<i64>, a: char },
    }

    #[derive(Serialize)]
    struct Inner {
        b: u32,
        found: Option<bool>,
    }

    #[derive(Serialize)]
    struct Outer {
        found: bool,
        #[serde(flatten)]
        inner: Option<Inner>,
        #[serde(flatten)]
        rest: HashMap<String, Vec<Variant>>,
        #[serde(rename = "a\"b")]
        quoted: (),
    }

    #[test]
    fn structures_are_written_as_trees_of_them_are() {
        let rest = || ["zz", "a\\", "a\u{1}", "é"].map(|key| (key.to_owned(), vec![Variant::Unit]));
        let outer = |inner| Outer { found: true, inner, rest: rest().into(), quoted: () };
        same(&outer(None));
        same(&outer(Some(Inner { b: 7, found: None })));
        same(&[Variant::New(0.1), Variant::New(f32::NAN), Variant::Tuple(1, "\n")]);
        same(&Variant::Struct { z: Some(-5), a: '"' });
        same(&HashMap::from([(10, "ten"), (9, "nine"), (-1, "")]));
        same(&(1.0_f64, 1e300_f64, u64::MAX, i64::MIN, ((), "x"), Some([0_u8; 3])));
        same(&HashMap::from([("a", HashMap::<String, ()>::new())]));
    }

    proptest! {
        #[test]
        fn texts_and_keys_are_written_as_serde_json_writes_them(
            entries in prop::collection::vec((any::<String>(), "[\\x00-\\x7f]{0,40}"), 0..8)
        ) {
            struct Entries(Vec<(String, String)>);
            impl Serialize for Entries {
                fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                    serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
                }
            }
            for (text, ascii) in &entries {
                prop_assert_eq!(sorted(text).unwrap(), serde_json::to_string(text).unwrap());
                prop_assert_eq!(sorted(ascii).unwrap(), serde_json::to_string(ascii).unwrap());
            }
            let entries = Entries(entries);
            let tree = serde_json::to_value(&entries).unwrap().to_string();
            prop_assert_eq!(sorted(&entries).unwrap(), tree);
        }
    }
}
