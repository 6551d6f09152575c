//! Converts offsets in a text to lines and columns, and back.
//!
//! Offsets count bytes from 0; lines and columns count from 1. A column counts characters unless
//! another [`PositionEncoding`] is given. In a text that is not UTF-8, each undecodable byte counts
//! as one unit.

use std::borrow::Cow;

/// The unit of columns, called position encoding by the Language Server Protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PositionEncoding {
    /// Bytes of UTF-8.
    Utf8,
    /// Code units of UTF-16, the default of editors.
    Utf16,
    /// Unicode characters.
    Characters,
}

/// A line and a column, both from 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LineColumn {
    /// The line.
    pub line: u32,
    /// The column.
    pub column: u32,
}

/// Converts offsets of one text. It stores the starts of the lines, not the text, so methods with a
/// `text` parameter need the same bytes again.
#[derive(Debug, Clone)]
pub struct LineIndex {
    starts: Vec<u32>,
    /// One mark for every [`STEP`] bytes, so that a conversion reads at most a few steps of a long
    /// line. Empty if no line is long.
    marks: Vec<ColumnMark>,
}

/// The distance between marks, in bytes.
const STEP: usize = 256;

/// The units before an offset that is not inside a character.
#[derive(Debug, Clone, Copy)]
struct ColumnMark {
    offset: u32,
    characters: u32,
    utf16: u32,
}

impl ColumnMark {
    /// Returns the number of units of `encoding` before the mark.
    fn units(&self, encoding: PositionEncoding) -> usize {
        let units = match encoding {
            PositionEncoding::Utf8 => self.offset,
            PositionEncoding::Utf16 => self.utf16,
            PositionEncoding::Characters => self.characters,
        };
        units as usize
    }
}

/// Creates the marks of `text`.
fn column_marks(text: &[u8]) -> Vec<ColumnMark> {
    let (mut marks, mut at, mut characters, mut utf16) = (Vec::new(), 0, 0, 0);
    while at < text.len() {
        marks.push(ColumnMark { offset: at as u32, characters, utf16 });
        let mut end = (marks.len() * STEP).min(text.len());
        // A character has at most three bytes after its first. Any later ones are invalid.
        for _ in 0..3 {
            end += usize::from(text.get(end).is_some_and(|byte| byte & 0xc0 == 0x80));
        }
        characters += PositionEncoding::Characters.count(&text[at..end]) as u32;
        utf16 += PositionEncoding::Utf16.count(&text[at..end]) as u32;
        at = end;
    }
    marks
}

impl LineIndex {
    /// Finds the lines of `text`. A line ends after its line feed.
    pub fn new(text: &[u8]) -> Self {
        let mut starts = vec![0];
        starts.extend(memchr::memchr_iter(b'\n', text).map(|at| at as u32 + 1));
        let ends = starts.iter().skip(1).copied().chain([text.len() as u32]);
        let has_long_line = starts.iter().zip(ends).any(|(start, end)| (end - start) as usize > STEP);
        let marks = if has_long_line { column_marks(text) } else { Vec::new() };
        LineIndex { starts, marks }
    }

    /// Returns the line of the byte at `offset`.
    pub fn line(&self, offset: u32) -> u32 {
        self.starts.partition_point(|&start| start <= offset) as u32
    }

    /// Returns the line of the byte at `offset`, and its column in characters.
    pub fn position(&self, text: &[u8], offset: u32) -> LineColumn {
        self.position_in(text, offset, PositionEncoding::Characters)
    }

    /// Returns the line of the byte at `offset`, and its column in units of `encoding`.
    pub fn position_in(&self, text: &[u8], offset: u32, encoding: PositionEncoding) -> LineColumn {
        let line = self.line(offset);
        let start = self.start(line) as usize;
        let end = (offset as usize).min(text.len());
        let from = self.marks.partition_point(|mark| mark.offset as usize <= end);
        let (from, units) = match self.marks[..from].last().filter(|mark| mark.offset as usize > start) {
            Some(mark) => {
                (mark.offset as usize, mark.units(encoding) - self.units_before(text, start, encoding))
            }
            None => (start, 0),
        };
        let between = text.get(from..end).unwrap_or_default();
        LineColumn { line, column: (units + encoding.count(between)) as u32 + 1 }
    }

