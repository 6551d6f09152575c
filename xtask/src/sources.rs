//! The repository's sources as text. Finds which files belong to the product, and the comments and
//! string literals in a file.

use std::path::Path;

use crate::ceilings::git;
use crate::root;

/// A language with comments and string literals that this module can find.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Language {
    Rust,
    Lisp,
    C,
    Markdown,
}

/// A tracked file.
pub(crate) struct Source {
    /// The path, relative to the repository's root.
    pub(crate) path: String,
    pub(crate) language: Language,
    pub(crate) text: String,
}

/// A comment or a string literal.
pub(crate) struct Piece {
    pub(crate) is_comment: bool,
    /// The line of the first character, from 1.
    pub(crate) line: usize,
    /// The text without its marks. Consecutive comment lines with the same mark are one piece.
    pub(crate) text: String,
}

/// Reads the tracked files of all languages that this module supports.
pub(crate) fn sources() -> Result<Vec<Source>, String> {
    let listed = git(&["ls-files", "--cached"])?;
    let mut sources = Vec::new();
    for path in listed.lines() {
        let language = match Path::new(path).extension().and_then(|extension| extension.to_str()) {
            Some("rs") => Language::Rust,
            Some("lisp" | "asd") => Language::Lisp,
            Some("c" | "h") => Language::C,
            Some("md") => Language::Markdown,
            _ => continue,
        };
        // A tracked file can be missing from the working tree while it is being moved.
        let Ok(text) = std::fs::read_to_string(root().join(path)) else { continue };
        sources.push(Source { path: path.to_owned(), language, text });
    }
    Ok(sources)
}

impl Source {
    /// Returns `true` for code that is shipped, and `false` for pages, tests, benchmarks, examples,
    /// fuzz targets and xtask.
    pub(crate) fn is_product(&self) -> bool {
        let folder = self.path.split('/').next().unwrap_or_default();
        self.language != Language::Markdown
            && !["benches", "examples", "tests", "fuzz", "xtask"].contains(&folder)
            && !self.is_test_file()
    }

    fn is_test_file(&self) -> bool {
        let path = format!("/{}", self.path);
        !path.ends_with("run_tests.rs")
            && (["/test/", "/tests/"].iter().any(|folder| path.contains(folder))
                || ["/test.rs", "/tests.rs", "schedules.rs", "writer.rs"]
                    .iter()
                    .any(|end| path.ends_with(end)))
    }

    /// Returns the line numbers, from 1, of the Rust modules under `#[cfg(test)]`.
    fn unit_tests(&self) -> Vec<std::ops::RangeInclusive<usize>> {
        let lines: Vec<&str> = self.text.lines().collect();
        let mut tests = Vec::new();
        let mut number = 0;
        while number + 1 < lines.len() {
            let (attribute, module) = (lines[number].trim_start(), lines[number + 1]);
            let is_test = ["#[cfg(test", "#[cfg(all(test"].iter().any(|start| attribute.starts_with(start));
            if self.language == Language::Rust && is_test && module.contains("mod ") && module.ends_with('{')
            {
                let indent = module.len() - module.trim_start().len();
                let end = format!("{}}}", " ".repeat(indent));
                let length = lines[number + 1..].iter().position(|line| line.trim_end() == end).unwrap_or(0);
                tests.push(number + 1..=number + 2 + length);
                number += 1 + length;
            }
            number += 1;
        }
        tests
    }

    /// Counts the lines of code, without blank lines, comments and unit tests.
    pub(crate) fn code_lines(&self) -> usize {
        let tests = self.unit_tests();
        let mut in_comment = false;
        let mut count = 0;
        for (number, line) in self.text.lines().enumerate() {
            let line = line.trim();
            let is_code = match self.language {
                _ if line.is_empty() => false,
                Language::Lisp => !line.starts_with(';'),
                Language::Rust | Language::C if in_comment => {
                    in_comment = !line.contains("*/");
                    false
                }
                Language::Rust | Language::C if line.starts_with("/*") => {
                    in_comment = !line.contains("*/");
                    false
                }
                Language::Rust | Language::C => !line.starts_with("//"),
                Language::Markdown => false,
            };
            count += usize::from(is_code && !tests.iter().any(|test| test.contains(&(number + 1))));
        }
        count
    }

