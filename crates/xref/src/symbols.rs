//! `FIND-PACKAGE` and `FIND-SYMBOL` without Lisp: inheritance, nicknames, local nicknames and shadowing included.

use super::columns::{BakedSymbolColumn, FunctionColumn, PackageColumn};
use super::export::NONE;
use super::format::XrefSegment;
use super::index::Index;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::HashSet;

/// A package of one [`Index`] snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Package(pub(super) u32);

/// A symbol of one [`Index`] snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Symbol {
    pub(super) table: SymbolTable,
    pub(super) row: u32,
}

/// Which of a snapshot's tables a symbol stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum SymbolTable {
    Base,
    Newest,
    /// Those that the image does not have.
    Beside,
}

/// A symbol that the image does not have, though a text does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSymbol {
    /// Its home, which the image has.
    pub package: Package,
    /// Its name, without package and bars.
    pub name: String,
    /// The name as it is printed, with bars where they are needed.
    pub printed: String,
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

    /// The name of the package, which may have been renamed: its name in the newest export.
    pub fn package_name(&self, package: Package) -> Cow<'_, str> {
        self.newest().text(self.newest().package(package.0, PackageColumn::Name))
    }

    /// A package's name as a symbol's prefix is printed, with bars where they are needed.
    pub fn package_text(&self, package: Package) -> Cow<'_, str> {
        self.newest().text(self.newest().package(package.0, PackageColumn::Printed))
    }

    /// The symbol of this exact name that is accessible in the package with that name or nickname.
    pub fn symbol_named(&self, package: &str, name: &str) -> Option<(Symbol, Access)> {
        self.find_symbol(name, self.find_package(package, None)?)
    }

    /// `CL:FIND-SYMBOL`: the symbol of this exact name that is accessible in `package`.
    pub fn find_symbol(&self, name: &str, package: Package) -> Option<(Symbol, Access)> {
        let name = name.as_bytes();
        if let Some((symbol, external)) = self.present(name, package.0) {
            return Some((symbol, if external { Access::External } else { Access::Internal }));
        }
        let inherited = self
            .newest()
            .used_by(package.0)
            .filter_map(|used| self.present(name, used))
            .find(|(_, external)| *external)
            .map(|(symbol, _)| (symbol, Access::Inherited));
        inherited.or_else(|| {
            let beside = self
                .beside
                .iter()
                .position(|each| each.package == package && each.name.as_bytes() == name)?;
            let is_keyword = self.package_name(package) == "KEYWORD";
            let access = if is_keyword { Access::External } else { Access::Internal };
            Some((Symbol { table: SymbolTable::Beside, row: beside as u32 }, access))
        })
    }

    /// Returns an index with `symbols` beside those of the image, internal in their homes; a question about one of them
    /// is answered from texts.
    #[must_use]
    pub fn with_symbols(&self, symbols: impl IntoIterator<Item = TextSymbol>) -> Index {
        let mut index = self.clone();
        index.beside = self.beside.iter().cloned().chain(symbols).collect();
        index
    }

    /// Whether the image does not have `symbol`: [`Index::with_symbols`] added it.
    pub fn is_beside(&self, symbol: Symbol) -> bool {
        symbol.table == SymbolTable::Beside
    }

    /// The symbols that `package` exports, with true, and those of its own that stand in records, as users or as used. The
    /// rest is what reading left behind, such as the names of local variables.
    pub fn names_in(&self, package: Package) -> Vec<(Symbol, bool)> {
        let (table, segment, number) = self.table_of(package.0);
        let symbol_of = |function| segment.function(function, FunctionColumn::Symbol);
        let defined: HashSet<u32> = (0..segment.functions()).map(symbol_of).collect();
        let names = (0..segment.symbols()).filter_map(|row| {
            let (_, external) = segment.presents(row).find(|(present, _)| *present == number)?;
            let is_own = segment.symbol(row, BakedSymbolColumn::Home) == number;
            let is_used = || defined.contains(&row) || !segment.names_of(row).is_empty();
            (external || is_own && is_used()).then_some((Symbol { table, row }, external))
        });
        names.collect()
    }

    /// The table with the symbols of package number `package`, and its number there.
    fn table_of(&self, package: u32) -> (SymbolTable, &XrefSegment, u32) {
        match self.newest().package(package, PackageColumn::Unchanged) == 1 {
            true => (SymbolTable::Base, self.base(), self.newest().package(package, PackageColumn::Baseline)),
            false => (SymbolTable::Newest, self.newest(), package),
        }
    }

    /// The symbol called `name` that is present in package number `package`, and whether it is external there.
    fn present(&self, name: &[u8], package: u32) -> Option<(Symbol, bool)> {
        let (table, segment, package) = self.table_of(package);
        let (row, external) = segment.symbols_named(name).find_map(|row| {
            let (_, external) = segment.presents(row).find(|(present, _)| *present == package)?;
            Some((row, external))
        })?;
        let (found, unchanged) = (Symbol { table, row }, table == SymbolTable::Base);
        // A symbol of the base that another package exports is the one that its home has.
        let home = Some(segment.symbol(row, BakedSymbolColumn::Home)).filter(|home| *home != NONE);
        let of_base = |home: &u32| self.newest().package(*home, PackageColumn::Unchanged) == 1;
        let elsewhere = home.filter(|home| !unchanged && of_base(home));
        let same = elsewhere.and_then(|home| self.present(name, home)).map(|(symbol, _)| symbol);
        Some((same.unwrap_or(found), external))
    }

    /// All symbols of the newest tables and of the base that are present in some package: as [`Index::find_symbol`]
    /// finds them, to which the base alone is the newest.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        let (delta, table) = (self.has_delta(), self.base_table());
        let base = (0..self.base().symbols()).map(move |row| Symbol { table, row });
        let newest = if delta { self.newest().symbols() } else { 0 };
        base.chain((0..newest).map(|row| Symbol { table: SymbolTable::Newest, row }))
    }

    /// Those of [`Index::symbols`] whose names may be made of `name` with so many `edits` of a letter, whatever their case:
    /// all that can, and a few others. The first call reads all names.
    pub fn symbols_near<'a>(&'a self, name: &str, edits: usize) -> impl Iterator<Item = Symbol> + use<'a> {
        let (delta, table) = (self.has_delta(), self.base_table());
        let base = self.base().spellings().near(name, edits).map(move |row| Symbol { table, row });
        let newest = delta.then(|| self.newest().spellings().near(name, edits));
        base.chain(newest.into_iter().flatten().map(|row| Symbol { table: SymbolTable::Newest, row }))
    }

    /// The packages that are home to a symbol of this exact name, with the symbol and whether they export it.
    pub fn homes<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (Package, Symbol, Access)> + 'a {
        let (delta, table) = (self.has_delta(), self.base_table());
        let base = self.base().symbols_named(name.as_bytes()).map(move |row| Symbol { table, row });
        let newest = delta.then(|| self.newest().symbols_named(name.as_bytes()));
        let newest = newest.into_iter().flatten().map(|row| Symbol { table: SymbolTable::Newest, row });
        let beside = (0..).zip(&*self.beside).filter(move |(_, each)| each.name == name);
        let all = base.chain(newest).chain(beside.map(|(row, _)| Symbol { table: SymbolTable::Beside, row }));
        all.filter_map(|symbol| {
            let home = self.symbol_package(symbol)?;
            let (found, access) = self.find_symbol(name, home)?;
            (found == symbol).then_some((home, symbol, access))
        })
    }

    /// A symbol's name.
    pub fn symbol_name(&self, symbol: Symbol) -> Cow<'_, str> {
        match self.symbol_row(symbol) {
            Ok((segment, row)) => segment.text(segment.symbol(row, BakedSymbolColumn::Name)),
            Err(beside) => Cow::Borrowed(beside.map_or("", |beside| &beside.name)),
        }
    }

    /// The name of a symbol's home package; none if it is uninterned.
    pub fn home_name(&self, symbol: Symbol) -> Option<String> {
        self.symbol_package(symbol).map(|home| self.package_name(home).into_owned())
    }

    /// A symbol's home package; none if it is uninterned.
    pub fn symbol_package(&self, symbol: Symbol) -> Option<Package> {
        let (segment, row) = match self.symbol_row(symbol) {
            Ok(found) => found,
            Err(beside) => return beside.map(|beside| beside.package),
        };
        let home = segment.symbol(row, BakedSymbolColumn::Home);
        match symbol.table {
            _ if home == NONE => None,
            SymbolTable::Base => self.renumbered(home).map(Package),
            SymbolTable::Newest | SymbolTable::Beside => Some(Package(home)),
        }
    }

    /// A symbol's canonical name: home package and name, always with two colons.
    pub fn symbol_text(&self, symbol: Symbol) -> String {
        let name = match self.symbol_row(symbol) {
            Ok((segment, row)) => {
                let text = Some(segment.symbol(row, BakedSymbolColumn::Printed)).filter(|text| *text != NONE);
                segment.text(text.unwrap_or_else(|| segment.symbol(row, BakedSymbolColumn::Name)))
            }
            Err(beside) => Cow::Borrowed(beside.map_or("", |beside| &beside.printed)),
        };
        match self.symbol_package(symbol) {
            Some(package) => format!("{}::{name}", self.package_text(package)),
            None => format!("#:{name}"),
        }
    }

    pub(super) fn symbol_bytes(&self, symbol: Symbol) -> &[u8] {
        match self.symbol_row(symbol) {
            Ok((segment, row)) => segment.string(segment.symbol(row, BakedSymbolColumn::Name)),
            Err(beside) => beside.map_or(&[], |beside| beside.name.as_bytes()),
        }
    }

    /// The segment and the row that a symbol of the image stands in, or what is known of one beside these.
    pub(super) fn symbol_row(&self, symbol: Symbol) -> Result<(&XrefSegment, u32), Option<&TextSymbol>> {
        match symbol.table {
            SymbolTable::Base => Ok((self.base(), symbol.row)),
            SymbolTable::Newest => Ok((self.newest(), symbol.row)),
            SymbolTable::Beside => Err(self.beside.get(symbol.row as usize)),
        }
    }

    /// The table of the symbols that the base has, if they are current.
    fn base_table(&self) -> SymbolTable {
        if self.has_delta() { SymbolTable::Base } else { SymbolTable::Newest }
    }
}