    /// Returns the number of units before the line start at `start`. Needs marks.
    fn units_before(&self, text: &[u8], start: usize, encoding: PositionEncoding) -> usize {
        let before = self.marks.partition_point(|mark| mark.offset as usize <= start);
        self.marks[..before].last().map_or(0, |mark| {
            let between = text.get(mark.offset as usize..start).unwrap_or_default();
            mark.units(encoding) + encoding.count(between)
        })
    }

    /// Returns the offset of `position`, with its column in units of `encoding`. A column past the
    /// end of the line gives the end of the line. `None` if the line does not exist.
    pub fn offset(&self, text: &[u8], position: LineColumn, encoding: PositionEncoding) -> Option<u32> {
        if position.line == 0 || position.line as usize > self.starts.len() {
            return None;
        }
        let (line, start) = (self.bytes(text, position.line), self.start(position.line) as usize);
        let mut units = position.column.max(1) as usize - 1;
        let mut from = 0;
        if units > STEP && !self.marks.is_empty() {
            let before = self.units_before(text, start, encoding);
            let end = start + line.len();
            let is_before =
                |mark: &ColumnMark| mark.offset as usize <= end && mark.units(encoding) <= before + units;
            let marks = &self.marks[..self.marks.partition_point(is_before)];
            if let Some(mark) = marks.last().filter(|mark| mark.offset as usize > start) {
                from = mark.offset as usize - start;
                units -= mark.units(encoding) - before;
            }
        }
        Some((start + from + encoding.skip(&line[from..], units)) as u32)
    }

    /// Returns the offset of the start of `line`. For a line past the end, returns the start of the
    /// last line.
    pub fn start(&self, line: u32) -> u32 {
        let index = (line.max(1) as usize - 1).min(self.starts.len() - 1);
        self.starts[index]
    }

    /// Returns the bytes of `line` without its line ending; empty past the end.
    pub fn bytes<'a>(&self, text: &'a [u8], line: u32) -> &'a [u8] {
        let Some(&start) = (line as usize).checked_sub(1).and_then(|index| self.starts.get(index)) else {
            return &[];
        };
        let end = self.starts.get(line as usize).map_or(text.len(), |&next| next as usize);
        let mut bytes = text.get(start as usize..end).unwrap_or_default();
        for ending in [b'\n', b'\r'] {
            bytes = bytes.strip_suffix(&[ending]).unwrap_or(bytes);
        }
        bytes
    }

    /// Returns the number of lines. An empty text has one line.
    pub fn count(&self) -> usize {
        self.starts.len()
    }
}

impl PositionEncoding {
    /// Returns the number of units in `bytes`.
    fn count(self, bytes: &[u8]) -> usize {
        match self {
            PositionEncoding::Utf8 => bytes.len(),
            _ if bytes.is_ascii() => bytes.len(),
            PositionEncoding::Characters => characters(bytes),
            PositionEncoding::Utf16 => bytes
                .utf8_chunks()
                .map(|chunk| chunk.valid().encode_utf16().count() + chunk.invalid().len())
                .sum(),
        }
    }

    /// Returns the length in bytes of the first `units` units of `bytes`. A character that is only
    /// partly included counts fully.
    fn skip(self, bytes: &[u8], units: usize) -> usize {
        let width = |char: char| match self {
            PositionEncoding::Utf8 => char.len_utf8(),
            PositionEncoding::Utf16 => char.len_utf16(),
            PositionEncoding::Characters => 1,
        };
        let (mut at, mut seen) = (0, 0);
        // A unit has at most four bytes. The first chunk is read to its end, so limit it.
        let bytes = &bytes[..bytes.len().min(units.saturating_mul(4))];
        for chunk in bytes.utf8_chunks() {
            let valid = chunk.valid().chars().map(|char| (char.len_utf8(), width(char)));
            for (bytes, units_of) in valid.chain(chunk.invalid().iter().map(|_| (1, 1))) {
                if seen >= units {
                    return at;
                }
                (at, seen) = (at + bytes, seen + units_of);
            }
        }
        at
    }
}

/// Computes the columns, in characters, of ascending offsets. Reads each byte only once, so that
/// long lines take linear time.
#[derive(Debug)]
pub struct AscendingColumns<'a> {
    text: &'a [u8],
    at: usize,
    column: usize,
}

impl<'a> AscendingColumns<'a> {
    /// Starts at the beginning of `text`.
    pub fn new(text: &'a [u8]) -> Self {
        Self { text, at: 0, column: 1 }
    }

