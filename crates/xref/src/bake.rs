//! Bakes an export from Lisp into the index. All tables are sorted and grouped once, so that a
//! lookup only reads.

use std::borrow::Cow;

use super::columns::{
    Column, FunctionColumn, LocalNicknameColumn, NameColumn, NicknameColumn, PackageColumn, PresenceColumn,
    RecordColumn, SourceColumn, SymbolColumn, UseColumn,
};
use super::export::{Export, ExportTable, Malformed, NONE};
use super::format::{KINDS, MAGIC, SECTIONS, hash};

/// Bakes an export into the bytes of an index. `places` is the section of form positions: from
/// [`super::places::of_sources`], copied from another index, or empty.
pub fn bake(bytes: &[u8], places: &[u8]) -> Result<Vec<u8>, Malformed> {
    let export = Export::read(bytes)?;
    let symbols = Symbols::of(&export);
    let names = UsedNames::of(&export, &symbols);
    let functions = Functions::of(&export);
    let packages = export.packages();

    let mut writer = SegmentWriter::with_capacity(2 * bytes.len());
    writer.section(
        [export.stamp, export.since, export.serial]
            .into_iter()
            .flat_map(|long| [long as u32, (long >> 32) as u32]),
    );
    let mut end = 0;
    writer.section((0..export.strings()).map(|number| {
        end += export.string(number as u32).len() as u32;
        end
    }));
    writer.bytes((0..export.strings()).map(|number| export.string(number as u32)));
    writer.rows(&packages, PackageColumn::ALL);
    writer.section(package_names(&export).into_iter().flatten());
    let used = export.uses();
    let (use_starts, uses) = grouped(packages.rows(), used.rows(), |row| used.cell(row, UseColumn::Package));
    writer.section(use_starts.into_iter());
    writer.section(uses.into_iter().map(|row| used.cell(row as usize, UseColumn::Used)));
    writer.rows(&export.local_nicknames(), LocalNicknameColumn::ALL);
    writer.section(symbols.buckets.iter().copied());

    let presents = export.presents();
    let (present_starts, present_rows) = grouped(symbols.order.len(), presents.rows(), |row| {
        symbols.place(presents.cell(row, PresenceColumn::Symbol))
    });
    writer.section((0..=symbols.order.len()).flat_map(|new| {
        let [home, name, text] = match symbols.order.get(new) {
            Some(old) => [SymbolColumn::Home, SymbolColumn::Name, SymbolColumn::Printed]
                .map(|column| export.symbols().cell(*old as usize, column)),
            None => [NONE; 3],
        };
        [home, name, text, present_starts[new], names.starts[new]]
    }));
    writer.section(present_rows.into_iter().flat_map(|row| {
        [PresenceColumn::Package, PresenceColumn::External].map(|column| presents.cell(row as usize, column))
    }));
    writer.section(names.order.iter().flat_map(|old| {
        [NameColumn::Role, NameColumn::Text].map(|column| export.names().cell(*old as usize, column))
    }));

    let records = export.records();
    let key = |row: usize| match (
        names.place(records.cell(row, RecordColumn::Name)),
        records.cell(row, RecordColumn::Kind),
    ) {
        (name, kind) if name != NONE && kind < KINDS as u32 => name * KINDS as u32 + kind,
        _ => NONE,
    };
    let placed = |row: u32| {
        let cell = |column| records.cell(row as usize, column);
        (functions.place(cell(RecordColumn::Function)), cell(RecordColumn::Form))
    };
    let (record_starts, mut rows) = grouped(names.order.len() * KINDS, records.rows(), key);
    for bounds in record_starts.windows(2) {
        rows[bounds[0] as usize..bounds[1] as usize].sort_unstable_by_key(|row| placed(*row));
    }
    writer.section(record_starts.into_iter());
    writer.section(rows.into_iter().map(placed).flat_map(|(function, form)| [function, form]));
    let table = export.functions();
    writer.section(functions.order.iter().flat_map(|old| {
        FunctionColumn::ALL.iter().map(|column| match (*column, table.cell(*old as usize, *column)) {
            (FunctionColumn::Symbol, old) => symbols.place(old),
            (_, cell) => cell,
        })
    }));
    let mut identities: Vec<u32> = (0..functions.order.len() as u32).collect();
    identities.sort_unstable_by_key(|new| {
        let old = functions.order[*new as usize] as usize;
        (table.cell(old, FunctionColumn::Serial), table.cell(old, FunctionColumn::Entry))
    });
    writer.section(identities.into_iter());
    writer.rows(&export.sources(), SourceColumn::ALL);
    writer.bytes([places].into_iter());
    Ok(writer.finish())
}

/// Returns a symbol's canonical name: its home package and name, or `#:` and its name if it is
/// uninterned.
pub fn qualified(package: Option<&[u8]>, name: &[u8]) -> Vec<u8> {
    match package {
        Some(package) => [package, b"::", name].concat(),
        None => [b"#:", name].concat(),
    }
}

/// Returns the canonical name of a symbol of `export`.
fn printed_symbol(export: &Export<'_>, symbol: u32) -> Vec<u8> {
    let (table, row) = (export.symbols(), symbol as usize);
    let home = table
        .get(row, SymbolColumn::Home)
        .map(|home| export.string(export.packages().cell(home as usize, PackageColumn::Printed)));
    let name = table.get(row, SymbolColumn::Printed).unwrap_or_else(|| table.cell(row, SymbolColumn::Name));
    qualified(home, export.string(name))
}

