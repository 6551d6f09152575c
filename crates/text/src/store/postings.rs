//! Encodes and decodes the values of the index's keys: occurrences, definitions, and the tokens of
//! Lisp names.

use crate::definitions::lisp::LispTextDefinition;
use crate::kind::DefinitionKind;
use crate::scan::occurrence::TextRole;
use crate::store::codec::{Decoder, put_number};
use steelbank_reader::Range;

/// An occurrence of an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hit {
    pub(crate) offset: u32,
    pub(crate) role: TextRole,
}

/// The occurrences in one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileHits {
    pub(crate) file: u32,
    pub(crate) count: u64,
    /// `None` if the index stores only their number.
    pub(crate) hits: Option<Vec<Hit>>,
}

/// The role code for occurrences with different roles.
const MIXED: u64 = 7;

/// Encodes the occurrences in one file. The format is: their number and common role code; the
/// roles, two per byte, if they differ; and the distances between offsets.
pub(crate) fn encode(hits: &[Hit]) -> Vec<u8> {
    let mut out = Vec::with_capacity(hits.len() * 2 + 2);
    let Some(first) = hits.first() else { return out };
    let same = hits.iter().all(|hit| hit.role == first.role);
    let code = if same { u64::from(first.role.code()) } else { MIXED };
    put_number(&mut out, (hits.len() as u64 - 1) * 8 + code);
    if !same {
        for pair in hits.chunks(2) {
            let second = pair.get(1).map_or(0, |hit| hit.role.code());
            out.push(pair[0].role.code() | second << 4);
        }
    }
    let mut last = 0;
    for hit in hits {
        put_number(&mut out, u64::from(hit.offset - last));
        last = hit.offset;
    }
    out
}

/// Decodes one file's occurrences. Before allocating memory, rejects a count that exceeds the
/// number of remaining bytes.
fn decode(decoder: &mut Decoder<'_>) -> Option<Vec<Hit>> {
    let head = decoder.number()?;
    let count = usize::try_from(head / 8).ok()?.checked_add(1)?;
    if count > decoder.rest().len() {
        return None;
    }
    let common = TextRole::from_code((head % 8) as u8);
    let roles = match common {
        Some(_) => &[],
        None if head % 8 == MIXED => decoder.take(count.div_ceil(2))?,
        None => return None,
    };
    let mut hits = Vec::with_capacity(count);
    let mut offset = 0_u32;
    for index in 0..count {
        let role = match common {
            Some(role) => role,
            None => TextRole::from_code(roles.get(index / 2)? >> (index % 2 * 4) & 0xf)?,
        };
        offset = offset.checked_add(decoder.small()?)?;
        hits.push(Hit { offset, role });
    }
    Some(hits)
}

/// Replaces the occurrences in an identifier's list by their number in each file.
pub(crate) fn lighten(postings: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut last = 0;
    for (file, count, _) in raw(postings, false).unwrap_or_default() {
        put_number(&mut out, u64::from(file - last));
        put_number(&mut out, count);
        last = file;
    }
    out
}

/// Splits an identifier's list by file. Returns, for each file, the number of occurrences and their
/// encoded bytes, without the bytes if the list is `heavy`.
pub(crate) fn raw(postings: &[u8], heavy: bool) -> Option<Vec<(u32, u64, &[u8])>> {
    let mut decoder = Decoder::new(postings);
    let mut all = Vec::new();
    let mut file = 0_u32;
    while !decoder.is_empty() {
        file = file.checked_add(decoder.small()?)?;
        let start = decoder.rest();
        let count = if heavy { decoder.number()? } else { decode(&mut decoder)?.len() as u64 };
        let bytes = &start[..start.len() - decoder.rest().len()];
        all.push((file, count, if heavy { &[] } else { bytes }));
    }
    Some(all)
}

/// Decodes an identifier's list of occurrences.
pub(crate) fn files(postings: &[u8], heavy: bool) -> Option<Vec<FileHits>> {
    let mut decoder = Decoder::new(postings);
    let mut all = Vec::new();
    let mut file = 0_u32;
    while !decoder.is_empty() {
        file = file.checked_add(decoder.small()?)?;
        let (count, hits) = if heavy {
            (decoder.number()?, None)
        } else {
            let hits = decode(&mut decoder)?;
            (hits.len() as u64, Some(hits))
        };
        all.push(FileHits { file, count, hits });
    }
    Some(all)
}

/// Reads the records of a Lisp name or package, each with its file.
pub(crate) fn records(postings: &[u8]) -> Option<Vec<(u32, &[u8])>> {
    let mut decoder = Decoder::new(postings);
    let mut all = Vec::new();
    let mut file = 0_u32;
    while !decoder.is_empty() {
        file = file.checked_add(decoder.small()?)?;
        all.push((file, decoder.bytes()?));
    }
    Some(all)
}

/// Encodes the tokens of a Lisp name in one file: for each, the number of its class and its line.
/// Lines must ascend.
pub(crate) fn encode_tokens(tokens: impl IntoIterator<Item = (u32, u32)>) -> Vec<u8> {
    let (mut out, mut last) = (Vec::new(), 0);
    for (class, line) in tokens {
        put_number(&mut out, u64::from(class));
        put_number(&mut out, u64::from(line - last));
        last = line;
    }
    out
}

