//! Lines and columns of a text, from byte offsets.
//!
//! Lines and columns count from 1. A column counts characters, not bytes; in a text that is not
//! UTF-8 every byte that does not decode counts as one character.

use std::borrow::Cow;

/// The starts of a text's lines.
#[derive(Debug, Clone)]
pub struct Lines {
    starts: Vec<u32>,
}

impl Lines {
    /// Finds the lines of `text`. A line ends after its line feed.
    pub fn new(text: &[u8]) -> Self {
        let mut starts = vec![0];
        starts.extend(memchr::memchr_iter(b'\n', text).map(|at| at as u32 + 1));
        Lines { starts }
    }

    /// The line, from 1, on which the byte at `offset` stands.
    pub fn line(&self, offset: u32) -> u32 {
        self.starts.partition_point(|&start| start <= offset) as u32
    }

    /// The line, from 1, and the column in characters, from 1, of the byte at `offset`.
    pub fn position(&self, text: &[u8], offset: u32) -> (u32, u32) {
        let line = self.line(offset);
        let start = self.start(line) as usize;
        let end = (offset as usize).min(text.len());
        let before = text.get(start..end).unwrap_or_default();
        (line, characters(before) as u32 + 1)
    }

    /// The byte at which `line` (from 1) starts. A line past the end starts where the last one does.
    pub fn start(&self, line: u32) -> u32 {
        let index = (line.max(1) as usize - 1).min(self.starts.len() - 1);
        self.starts[index]
    }

    /// The bytes of `line` (from 1), without its line ending; empty past the end.
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

    /// How many lines there are; an empty text has one.
    pub fn count(&self) -> usize {
        self.starts.len()
    }
}

/// How many characters `bytes` holds.
pub fn characters(bytes: &[u8]) -> usize {
    bytes.utf8_chunks().map(|chunk| chunk.valid().chars().count() + chunk.invalid().len()).sum()
}

/// `bytes` as characters: UTF-8 where they are UTF-8, else Latin-1, in which every byte is a character.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_and_columns_count_characters_from_one() {
        let text = "a\nhé é!\r\n\nend".as_bytes();
        let lines = Lines::new(text);
        assert_eq!(lines.count(), 4);
        assert_eq!(lines.position(text, 0), (1, 1));
        let bang = text.iter().position(|&byte| byte == b'!').unwrap() as u32;
        assert_eq!(lines.position(text, bang), (2, 5));
        assert_eq!(lines.bytes(text, 2), "hé é!".as_bytes());
        assert_eq!(lines.bytes(text, 3), b"");
        assert_eq!(lines.bytes(text, 4), b"end");
        assert_eq!(lines.bytes(text, 5), b"");
        assert_eq!(lines.position(text, 1000), (4, 4));
    }

    #[test]
    fn a_byte_that_is_not_utf8_is_one_character() {
        let text = b"caf\xe9 x";
        assert_eq!(decode(text), "café x");
        assert_eq!(Lines::new(text).position(text, 5), (1, 6));
    }
}
