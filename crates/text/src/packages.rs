//! Checks package prefixes and the current package, to find the occurrences of a Lisp name that
//! denote the symbol of a qualified query.

use crate::language::Language;
use crate::pattern::Qualified;
use crate::scan::lisp as scan_lisp;
use crate::store::pages::PageError;
use crate::store::snapshot::{REMOVED, TextSnapshot};
use std::collections::BTreeSet;
use steelbank_reader::{Dialect, LispText, Marker, TokenKind};

/// Returns all names of the package `name`, including the nicknames that the project's text
/// defines.
pub(crate) fn names(snapshot: &TextSnapshot, name: &str) -> Result<Vec<String>, PageError> {
    let mut names = BTreeSet::from([name.to_owned()]);
    for (segment, places) in snapshot.segments() {
        for (file, package) in segment.packages(name)?.iter() {
            if places.get(*file as usize).is_some_and(|place| *place != REMOVED) {
                names.extend(package.names.iter().cloned());
            }
        }
    }
    Ok(names.into_iter().collect())
}

/// Checks whether occurrences in one text match the qualification of a query.
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

    /// Returns whether the name at `offset` matches the qualification.
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
            Qualified::Any => true,
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

    /// Returns whether the query's package is current at `offset`.
    fn is_current(&self, offset: u32) -> bool {
        let toplevel = self.lisp.toplevel_from(offset).or(self.lisp.toplevel().last());
        toplevel.and_then(|form| form.package.as_deref()).is_some_and(|package| self.is_name(package))
    }

    /// Returns whether the name at `offset`, in a comment or a string, matches the qualification.
    /// Only considers the characters before the name, and the current package.
    fn admits_prose(&self, offset: u32) -> bool {
        let before = self.text.get(..offset as usize).unwrap_or_default();
        let colons = before.iter().rev().take_while(|&&byte| byte == b':').count();
        let prefix = &before[..before.len() - colons];
        match self.qualified {
            Qualified::Any => true,
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