    /// Returns the names of the file's tests: functions with a `test` attribute.
    pub(crate) fn test_names(&self) -> Vec<String> {
        let lines: Vec<&str> = self.text.lines().map(str::trim).collect();
        let tests = lines.iter().enumerate().filter(|(_, line)| ["#[test]", "#[tokio::test]"].contains(line));
        let name = |number: usize| {
            let function = lines[number..].iter().find_map(|line| line.split_once("fn "))?.1;
            Some(function.split(['(', '<']).next()?.to_owned())
        };
        tests.filter_map(|(number, _)| name(number)).collect()
    }

    /// Splits the text into its comments and string literals. For a page, returns the text without
    /// code blocks.
    pub(crate) fn pieces(&self) -> Vec<Piece> {
        match self.language {
            Language::Markdown => {
                let mut is_code = false;
                let prose = self.text.lines().filter(|line| {
                    is_code ^= line.trim_start().starts_with("```");
                    !is_code && !line.trim_start().starts_with("```")
                });
                let text = prose.collect::<Vec<_>>().join("\n");
                vec![Piece { is_comment: true, line: 1, text }]
            }
            Language::Lisp => join(scan(&self.text, ";", ("#|", "|#"))),
            Language::Rust | Language::C => join(scan(&self.text, "//", ("/*", "*/"))),
        }
    }
}

/// Joins consecutive lines of comments that begin in the same column with the same mark.
fn join(pieces: Vec<(Piece, String)>) -> Vec<Piece> {
    let mut joined: Vec<(Piece, String, usize)> = Vec::new();
    for (piece, mark) in pieces {
        match joined.last_mut() {
            Some((last, last_mark, end))
                if piece.is_comment && last.is_comment && piece.line == *end + 1 && mark == *last_mark =>
            {
                last.text += "\n";
                last.text += &piece.text;
                *end += 1;
            }
            _ => {
                let end = piece.line;
                joined.push((piece, mark, end));
            }
        }
    }
    joined.into_iter().map(|(piece, ..)| piece).collect()
}

/// Finds comments and strings. Also returns the start of each comment's line, up to and including
/// the comment mark; empty for strings and block comments.
fn scan(text: &str, comment: &str, block: (&str, &str)) -> Vec<(Piece, String)> {
    let is_lisp = comment == ";";
    let mut pieces = Vec::new();
    let (mut at, mut line, mut line_start) = (0, 1, 0);
    let bytes = text.as_bytes();
    while at < bytes.len() {
        let rest = &text[at..];
        let mut end = at + rest.chars().next().map_or(1, char::len_utf8);
        let mut found = None;
        if rest.starts_with(comment) {
            end = rest.find('\n').map_or(text.len(), |length| at + length);
            let mark = rest.chars().take_while(|c| "/;!".contains(*c)).map(char::len_utf8).sum::<usize>();
            found = Some((true, at + mark..end, text[line_start..at + mark].to_owned()));
        } else if rest.starts_with(block.0) {
            end = rest.find(block.1).map_or(text.len(), |length| at + length + 2);
            found = Some((true, at + 2..end.saturating_sub(2).max(at + 2), String::new()));
        } else if let Some((range, length)) = raw_string(rest).filter(|_| !is_lisp && !is_in_word(text, at)) {
            found = Some((false, at + range.start..at + range.end, String::new()));
            end = at + length;
        } else if bytes[at] == b'"' {
            end = string_end(bytes, at + 1);
            found = Some((false, at + 1..end.saturating_sub(1).max(at + 1), String::new()));
        } else if is_lisp && rest.starts_with("#\\") {
            end = at + 2 + rest[2..].chars().next().map_or(0, char::len_utf8);
        } else if is_lisp && bytes[at] == b'|' {
            end = rest[1..].find('|').map_or(text.len(), |length| at + length + 2);
        } else if !is_lisp && bytes[at] == b'\'' {
            end = at + character_length(rest);
        }
        if let Some((is_comment, range, mark)) = found {
            let text = text[range].trim().to_owned();
            pieces.push((Piece { is_comment, line, text }, mark));
        }
        let end = end.min(bytes.len());
        if let Some(last) = text[at..end].rfind('\n') {
            line += text[at..end].matches('\n').count();
            line_start = at + last + 1;
        }
        at = end;
    }
    pieces
}

