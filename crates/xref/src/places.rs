//! Reads and builds a section of the core's index: the positions of the top-level forms in SBCL's
//! sources. It is built with the program, so that queries need not read those sources.
//!
//! The rows are sorted by key and consist of a 64-bit key, a 32-bit line and a 32-bit column,
//! little-endian. The key is the FNV-1a hash of a file's logical name and an offset.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Index;
use super::export::Export;

impl Index {
    /// Returns the section of form positions, to copy it to another index of the same core.
    pub fn places(&self) -> &[u8] {
        self.base().places()
    }

    /// Returns the line and column, from 1, of the form at or after offset `bytes` in the file with
    /// this logical name. `None` if it is not recorded.
    pub fn form_after(&self, file: &str, bytes: u32) -> Option<(u32, u32)> {
        let (rows, _) = self.places().as_chunks();
        let key = key(file.as_bytes(), bytes);
        let at = rows.binary_search_by_key(&key, |row| u128::from_le_bytes(*row) as u64).ok()?;
        let row = u128::from_le_bytes(*rows.get(at)?);
        Some(((row >> 64) as u32, (row >> 96) as u32))
    }
}

fn key(file: &[u8], bytes: u32) -> u64 {
    let fold = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = file.iter().chain(&[0]).fold(0xcbf2_9ce4_8422_2325, fold);
    bytes.to_le_bytes().iter().fold(hash, fold)
}

/// Returns the path, relative to SBCL's source folder, of a logical name such as
/// `SYS:SRC;CODE;LIST.LISP`.
pub fn source_path(name: &str) -> Option<PathBuf> {
    Some(name.strip_prefix("SYS:")?.to_ascii_lowercase().split(';').collect())
}

/// Builds the section for all functions of `export` in SBCL's sources below `sources`. Files that
/// cannot be read are omitted. The section is empty without sources.
///
/// # Errors
///
/// An error message if the export cannot be read, or if two positions have the same key.
pub fn of_sources(export: &[u8], sources: Option<&Path>) -> Result<Vec<u8>, String> {
    let export = Export::read(export).map_err(|error| error.to_string())?;
    let mut wanted: BTreeMap<Cow<'_, str>, BTreeSet<u32>> = BTreeMap::new();
    for (file, offset) in export.toplevel_forms() {
        wanted.entry(file).or_default().insert(offset);
    }
    let mut rows: Vec<(u64, u32, u32)> = Vec::new();
    for (file, offsets) in wanted {
        let path = sources.and_then(|sources| Some(sources.join(source_path(&file)?)));
        let Some(text) = path.and_then(|path| std::fs::read(path).ok()) else { continue };
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
        return Err("two form positions have the same key".to_owned());
    }
    let row = |&(key, line, column): &(u64, u32, u32)| {
        (u128::from(key) | u128::from(line) << 64 | u128::from(column) << 96).to_le_bytes()
    };
    Ok(rows.iter().flat_map(row).collect())
}

/// Computes the lines and columns of ascending offsets.
struct LineCounter<'a> {
    text: &'a [u8],
    at: usize,
    line: u32,
    /// The byte at which the line starts.
    start: usize,
}

impl LineCounter<'_> {
    /// Advances to the byte at `at`. Returns its line and its column in characters, both from 1.
    /// Invalid UTF-8 counts as its replacement characters.
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

/// Returns the first byte from `at` on that is not whitespace or part of a comment. `None` if only
/// whitespace and comments follow.
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

/// Returns the length of the nested comment at the start of `text`.
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
    use crate::bake::bake;
    use crate::export::NONE;
    use crate::writer::ExportWriter;

    #[test]
    fn comments_and_whitespace_are_skipped() {
        let check = |text: &str, at, expect| assert_eq!(form_start(text.as_bytes(), at), expect, "{text:?}");
        check("(a) ; one\n\n #| two #| three |# |#\t(b)", 3, Some(34));
        check("(a)\n(b)", 3, Some(4));
        check("(a)", 0, Some(0));
        check("(a)  ", 3, None);
        check("(a) #| open", 3, None);
        check("(a)", 9, None);
    }

    #[test]
    fn recorded_positions_are_found() {
        let mut writer = ExportWriter::new(0, 9);
        let source = writer.source("SYS:SRC;A.LISP");
        for (number, offset) in [(1, 3), (2, 8)] {
            let function = writer.function("F", NONE, (number, 0), 1);
            writer.placed(function, source, number, offset);
        }
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("src")).unwrap();
        std::fs::write(folder.path().join("src/a.lisp"), "(a)\n(b)\n  (c)").unwrap();
        let export = writer.finish();
        let of =
            |sources| Index::open(bake(&export, &of_sources(&export, sources).unwrap()).unwrap()).unwrap();
        let index = of(Some(folder.path()));
        assert_eq!(index.form_after("SYS:SRC;A.LISP", 3), Some((2, 1)));
        assert_eq!(index.form_after("SYS:SRC;A.LISP", 8), Some((3, 3)));
        assert_eq!(index.form_after("SYS:SRC;A.LISP", 7), None);
        let other = Index::open(bake(&export, index.places()).unwrap()).unwrap();
        assert_eq!(other.form_after("SYS:SRC;A.LISP", 8), Some((3, 3)));
        assert_eq!(of(None).form_after("SYS:SRC;A.LISP", 3), None);
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
