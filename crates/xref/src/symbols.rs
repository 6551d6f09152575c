//! Implements `FIND-PACKAGE` and `FIND-SYMBOL` without Lisp, including inheritance, nicknames,
//! local nicknames and shadowing.

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

/// A symbol's home package and name.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct SymbolName {
    /// The name of the home package. Empty for an uninterned symbol.
    pub package: String,
    /// The name, in its actual case.
    pub name: String,
}

impl SymbolName {
    /// Creates a name from its parts.
    pub fn new(package: impl Into<String>, name: impl Into<String>) -> Self {
        Self { package: package.into(), name: name.into() }
    }
}

/// The table of a snapshot that contains a symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum SymbolTable {
    Base,
    Newest,
    /// Symbols from texts, which the image does not have.
    Text,
}

/// A symbol that occurs in a text but not in the image.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TextSymbol {
    /// Its home package, which exists in the image.
    pub package: Package,
    /// Its name, without package and bars.
    pub name: String,
    /// Its printed name, with bars where they are needed.
    pub printed: String,
    /// Whether its home package exports it.
    pub exported: bool,
}

/// The accessibility of a symbol in a package: the second value of `FIND-SYMBOL`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Access {
    /// Present, not exported.
    Internal,
    /// Present and exported.
    External,
    /// Exported by a used package.
    Inherited,
}

impl Index {
    /// Returns the package with this exact name or nickname. Nicknames local to `within` take
    /// precedence.
    pub fn find_package(&self, name: &str, within: Option<Package>) -> Option<Package> {
        let name = name.as_bytes();
        within
            .and_then(|within| self.newest().local_package(within.0, name))
            .or_else(|| self.newest().package_named(name))
            .map(Package)
    }

