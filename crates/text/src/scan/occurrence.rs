//! An occurrence of an identifier, and the characters that form identifiers.

use serde::{Deserialize, Serialize};

/// The role of an occurrence in its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TextRole {
    /// A use of the name in no other role.
    Reference,
    /// The operator of a call.
    Call,
    /// The name in its definition.
    Definition,
    /// Inside a comment.
    Comment,
    /// Inside a string.
    String,
    /// A Lisp keyword with that name.
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

    /// Returns the name of the role, as written in results.
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

/// Identifiers longer than this, in bytes, are treated as data and not indexed.
pub(crate) const LONGEST_IDENTIFIER: usize = 200;

/// An occurrence of an identifier.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ScannedName<'a> {
    /// The identifier as used in index keys: after reading (upcased) for Common Lisp, with escapes
    /// resolved for other Lisps, and as written for other languages.
    pub(crate) key: &'a [u8],
    pub(crate) offset: u32,
    pub(crate) role: TextRole,
}

/// Returns the character at the start of `bytes`. `None` if they are empty or do not decode.
pub(crate) fn first_character(bytes: &[u8]) -> Option<char> {
    let head = &bytes[..bytes.len().min(4)];
    head.utf8_chunks().next()?.valid().chars().next()
}

/// Returns whether a character matches `\w` in a regular expression.
pub(crate) fn is_word_character(character: char) -> bool {
    regex_syntax::is_word_character(character)
}
