//! Scans a text for identifiers and their roles. The index is built from this scan. A search
//! repeats it for very frequent identifiers, for which the index stores only counts.

use crate::language::{Apostrophe, Language, Lexis, Quote, Rule};

pub(crate) mod lisp;
pub(crate) mod occurrence;

pub(crate) use occurrence::ScannedName;
pub use occurrence::TextRole;
use occurrence::{LONGEST_IDENTIFIER, first_character, is_word_character};

/// Calls `emit` for every identifier of `text`, in order. An identifier with a sigil such as `$`,
/// or with the `!` of a Rust macro, follows its bare form.
pub(crate) fn occurrences(text: &[u8], language: Language, emit: &mut dyn FnMut(ScannedName<'_>)) {
    match language.rule() {
        Rule::Lisp(dialect) => lisp::occurrences(text, dialect, emit),
        rule => {
            Scanner { text, at: 0, rule, lexis: language.lexis(), state: ScanState::Code, resume: Vec::new() }
                .scan(emit)
        }
    }
}

/// Returns the length in bytes of the word character at the start of `bytes`, or 0 if there is
/// none.
pub(crate) fn word_length(bytes: &[u8], rule: Rule) -> usize {
    match bytes.first() {
        Some(byte) if byte.is_ascii_alphanumeric() || *byte == b'_' => 1,
        Some(b'$') if rule == Rule::Dollar => 1,
        Some(byte) if byte.is_ascii() => 0,
        _ => match first_character(bytes) {
            Some(character) if is_word_character(character) => character.len_utf8(),
            _ => 0,
        },
    }
}

struct Scanner<'a> {
    text: &'a [u8],
    at: usize,
    rule: Rule,
    lexis: &'static Lexis,
    state: ScanState,
    /// The strings around the current embedded code, each with the depth of braces in that code.
    resume: Vec<(Quote, usize)>,
}

#[derive(Clone, Copy)]
enum ScanState {
    Code,
    LineComment,
    /// The depth of nesting.
    BlockComment(usize),
    Within(Quote),
}

