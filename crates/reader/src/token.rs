//! Tokens: symbols, numbers, strings, characters and comments.

use super::{Dialect, FormId, Range};
use crate::lines::decode;
use std::borrow::Cow;
use unicode_normalization::UnicodeNormalization;

/// A token or a comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Token {
    /// The kind of token.
    pub kind: TokenKind,
    /// The full range, including a package prefix.
    pub span: Range,
    /// For a symbol, the start of its name after the package prefix. For other tokens, the start of
    /// `span`.
    pub name_start: u32,
    /// For a symbol, the package marker in front of its name.
    pub marker: Marker,
    /// The innermost enclosing form; `None` at top level.
    pub form: Option<FormId>,
    /// `false` inside text excluded by `#+`, `#-`, `#;` or `#_`.
    pub active: bool,
    /// Whether the value of a feature expression that includes or excludes the token depends on the
    /// image, such as `#+my-feature` or `#+#.(…)`. The text alone then does not show whether SBCL
    /// reads the token.
    pub guarded: bool,
    /// Whether the token is part of a feature expression.
    pub in_feature: bool,
    pub(super) dialect: Dialect,
}

/// The kinds of token.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TokenKind {
    /// A symbol or keyword.
    Symbol,
    /// A number in any notation, such as `#b101`; also a bit vector such as `#*01` or a reference
    /// `#1#`.
    Number,
    /// A character such as `#\a`.
    Character,
    /// A string, including its quotes; also a regular expression of Clojure or a byte string of
    /// Racket, `#"…"`.
    String,
    /// A comment, to the end of its line or from `#|` to `|#`; also a first line that begins with
    /// `#!`.
    Comment,
}

/// The package marker of a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Marker {
    /// No marker: the symbol is looked up in the current package.
    None,
    /// `package:name`; in Clojure, a name with a namespace.
    External,
    /// `package::name`.
    Internal,
    /// `:name`, a keyword.
    Keyword,
    /// `#:name`, a symbol in no package.
    Uninterned,
}

/// A symbol's package prefix and name after reading: escapes are resolved, and case is folded if
/// the dialect folds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WrittenSymbol<'a> {
    /// The package prefix, if there is one.
    pub package: Option<Cow<'a, str>>,
    /// The name.
    pub name: Cow<'a, str>,
}

impl Token {
    /// Returns the package prefix and the name of this symbol. `text` must be the text that
    /// contains the token.
    pub fn symbol<'a>(&self, text: &'a [u8]) -> WrittenSymbol<'a> {
        let name = slice(text, self.name_start, self.span.end);
        let package = match self.marker {
            Marker::External | Marker::Internal => {
                let prefix = slice(text, self.span.start, self.name_start);
                let trimmed = prefix.strip_suffix(b"/").unwrap_or_else(|| {
                    let colons = prefix.iter().rev().take_while(|&&byte| byte == b':').count();
                    &prefix[..prefix.len() - colons]
                });
                Some(read_name(trimmed, self.dialect))
            }
            _ => None,
        };
        WrittenSymbol { package, name: read_name(name, self.dialect) }
    }

    /// Returns whether this is a symbol named `name` after reading (upper case in Common Lisp).
    pub fn is_named(&self, text: &[u8], name: &str) -> bool {
        self.kind == TokenKind::Symbol && self.symbol(text).name == name
    }

    /// Returns the range of the symbol's name, without the package prefix.
    pub fn name_span(&self) -> Range {
        Range::new(self.name_start, self.span.end)
    }
}

fn slice(text: &[u8], start: u32, end: u32) -> &[u8] {
    text.get(start as usize..end as usize).unwrap_or_default()
}

/// Returns `raw` after reading: escapes are resolved and, in Common Lisp, unescaped characters are
/// normalized and upcased.
pub fn read_name(raw: &[u8], dialect: Dialect) -> Cow<'_, str> {
    let escapes = raw.iter().any(|&byte| {
        (byte == b'\\' && dialect.has_single_escape()) || (byte == b'|' && dialect.has_multiple_escape())
    });
    let folds = dialect.folds_case() && raw.iter().any(|byte| byte.is_ascii_lowercase() || !byte.is_ascii());
    let decoded = decode(raw);
    if !escapes && !folds {
        return decoded;
    }
    let mut name = String::with_capacity(decoded.len());
    // SBCL normalizes each run of unescaped characters separately.
    let mut run = String::new();
    let end = |run: &mut String, name: &mut String| {
        name.extend(normalized(run).chars().map(upcase));
        run.clear();
    };
    let mut quoted = false;
    let mut characters = decoded.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' if dialect.has_single_escape() => {
                end(&mut run, &mut name);
                name.extend(characters.next());
            }
            '|' if dialect.has_multiple_escape() => quoted = !quoted,
            _ if quoted || !dialect.folds_case() => {
                end(&mut run, &mut name);
                name.push(character);
            }
            _ => run.push(character),
        }
    }
    end(&mut run, &mut name);
    Cow::Owned(name)
}