fn is_in_word(text: &str, at: usize) -> bool {
    text[..at].chars().next_back().is_some_and(|c| c.is_alphanumeric() || c == '_')
}

/// Returns the range of the text in the raw string at the start of `rest`, and the length of the
/// literal.
fn raw_string(rest: &str) -> Option<(std::ops::Range<usize>, usize)> {
    let prefix = ["br", "cr", "r"].into_iter().find(|prefix| rest.starts_with(prefix))?;
    let marks = rest[prefix.len()..].bytes().take_while(|byte| *byte == b'#').count();
    let start = prefix.len() + marks + 1;
    (rest.as_bytes().get(start - 1) == Some(&b'"')).then_some(())?;
    let closing = format!("\"{}", "#".repeat(marks));
    let end = start + rest[start..].find(&closing)?;
    Some((start..end, end + closing.len()))
}

/// Returns the offset after the quote that ends a string. The string's text begins at `at`.
fn string_end(bytes: &[u8], mut at: usize) -> usize {
    while at < bytes.len() {
        match bytes[at] {
            b'\\' => at += 2,
            b'"' => return at + 1,
            _ => at += 1,
        }
    }
    bytes.len()
}

/// Returns the length of the character literal or lifetime mark at the start of `rest`.
fn character_length(rest: &str) -> usize {
    let mut characters = rest.char_indices().skip(1);
    match characters.next() {
        Some((_, '\\')) => {
            rest[2..].char_indices().skip(1).find(|(_, c)| *c == '\'').map_or(1, |(at, _)| at + 3)
        }
        Some((at, c)) if rest[at + c.len_utf8()..].starts_with('\'') => at + c.len_utf8() + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(language: Language, text: &str) -> Vec<(bool, usize, String)> {
        let source = Source { path: "a".to_owned(), language, text: text.to_owned() };
        source.pieces().into_iter().map(|piece| (piece.is_comment, piece.line, piece.text)).collect()
    }

    #[test]
    fn comment_lines_are_one_piece() {
        let text =
            "/// One\n/// two.\nfn f<'a>(c: char) { g('\"', '\\'', b\"x // y\"); } // three\n// four\n";
        let expected = [
            (true, 1, "One\ntwo.".to_owned()),
            (false, 3, "x // y".to_owned()),
            (true, 3, "three".to_owned()),
            (true, 4, "four".to_owned()),
        ];
        assert_eq!(pieces(Language::Rust, text), expected);
    }

    #[test]
    fn raw_strings_keep_quotes() {
        assert_eq!(pieces(Language::Rust, "r#\"a \"b\" c\"#"), [(false, 1, "a \"b\" c".to_owned())]);
    }

    #[test]
    fn lisp_characters_are_no_strings() {
        let text = "(f #\\\" #\\; |a;b|) ; why\n\"doc\n string\"";
        let expected = [(true, 1, "why".to_owned()), (false, 2, "doc\n string".to_owned())];
        assert_eq!(pieces(Language::Lisp, text), expected);
    }

    #[test]
    fn unit_tests_are_no_product_lines() {
        let text = "fn f() {}\n\n// why\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\nfn h() {}\n".to_owned();
        let source = Source { path: "src/a.rs".to_owned(), language: Language::Rust, text };
        assert_eq!(source.code_lines(), 2);
    }
}
