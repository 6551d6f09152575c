//! Finds a Lisp name as a word in text that is not Common Lisp: manuals, scripts, configuration,
//! and code in other languages.

use crate::index::TextIndex;
use crate::language::Language;
use crate::lisp_names::LispNames;
use crate::scan::occurrence::{first_character, is_word_character};
use crate::search::candidates;
use crate::store::pages::PageError;
use std::path::{Path, PathBuf};
use steelbank_reader::lines::LineColumn;
use steelbank_reader::{Dialect, Range};
use steelbank_tree::{is_lisp, may_be_lisp};

/// Names shorter than this, in bytes, are usually ordinary words. Names of two bytes are only found
/// with a package prefix; names of one byte are never found.
const SHORT: usize = 3;

/// An occurrence of a name as a separate word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WordMatch {
    /// The file, relative to the root.
    pub path: PathBuf,
    /// Line and column of the name, from 1.
    pub at: LineColumn,
    /// The range of the name without its prefix, in bytes of the file.
    pub range: Range,
    /// The package prefix as written, without colons.
    pub prefix: Option<String>,
}

impl LispNames {
    /// Finds `name` as a separate word, ignoring the case of ASCII letters, sorted by path and
    /// position. Searches the files of `index` that contain no Common Lisp and that `wanted`
    /// accepts. Files that have changed since they were indexed are skipped. `None` if the index is
    /// damaged or cannot be read.
    pub fn words(
        &self,
        index: &TextIndex,
        name: &str,
        wanted: &dyn Fn(&Path) -> bool,
    ) -> Option<Vec<WordMatch>> {
        self.find_words(index, name, wanted).ok()
    }

    fn find_words(
        &self,
        index: &TextIndex,
        name: &str,
        wanted: &dyn Fn(&Path) -> bool,
    ) -> Result<Vec<WordMatch>, PageError> {
        let mut needle = if name.len() < SHORT { ":".to_owned() } else { String::new() };
        needle.push_str(&name.to_lowercase());
        let mut found = Vec::new();
        if name.is_empty() || needle.len() < SHORT {
            return Ok(found);
        }
        for (segment, places) in self.snapshot().segments() {
            for local in candidates(segment, needle.as_bytes())? {
                let Some(entry) = self.place(places, local).and_then(|at| self.files().get(at)) else {
                    continue;
                };
                let is_lisp_text = |bytes: &[u8]| may_be_lisp(&entry.path) && is_lisp(&entry.path, bytes);
                if is_common_lisp(entry.language) || !wanted(&entry.path) {
                    continue;
                }
                let Some(text) = index.cache().get(index.tree(), entry) else { continue };
                if is_lisp_text(&text.bytes) {
                    continue;
                }
                found.extend(words_of(&text.bytes, needle.as_bytes(), name.len()).map(|(range, prefix)| {
                    let at = text.lines.position(&text.bytes, range.start);
                    WordMatch { path: entry.path.to_path_buf(), at, range, prefix }
                }));
            }
        }
        found.sort_by(|left, right| (&left.path, left.range.start).cmp(&(&right.path, right.range.start)));
        Ok(found)
    }
}

fn is_common_lisp(language: Language) -> bool {
    language.dialect() == Some(Dialect::CommonLisp)
}

/// Finds a name in `text`, and its prefix at each place. `needle`, in lower case, consists of the
/// name, which has `length` bytes, possibly after the colon of a package prefix.
fn words_of(text: &[u8], needle: &[u8], length: usize) -> impl Iterator<Item = (Range, Option<String>)> {
    let lower = text.to_ascii_lowercase();
    let ends: Vec<usize> = memchr::memmem::find_iter(&lower, needle).map(|at| at + needle.len()).collect();
    ends.into_iter().filter_map(move |end| {
        let start = end - length;
        let prefix = prefix_of(text.get(..start)?)?;
        ends_word(text.get(..start)?, text.get(end..)?).then(|| (Range::of(start..end), prefix))
    })
}

/// Returns whether a character next to a name would be part of it. Markup and the punctuation that
/// ends a sentence are not part of it.
fn is_part(character: char) -> bool {
    is_word_character(character) || "-*+%$^/\\".contains(character)
}

/// Returns whether a word ends before `after`; `before` is the text preceding the word.
fn ends_word(before: &[u8], after: &[u8]) -> bool {
    let (Some(next), then) = (first_character(after), after.get(1..).and_then(first_character)) else {
        // Bytes that do not decode are probably letters in an older encoding.
        return after.is_empty();
    };
    match next {
        // If a name follows, this is part of a file name, an attribute, or a package prefix.
        '.' | ':' => !then.is_some_and(is_part) && (next == '.' || then != Some(':')),
        // This is an assignment to a shell variable or part of another name, unless it is markup
        // such as `=name=`.
        '=' => before.ends_with(b"="),
        next => !is_part(next),
    }
}

/// Returns the package prefix at the end of `before`, or `Some(None)` if a word can begin there
/// without one. `None` if no word can begin there.
fn prefix_of(before: &[u8]) -> Option<Option<String>> {
    let bare = before.strip_suffix(b":").map(|rest| rest.strip_suffix(b":").unwrap_or(rest));
    let Some(bare) = bare else {
        let begins = match last_character(before) {
            Some('.') => !last_character(&before[..before.len() - 1]).is_some_and(is_part),
            Some(last) => !is_part(last),
            None => before.is_empty(),
        };
        return begins.then_some(None);
    };
    let mut start = bare.len();
    while let Some(last) = last_character(&bare[..start]).filter(|last| is_part(*last) || *last == '.') {
        start -= last.len_utf8();
    }
    let prefix = std::str::from_utf8(&bare[start..]).ok()?.trim_start_matches('.');
    (!prefix.is_empty()).then(|| Some(prefix.to_owned()))
}

fn last_character(bytes: &[u8]) -> Option<char> {
    (1..=bytes.len().min(4)).find_map(|length| {
        let text = std::str::from_utf8(&bytes[bytes.len() - length..]).ok()?;
        text.chars().next()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, text: &str, expected: &[(&str, Option<&str>)]) {
        let needle = if name.len() < SHORT { format!(":{name}") } else { name.to_owned() };
        let found: Vec<_> = words_of(text.as_bytes(), needle.as_bytes(), name.len())
            .map(|(range, prefix)| (&text[range.indices()], prefix))
            .collect();
        let found: Vec<_> = found.iter().map(|(word, prefix)| (*word, prefix.as_deref())).collect();
        assert_eq!(found, expected, "{text}");
    }

    #[test]
    fn name_must_be_a_separate_word() {
        for text in [
            "area", "(area 1)", "`area`", "@code{area}", "<b>area</b>", "the area.", "~area~", "=area=",
            "\"area\"", "@@@ area\n", "area: 3", "#area", "caf\u{e9} area",
        ] {
            check("area", text, &[("area", None)]);
        }
        for text in [
            "areas", "an-area", "area-2", "*area*", "area.lisp", "x.area", "area=3", "src/area", ":area",
            "$area", "area_b", "area:x", "\u{e9}area",
        ] {
            check("area", text, &[]);
        }
        check("*area*", "set *AREA* to (setf geo::*area* 1)", &[("*AREA*", None), ("*area*", Some("geo"))]);
        check("area", "GEO:Area, see geo.core:area", &[("Area", Some("GEO")), ("area", Some("geo.core"))]);
        check("on", "on it, lp:on", &[("on", Some("lp"))]);
    }

    #[test]
    fn undecodable_bytes_count_as_letters() {
        assert_eq!(words_of(b"\xe4area area\xe4 area", b"area", 4).count(), 1);
    }
}
