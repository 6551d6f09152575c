//! An immutable snapshot of all cross references: the base index, and the exports applied to it.
//! [`Index::apply`] creates the next snapshot from an export.

use super::bake::bake;
use super::columns::{
    BakedSymbolColumn, FunctionColumn, PackageColumn, RefutedColumn, SourceColumn, SurvivorColumn,
};
use super::export::{Export, Malformed, NONE};
use super::format::XrefSegment;
use super::kinds::{FunctionKind, Kind, NameRole};
use super::symbols::{Package, Symbol, SymbolName, TextSymbol};
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// The maximum number of separate exports. Once it is reached, the next export starts at the base
/// and replaces them all.
const MAX_SEGMENTS: usize = 8;

/// The status numbers of functions in exports, as defined in `lisp/index/xref.lisp`.
const CURRENT: u32 = 1;
const REPLACED: u32 = 2;

/// The error for an export that cannot be read or does not continue the index.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ApplyError {
    /// The bytes cannot be read.
    #[error(transparent)]
    Malformed(#[from] Malformed),
    /// Code between the index and the export is missing.
    #[error(
        "the cross-reference export starts after code number {since}, but the index ends at {expected}; export again from {expected}"
    )]
    Gap {
        /// The code serial number after which the export begins.
        since: u64,
        /// The code serial number after which the export must begin ([`Index::since`]).
        expected: u64,
    },
}

/// An immutable snapshot of all cross references. Cheap to clone and to share.
#[derive(Debug, Clone)]
pub struct Index {
    /// The base first, then the exports, oldest first.
    generations: Arc<[Generation]>,
    /// The tables of packages, symbols and methods: the newest export's, or the base's before any
    /// export.
    newest: Arc<XrefSegment>,
    /// For each package of the base, its number in `newest`, or [`NONE`] if it was deleted.
    from_base: Arc<[u32]>,
    /// Whether the base may contain functions that had been replaced before it was saved.
    snapshot: bool,
    /// Symbols that occur in texts but not in the image.
    pub(super) from_text: Arc<[TextSymbol]>,
}

#[derive(Debug, Clone)]
struct Generation {
    segment: Arc<XrefSegment>,
    /// Functions that no longer exist.
    removed: Bits,
    /// Functions that still exist, but are no longer the definitions of their names.
    stale: Bits,
}

/// A set of small numbers, one bit each.
#[derive(Debug, Clone, Default)]
struct Bits(Vec<u64>);

impl Bits {
    fn insert(&mut self, number: u32) {
        let word = (number / 64) as usize;
        if word >= self.0.len() {
            self.0.resize(word + 1, 0);
        }
        self.0[word] |= 1 << (number % 64);
    }

    fn extend(&mut self, other: &Bits) {
        if self.0.len() < other.0.len() {
            self.0.resize(other.0.len(), 0);
        }
        for (word, more) in self.0.iter_mut().zip(&other.0) {
            *word |= more;
        }
    }

    fn contains(&self, number: u32) -> bool {
        self.0.get((number / 64) as usize).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }
}

/// A use of a name: a function, and the form in it that uses the name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Use<'a> {
    /// The printed, qualified name of the function.
    pub function: Cow<'a, str>,
    /// The principal symbol of the function.
    pub symbol: Option<FiledUnder<'a>>,
    /// The kind of function.
    pub kind: FunctionKind,
    /// The file that the function was compiled from: a native path, or a logical name such as
    /// `SYS:SRC;CODE;LIST.LISP`.
    pub file: Option<Cow<'a, str>>,
    /// The file's write date when the function was compiled, as a universal time; 0 if unknown.
    pub file_written: u64,
    /// The index of the top-level form that contains the function, from 0.
    pub toplevel_form: Option<u32>,
    /// The start of that form, as an offset in bytes. Whitespace and comments may precede the form
    /// there.
    pub offset: Option<u32>,
    /// The form number of the use in the top-level form; `None` for specializers of methods.
    pub form: Option<u32>,
}

/// The position of a use: a subset of the fields of [`Use`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UsePlace<'a> {
    /// [`Use::file`].
    pub file: Option<Cow<'a, str>>,
    /// [`Use::file_written`].
    pub file_written: u64,
    /// [`Use::toplevel_form`].
    pub toplevel_form: Option<u32>,
    /// [`Use::offset`].
    pub offset: Option<u32>,
    /// [`Use::form`].
    pub form: Option<u32>,
}

