//! `*features*`, and the expressions that `#+` and `#-` test.

use super::TokenKind;
use super::text::{Datum, FormKind, LispText};
use std::collections::HashSet;

/// The keywords on `*features*`, by name.
#[derive(Debug, Clone, Default)]
pub struct Features {
    names: HashSet<String>,
}

impl Features {
    /// The features with these names. Case is folded, a leading colon is dropped.
    pub fn new<I, S>(names: I) -> Self
    where
        I: IntoIterator<Item = S>,
        S: AsRef<str>,
    {
        let fold = |name: S| name.as_ref().trim_start_matches(':').to_uppercase();
        Features { names: names.into_iter().map(fold).collect() }
    }

    /// The features of SBCL on x86-64 Linux with ASDF loaded. Ask the image where there is one.
    pub fn sbcl() -> Self {
        Features::new([
            "64-bit",
            "ansi-cl",
            "arena-allocator",
            "asdf",
            "asdf2",
            "asdf3",
            "asdf3.1",
            "asdf3.2",
            "asdf3.3",
            "asdf-package-system",
            "asdf-unicode",
            "common-lisp",
            "elf",
            "gencgc",
            "ieee-floating-point",
            "linux",
            "little-endian",
            "os-unix",
            "package-local-nicknames",
            "sb-ldb",
            "sb-package-locks",
            "sb-thread",
            "sb-unicode",
            "sbcl",
            "unix",
            "x86-64",
        ])
    }

    /// Whether `name` is a feature.
    pub fn contains(&self, name: &str) -> bool {
        self.names.contains(name)
    }
}

/// Whether the feature expression that a datum of `text` spells is true. `None`: it is no feature expression, as
/// `#.(…)` is none before it is evaluated.
pub(super) fn holds(features: &Features, text: &LispText, bytes: &[u8], datum: Datum) -> Option<bool> {
    holds_within(features, text, bytes, datum, 64)
}

fn holds_within(
    features: &Features,
    text: &LispText,
    bytes: &[u8],
    datum: Datum,
    depth: u32,
) -> Option<bool> {
    let depth = depth.checked_sub(1)?;
    let token = |datum| match datum {
        Datum::Token(index) => text.tokens().get(index).filter(|token| token.kind == TokenKind::Symbol),
        Datum::Form(_) => None,
    };
    let id = match datum {
        Datum::Token(_) => return Some(features.contains(&token(datum)?.symbol(bytes).name)),
        Datum::Form(id) => id,
    };
    text.form(id).filter(|form| form.kind == FormKind::List)?;
    let is_comment = |datum| match datum {
        Datum::Token(index) => text.tokens().get(index).is_some_and(|token| token.kind == TokenKind::Comment),
        Datum::Form(_) => false,
    };
    let mut elements = text.children(id).filter(|&datum| !is_comment(datum));
    let operator = token(elements.next()?)?.symbol(bytes).name;
    let mut values = elements.map(|element| holds_within(features, text, bytes, element, depth));
    match operator.as_ref() {
        "AND" => values.try_fold(true, |all, value| Some(all && value?)),
        "OR" => values.try_fold(false, |any, value| Some(any || value?)),
        "NOT" => values.next()?.map(|value| !value),
        _ => None,
    }
}