/// Decodes the output of [`encode_tokens`] and appends it to `all`. Returns the range of the new
/// tokens.
pub(crate) fn tokens(record: &[u8], all: &mut Vec<(u32, u32)>) -> Option<std::ops::Range<usize>> {
    let (mut decoder, mut line, start) = (Decoder::new(record), 0_u32, all.len());
    while !decoder.is_empty() {
        let class = decoder.small()?;
        line = line.checked_add(decoder.small()?)?;
        all.push((class, line));
    }
    Some(start..all.len())
}

/// Decodes a list of ascending numbers.
pub(crate) fn ascending(list: &[u8]) -> Option<Vec<u32>> {
    let mut decoder = Decoder::new(list);
    let mut all = Vec::new();
    let mut last = 0_u32;
    while !decoder.is_empty() {
        last = last.checked_add(decoder.small()?)?;
        all.push(last);
    }
    Some(all)
}

/// Encodes one file's definitions of one name.
pub(crate) fn encode_definitions(definitions: &[LispTextDefinition]) -> Vec<u8> {
    let mut out = Vec::new();
    put_number(&mut out, definitions.len() as u64);
    for definition in definitions {
        out.push(definition.kind.index());
        out.push(u8::from(definition.declaration) | u8::from(!definition.active) << 1);
        put_number(&mut out, u64::from(definition.form.start));
        put_number(&mut out, u64::from(definition.name.start.saturating_sub(definition.form.start)));
        put_number(&mut out, u64::from(definition.name.end.saturating_sub(definition.name.start)));
        put_number(&mut out, u64::from(definition.form.end.saturating_sub(definition.form.start)));
    }
    out
}

fn decode_definitions(decoder: &mut Decoder<'_>) -> Option<Vec<LispTextDefinition>> {
    let count = decoder.number()?;
    let mut all = Vec::new();
    for _ in 0..count {
        let kind = DefinitionKind::from_index(decoder.byte()?)?;
        let flags = decoder.byte()?;
        let start = decoder.small()?;
        let name_start = start.checked_add(decoder.small()?)?;
        let name_end = name_start.checked_add(decoder.small()?)?;
        let end = start.checked_add(decoder.small()?)?;
        all.push(LispTextDefinition {
            kind,
            name: Range::new(name_start, name_end),
            form: Range { start, end },
            declaration: flags & 1 != 0,
            active: flags & 2 == 0,
        });
    }
    Some(all)
}

/// Splits a name's list of definitions by file. Returns the encoded bytes for each file.
pub(crate) fn raw_definitions(bytes: &[u8]) -> Option<Vec<(u32, &[u8])>> {
    let mut decoder = Decoder::new(bytes);
    let mut all = Vec::new();
    let mut file = 0_u32;
    while !decoder.is_empty() {
        file = file.checked_add(decoder.small()?)?;
        let start = decoder.rest();
        decode_definitions(&mut decoder)?;
        all.push((file, &start[..start.len() - decoder.rest().len()]));
    }
    Some(all)
}

/// Decodes a name's list of definitions. Returns the definitions in each file.
pub(crate) fn definitions(bytes: &[u8]) -> Option<Vec<(u32, Vec<LispTextDefinition>)>> {
    let mut decoder = Decoder::new(bytes);
    let mut all = Vec::new();
    let mut file = 0_u32;
    while !decoder.is_empty() {
        file = file.checked_add(decoder.small()?)?;
        all.push((file, decode_definitions(&mut decoder)?));
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_hits() -> impl Strategy<Value = Vec<Hit>> {
        proptest::collection::vec((0_u32..1000, 0_u8..6), 1..20).prop_map(|steps| {
            let mut offset = 0;
            steps
                .into_iter()
                .map(|(step, role)| {
                    offset += step;
                    Hit { offset, role: TextRole::from_code(role).unwrap() }
                })
                .collect()
        })
    }

    proptest! {
        #[test]
        fn decode_reverses_encode(lists in proptest::collection::vec((0_u32..300, any_hits()), 0..8)) {
            let mut bytes = Vec::new();
            let mut file = 0;
            let mut expect = Vec::new();
            for (step, hits) in lists {
                file += step;
                put_number(&mut bytes, u64::from(step));
                bytes.extend(encode(&hits));
                expect.push(FileHits { file, count: hits.len() as u64, hits: Some(hits) });
            }
            prop_assert_eq!(files(&bytes, false).unwrap(), expect.clone());
            let light: Vec<_> = expect.into_iter().map(|each| FileHits { hits: None, ..each }).collect();
            prop_assert_eq!(files(&lighten(&bytes), true).unwrap(), light);
        }

        #[test]
        fn any_bytes_decode_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..100)) {
            for heavy in [false, true] {
                if let Some(all) = files(&bytes, heavy) {
                    prop_assert!(all.len() <= bytes.len());
                }
                raw(&bytes, heavy);
            }
            ascending(&bytes);
            records(&bytes);
            tokens(&bytes, &mut Vec::new());
            definitions(&bytes);
            raw_definitions(&bytes);
        }
    }
}
