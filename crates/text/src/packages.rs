//! Package prefixes: which occurrences of a Lisp name are the symbol that was asked for.

use crate::analysis;
use crate::cache::TextWithLines;
use crate::language::Language;
use crate::pattern::Qualified;
use crate::retry::SearchInterrupted;
use crate::scan::lisp as scan_lisp;
use crate::store::snapshot::{GONE, TextSnapshot};
use std::collections::BTreeSet;
use std::sync::Arc;
use steelbank_reader::{Datum, Dialect, FormId, LispText, Marker, TokenKind};

/// Finds all names, nicknames included, of the package that is called `name` in the project's `defpackage` forms.
pub(crate) fn names(
    snapshot: &TextSnapshot,
    name: &str,
    text: &mut dyn FnMut(usize) -> Result<Option<Arc<TextWithLines>>, SearchInterrupted>,
) -> Result<Vec<String>, SearchInterrupted> {
    let mut names = BTreeSet::from([name.to_owned()]);
    let Some(language) = Language::named("commonlisp") else { return Ok(names.into_iter().collect()) };
    let key = analysis::key(language, name.as_bytes());
    for (segment, places) in snapshot.segments() {
        let Some(entry) = segment.lookup(&key)? else { continue };
        for found in segment.hits(&entry)? {
            let place = places.get(found.file as usize).copied().unwrap_or(GONE) as usize;
            let Some(file) = snapshot.manifest().files.get(place) else { continue };
            // Most files only use the package; those that define one say so.
            if file.language != language {
                continue;
            }
            let Some(text) = text(place)? else { continue };
            if memchr::memmem::find(&text.bytes.to_ascii_lowercase(), b"package").is_some() {
                defined_names(&text.bytes, name, &mut names);
            }
        }
    }
    Ok(names.into_iter().collect())
}

/// Adds the names of every package that a `defpackage` in `text` calls `name`.
fn defined_names(text: &[u8], name: &str, names: &mut BTreeSet<String>) {
    let lisp = scan_lisp::read(text, Dialect::CommonLisp);
    for toplevel in lisp.toplevel() {
        let Some(id) = toplevel.form else { continue };
        let head = lisp.form(id).and_then(|form| lisp.head(form)).map(|head| head.symbol(text).name);
        if !matches!(head.as_deref(), Some("DEFPACKAGE" | "DEFINE-PACKAGE")) {
            continue;
        }
        let mut here = Vec::new();
        for (index, datum) in lisp.elements(id).enumerate() {
            match datum {
                Datum::Token(_) if index == 1 => here.extend(designated(&lisp, text, datum)),
                Datum::Form(option) => here.extend(nicknames(&lisp, text, option)),
                Datum::Token(_) => {}
            }
        }
        if here.iter().any(|each| each == name) {
            names.extend(here);
        }
    }
}

fn nicknames(lisp: &LispText, text: &[u8], option: FormId) -> Vec<String> {
    let head = lisp.form(option).and_then(|form| lisp.head(form));
    match head {
        Some(head) if head.marker == Marker::Keyword && head.is_named(text, "NICKNAMES") => {
            lisp.elements(option).skip(1).filter_map(|datum| designated(lisp, text, datum)).collect()
        }
        _ => Vec::new(),
    }
}

fn designated(lisp: &LispText, text: &[u8], datum: Datum) -> Option<String> {
    match datum {
        Datum::Token(index) => lisp.tokens().get(index)?.designated(text),
        Datum::Form(_) => None,
    }
}

/// Tells whether occurrences in one text are qualified as asked.
pub(crate) struct PackageCheck<'a> {
    text: &'a [u8],
    lisp: LispText,
    qualified: &'a Qualified,
    names: &'a [String],
}

impl<'a> PackageCheck<'a> {
    pub(crate) fn new(
        text: &'a [u8],
        language: Language,
        qualified: &'a Qualified,
        names: &'a [String],
    ) -> Self {
        let dialect = language.dialect().unwrap_or(Dialect::CommonLisp);
        PackageCheck { text, lisp: scan_lisp::read(text, dialect), qualified, names }
    }

    /// Whether the name at `offset` is qualified as asked.
    pub(crate) fn admits(&self, offset: u32) -> bool {
        let Some(token) = self.lisp.token_at(offset) else { return false };
        let is_prefix = token.name_start != offset && token.kind == TokenKind::Symbol;
        if is_prefix {
            return false;
        }
        if token.kind != TokenKind::Symbol {
            return self.admits_prose(offset);
        }
        match self.qualified {
            Qualified::Anyhow => true,
            Qualified::Keyword => token.marker == Marker::Keyword,
            Qualified::Uninterned => token.marker == Marker::Uninterned,
            Qualified::Package(_) => match token.marker {
                Marker::None => self.is_current(offset),
                Marker::External | Marker::Internal => {
                    token.symbol(self.text).package.is_some_and(|package| self.is_name(&package))
                }
                Marker::Keyword | Marker::Uninterned => false,
            },
        }
    }

    fn is_name(&self, package: &str) -> bool {
        match self.qualified {
            Qualified::Package(name) => name == package || self.names.iter().any(|each| each == package),
            _ => false,
        }
    }

    /// Whether the package is current at `offset`.
    fn is_current(&self, offset: u32) -> bool {
        let toplevel = self.lisp.toplevel_from(offset).or(self.lisp.toplevel().last());
        toplevel.and_then(|form| form.package.as_deref()).is_some_and(|package| self.is_name(package))
    }

    /// Whether the name at `offset`, in a comment or a string, is qualified as asked: only what stands before it tells.
    fn admits_prose(&self, offset: u32) -> bool {
        let before = self.text.get(..offset as usize).unwrap_or_default();
        let colons = before.iter().rev().take_while(|&&byte| byte == b':').count();
        let prefix = &before[..before.len() - colons];
        match self.qualified {
            Qualified::Anyhow => true,
            Qualified::Keyword => {
                colons > 0 && prefix.last().is_none_or(|byte| !self.lisp.dialect().is_constituent(*byte))
            }
            Qualified::Uninterned => colons == 1 && prefix.ends_with(b"#"),
            Qualified::Package(_) if colons == 0 => self.is_current(offset),
            Qualified::Package(_) => {
                let length =
                    prefix.iter().rev().take_while(|&&byte| self.lisp.dialect().is_constituent(byte)).count();
                let package = String::from_utf8_lossy(&prefix[prefix.len() - length..]).to_uppercase();
                self.is_name(&package)
            }
        }
    }
}
