//! Reads tokens: symbols, numbers, strings, characters, comments, and the constructs that begin
//! with `#`.

use super::super::text::{Datum, FormKind};
use super::super::token::is_number;
use super::super::{Dialect, Marker, Numbering, Range, Token, TokenKind};
use super::{FrameKind, LispReader, OpenConstruct};
use crate::lines::decode;

impl LispReader<'_> {
    fn push_token(&mut self, kind: TokenKind, start: usize, name_start: usize, marker: Marker) -> usize {
        let span = Range::new(start as u32, self.at as u32);
        self.text.tokens.push(Token {
            kind,
            span,
            name_start: name_start as u32,
            marker,
            form: self.enclosing(),
            active: self.skipping == 0,
            guarded: self.guarded > 0,
            in_feature: self.testing > 0,
            dialect: self.dialect,
        });
        self.text.tokens.len() - 1
    }

    /// Adds an atom from `start` to the current position.
    fn atom(&mut self, kind: TokenKind, start: usize) {
        let index = self.push_token(kind, start, start, Marker::None);
        self.complete(Datum::Token(index));
    }

    pub(super) fn line_end(&self) -> usize {
        memchr::memchr(b'\n', &self.bytes[self.at..]).map_or(self.bytes.len(), |length| self.at + length)
    }

    pub(super) fn comment_to(&mut self, end: usize) {
        let start = self.at;
        self.at = end;
        self.push_token(TokenKind::Comment, start, start, Marker::None);
    }

    /// Reads a nested `#| … |#` comment. Digits between the first two characters are ignored.
    fn block_comment(&mut self) {
        let opening = memchr::memchr(b'|', &self.bytes[self.at..]).map_or(0, |length| length + 1);
        let mut depth = 1_usize;
        let mut end = self.at + opening;
        while let Some(found) = self.bytes.get(end..).and_then(|rest| memchr::memchr2(b'#', b'|', rest)) {
            end += found;
            match self.bytes.get(end..end + 2) {
                Some(b"#|") => (depth, end) = (depth + 1, end + 2),
                Some(b"|#") => (depth, end) = (depth - 1, end + 2),
                _ => end += 1,
            }
            if depth == 0 {
                return self.comment_to(end);
            }
        }
        self.text.balanced = false;
        self.comment_to(self.bytes.len());
    }

    /// Reads a string. `opening` is the length of its opening characters.
    pub(super) fn string(&mut self, opening: usize) {
        let start = self.at;
        self.at += opening;
        loop {
            match memchr::memchr2(b'"', b'\\', &self.bytes[self.at..]) {
                Some(found) if self.bytes[self.at + found] == b'"' => {
                    self.at += found + 1;
                    break;
                }
                Some(found) => self.at = (self.at + found + 2).min(self.bytes.len()),
                None => {
                    self.text.balanced = false;
                    self.at = self.bytes.len();
                    break;
                }
            }
        }
        self.atom(TokenKind::String, start);
    }

    /// Skips one character, which may have several bytes.
    fn skip_character(&mut self) {
        self.at = (self.at + 1).min(self.bytes.len());
        while self.peek(0).is_some_and(|byte| byte & 0xc0 == 0x80) {
            self.at += 1;
        }
    }

    /// Skips constituents and escapes. Returns whether there were escapes.
    fn skip_constituents(&mut self) -> bool {
        let mut escaped = false;
        while let Some(byte) = self.peek(0) {
            if byte == b'\\' && self.dialect.has_single_escape() {
                escaped = true;
                self.at += 1;
                self.skip_character();
            } else if byte == b'|' && self.dialect.has_multiple_escape() {
                escaped = true;
                self.at += 1;
                while let Some(byte) = self.peek(0) {
                    self.at += 1;
                    if byte == b'|' {
                        break;
                    }
                    if byte == b'\\' {
                        self.skip_character();
                    }
                }
            } else if self.dialect.is_constituent(byte) {
                self.at += 1;
            } else {
                break;
            }
        }
        escaped
    }

    /// Reads `#\x` or Clojure's `\x`. `opening` is the length of the characters before `x`.
    pub(super) fn character(&mut self, opening: usize) {
        let start = self.at;
        self.at += opening;
        self.skip_character();
        self.skip_constituents();
        self.atom(TokenKind::Character, start);
    }

    /// Reads Emacs Lisp's `?a`, `?\(` or `?\C-x`.
    pub(super) fn emacs_character(&mut self) {
        let start = self.at;
        self.at += 1;
        if self.peek(0) == Some(b'\\') {
            self.at += 1;
            self.skip_character();
            self.skip_constituents();
        } else {
            self.skip_character();
        }
        self.atom(TokenKind::Character, start);
    }

    pub(super) fn token(&mut self) {
        let start = self.at;
        let escaped = self.skip_constituents();
        if self.at == start {
            // Skip a byte without meaning in this syntax.
            self.at += 1;
            return;
        }
        let raw = &self.bytes[start..self.at];
        if raw == b"." && self.dialect != Dialect::Clojure {
            if let Some(OpenConstruct { kind: FrameKind::List { dotted }, .. }) = self.stack.last_mut() {
                *dotted = true;
            }
            return;
        }
        if !escaped && is_number(raw) {
            return self.atom(TokenKind::Number, start);
        }
        self.symbol(start, start);
    }

    /// Adds a symbol from `start` to the current position. The search for a package marker begins
    /// at `from`.
    fn symbol(&mut self, start: usize, from: usize) {
        let raw = &self.bytes[from..self.at];
        let (name, marker) = match self.dialect {
            Dialect::CommonLisp => split_package(raw),
            Dialect::Clojure => split_namespace(raw),
            Dialect::EmacsLisp if raw.len() > 1 && raw[0] == b':' => (1, Marker::Keyword),
            _ => (0, Marker::None),
        };
        let index = self.push_token(TokenKind::Symbol, start, from + name, marker);
        // In `package::(form)`, SBCL reads the form with that package as the current one. The
        // prefix is therefore not a datum.
        let prefixes_form = marker == Marker::Internal && name == raw.len() && self.peek(0) == Some(b'(');
        if !prefixes_form {
            self.complete(Datum::Token(index));
        }
    }

    fn feature(&mut self, sense: bool, length: usize) {
        let (start, form) = (self.at as u32, self.enclosing());
        self.at += length;
        self.stack.push(OpenConstruct { kind: FrameKind::Feature(sense, start), form });
        self.testing += 1;
    }

    /// Reads a number with a radix, or a bit vector. It ends at the first byte that is not a
    /// constituent.
    fn number_token(&mut self, length: usize) {
        let start = self.at;
        self.at += length;
        self.skip_constituents();
        self.atom(TokenKind::Number, start);
    }

    pub(super) fn sharp_common(&mut self) {
        let digits = self.bytes[self.at + 1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
        let length = digits + 2;
        let Some(byte) = self.peek(digits + 1) else {
            self.at = self.bytes.len();
            return;
        };
        match byte.to_ascii_lowercase() {
            b'|' => {
                self.at += digits;
                self.block_comment();
            }
            b'\\' => self.character(length),
            b'\'' => self.prefix(FormKind::Function, length),
            b'(' => self.open(FormKind::Literal, length),
            b'*' | b'b' | b'o' | b'x' | b'r' => self.number_token(length),
            b':' => {
                let start = self.at;
                self.at += length;
                self.skip_constituents();
                let index = self.push_token(TokenKind::Symbol, start, start + length, Marker::Uninterned);
                self.complete(Datum::Token(index));
            }
            b'.' => {
                self.exact &= self.skipping > 0;
                self.prefix(FormKind::ReadEval, length);
            }
            b'+' => self.feature(true, length),
            b'-' => self.feature(false, length),
            b'a' | b'c' | b'p' | b's' => self.prefix(FormKind::Literal, length),
            b'=' if digits > 0 => self.at += length,
            b'#' if digits > 0 => {
                // With [`Numbering::Data`], SBCL numbers a list again where a label refers to it.
                self.exact &= self.skipping > 0 || self.features.numbering == Numbering::Code;
                let start = self.at;
                self.at += length;
                self.atom(TokenKind::Number, start);
            }
            other => {
                // A custom reader macro, or an error: continue after it.
                self.exact &= self.skipping > 0;
                let ends_here = self.dialect.is_terminating(other) || self.dialect.is_whitespace(other);
                self.at += if ends_here || !other.is_ascii() { digits + 1 } else { length };
            }
        }
    }

    pub(super) fn sharp_emacs(&mut self) {
        match self.peek(1) {
            Some(b'\'') => self.prefix(FormKind::Function, 2),
            Some(b'(' | b'[') => self.open(FormKind::Literal, 2),
            Some(b's') if self.peek(2) == Some(b'(') => self.open(FormKind::Literal, 3),
            _ => self.sharp_token(),
        }
    }

    pub(super) fn sharp_scheme(&mut self) {
        match self.peek(1) {
            Some(b';') => {
                self.at += 2;
                self.skip(true);
            }
            Some(b'|') => self.block_comment(),
            Some(b'\\') => self.character(2),
            Some(b'\'') => self.prefix(FormKind::Quote, 2),
            Some(b'`') => self.prefix(FormKind::Quasiquote, 2),
            Some(b',') => self.prefix(FormKind::Unquote, 2),
            Some(b'(' | b'[') => self.open(FormKind::Literal, 2),
            Some(b'"') => self.string(2),
            _ => self.sharp_token(),
        }
    }

    pub(super) fn sharp_clojure(&mut self) {
        match self.peek(1) {
            Some(b'_') => {
                self.at += 2;
                self.skip(true);
            }
            Some(b'!') => self.comment_to(self.line_end()),
            Some(b'"') => self.string(2),
            Some(b'\'') => self.prefix(FormKind::Function, 2),
            Some(b'^') => self.prefix(FormKind::Metadata, 2),
            Some(b'(') => self.open(FormKind::List, 2),
            Some(b'{') => self.open(FormKind::Literal, 2),
            Some(b'?') => self.at += if self.peek(2) == Some(b'@') { 3 } else { 2 },
            _ => self.sharp_token(),
        }
    }

    /// Reads a token that starts with `#`, such as `#t`, `#u8` or `#inst`.
    fn sharp_token(&mut self) {
        let start = self.at;
        self.at += 1;
        self.skip_constituents();
        self.symbol(start, start);
    }
}

