//! Finds the symbols in Lisp text.

use crate::scan::occurrence::{
    LONGEST_IDENTIFIER, ScannedName, TextRole, first_character, is_word_character,
};
use std::sync::LazyLock;
use steelbank_reader::{
    Dialect, Features, FormKind, LispText, Marker, NonCalls, Token, TokenKind, normalized, upcase,
};

static FEATURES: LazyLock<Features> = LazyLock::new(Features::sbcl);

/// Parses `text`, evaluating feature expressions with SBCL's features.
pub(crate) fn read(text: &[u8], dialect: Dialect) -> LispText {
    LispText::read(text, dialect, &FEATURES)
}

pub(crate) fn occurrences(text: &[u8], dialect: Dialect, emit: &mut dyn FnMut(ScannedName<'_>)) {
    occurrences_in(&read(text, dialect), text, emit);
}

/// Calls `emit` for every identifier of a text that has already been parsed.
pub(crate) fn occurrences_in(lisp: &LispText, text: &[u8], emit: &mut dyn FnMut(ScannedName<'_>)) {
    let dialect = lisp.dialect();
    let none = if dialect == Dialect::CommonLisp { NonCalls::of(lisp, text) } else { NonCalls::default() };
    for (index, token) in lisp.tokens().iter().enumerate() {
        match token.kind {
            TokenKind::Symbol => symbol(text, lisp, &none, index, token, emit),
            TokenKind::Comment => prose(text, dialect, token, TextRole::Comment, emit),
            TokenKind::String => prose(text, dialect, token, TextRole::String, emit),
            TokenKind::Number | TokenKind::Character => {}
        }
    }
}

fn send(key: &str, offset: u32, role: TextRole, emit: &mut dyn FnMut(ScannedName<'_>)) {
    if !key.is_empty() && key.len() <= LONGEST_IDENTIFIER {
        emit(ScannedName { key: key.as_bytes(), offset, role });
    }
}

fn symbol(
    text: &[u8],
    lisp: &LispText,
    none: &NonCalls,
    index: usize,
    token: &Token,
    emit: &mut dyn FnMut(ScannedName<'_>),
) {
    let symbol = token.symbol(text);
    if let Some(package) = symbol.package {
        send(&package, token.span.start, TextRole::Reference, emit);
    }
    let role = match token.marker {
        Marker::Keyword => TextRole::Keyword,
        _ if is_operator(lisp, none, index, token) => TextRole::Call,
        _ => TextRole::Reference,
    };
    send(&symbol.name, token.name_start, role, emit);
}

/// Returns whether the token is the operator of a call.
fn is_operator(lisp: &LispText, none: &NonCalls, index: usize, token: &Token) -> bool {
    let Some(form) = token.form.filter(|id| !none.contains(*id)).and_then(|id| lisp.form(id)) else {
        return false;
    };
    form.kind == FormKind::List
        && lisp.head(form).is_some_and(|head| head.span == token.span)
        && form.tokens().contains(&index)
}

/// Emits the words in a comment or a string. Punctuation next to a word may belong to the symbol,
/// so the word is emitted both with and without it.
fn prose(
    text: &[u8],
    dialect: Dialect,
    token: &Token,
    role: TextRole,
    emit: &mut dyn FnMut(ScannedName<'_>),
) {
    let bytes = text.get(token.span.indices()).unwrap_or_default();
    let mut at = 0;
    while at < bytes.len() {
        let length = prose_length(&bytes[at..], dialect);
        if length == 0 {
            at += 1;
            continue;
        }
        let start = at;
        while at < bytes.len() {
            match prose_length(&bytes[at..], dialect) {
                0 => break,
                length => at += length,
            }
        }
        word(&bytes[start..at], token.span.start + start as u32, dialect, role, emit);
    }
}

/// Returns the length in bytes of the first character if it can be part of a symbol in prose,
/// otherwise 0.
fn prose_length(bytes: &[u8], dialect: Dialect) -> usize {
    match bytes.first() {
        Some(byte) if byte.is_ascii() => {
            let splits = matches!(byte, b'|' | b'\\' | b'\'' | b'`' | b'"' | b',' | b';' | b'~');
            usize::from(dialect.is_constituent(*byte) && !splits)
        }
        _ => match first_character(bytes) {
            Some(character) if is_word_character(character) => character.len_utf8(),
            _ => 0,
        },
    }
}

/// Punctuation that prose and format strings put around words.
const PUNCTUATION: [char; 13] = ['.', '!', '?', '[', ']', '{', '}', '<', '>', '%', '&', '@', '='];

/// Emits the symbols in a run of characters that symbols can contain, split at colons, with and
/// without punctuation at the ends. Full stops at the ends are always removed, and numbers are
/// omitted.
fn word(run: &[u8], start: u32, dialect: Dialect, role: TextRole, emit: &mut dyn FnMut(ScannedName<'_>)) {
    let Ok(run) = std::str::from_utf8(run) else { return };
    let mut at = start as usize;
    for piece in run.split(':') {
        let full = piece.trim_matches('.');
        let bare = full.trim_matches(PUNCTUATION);
        for (index, word) in [full, bare].into_iter().enumerate() {
            let repeated = index == 1 && bare == full;
            let number = word.bytes().all(|byte| byte.is_ascii_digit());
            if repeated || number {
                continue;
            }
            let lead = if index == 0 {
                piece.len() - piece.trim_start_matches('.').len()
            } else {
                piece.len() - piece.trim_start_matches(PUNCTUATION).len()
            };
            let offset = (at + lead) as u32;
            if dialect.folds_case() {
                send(&normalized(word).chars().map(upcase).collect::<String>(), offset, role, emit);
            } else {
                send(word, offset, role, emit);
            }
        }
        at += piece.len() + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(dialect: Dialect, text: &str, expect: &[(&str, usize, &str)]) {
        let mut found = Vec::new();
        occurrences(text.as_bytes(), dialect, &mut |occurrence| {
            let key = String::from_utf8(occurrence.key.to_vec()).unwrap();
            found.push((key, occurrence.offset as usize, occurrence.role.name()));
        });
        let found: Vec<_> = found.iter().map(|(key, offset, role)| (key.as_str(), *offset, *role)).collect();
        assert_eq!(found, expect, "{text}");
    }

    #[test]
    fn symbols_are_upcased_and_not_split() {
        check(
            Dialect::CommonLisp,
            "(foo-bar *x* 'a:b :k |Mixed|) ; see foo.",
            &[
                ("FOO-BAR", 1, "call"),
                ("*X*", 9, "reference"),
                ("A", 14, "reference"),
                ("B", 16, "reference"),
                ("K", 19, "keyword"),
                ("Mixed", 21, "reference"),
                ("SEE", 32, "comment"),
                ("FOO", 36, "comment"),
            ],
        );
        check(
            Dialect::CommonLisp,
            "\"Calls `a:go!' <x>.\"",
            &[
                ("CALLS", 1, "string"),
                ("A", 8, "string"),
                ("GO!", 10, "string"),
                ("GO", 10, "string"),
                ("<X>", 15, "string"),
                ("X", 16, "string"),
            ],
        );
        check(
            Dialect::Scheme,
            "(set! list->vector +)",
            &[("set!", 1, "call"), ("list->vector", 6, "reference"), ("+", 19, "reference")],
        );
    }
}
