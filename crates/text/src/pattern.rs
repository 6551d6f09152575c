//! The pattern of a search. A pattern can be an identifier in one language and literal text in
//! another.

use crate::analysis;
use crate::language::{Language, Rule};
use crate::scan::occurrence::LONGEST_IDENTIFIER;
use crate::scan::{lisp as scan_lisp, word_length};
use steelbank_reader::{Marker, TokenKind};

/// The text to search for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern {
    text: String,
}

/// The meaning of a pattern in one language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PatternMeaning {
    /// An identifier: its index key, and the qualification that its occurrences must have.
    Identifier(Vec<u8>, Qualified),
    /// Any occurrence of the text.
    Literal,
}

/// The package qualification that a query requires of a Lisp symbol.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum Qualified {
    /// Any qualification.
    Any,
    /// `:name`, a keyword.
    Keyword,
    /// `#:name`, a symbol in no package.
    Uninterned,
    /// The prefix of this package or of one of its nicknames, or no prefix where this package is
    /// current.
    Package(String),
}

impl Pattern {
    /// Returns a pattern for `text`, or `None` if it is blank.
    pub fn new(text: &str) -> Option<Pattern> {
        (!text.trim().is_empty()).then(|| Pattern { text: text.to_owned() })
    }

    /// Returns the text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the number of characters, without leading and trailing whitespace.
    pub fn length(&self) -> usize {
        self.text.trim().chars().count()
    }

    /// Returns the name of the Common Lisp symbol as the reader would read it. `None` if the
    /// pattern is not a symbol or is too long to be indexed.
    pub fn common_lisp_name(&self) -> Option<String> {
        match self.meaning(Language::named("commonlisp")?) {
            PatternMeaning::Identifier(key, _) => String::from_utf8(key.get(1..)?.to_vec()).ok(),
            PatternMeaning::Literal => None,
        }
    }

    pub(crate) fn meaning(&self, language: Language) -> PatternMeaning {
        if self.text.len() > LONGEST_IDENTIFIER {
            return PatternMeaning::Literal;
        }
        match language.rule() {
            Rule::Lisp(_) => self.symbol(language).unwrap_or(PatternMeaning::Literal),
            rule if is_identifier(self.text.as_bytes(), rule) => {
                PatternMeaning::Identifier(analysis::key(language, self.text.as_bytes()), Qualified::Any)
            }
            _ => PatternMeaning::Literal,
        }
    }

    fn symbol(&self, language: Language) -> Option<PatternMeaning> {
        let bytes = self.text.as_bytes();
        let read = scan_lisp::read(bytes, language.dialect()?);
        let [token] = read.tokens() else { return None };
        let whole = token.span.indices() == (0..bytes.len()) && read.toplevel().len() == 1;
        if !whole
            || token.kind != TokenKind::Symbol
            || token.form.is_some()
            || token.name_start == token.span.end
        {
            return None;
        }
        let symbol = token.symbol(bytes);
        let qualified = match token.marker {
            Marker::None => Qualified::Any,
            Marker::Keyword => Qualified::Keyword,
            Marker::Uninterned => Qualified::Uninterned,
            Marker::External | Marker::Internal => Qualified::Package(symbol.package?.into_owned()),
        };
        Some(PatternMeaning::Identifier(analysis::key(language, symbol.name.as_bytes()), qualified))
    }
}

/// Returns whether `text` is exactly one identifier in languages with this rule.
fn is_identifier(text: &[u8], rule: Rule) -> bool {
    let strip =
        |prefixes: &[&[u8]], text| prefixes.iter().find_map(|prefix| <[u8]>::strip_prefix(text, *prefix));
    let word = match rule {
        Rule::Php => strip(&[b"$"], text).unwrap_or(text),
        Rule::Zig => strip(&[b"@"], text).unwrap_or(text),
        Rule::Ruby => {
            let bare = text.strip_suffix(b"?").or_else(|| text.strip_suffix(b"!")).unwrap_or(text);
            strip(&[b"@@", b"@", b"$"], text).unwrap_or(bare)
        }
        Rule::Rust => text.strip_suffix(b"!").unwrap_or(text),
        _ => text,
    };
    is_word(word, rule)
}

fn is_word(word: &[u8], rule: Rule) -> bool {
    if word.first().is_none_or(u8::is_ascii_digit) {
        return false;
    }
    let mut at = 0;
    while at < word.len() {
        match word_length(&word[at..], rule) {
            0 => return false,
            length => at += length,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(language: &str, text: &str, expect: Option<(&str, Qualified)>) {
        let language = Language::named(language).unwrap();
        let expect = expect.map_or(PatternMeaning::Literal, |(name, qualified)| {
            PatternMeaning::Identifier(analysis::key(language, name.as_bytes()), qualified)
        });
        assert_eq!(Pattern::new(text).unwrap().meaning(language), expect, "{text}");
    }

    #[test]
    fn identifier_syntax_depends_on_language() {
        let plain = |name| Some((name, Qualified::Any));
        check("commonlisp", "*foo-bar*", plain("*FOO-BAR*"));
        check("commonlisp", "|Foo|", plain("Foo"));
        check("commonlisp", "a->b", plain("A->B"));
        check("commonlisp", "a b", None);
        check("commonlisp", "(a", None);
        check("commonlisp", "12", None);
        check("commonlisp", ":key", Some(("KEY", Qualified::Keyword)));
        check("commonlisp", "p::x", Some(("X", Qualified::Package("P".to_owned()))));
        check("scheme", "set!", plain("set!"));
        check("rust", "json!", plain("json!"));
        check("rust", "a->b", None);
        check("rust", "foo-bar", None);
        check("rust", "1x", None);
        check("python", "größe", plain("größe"));
        check("php", "$x", plain("$x"));
        check("javascript", "$x", plain("$x"));
        check("c", "$x", None);
        check("ruby", "@@x", plain("@@x"));
        check("ruby", "go!", plain("go!"));
        check("text", "foo!", None);
    }
}