impl Scanner<'_> {
    fn scan(mut self, emit: &mut dyn FnMut(ScannedName<'_>)) {
        while let Some(&byte) = self.text.get(self.at) {
            if let ScanState::Within(Quote { code: Some(code), .. }) = self.state
                && self.is_at(code)
                && let ScanState::Within(quote) = std::mem::replace(&mut self.state, ScanState::Code)
            {
                self.at += code.len();
                self.resume.push((quote, 0));
                continue;
            }
            let length = word_length(&self.text[self.at..], self.rule);
            if length > 0 {
                if matches!(self.state, ScanState::Code) && matches!(byte, b'r' | b'R') && self.string_opens()
                {
                    continue;
                }
                self.word(byte, emit);
                continue;
            }
            match self.state {
                ScanState::Code => self.code(byte),
                ScanState::LineComment => {
                    if byte == b'\n' {
                        self.state = ScanState::Code;
                    }
                    self.at += 1;
                }
                ScanState::BlockComment(depth) => self.block_comment(depth),
                ScanState::Within(quote) => self.string(quote, byte),
            }
        }
    }

    fn is_at(&self, text: &str) -> bool {
        self.text[self.at..].starts_with(text.as_bytes())
    }

    fn code(&mut self, byte: u8) {
        if let Some((open, _)) = self.lexis.block
            && self.is_at(open)
        {
            self.at += open.len();
            self.state = ScanState::BlockComment(1);
        } else if self.lexis.line.iter().any(|line| self.is_at(line)) {
            self.at += 1;
            self.state = ScanState::LineComment;
        } else if !self.string_opens() {
            match byte {
                b'\'' if self.lexis.apostrophe == Apostrophe::Rust => return self.rust_apostrophe(),
                b'{' => {
                    if let Some((_, depth)) = self.resume.last_mut() {
                        *depth += 1;
                    }
                }
                b'}' => match self.resume.last_mut() {
                    Some((quote, 0)) => {
                        self.state = ScanState::Within(*quote);
                        self.resume.pop();
                    }
                    Some((_, depth)) => *depth -= 1,
                    None => {}
                },
                _ => {}
            }
            self.at += 1;
        }
    }

    fn string_opens(&mut self) -> bool {
        let Some(quote) = self.lexis.strings.iter().find(|quote| self.is_at(quote.open)) else {
            return false;
        };
        self.at += quote.open.len();
        self.state = ScanState::Within(*quote);
        true
    }

    /// Skips a character literal such as `'{'`, or the start of a literal with an escape such as
    /// `'\n'`. Otherwise skips only the apostrophe, which begins a lifetime, or a literal with a
    /// word character.
    fn rust_apostrophe(&mut self) {
        let rest = &self.text[self.at + 1..];
        self.at += 1;
        if rest.first() == Some(&b'\\') {
            self.state =
                ScanState::Within(Quote { open: "'", close: "'", escapes: true, lines: false, code: None });
        } else if let Some(character) = first_character(rest)
            && rest.get(character.len_utf8()) == Some(&b'\'')
            && !is_word_character(character)
        {
            self.at += character.len_utf8() + 1;
        }
    }

    fn block_comment(&mut self, depth: usize) {
        let Some((open, close)) = self.lexis.block else { return self.at += 1 };
        if self.is_at(close) {
            self.at += close.len();
            self.state = if depth > 1 { ScanState::BlockComment(depth - 1) } else { ScanState::Code };
        } else if self.lexis.nested && self.is_at(open) {
            self.at += open.len();
            self.state = ScanState::BlockComment(depth + 1);
        } else {
            self.at += 1;
        }
    }

    fn string(&mut self, quote: Quote, byte: u8) {
        if self.is_at(quote.close) {
            self.at += quote.close.len();
            self.state = ScanState::Code;
        } else if byte == b'\n' && !quote.lines {
            self.at += 1;
            self.state = ScanState::Code;
        } else if byte == b'\\' && quote.escapes {
            // Skip the escaped character, unless it is part of a word or ends the line.
            let next = self.text.get(self.at + 1).copied().unwrap_or(b'\n');
            let passed = next.is_ascii() && next != b'\n' && word_length(&[next], self.rule) == 0;
            self.at += if passed { 2 } else { 1 };
        } else {
            self.at += 1;
        }
    }

    fn word(&mut self, first: u8, emit: &mut dyn FnMut(ScannedName<'_>)) {
        let start = self.at;
        loop {
            match word_length(&self.text[self.at..], self.rule) {
                0 => break,
                length => self.at += length,
            }
        }
        if first.is_ascii_digit() {
            return;
        }
        let text = self.text;
        let byte_at = |at: usize| text.get(at).copied();
        let mut end = self.at;
        let next = byte_at(end);
        if self.rule == Rule::Ruby && matches!(next, Some(b'?' | b'!')) && byte_at(end + 1) != Some(b'=') {
            end += 1;
            self.at = end;
        }
        let is_macro = self.rule == Rule::Rust && next == Some(b'!') && byte_at(end + 1) != Some(b'=');
        let role = match self.state {
            ScanState::Code if is_macro || self.is_called(end) => TextRole::Call,
            ScanState::Code => TextRole::Reference,
            ScanState::LineComment | ScanState::BlockComment(_) => TextRole::Comment,
            ScanState::Within(_) => TextRole::String,
        };
        let mut send = |start: usize, end: usize| {
            if end - start <= LONGEST_IDENTIFIER {
                emit(ScannedName { key: &text[start..end], offset: start as u32, role });
            }
        };
        send(start, end);
        if is_macro {
            send(start, end + 1);
        }
        let before = |count: usize| start.checked_sub(count).and_then(byte_at);
        match self.rule {
            Rule::Php if before(1) == Some(b'$') => send(start - 1, end),
            Rule::Zig if before(1) == Some(b'@') => send(start - 1, end),
            Rule::Ruby if before(1) == Some(b'@') && before(2) == Some(b'@') => send(start - 2, end),
            Rule::Ruby if matches!(before(1), Some(b'@' | b'$')) => send(start - 1, end),
            _ => {}
        }
    }

    /// Returns whether an argument list follows the identifier that ends at `end`.
    fn is_called(&self, end: usize) -> bool {
        let rest = &self.text[end..];
        let blanks = rest.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
        rest.get(blanks) == Some(&b'(')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(language: &str, text: &str, expect: &[(&str, &str)]) {
        let mut found = Vec::new();
        occurrences(text.as_bytes(), Language::named(language).unwrap(), &mut |occurrence| {
            let key = String::from_utf8(occurrence.key.to_vec()).unwrap();
            found.push((key, occurrence.role.name()));
        });
        let found: Vec<_> = found.iter().map(|(key, role)| (key.as_str(), *role)).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn roles_reflect_comments_and_strings() {
        check(
            "rust",
            "a(b) // c \"d\"\n/* e /* f */ g */ \"h\\\"i\" r#\"j\"k\"# 'l' m",
            &[
                ("a", "call"),
                ("b", "reference"),
                ("c", "comment"),
                ("d", "comment"),
                ("e", "comment"),
                ("f", "comment"),
                ("g", "comment"),
                ("h", "string"),
                ("i", "string"),
                ("j", "string"),
                ("k", "string"),
                ("l", "reference"),
                ("m", "reference"),
            ],
        );
        check(
            "rust",
            "fn f<'a>(x: &'a T) { '\"'; '\\''; y }",
            &[
                ("fn", "reference"),
                ("f", "reference"),
                ("a", "reference"),
                ("x", "reference"),
                ("a", "reference"),
                ("T", "reference"),
                ("y", "reference"),
            ],
        );
        check(
            "javascript",
            "`a ${b + `c ${d}` + {e}} f` $g",
            &[
                ("a", "string"),
                ("b", "reference"),
                ("c", "string"),
                ("d", "reference"),
                ("e", "reference"),
                ("f", "string"),
                ("$g", "reference"),
            ],
        );
        check(
            "python",
            "a = '''b\n'c' ''' # d\ne(1, 0x1f)",
            &[("a", "reference"), ("b", "string"), ("c", "string"), ("d", "comment"), ("e", "call")],
        );
        check("c", "\"a\nb", &[("a", "string"), ("b", "reference")]);
    }

    #[test]
    fn identifier_syntax_depends_on_language() {
        check(
            "rust",
            "json!(x) a!=b",
            &[
                ("json", "call"),
                ("json!", "call"),
                ("x", "reference"),
                ("a", "reference"),
                ("b", "reference"),
            ],
        );
        check("php", "$x->y", &[("x", "reference"), ("$x", "reference"), ("y", "reference")]);
        check(
            "ruby",
            "@a.b? && @@c != d!",
            &[
                ("a", "reference"),
                ("@a", "reference"),
                ("b?", "reference"),
                ("c", "reference"),
                ("@@c", "reference"),
                ("d!", "reference"),
            ],
        );
        check("zig", "@import(\"a\")", &[("import", "call"), ("@import", "call"), ("a", "string")]);
        check(
            "python",
            "größe = δ1 — naïve2",
            &[("größe", "reference"), ("δ1", "reference"), ("naïve2", "reference")],
        );
        check("text", "caf\u{e9} 12ab _x", &[("café", "reference"), ("_x", "reference")]);
    }
}