/// Identifies a use in the index that returned it. [`Index::read`] returns the use itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct UseNumber {
    generation: u32,
    function: u32,
    form: u32,
}

impl UseNumber {
    /// Returns whether both uses are in one function, not merely in functions with equal names.
    pub fn is_same_function(self, other: Self) -> bool {
        (self.generation, self.function) == (other.generation, other.function)
    }
}

/// The principal symbol of a function, in parts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FiledUnder<'a> {
    /// The name of the home package; `None` if the symbol is uninterned.
    pub package: Option<Cow<'a, str>>,
    /// The name of the symbol, without package and bars.
    pub name: Cow<'a, str>,
}

/// A use and the used name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record<'a> {
    /// The kind of use.
    pub kind: Kind,
    /// The printed, qualified form of the used name.
    pub name: String,
    /// The function that uses the name, with the position.
    pub by: Use<'a>,
    /// Whether a global name refers to that function, or to a function compiled together with it.
    /// Other functions exist only as long as something references them.
    pub current: bool,
}

impl Index {
    /// Returns whether `other` is this snapshot or a clone of it, possibly with other symbols added
    /// by [`Index::with_symbols`].
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.generations, &other.generations) && Arc::ptr_eq(&self.newest, &other.newest)
    }

    /// Opens a baked index. Reads only its directory.
    pub fn open(base: impl Into<Cow<'static, [u8]>>) -> Result<Self, Malformed> {
        let base = Arc::new(XrefSegment::open(base.into())?);
        let from_base = (0..base.packages()).collect();
        let generation =
            Generation { segment: Arc::clone(&base), removed: Bits::default(), stale: Bits::default() };
        let generations = Arc::new([generation]);
        Ok(Self { generations, newest: base, from_base, snapshot: false, from_text: Arc::default() })
    }

    /// Opens the baked index of a core that was saved with replaced functions in it.
    pub fn open_snapshot(base: impl Into<Cow<'static, [u8]>>) -> Result<Self, Malformed> {
        let mut index = Self::open(base)?;
        let generation = Generation {
            segment: Arc::clone(&index.newest),
            removed: Bits::default(),
            stale: replaced(&index.newest),
        };
        index.generations = Arc::new([generation]);
        index.snapshot = true;
        Ok(index)
    }

    /// Returns the code serial number after which the next export must begin.
    pub fn since(&self) -> u64 {
        if self.generations.len() > MAX_SEGMENTS { self.base().serial() } else { self.newest.serial() }
    }

    /// Returns SBCL's `*code-alloc-count*` at the time of the newest export, or of the base before
    /// any export.
    pub fn stamp(&self) -> u64 {
        self.newest.stamp()
    }

    /// Returns the number of records, including those of replaced and removed functions.
    pub fn record_count(&self) -> usize {
        self.generations.iter().map(|generation| generation.segment.record_count()).sum()
    }

    /// Returns a new snapshot that includes the export `bytes`. Lisp's `xref-export` must have
    /// created it with the argument [`Index::since`]. The new snapshot does not contain the symbols
    /// that [`Index::with_symbols`] added to this one.
    pub fn apply(&self, bytes: &[u8]) -> Result<Self, ApplyError> {
        let export = Export::read(bytes)?;
        let mut generations = self.generations.to_vec();
        if export.since == self.base().serial() {
            generations.truncate(1);
        } else if export.since != self.newest.serial() {
            return Err(ApplyError::Gap { since: export.since, expected: self.since() });
        }
        let newest = Arc::new(XrefSegment::open(bake(bytes, &[])?.into())?);
        if let Some((base, later)) = generations.split_first_mut() {
            (base.removed, base.stale) = refuted(&export, &base.segment);
            if self.snapshot {
                base.stale.extend(&replaced(&base.segment));
            }
            let survivors = survivors(&export);
            for generation in later.iter_mut() {
                (generation.removed, generation.stale) = extinct(&generation.segment, &survivors);
            }
        }
        generations.retain(|generation| generation.segment.functions() > 0);
        let stale = replaced(&newest);
        let mut from_base = vec![NONE; self.from_base.len()];
        for package in 0..newest.packages() {
            if let Some(slot) = from_base.get_mut(newest.package(package, PackageColumn::Baseline) as usize) {
                *slot = package;
            }
        }
        generations.push(Generation { segment: Arc::clone(&newest), removed: Bits::default(), stale });
        Ok(Self {
            generations: generations.into(),
            newest,
            from_base: from_base.into(),
            snapshot: self.snapshot,
            from_text: Arc::default(),
        })
    }

    /// Returns the uses of kind `kind` of `symbol`, and of the other names that are built from it,
    /// such as `(SETF F)`. `roles` selects the names by role. Replaced functions are excluded. The
    /// uses are sorted by the function's printed principal symbol, then by its printed name. The
    /// uses in one function are sorted by form.
    pub fn who(&self, kind: Kind, symbol: Symbol, roles: impl Fn(NameRole) -> bool) -> Vec<Use<'_>> {
        self.uses(self.found(kind, symbol, roles, true))
    }

    /// Like [`Index::who`], but includes replaced functions that may still be reachable, as
    /// sb-introspect does.
    pub fn who_including_replaced(
        &self,
        kind: Kind,
        symbol: Symbol,
        roles: impl Fn(NameRole) -> bool,
    ) -> Vec<Use<'_>> {
        self.uses(self.found(kind, symbol, roles, false))
    }

    /// Returns the numbers of the uses that [`Index::who`] returns, for callers that read only some
    /// of them, or read them later. A use that is recorded twice is returned twice.
    pub fn who_numbers(
        &self,
        kind: Kind,
        symbol: Symbol,
        roles: impl Fn(NameRole) -> bool,
    ) -> Vec<UseNumber> {
        self.found(kind, symbol, roles, true)
    }

    /// Reads the use with this `number`. The number must come from this index; another index's
    /// number gives an arbitrary use.
    pub fn read(&self, number: UseNumber) -> Use<'_> {
        self.entry(self.segment(number), number.function, number.form)
    }

    /// Reads the position of the use with this `number`, without the containing function.
    pub fn place(&self, number: UseNumber) -> UsePlace<'_> {
        place(self.segment(number), number.function, number.form)
    }

    /// Returns the printed name of the function that contains a use.
    pub fn function_name(&self, number: UseNumber) -> Cow<'_, str> {
        let segment = self.segment(number);
        segment.text(segment.function(number.function, FunctionColumn::Text))
    }

    /// Splits `uses`, which must be in the order of [`Index::who`], into runs with equal printed
    /// function names. Returns the end of each run.
    pub fn function_ends(&self, uses: &[UseNumber]) -> Vec<usize> {
        let mut ends = Vec::with_capacity(uses.len());
        let mut last: Option<(UseNumber, u32)> = None;
        for (at, &number) in uses.iter().enumerate() {
            let text = match last {
                Some((before, text)) if before.is_same_function(number) => text,
                _ => self.segment(number).function(number.function, FunctionColumn::Text),
            };
            // Strings in one export are distinct, so comparing their numbers suffices.
            let is_other = last.is_some_and(|(before, last)| match before.generation == number.generation {
                true => last != text,
                false => self.function_text(before) != self.function_text(number),
            });
            if is_other {
                ends.push(at);
            }
            last = Some((number, text));
        }
        ends.extend(last.map(|_| uses.len()));
        ends
    }

    /// Returns the number of functions in the result of [`Index::who`]. Consecutive uses by
    /// functions with equal names count as one.
    pub fn count(&self, kind: Kind, symbol: Symbol, roles: impl Fn(NameRole) -> bool) -> usize {
        self.function_ends(&self.found(kind, symbol, roles, true)).len()
    }

    /// Returns whether [`Index::who`] would return any use.
    pub fn is_used(&self, kind: Kind, symbol: Symbol, roles: impl Fn(NameRole) -> bool) -> bool {
        self.generations.iter().any(|generation| {
            let segment = &*generation.segment;
            let named = self.row_in(segment, symbol).into_iter().flat_map(|row| segment.names_of(row));
            let mut accepted = named.filter(|name| roles(NameRole::from_number(segment.role(*name))));
            accepted.any(|name| self.current_records(generation, name, kind).next().is_some())
        })
    }

    /// Returns the uses in code compiled from `file`, a native path, in no particular order. Each
    /// comes with the principal symbol of the used name (home package and name; the package is
    /// empty if the symbol is uninterned), the name's role, the kind of use, and the use's number.
    /// Replaced functions are excluded.
    pub fn uses_in(&self, file: &str) -> Vec<(SymbolName, NameRole, Kind, UseNumber)> {
        let mut found = Vec::new();
        for (number, generation) in self.generations.iter().enumerate() {
            let segment = &*generation.segment;
            let mut inside = Bits::default();
            let mut any = false;
            for function in 0..segment.functions() {
                let source = segment.function(function, FunctionColumn::Source);
                if source != NONE
                    && segment.string(segment.source(source, SourceColumn::Path)) == file.as_bytes()
                {
                    inside.insert(function);
                    any = true;
                }
            }
            for symbol in (0..segment.symbols()).filter(|_| any) {
                for name in segment.names_of(symbol) {
                    for kind in Kind::ALL {
                        let here = self
                            .current_records(generation, name, kind)
                            .filter(|use_| inside.contains(use_.0));
                        found.extend(here.map(|(function, form)| {
                            let home = self.home(segment, segment.symbol(symbol, BakedSymbolColumn::Home));
                            let home = home.map(|home| self.package_name(Package(home)).into_owned());
                            let text = segment.text(segment.symbol(symbol, BakedSymbolColumn::Name));
                            let number = UseNumber { generation: number as u32, function, form };
                            let role = NameRole::from_number(segment.role(name));
                            (SymbolName::new(home.unwrap_or_default(), text), role, kind, number)
                        }));
                    }
                }
            }
        }
        found
    }

    /// Returns the records of `kind` for one name, each a function and a form number. Removed and
    /// replaced functions are excluded.
    fn current_records<'a>(
        &'a self,
        generation: &'a Generation,
        name: u32,
        kind: Kind,
    ) -> impl Iterator<Item = (u32, u32)> + 'a {
        let segment = &*generation.segment;
        // Only the newest export lists all methods defined since the base.
        let listed = kind != Kind::Specializes
            || std::ptr::eq(segment, self.base())
            || Arc::ptr_eq(&generation.segment, &self.newest);
        let records = listed.then(|| segment.records(name, kind as usize)).into_iter().flatten();
        records.filter(|(function, _)| {
            !generation.removed.contains(*function) && !generation.stale.contains(*function)
        })
    }

    fn uses(&self, found: Vec<UseNumber>) -> Vec<Use<'_>> {
        let mut uses: Vec<Use<'_>> = found.into_iter().map(|number| self.read(number)).collect();
        uses.dedup();
        uses
    }

    fn segment(&self, number: UseNumber) -> &XrefSegment {
        let generation = self.generations.get(number.generation as usize);
        generation.map_or(self.base(), |generation| &generation.segment)
    }

    fn function_text(&self, number: UseNumber) -> &[u8] {
        let segment = self.segment(number);
        segment.string(segment.function(number.function, FunctionColumn::Text))
    }

    /// Returns the numbers of the uses in the order of [`Index::who`]. With `fresh`, replaced
    /// functions are excluded.
    fn found(
        &self,
        kind: Kind,
        symbol: Symbol,
        roles: impl Fn(NameRole) -> bool,
        fresh: bool,
    ) -> Vec<UseNumber> {
        let mut found = Vec::new();
        for (number, generation) in self.generations.iter().enumerate() {
            let segment = &*generation.segment;
            // Only the newest export lists all methods defined since the base.
            if kind == Kind::Specializes && number > 0 && !Arc::ptr_eq(&generation.segment, &self.newest) {
                continue;
            }
            let Some(row) = self.row_in(segment, symbol) else { continue };
            let mut here = Vec::new();
            for name in segment.names_of(row).filter(|name| roles(NameRole::from_number(segment.role(*name))))
            {
                here.extend(
                    segment
                        .records(name, kind as usize)
                        .filter(|(function, _)| {
                            !(generation.removed.contains(*function)
                                || fresh && generation.stale.contains(*function))
                        })
                        .map(|(function, form)| UseNumber { generation: number as u32, function, form }),
                );
            }
            // A stable sort is fast here, because the records of each name are already sorted.
            here.sort_by_key(|number| (number.function, number.form));
            found = if found.is_empty() { here } else { self.merged(&found, here) };
        }
        found
    }

    /// Returns all uses in code loaded after the base was saved. Replaced functions are excluded.
    pub fn loaded_records(&self) -> Vec<Record<'_>> {
        let mut found = Vec::new();
        for generation in self.generations.iter().skip(1) {
            let segment = &*generation.segment;
            for symbol in 0..segment.symbols() {
                for name in segment.names_of(symbol) {
                    let text = || match segment.name_text(name) {
                        Some(text) => text.into_owned(),
                        None => self.printed(segment, symbol),
                    };
                    for kind in Kind::ALL {
                        found.extend(self.current_records(generation, name, kind).map(|(function, form)| {
                            Record {
                                kind,
                                name: text(),
                                by: self.entry(segment, function, form),
                                current: segment.function(function, FunctionColumn::Status) == CURRENT,
                            }
                        }));
                    }
                }
            }
        }
        found
    }

    /// Returns the symbols present in packages that were created after the base was saved. For
    /// each: the package, the printed symbol, and whether it is exported.
    pub fn loaded_symbols(&self) -> Vec<(String, String, bool)> {
        let segment = self.newest();
        if !self.has_delta() {
            return Vec::new();
        }
        let symbols = (0..segment.symbols()).flat_map(|symbol| {
            let text = self.printed(segment, symbol);
            let made = |package| segment.package(package, PackageColumn::Baseline) == NONE;
            segment.presents(symbol).filter(move |(package, _)| made(*package)).map(
                move |(package, external)| {
                    (self.package_name(Package(package)).into_owned(), text.clone(), external)
                },
            )
        });
        symbols.collect()
    }

    /// Returns the printed, qualified symbol in `row` of `segment`.
    fn printed(&self, segment: &XrefSegment, row: u32) -> String {
        let text = Some(segment.symbol(row, BakedSymbolColumn::Printed)).filter(|text| *text != NONE);
        let name = text.unwrap_or_else(|| segment.symbol(row, BakedSymbolColumn::Name));
        let name = segment.text(name);
        match self.home(segment, segment.symbol(row, BakedSymbolColumn::Home)) {
            Some(package) => format!("{}::{name}", self.package_text(Package(package))),
            None => format!("#:{name}"),
        }
    }

    /// Returns the row of `symbol` in `segment`, if it has one.
    fn row_in(&self, segment: &XrefSegment, symbol: Symbol) -> Option<u32> {
        if let Ok((own, row)) = self.symbol_row(symbol)
            && std::ptr::eq(own, segment)
        {
            return Some(row);
        }
        let home = self.symbol_package(symbol).map(|home| home.0);
        segment
            .symbols_named(self.symbol_bytes(symbol))
            .find(|row| self.home(segment, segment.symbol(*row, BakedSymbolColumn::Home)) == home)
    }

    /// Returns the number in the newest export of package number `package` of `segment`. `None` if
    /// `package` is [`NONE`] or the package was deleted.
    fn home(&self, segment: &XrefSegment, package: u32) -> Option<u32> {
        if package == NONE {
            None
        } else if std::ptr::eq(segment, self.newest()) {
            Some(package)
        } else if std::ptr::eq(segment, self.base()) {
            self.renumbered(package)
        } else {
            self.renumbered(segment.package(package, PackageColumn::Baseline)).or_else(|| {
                self.newest.package_named(segment.string(segment.package(package, PackageColumn::Name)))
            })
        }
    }

    /// Merges `newer`, uses of one later generation, into `older`. Both are in the order of
    /// [`Index::who`].
    fn merged(&self, older: &[UseNumber], newer: Vec<UseNumber>) -> Vec<UseNumber> {
        let key = |number: UseNumber| {
            let text = self.function_text(number);
            let filed_under = filed_under_text(self.segment(number), number.function);
            (filed_under.unwrap_or_else(|| text.to_vec()), text)
        };
        let mut merged = Vec::with_capacity(older.len() + newer.len());
        let mut rest = older;
        for number in newer {
            let wanted = key(number);
            let (before, after) = rest.split_at(rest.partition_point(|each| key(*each) <= wanted));
            merged.extend_from_slice(before);
            merged.push(number);
            rest = after;
        }
        merged.extend_from_slice(rest);
        merged
    }

    fn entry<'a>(&'a self, segment: &'a XrefSegment, function: u32, form: u32) -> Use<'a> {
        let cell = |column| Some(segment.function(function, column)).filter(|cell| *cell != NONE);
        let UsePlace { file, file_written, toplevel_form, offset, form } = place(segment, function, form);
        Use {
            function: segment.text(segment.function(function, FunctionColumn::Text)),
            symbol: cell(FunctionColumn::Symbol).map(|row| FiledUnder {
                package: self
                    .home(segment, segment.symbol(row, BakedSymbolColumn::Home))
                    .map(|package| self.package_name(Package(package))),
                name: segment.text(segment.symbol(row, BakedSymbolColumn::Name)),
            }),
            kind: FunctionKind::from_number(segment.function(function, FunctionColumn::Kind)),
            file,
            file_written,
            toplevel_form,
            offset,
            form,
        }
    }

    pub(super) fn base(&self) -> &XrefSegment {
        &self.generations[0].segment
    }

    pub(super) fn newest(&self) -> &XrefSegment {
        &self.newest
    }

    pub(super) fn has_delta(&self) -> bool {
        !Arc::ptr_eq(&self.newest, &self.generations[0].segment)
    }

    /// Returns the number in the newest export of a package of the base; `None` if it was deleted.
    pub(super) fn renumbered(&self, package: u32) -> Option<u32> {
        self.from_base.get(package as usize).copied().filter(|package| *package != NONE)
    }
}