    /// Returns all packages, sorted by name.
    pub fn packages(&self) -> impl Iterator<Item = Package> + '_ {
        (0..self.newest().packages()).map(Package)
    }

    /// Returns the current name of the package, from the newest export.
    pub fn package_name(&self, package: Package) -> Cow<'_, str> {
        self.newest().text(self.newest().package(package.0, PackageColumn::Name))
    }

    /// Returns the name of a package as printed in the prefix of a symbol, with bars where they are
    /// needed.
    pub fn package_text(&self, package: Package) -> Cow<'_, str> {
        self.newest().text(self.newest().package(package.0, PackageColumn::Printed))
    }

    /// Returns the symbol with this exact name that is accessible in the package with that name or
    /// nickname.
    pub fn symbol_named(&self, package: &str, name: &str) -> Option<(Symbol, Access)> {
        self.find_symbol(name, self.find_package(package, None)?)
    }

    /// Returns the symbol with this name that is accessible in this package. `None` if there is
    /// none, or if the name is that of an uninterned symbol.
    pub fn named(&self, symbol: &SymbolName) -> Option<Symbol> {
        self.symbol_named(&symbol.package, &symbol.name).map(|(symbol, _)| symbol)
    }

    /// Implements `CL:FIND-SYMBOL`: returns the symbol with this exact name that is accessible in
    /// `package`. Also finds the symbols added by [`Index::with_symbols`].
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
            let access = |each: &TextSymbol| match each.package == package {
                true if each.exported => Some(Access::External),
                true => Some(Access::Internal),
                false => (each.exported
                    && self.newest().used_by(package.0).any(|used| used == each.package.0))
                .then_some(Access::Inherited),
            };
            let mut found = (0..).zip(&*self.from_text).filter(|(_, each)| each.name.as_bytes() == name);
            found.find_map(|(row, each)| Some((Symbol { table: SymbolTable::Text, row }, access(each)?)))
        })
    }

    /// Returns an index with additional `symbols` from texts. They have no records; uses of them
    /// must be found in texts.
    #[must_use]
    pub fn with_symbols(&self, symbols: impl IntoIterator<Item = TextSymbol>) -> Index {
        let mut index = self.clone();
        index.from_text = self.from_text.iter().cloned().chain(symbols).collect();
        index
    }

    /// Returns whether `symbol` was added by [`Index::with_symbols`] and is not in the image.
    pub fn is_from_text(&self, symbol: Symbol) -> bool {
        symbol.table == SymbolTable::Text
    }

    /// Returns the symbols that `package` exports, with `true`, and the other symbols of this home
    /// package that occur in records, with `false`. Such symbols are the principal symbols of
    /// functions that use names, and of used names. The remaining symbols, such as names of local
    /// variables, were only interned by the reader.
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

    /// Returns the table with the symbols of package number `package`, and the package's number
    /// there.
    fn table_of(&self, package: u32) -> (SymbolTable, &XrefSegment, u32) {
        match self.newest().package(package, PackageColumn::Unchanged) == 1 {
            true => (SymbolTable::Base, self.base(), self.newest().package(package, PackageColumn::Baseline)),
            false => (SymbolTable::Newest, self.newest(), package),
        }
    }

    /// Returns the symbol called `name` that is present in package number `package`, and whether it
    /// is external there.
    fn present(&self, name: &[u8], package: u32) -> Option<(Symbol, bool)> {
        let (table, segment, package) = self.table_of(package);
        let (row, external) = segment.symbols_named(name).find_map(|row| {
            let (_, external) = segment.presents(row).find(|(present, _)| *present == package)?;
            Some((row, external))
        })?;
        let (found, unchanged) = (Symbol { table, row }, table == SymbolTable::Base);
        // If the home package of the symbol is unchanged since the base, use the base's symbol.
        let home = Some(segment.symbol(row, BakedSymbolColumn::Home)).filter(|home| *home != NONE);
        let of_base = |home: &u32| self.newest().package(*home, PackageColumn::Unchanged) == 1;
        let elsewhere = home.filter(|home| !unchanged && of_base(home));
        let same = elsewhere.and_then(|home| self.present(name, home)).map(|(symbol, _)| symbol);
        Some((same.unwrap_or(found), external))
    }

    /// Returns all symbols of the base and of the newest export, but not those added by
    /// [`Index::with_symbols`]. A symbol in both tables is returned twice. Without any export,
    /// symbols of the base belong to the table of the newest export.
    pub fn symbols(&self) -> impl Iterator<Item = Symbol> + '_ {
        let (delta, table) = (self.has_delta(), self.base_table());
        let base = (0..self.base().symbols()).map(move |row| Symbol { table, row });
        let newest = if delta { self.newest().symbols() } else { 0 };
        base.chain((0..newest).map(|row| Symbol { table: SymbolTable::Newest, row }))
    }

    /// Returns the symbols of [`Index::symbols`] with names that may be within `edits` edits of
    /// `name`, ignoring case. Includes all such symbols, and a few others. The first call reads all
    /// names.
    pub fn symbols_near<'a>(&'a self, name: &str, edits: usize) -> impl Iterator<Item = Symbol> + use<'a> {
        let (delta, table) = (self.has_delta(), self.base_table());
        let base = self.base().spellings().near(name, edits).map(move |row| Symbol { table, row });
        let newest = delta.then(|| self.newest().spellings().near(name, edits));
        base.chain(newest.into_iter().flatten().map(|row| Symbol { table: SymbolTable::Newest, row }))
    }

    /// Returns the home packages of all symbols with this exact name, each with the symbol and its
    /// accessibility there.
    pub fn homes<'a>(&'a self, name: &'a str) -> impl Iterator<Item = (Package, Symbol, Access)> + 'a {
        let (delta, table) = (self.has_delta(), self.base_table());
        let base = self.base().symbols_named(name.as_bytes()).map(move |row| Symbol { table, row });
        let newest = delta.then(|| self.newest().symbols_named(name.as_bytes()));
        let newest = newest.into_iter().flatten().map(|row| Symbol { table: SymbolTable::Newest, row });
        let from_text = (0..).zip(&*self.from_text).filter(move |(_, each)| each.name == name);
        let all =
            base.chain(newest).chain(from_text.map(|(row, _)| Symbol { table: SymbolTable::Text, row }));
        all.filter_map(|symbol| {
            let home = self.symbol_package(symbol)?;
            let (found, access) = self.find_symbol(name, home)?;
            (found == symbol).then_some((home, symbol, access))
        })
    }

    /// Returns the name of a symbol.
    pub fn symbol_name(&self, symbol: Symbol) -> Cow<'_, str> {
        match self.symbol_row(symbol) {
            Ok((segment, row)) => segment.text(segment.symbol(row, BakedSymbolColumn::Name)),
            Err(from_text) => Cow::Borrowed(from_text.map_or("", |from_text| &from_text.name)),
        }
    }

    /// Returns the name of a symbol's home package; `None` if it is uninterned.
    pub fn home_name(&self, symbol: Symbol) -> Option<String> {
        self.symbol_package(symbol).map(|home| self.package_name(home).into_owned())
    }

    /// Returns a symbol's home package and name.
    pub fn full_name(&self, symbol: Symbol) -> SymbolName {
        SymbolName::new(self.home_name(symbol).unwrap_or_default(), self.symbol_name(symbol))
    }

    /// Returns a symbol's home package; `None` if it is uninterned.
    pub fn symbol_package(&self, symbol: Symbol) -> Option<Package> {
        let (segment, row) = match self.symbol_row(symbol) {
            Ok(found) => found,
            Err(from_text) => return from_text.map(|from_text| from_text.package),
        };
        let home = segment.symbol(row, BakedSymbolColumn::Home);
        match symbol.table {
            _ if home == NONE => None,
            SymbolTable::Base => self.renumbered(home).map(Package),
            SymbolTable::Newest | SymbolTable::Text => Some(Package(home)),
        }
    }

    /// Returns a symbol's canonical name: its home package and name with two colons between them,
    /// or `#:` and its name if it is uninterned.
    pub fn symbol_text(&self, symbol: Symbol) -> String {
        let name = match self.symbol_row(symbol) {
            Ok((segment, row)) => {
                let text = Some(segment.symbol(row, BakedSymbolColumn::Printed)).filter(|text| *text != NONE);
                segment.text(text.unwrap_or_else(|| segment.symbol(row, BakedSymbolColumn::Name)))
            }
            Err(from_text) => Cow::Borrowed(from_text.map_or("", |from_text| &from_text.printed)),
        };
        match self.symbol_package(symbol) {
            Some(package) => format!("{}::{name}", self.package_text(package)),
            None => format!("#:{name}"),
        }
    }

    pub(super) fn symbol_bytes(&self, symbol: Symbol) -> &[u8] {
        match self.symbol_row(symbol) {
            Ok((segment, row)) => segment.string(segment.symbol(row, BakedSymbolColumn::Name)),
            Err(from_text) => from_text.map_or(&[], |from_text| from_text.name.as_bytes()),
        }
    }

    /// Returns the segment and the row of a symbol of the image, or `Err` with the symbol from a
    /// text.
    pub(super) fn symbol_row(&self, symbol: Symbol) -> Result<(&XrefSegment, u32), Option<&TextSymbol>> {
        match symbol.table {
            SymbolTable::Base => Ok((self.base(), symbol.row)),
            SymbolTable::Newest => Ok((self.newest(), symbol.row)),
            SymbolTable::Text => Err(self.from_text.get(symbol.row as usize)),
        }
    }

    /// Returns the table that identifies symbols of the base. Without any export, the base is the
    /// newest.
    fn base_table(&self) -> SymbolTable {
        if self.has_delta() { SymbolTable::Base } else { SymbolTable::Newest }
    }
}