/// Splits a Common Lisp token. Returns the start of its name and the package marker before it.
fn split_package(raw: &[u8]) -> (usize, Marker) {
    let mut quoted = false;
    let mut at = 0;
    while let Some(&byte) = raw.get(at) {
        match byte {
            b'\\' => at += 1,
            b'|' => quoted = !quoted,
            b':' if !quoted => {
                let colons = raw[at..].iter().take_while(|&&byte| byte == b':').count();
                return match (at, colons) {
                    (0, _) => (colons, Marker::Keyword),
                    (_, 1) => (at + 1, Marker::External),
                    _ => (at + colons, Marker::Internal),
                };
            }
            _ => {}
        }
        at += 1;
    }
    (0, Marker::None)
}

/// Splits a Clojure token such as `namespace/name` or `::keyword`.
fn split_namespace(raw: &[u8]) -> (usize, Marker) {
    let colons = raw.iter().take_while(|&&byte| byte == b':').count();
    if colons > 0 {
        return (colons, Marker::Keyword);
    }
    match raw.iter().position(|&byte| byte == b'/') {
        Some(at) if at > 0 && at + 1 < raw.len() => (at + 1, Marker::External),
        _ => (0, Marker::None),
    }
}

impl Token {
    /// Returns the string that this token designates, as the function `string` would for a symbol
    /// or string. `None` for other tokens.
    pub fn designated(&self, text: &[u8]) -> Option<String> {
        match self.kind {
            TokenKind::Symbol => Some(self.symbol(text).name.into_owned()),
            TokenKind::String => {
                let raw = text.get(self.span.indices())?.strip_prefix(b"\"")?.strip_suffix(b"\"")?;
                Some(decode(raw).replace('\\', ""))
            }
            _ => None,
        }
    }
}