/// Returns the position of form number `form` in `function`.
fn place(segment: &XrefSegment, function: u32, form: u32) -> UsePlace<'_> {
    let cell = |column| Some(segment.function(function, column)).filter(|cell| *cell != NONE);
    let source = cell(FunctionColumn::Source);
    let written = |source| {
        u64::from(segment.source(source, SourceColumn::WrittenLow))
            | u64::from(segment.source(source, SourceColumn::WrittenHigh)) << 32
    };
    UsePlace {
        file: source.map(|source| segment.text(segment.source(source, SourceColumn::Path))),
        file_written: source.map_or(0, written),
        toplevel_form: cell(FunctionColumn::Form),
        offset: cell(FunctionColumn::Offset),
        form: Some(form).filter(|form| *form != NONE),
    }
}

/// Returns the printed principal symbol of a function, or `None` if the function has none.
fn filed_under_text(segment: &XrefSegment, function: u32) -> Option<Vec<u8>> {
    let row = Some(segment.function(function, FunctionColumn::Symbol)).filter(|row| *row != NONE)?;
    let home = Some(segment.symbol(row, BakedSymbolColumn::Home)).filter(|home| *home != NONE);
    let name = Some(segment.symbol(row, BakedSymbolColumn::Printed))
        .filter(|text| *text != NONE)
        .unwrap_or_else(|| segment.symbol(row, BakedSymbolColumn::Name));
    let home = home.map(|home| segment.string(segment.package(home, PackageColumn::Printed)));
    Some(super::bake::qualified(home, segment.string(name)))
}