    /// Returns the column of the byte at `offset`. Offsets must not descend between calls.
    pub fn of(&mut self, offset: u32) -> usize {
        let between = self.text.get(self.at..offset as usize).unwrap_or_default();
        self.column = match memchr::memrchr(b'\n', between) {
            Some(line) => 1 + characters(&between[line + 1..]),
            None => self.column + characters(between),
        };
        self.at = offset as usize;
        self.column
    }
}

/// Returns the number of characters in `bytes`.
pub fn characters(bytes: &[u8]) -> usize {
    bytes.utf8_chunks().map(|chunk| chunk.valid().chars().count() + chunk.invalid().len()).sum()
}

/// Decodes `bytes` as UTF-8, and each invalid byte as Latin-1.
pub fn decode(bytes: &[u8]) -> Cow<'_, str> {
    match std::str::from_utf8(bytes) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut text = String::with_capacity(bytes.len() + 8);
            for chunk in bytes.utf8_chunks() {
                text.push_str(chunk.valid());
                text.extend(chunk.invalid().iter().map(|&byte| char::from(byte)));
            }
            Cow::Owned(text)
        }
    }
}

/// The ways to decode invalid bytes in UTF-8.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Undecodable {
    /// Each byte becomes its Latin-1 character, as in [`decode`].
    Latin1,
    /// Each invalid sequence becomes U+FFFD, as in [`String::from_utf8_lossy`].
    Replaced,
}

