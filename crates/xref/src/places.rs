//! The table of places of the forms in SBCL's own sources, made when the program is built, so that no question reads
//! those sources.
//!
//! On disk: [`MAGIC`], the number of rows, then the rows in the order of their keys: 64 bits of key, 32 of line, 32 of
//! column, little-endian. The key is the FNV-1a hash of a file's logical name and an offset.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Index;

/// The first bytes of a table.
pub const MAGIC: &[u8; 8] = b"SBPLAC01";

const ROW: usize = 16;

/// The table, read in place.
#[derive(Debug, Clone, Copy)]
pub struct PlaceTable {
    rows: &'static [[u8; ROW]],
}

impl PlaceTable {
    /// Opens a table; none if it is of another version, or cut off.
    pub fn open(bytes: &'static [u8]) -> Option<Self> {
        let (count, rows) = bytes.strip_prefix(MAGIC)?.split_first_chunk()?;
        let (rows, rest) = rows.as_chunks::<ROW>();
        (rest.is_empty() && rows.len() as u64 == u64::from_le_bytes(*count)).then_some(Self { rows })
    }

    /// The line and column, from 1, of the form after so many bytes of the file with this logical name. None if it is
    /// not known here.
    pub fn find(&self, file: &str, bytes: u32) -> Option<(u32, u32)> {
        let key = key(file.as_bytes(), bytes);
        let at = self.rows.binary_search_by_key(&key, long).ok()?;
        let row = self.rows.get(at)?;
        Some((short(row, 8), short(row, 12)))
    }
}

fn long(row: &[u8; ROW]) -> u64 {
    row.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn short(row: &[u8; ROW], at: usize) -> u32 {
    row.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

fn key(file: &[u8], bytes: u32) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = file.iter().chain(&[0]).fold(0xcbf2_9ce4_8422_2325, fold);
    bytes.to_le_bytes().iter().fold(hash, fold)
}

/// The path below the folder of SBCL's sources that a logical name such as `SYS:SRC;CODE;LIST.LISP` means.
pub fn source_path(name: &str) -> Option<PathBuf> {
    Some(name.strip_prefix("SYS:")?.to_ascii_lowercase().split(';').collect())
}

/// Makes the table of all functions of `index`, the bytes of one, in SBCL's sources below `sources`; an empty one without
/// them.
///
/// # Errors
/// The index cannot be read, or has two places that no table can tell apart: a sentence's end.
pub fn of_sources(index: Vec<u8>, sources: Option<&Path>) -> Result<Vec<u8>, String> {
    let index = Index::open(index).map_err(|error| error.to_string())?;
    bake(&index, |file| std::fs::read(sources?.join(source_path(file)?)).ok())
        .ok_or_else(|| "two places have one key".to_owned())
}

/// Makes the table of all functions of `index` in files that `read` gives the text of, by their logical names. None if
/// two places have one key: then no table can tell them apart.
pub fn bake(index: &Index, read: impl Fn(&str) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let mut wanted: BTreeMap<String, BTreeSet<u32>> = BTreeMap::new();
    for (file, offset) in index.toplevel_forms() {
        wanted.entry(file.into_owned()).or_default().insert(offset);
    }
    let mut rows: Vec<(u64, u32, u32)> = Vec::new();
    for (file, offsets) in wanted {
        let Some(text) = read(&file) else { continue };
        let mut cursor = LineCounter { text: &text, at: 0, line: 1, start: 0 };
        for offset in offsets {
            if let Some(at) = form_start(&text, offset as usize) {
                let (line, column) = cursor.go_to(at);
                rows.push((key(file.as_bytes(), offset), line, column));
            }
        }
    }
    rows.sort_unstable();
    if rows.windows(2).any(|pair| pair[0].0 == pair[1].0) {
        return None;
    }
    let mut bytes = MAGIC.to_vec();
    bytes.extend((rows.len() as u64).to_le_bytes());
    for (key, line, column) in rows {
        bytes.extend(key.to_le_bytes());
        bytes.extend(line.to_le_bytes());
        bytes.extend(column.to_le_bytes());
    }
    Some(bytes)
}

/// A position in a text, which only advances.
struct LineCounter<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
    /// The byte at which the line starts.
    start: usize,
}

impl LineCounter<'_> {
    /// Advances to the byte at `at`. Returns its line, and its column in characters, both from 1. Bytes that are no
    /// UTF-8 count as their replacement characters.
    fn go_to(&mut self, at: usize) -> (u32, u32) {
        while self.at < at {
            if self.text.get(self.at) == Some(&b'\n') {
                self.line += 1;
                self.start = self.at + 1;
            }
            self.at += 1;
        }
        let before = self.text.get(self.start..at).unwrap_or_default();
        (self.line, String::from_utf8_lossy(before).chars().count() as u32 + 1)
    }
}

/// The first byte from `at` on that belongs to neither white space nor a comment.
pub fn form_start(text: &[u8], mut at: usize) -> Option<usize> {
    loop {
        let rest = text.get(at..)?;
        match rest {
            [] => return None,
            [b';', ..] => at += rest.iter().position(|byte| *byte == b'\n')?,
            [b'#', b'|', ..] => at += block_comment(rest)?,
            [byte, ..] if byte.is_ascii_whitespace() || *byte == 0x0b => at += 1,
            _ => return Some(at),
        }
    }
}

/// The length of the nested comment that `text` begins with.
fn block_comment(text: &[u8]) -> Option<usize> {
    let (mut depth, mut at) = (0_usize, 0);
    loop {
        match text.get(at..)? {
            [b'#', b'|', ..] => {
                depth += 1;
                at += 2;
            }
            [b'|', b'#', ..] => {
                depth -= 1;
                at += 2;
                if depth == 0 {
                    return Some(at);
                }
            }
            [] => return None,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_white_space_are_skipped() {
        let check = |text: &str, at, expect| assert_eq!(form_start(text.as_bytes(), at), expect, "{text:?}");
        check("(a) ; one\n\n #| two #| three |# |#\t(b)", 3, Some(34));
        check("(a)\n(b)", 3, Some(4));
        check("(a)", 0, Some(0));
        check("(a)  ", 3, None);
        check("(a) #| open", 3, None);
        check("(a)", 9, None);
    }

    #[test]
    fn a_table_that_is_cut_off_is_none() {
        let mut bytes = MAGIC.to_vec();
        bytes.extend(1_u64.to_le_bytes());
        bytes.extend(key(b"SYS:A.LISP", 7).to_le_bytes());
        bytes.extend([3, 0, 0, 0, 5, 0, 0, 0]);
        let whole: &'static [u8] = Vec::leak(bytes);
        let places = PlaceTable::open(whole).unwrap();
        assert_eq!(places.find("SYS:A.LISP", 7), Some((3, 5)));
        assert_eq!(places.find("SYS:A.LISP", 8), None);
        assert!((0..whole.len()).all(|end| PlaceTable::open(&whole[..end]).is_none()));
    }

    #[test]
    fn columns_count_characters() {
        let text = "é\nüü (a)\n(b)".as_bytes();
        let mut cursor = LineCounter { text, at: 0, line: 1, start: 0 };
        assert_eq!(cursor.go_to(0), (1, 1));
        assert_eq!(cursor.go_to(8), (2, 4));
        assert_eq!(cursor.go_to(12), (3, 1));
    }
}
