//! One occurrence of an identifier, and the characters that identifiers are made of.

use serde::{Deserialize, Serialize};

/// The role of an occurrence in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TextRole {
    /// A use of the name that is none of the others.
    Reference,
    /// The operator of a call.
    Call,
    /// The name in its own definition.
    Definition,
    /// Within a comment.
    Comment,
    /// Within a string.
    String,
    /// A Lisp keyword of that name.
    Keyword,
}

impl TextRole {
    const ALL: [TextRole; 6] = [
        TextRole::Reference,
        TextRole::Call,
        TextRole::Definition,
        TextRole::Comment,
        TextRole::String,
        TextRole::Keyword,
    ];

    pub(crate) fn code(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_code(code: u8) -> Option<TextRole> {
        TextRole::ALL.get(usize::from(code)).copied()
    }

    /// Its name, as it is written in answers.
    pub fn name(self) -> &'static str {
        match self {
            TextRole::Reference => "reference",
            TextRole::Call => "call",
            TextRole::Definition => "definition",
            TextRole::Comment => "comment",
            TextRole::String => "string",
            TextRole::Keyword => "keyword",
        }
    }
}

/// Identifiers longer than this, in bytes, are not indexed as such: they are data.
pub(crate) const LONGEST_IDENTIFIER: usize = 200;

/// One occurrence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScannedName<'a> {
    /// The identifier as it is looked up. Common Lisp's are as they are read, all others as they are written.
    pub(crate) key: &'a [u8],
    pub(crate) offset: u32,
    pub(crate) role: TextRole,
}

/// The character at the start of `bytes`, if they decode.
pub(crate) fn first_character(bytes: &[u8]) -> Option<char> {
    let head = &bytes[..bytes.len().min(4)];
    head.utf8_chunks().next()?.valid().chars().next()
}

/// Whether a character belongs to a word: what `\w` is in a regular expression.
pub(crate) fn is_word_character(character: char) -> bool {
    regex_syntax::is_word_character(character)
}