/// Returns the NFKC normal form, which SBCL's reader uses for unescaped characters.
pub fn normalized(text: &str) -> Cow<'_, str> {
    match text.is_ascii() {
        true => Cow::Borrowed(text),
        false => Cow::Owned(text.nfkc().collect()),
    }
}

/// Upcases a character as `CL:CHAR-UPCASE` does in SBCL 2.5.2: only letters with exactly one
/// counterpart in the other case, in SBCL's Unicode version.
pub fn upcase(char: char) -> char {
    if char.is_ascii() {
        return char.to_ascii_uppercase();
    }
    match u32::from(char) {
        // Title case digraphs.
        453 | 456 | 459 | 498 => return char::from_u32(u32::from(char) - 1).unwrap_or(char),
        // Numerals and symbols that have a case in Unicode but not in SBCL, and letters newer than
        // SBCL's Unicode version.
        411
        | 612
        | 7306
        | 8560..=8575
        | 9424..=9449
        | 42957
        | 42959
        | 42963
        | 42965
        | 42971
        | 68976..=68997
        | 93883..=93907 => return char,
        _ => {}
    }
    let mut upper = char.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(one), None) => {
            let mut back = one.to_lowercase();
            if back.next() == Some(char) && back.next().is_none() { one } else { char }
        }
        _ => char,
    }
}

/// Returns whether an unescaped token has the syntax of a Common Lisp number in base 10.
pub(super) fn is_number(token: &[u8]) -> bool {
    let digits = |bytes: &mut &[u8]| {
        let count = bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        *bytes = &bytes[count..];
        count
    };
    let mut rest = token.strip_prefix(b"+").or_else(|| token.strip_prefix(b"-")).unwrap_or(token);
    let whole = digits(&mut rest);
    if rest.is_empty() {
        return whole > 0;
    }
    if whole > 0 && rest[0] == b'/' {
        rest = &rest[1..];
        return digits(&mut rest) > 0 && rest.is_empty();
    }
    let mut fraction = 0;
    if rest[0] == b'.' {
        rest = &rest[1..];
        fraction = digits(&mut rest);
        if rest.is_empty() {
            return whole + fraction > 0;
        }
    }
    if whole + fraction == 0 || !b"esfdlESFDL".contains(&rest[0]) {
        return false;
    }
    rest = &rest[1..];
    rest = rest.strip_prefix(b"+").or_else(|| rest.strip_prefix(b"-")).unwrap_or(rest);
    digits(&mut rest) > 0 && rest.is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_distinguished_from_symbols() {
        for number in ["1", "-1", "+1", "1.", "1.5", ".5", "-.5", "1/2", "1e5", "1.5d0", "1.e5", "+1.0s-3"] {
            assert!(is_number(number.as_bytes()), "{number} is a number");
        }
        for symbol in ["+", "-", "1+", "1-", ".", "...", "1/", "/2", "e5", "1e", "1.5x", "+.", "a1", "1/2/3"]
        {
            assert!(!is_number(symbol.as_bytes()), "{symbol} is a symbol");
        }
    }

    #[test]
    fn names_are_read_with_escapes_and_case() {
        let check = |raw: &str, dialect, expect: &str| assert_eq!(read_name(raw.as_bytes(), dialect), expect);
        check("foo", Dialect::CommonLisp, "FOO");
        check("|foo|", Dialect::CommonLisp, "foo");
        check(r"f\oo", Dialect::CommonLisp, "FoO");
        check("a|b c|d", Dialect::CommonLisp, "Ab cD");
        check("straße", Dialect::CommonLisp, "STRAßE");
        check("élan", Dialect::CommonLisp, "ÉLAN");
        check("Foo", Dialect::Scheme, "Foo");
        check("|a b|", Dialect::Scheme, "a b");
        check(r"a\ b", Dialect::EmacsLisp, "a b");
        check("a|b", Dialect::EmacsLisp, "a|b");
    }
}