/// Converts a byte offset in the decoded text of `bytes` to an offset in `bytes`. `None` if the
/// offset is inside a character or past the end.
pub fn undecoded(bytes: &[u8], offset: usize, undecodable: Undecodable) -> Option<usize> {
    let (mut at, mut decoded) = (0, 0);
    for chunk in bytes.utf8_chunks() {
        let (valid, damage) = (chunk.valid(), chunk.invalid().len());
        if offset <= decoded + valid.len() {
            let within = offset.checked_sub(decoded)?;
            return valid.is_char_boundary(within).then_some(at + within);
        }
        at += valid.len();
        decoded += valid.len();
        let (characters, taken, width) = match undecodable {
            // The upper half of Latin-1 takes two bytes in UTF-8.
            Undecodable::Latin1 => (damage, 1, 2),
            Undecodable::Replaced => (damage.min(1), damage, char::REPLACEMENT_CHARACTER.len_utf8()),
        };
        for _ in 0..characters {
            at += taken;
            decoded += width;
            if decoded == offset {
                return Some(at);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_in_invalid_bytes_match_decoding() {
        // Two invalid sequences in a row, the second of two bytes; one more at the end.
        let bytes = b"a\xff\xe4\xb8z\xff";
        let lossy = String::from_utf8_lossy(bytes);
        assert_eq!(lossy.len(), 11);
        let starts = lossy.char_indices().map(|(at, _)| at).chain([lossy.len()]);
        let found: Vec<_> = starts.map(|at| undecoded(bytes, at, Undecodable::Replaced)).collect();
        assert_eq!(found, [0, 1, 2, 4, 5, 6].map(Some));
        assert_eq!(undecoded(bytes, 2, Undecodable::Replaced), None);
        let latin = decode(bytes);
        let starts = latin.char_indices().map(|(at, _)| at).chain([latin.len()]);
        let found: Vec<_> = starts.map(|at| undecoded(bytes, at, Undecodable::Latin1)).collect();
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 6].map(Some));
    }

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let text = "a\nhé é!\r\n\nend".as_bytes();
        let lines = LineIndex::new(text);
        assert_eq!(lines.count(), 4);
        let position = |offset| {
            let LineColumn { line, column } = lines.position(text, offset);
            (line, column)
        };
        assert_eq!(position(0), (1, 1));
        let bang = text.iter().position(|&byte| byte == b'!').unwrap() as u32;
        assert_eq!(position(bang), (2, 5));
        assert_eq!(lines.bytes(text, 2), "hé é!".as_bytes());
        assert_eq!(lines.bytes(text, 3), b"");
        assert_eq!(lines.bytes(text, 4), b"end");
        assert_eq!(lines.bytes(text, 5), b"");
        assert_eq!(position(1000), (4, 4));
    }

    #[test]
    fn non_utf8_byte_is_one_character() {
        let text = b"caf\xe9 x";
        assert_eq!(decode(text), "café x");
        for (character, byte) in decode(text).char_indices().zip(0..) {
            assert_eq!(undecoded(text, character.0, Undecodable::Latin1), Some(byte));
        }
        assert_eq!(undecoded(text, 7, Undecodable::Latin1), Some(6), "the end");
        assert_eq!(
            (undecoded(text, 4, Undecodable::Latin1), undecoded(text, 8, Undecodable::Latin1)),
            (None, None)
        );
        assert_eq!(LineIndex::new(text).position(text, 5), LineColumn { line: 1, column: 6 });
    }

    #[test]
    fn columns_convert_back_in_every_encoding() {
        let text = "x\n(é 𝒳 y)\n".as_bytes();
        let lines = LineIndex::new(text);
        let y = text.iter().position(|&byte| byte == b'y').unwrap() as u32;
        for (encoding, column) in
            [(PositionEncoding::Utf8, 10), (PositionEncoding::Utf16, 7), (PositionEncoding::Characters, 6)]
        {
            let position = lines.position_in(text, y, encoding);
            assert_eq!(position, LineColumn { line: 2, column }, "{encoding:?}");
            assert_eq!(lines.offset(text, position, encoding), Some(y), "{encoding:?}");
            let past = LineColumn { line: 2, column: 99 };
            assert_eq!(lines.offset(text, past, encoding), Some(text.len() as u32 - 1));
            assert_eq!(lines.offset(text, LineColumn { line: 4, column: 1 }, encoding), None);
        }
    }

    #[test]
    fn conversions_read_few_bytes_of_long_lines() {
        let text = "(é 𝒳 y)".repeat(40_000).into_bytes();
        let lines = LineIndex::new(&text);
        for encoding in [PositionEncoding::Utf8, PositionEncoding::Utf16, PositionEncoding::Characters] {
            for at in (0..text.len()).step_by(9973) {
                // A conversion that reads the bytes outside of this window would count newlines
                // and invalid bytes.
                let window = at.saturating_sub(STEP + 3)..(at + STEP + 3).min(text.len());
                let mut other = vec![0xff; text.len()];
                other[window.clone()].copy_from_slice(&text[window]);
                let position = lines.position_in(&text, at as u32, encoding);
                assert_eq!(lines.position_in(&other, at as u32, encoding), position);
                assert_eq!(lines.offset(&other, position, encoding), lines.offset(&text, position, encoding));
            }
        }
    }

    proptest::proptest! {
        #[test]
        fn long_lines_have_exact_columns(
            parts in proptest::collection::vec(("[a é𝒳\n\r]{0,90}", "[\u{80}-\u{bf}]?"), 0..40),
            cut in 0usize..4,
        ) {
            // Second bytes of characters alone are invalid, also in a row and next to marks.
            let bytes: Vec<u8> = parts
                .iter()
                .flat_map(|(valid, invalid)| [valid.as_bytes(), invalid.as_bytes().get(1..).unwrap_or_default()])
                .flatten()
                .copied()
                .skip(cut)
                .collect();
            let lines = LineIndex::new(&bytes);
            let plain = LineIndex { marks: Vec::new(), ..lines.clone() };
            for encoding in [PositionEncoding::Utf8, PositionEncoding::Utf16, PositionEncoding::Characters] {
                for at in 0..=bytes.len() as u32 + 1 {
                    let position = lines.position_in(&bytes, at, encoding);
                    proptest::prop_assert_eq!(position, plain.position_in(&bytes, at, encoding));
                    let there = lines.offset(&bytes, position, encoding);
                    proptest::prop_assert_eq!(there, plain.offset(&bytes, position, encoding));
                }
            }
        }

        #[test]
        fn character_starts_convert_back(text in "[a\n\r é𝒳]{0,40}") {
            let (bytes, lines) = (text.as_bytes(), LineIndex::new(text.as_bytes()));
            for (at, char) in text.char_indices().filter(|(_, char)| !matches!(char, '\n' | '\r')) {
                for encoding in [PositionEncoding::Utf8, PositionEncoding::Utf16, PositionEncoding::Characters] {
                    let position = lines.position_in(bytes, at as u32, encoding);
                    let back = lines.offset(bytes, position, encoding);
                    proptest::prop_assert_eq!(back, Some(at as u32), "{} {:?}", char, encoding);
                }
            }
        }
    }
}
