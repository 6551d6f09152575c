//! Package prefixes: which occurrences of a Lisp name are the symbol that was asked for.

use crate::language::Language;
use crate::pattern::Qualified;
use crate::scan::lisp as scan_lisp;
use crate::store::pages::PageError;
use crate::store::snapshot::{GONE, TextSnapshot};
use std::collections::BTreeSet;
use steelbank_reader::{Dialect, LispText, Marker, TokenKind};

/// Finds all names, nicknames included, of the package that is called `name` where the project's text defines it.
pub(crate) fn names(snapshot: &TextSnapshot, name: &str) -> Result<Vec<String>, PageError> {
    let mut names = BTreeSet::from([name.to_owned()]);
    for (segment, places) in snapshot.segments() {
        for (file, package) in segment.packages(name)?.iter() {
            if places.get(*file as usize).is_some_and(|place| *place != GONE) {
                names.extend(package.names.iter().cloned());
            }
        }
    }
    Ok(names.into_iter().collect())
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