/// Returns the base's removed methods, and the functions that were current when the base was saved
/// but have been replaced.
fn refuted(export: &Export<'_>, base: &XrefSegment) -> (Bits, Bits) {
    let (mut removed, mut stale) = (Bits::default(), Bits::default());
    let refuted = export.refuted();
    for row in 0..refuted.rows() {
        let (serial, entry) =
            (refuted.cell(row, RefutedColumn::Serial), refuted.cell(row, RefutedColumn::Entry));
        match base.identified(serial, entry) {
            Some(function) if serial == NONE => removed.insert(function),
            Some(function) if base.function(function, FunctionColumn::Status) == CURRENT => {
                stale.insert(function)
            }
            _ => {}
        }
    }
    (removed, stale)
}

fn survivors(export: &Export<'_>) -> HashMap<(u32, u32), u32> {
    let table = export.survivors();
    (0..table.rows())
        .map(|row| {
            let cell = |column| table.cell(row, column);
            ((cell(SurvivorColumn::Serial), cell(SurvivorColumn::Entry)), cell(SurvivorColumn::Status))
        })
        .collect()
}

/// Returns the functions of an earlier export that were garbage-collected, and those that were
/// replaced.
fn extinct(segment: &XrefSegment, survivors: &HashMap<(u32, u32), u32>) -> (Bits, Bits) {
    let (mut removed, mut stale) = (Bits::default(), Bits::default());
    for function in 0..segment.functions() {
        match survivors.get(&(
            segment.function(function, FunctionColumn::Serial),
            segment.function(function, FunctionColumn::Entry),
        )) {
            None => removed.insert(function),
            Some(&REPLACED) => stale.insert(function),
            Some(_) => {}
        }
    }
    (removed, stale)
}

/// Returns the functions that were replaced before they were exported.
fn replaced(segment: &XrefSegment) -> Bits {
    let mut stale = Bits::default();
    for function in (0..segment.functions())
        .filter(|function| segment.function(*function, FunctionColumn::Status) == REPLACED)
    {
        stale.insert(function);
    }
    stale
}
