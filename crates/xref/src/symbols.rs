//! `FIND-PACKAGE` and `FIND-SYMBOL` without Lisp: inheritance, nicknames, local nicknames and shadowing included.

use super::columns::{BakedSymbolColumn, PackageColumn};
use super::export::NONE;
use super::format::XrefSegment;
use super::index::Index;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// A package of one [`Index`] snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Package(pub(super) u32);

/// A symbol of one [`Index`] snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// Which of the snapshot's tables it stands in: the newest or the base.
    pub(super) newest: bool,
    pub(super) row: u32,
}

/// How a symbol is accessible in a package: the second value of `FIND-SYMBOL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Present, not exported.
    Internal,
    /// Present and exported.
    External,
    /// Exported by a package that is used.
    Inherited,
}

impl Index {
    /// The package with this exact name or nickname; nicknames local to `within` come first.
    pub fn find_package(&self, name: &str, within: Option<Package>) -> Option<Package> {
        let name = name.as_bytes();
        within
            .and_then(|within| self.newest().local_package(within.0, name))
            .or_else(|| self.newest().package_named(name))
            .map(Package)
    }

    /// All packages, in the order of their names.
    pub fn packages(&self) -> impl Iterator<Item = Package> + '_ {
        (0..self.newest().packages()).map(Package)
    }

    /// A package's name.
    pub fn package_name(&self, package: Package) -> Cow<'_, str> {
        self.newest().text(self.newest().package(package.0, PackageColumn::Name))
    }

    /// A package's name as a symbol's prefix is printed, with bars where they are needed.
    pub fn package_text(&self, package: Package) -> Cow<'_, str> {
        self.newest().text(self.newest().package(package.0, PackageColumn::Printed))
    }

    /// `CL:FIND-SYMBOL`: the symbol of this exact name that is accessible in `package`.
    pub fn find_symbol(&self, name: &str, package: Package) -> Option<(Symbol, Access)> {
        let name = name.as_bytes();
        if let Some((symbol, external)) = self.present(name, package.0) {
            return Some((symbol, if external { Access::External } else { Access::Internal }));
        }
        self.newest()
            .used_by(package.0)
            .filter_map(|used| self.present(name, used))
            .find(|(_, external)| *external)
            .map(|(symbol, _)| (symbol, Access::Inherited))
    }

    /// The symbol called `name` that is present in package number `package`, and whether it is external there.
    fn present(&self, name: &[u8], package: u32) -> Option<(Symbol, bool)> {
        let unchanged = self.newest().package(package, PackageColumn::Unchanged) == 1;
        let (segment, package) = if unchanged {
            (self.base(), self.newest().package(package, PackageColumn::Baseline))
        } else {
            (self.newest(), package)
        };
        segment.symbols_named(name).find_map(|row| {
            let (_, external) = segment.presents(row).find(|(present, _)| *present == package)?;
            Some((Symbol { newest: !unchanged, row }, external))
        })
    }

    /// All symbols of the newest tables and of the base that are present in some package: as [`Index::find_symbol`]
    /// finds them, to which the base alone is the newest.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        let delta = self.has_delta();
        let base = (0..self.base().symbols()).map(move |row| Symbol { newest: !delta, row });
        let newest = if delta { self.newest().symbols() } else { 0 };
        base.chain((0..newest).map(|row| Symbol { newest: true, row }))
    }

    /// A symbol's name.
    pub fn symbol_name(&self, symbol: Symbol) -> Cow<'_, str> {
        let segment = self.symbol_segment(symbol);
        segment.text(segment.symbol(symbol.row, BakedSymbolColumn::Name))
    }

    /// A symbol's home package; none if it is uninterned.
    pub fn symbol_package(&self, symbol: Symbol) -> Option<Package> {
        let home = self.symbol_segment(symbol).symbol(symbol.row, BakedSymbolColumn::Home);
        if home == NONE {
            None
        } else if symbol.newest {
            Some(Package(home))
        } else {
            self.renumbered(home).map(Package)
        }
    }

    /// A symbol as answers print it: home package and name, always with two colons.
    pub fn symbol_text(&self, symbol: Symbol) -> String {
        let segment = self.symbol_segment(symbol);
        let text = Some(segment.symbol(symbol.row, BakedSymbolColumn::Printed)).filter(|text| *text != NONE);
        let name = segment.text(text.unwrap_or_else(|| segment.symbol(symbol.row, BakedSymbolColumn::Name)));
        match self.symbol_package(symbol) {
            Some(package) => format!("{}::{name}", self.package_text(package)),
            None => format!("#:{name}"),
        }
    }

    pub(super) fn symbol_bytes(&self, symbol: Symbol) -> &[u8] {
        let segment = self.symbol_segment(symbol);
        segment.string(segment.symbol(symbol.row, BakedSymbolColumn::Name))
    }

    pub(super) fn symbol_segment(&self, symbol: Symbol) -> &XrefSegment {
        if symbol.newest { self.newest() } else { self.base() }
    }
}