/// Groups rows by key. Returns the start of each group, plus the end of the last one, and the rows
/// in order. Omits rows with a key out of range.
fn grouped(groups: usize, rows: usize, key: impl Fn(usize) -> u32) -> (Vec<u32>, Vec<u32>) {
    let mut starts = vec![0_u32; groups + 1];
    for row in 0..rows {
        if let Some(count) = (key(row) as usize).checked_add(1).and_then(|next| starts.get_mut(next)) {
            *count += 1;
        }
    }
    for group in 0..groups {
        starts[group + 1] += starts[group];
    }
    let mut next = starts.clone();
    let mut order = vec![0; starts[groups] as usize];
    for row in 0..rows {
        let group = key(row) as usize;
        if group < groups {
            order[next[group] as usize] = row as u32;
            next[group] += 1;
        }
    }
    (starts, order)
}

fn package_names(export: &Export<'_>) -> Vec<[u32; 2]> {
    let packages = export.packages();
    let nicknames = export.nicknames();
    let mut names: Vec<[u32; 2]> = (0..packages.rows())
        .map(|row| [packages.cell(row, PackageColumn::Name), row as u32])
        .chain((0..nicknames.rows()).map(|row| {
            [NicknameColumn::Nickname, NicknameColumn::Package].map(|column| nicknames.cell(row, column))
        }))
        .collect();
    names.sort_by(|left, right| export.string(left[0]).cmp(export.string(right[0])));
    names
}

/// Inverts an order: returns the new index of each old row.
fn places(order: &[u32], rows: usize) -> Vec<u32> {
    let mut places = vec![NONE; rows];
    for (new, old) in order.iter().enumerate() {
        places[*old as usize] = new as u32;
    }
    places
}

fn new_place(places: &[u32], old: u32) -> u32 {
    places.get(old as usize).copied().unwrap_or(NONE)
}

/// Symbols, grouped by the hash of their names.
struct Symbols {
    order: Vec<u32>,
    places: Vec<u32>,
    buckets: Vec<u32>,
}

impl Symbols {
    fn of(export: &Export<'_>) -> Self {
        let table = export.symbols();
        let count = table.rows().next_power_of_two();
        let (buckets, order) = grouped(count, table.rows(), |row| {
            hash(export.string(table.cell(row, SymbolColumn::Name))) & (count as u32 - 1)
        });
        Self { places: places(&order, table.rows()), order, buckets }
    }

    fn place(&self, old: u32) -> u32 {
        new_place(&self.places, old)
    }
}

/// Used names, grouped by principal symbol.
struct UsedNames {
    order: Vec<u32>,
    places: Vec<u32>,
    starts: Vec<u32>,
}

impl UsedNames {
    fn of(export: &Export<'_>, symbols: &Symbols) -> Self {
        let table = export.names();
        let (starts, mut order) = grouped(symbols.order.len(), table.rows(), |row| {
            symbols.place(table.cell(row, NameColumn::Symbol))
        });
        order.extend(
            (0..table.rows() as u32).filter(|row| table.get(*row as usize, NameColumn::Symbol).is_none()),
        );
        Self { places: places(&order, table.rows()), order, starts }
    }

    fn place(&self, old: u32) -> u32 {
        new_place(&self.places, old)
    }
}

/// Functions in the order of results: by the printed principal symbol (by the printed name if there
/// is none), then by the printed name.
struct Functions {
    order: Vec<u32>,
    places: Vec<u32>,
}

impl Functions {
    fn of(export: &Export<'_>) -> Self {
        let table = export.functions();
        let keys: Vec<(Cow<'_, [u8]>, &[u8])> = (0..table.rows())
            .map(|row| {
                let text = export.string(table.cell(row, FunctionColumn::Text));
                let symbol = table
                    .get(row, FunctionColumn::Symbol)
                    .filter(|symbol| (*symbol as usize) < export.symbols().rows());
                (symbol.map_or(Cow::Borrowed(text), |symbol| printed_symbol(export, symbol).into()), text)
            })
            .collect();
        let mut order: Vec<u32> = (0..table.rows() as u32).collect();
        order.sort_by(|left, right| keys[*left as usize].cmp(&keys[*right as usize]));
        Self { places: places(&order, table.rows()), order }
    }

    fn place(&self, old: u32) -> u32 {
        new_place(&self.places, old)
    }
}

/// Writes the sections, and in front of them a header with their starts and lengths.
struct SegmentWriter {
    directory: Vec<(u32, u32)>,
    bytes: Vec<u8>,
}

impl SegmentWriter {
    /// Creates a writer with space for about `capacity` bytes.
    fn with_capacity(capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(capacity);
        bytes.resize(MAGIC.len() + SECTIONS * 8, 0);
        Self { directory: Vec::new(), bytes }
    }

    fn section(&mut self, words: impl Iterator<Item = u32>) {
        let start = self.bytes.len();
        for word in words {
            self.bytes.extend_from_slice(&word.to_le_bytes());
        }
        self.end_section(start);
    }

    /// Writes all rows of `table` unchanged.
    fn rows<C: Column>(&mut self, table: &ExportTable<'_, C>, columns: &[C]) {
        self.section(
            (0..table.rows()).flat_map(|row| columns.iter().map(move |column| table.cell(row, *column))),
        );
    }

    fn bytes<'a>(&mut self, parts: impl Iterator<Item = &'a [u8]>) {
        let start = self.bytes.len();
        parts.for_each(|part| self.bytes.extend_from_slice(part));
        self.end_section(start);
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }

    fn end_section(&mut self, start: usize) {
        self.directory.push((start as u32, (self.bytes.len() - start) as u32));
    }

    fn finish(mut self) -> Vec<u8> {
        let words = self.directory.iter().flat_map(|(start, length)| [start, length]);
        let head = MAGIC.iter().copied().chain(words.flat_map(|word| word.to_le_bytes()));
        self.bytes.iter_mut().zip(head).for_each(|(byte, written)| *byte = written);
        self.bytes
    }
}
