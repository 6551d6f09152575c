//! Reads an export: the tables that `lisp/index/xref.lisp` writes to one byte vector.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;

use super::columns::{
    Column, FunctionColumn, LocalNicknameColumn, NameColumn, NicknameColumn, PackageColumn, PresenceColumn,
    RecordColumn, RefutedColumn, SourceColumn, SurvivorColumn, SymbolColumn, UseColumn,
};

/// The value of an empty cell.
pub const NONE: u32 = u32::MAX;

/// The number of columns of each table, in the order of the export.
pub const WIDTHS: [usize; 12] = [
    PackageColumn::WIDTH,
    NicknameColumn::WIDTH,
    UseColumn::WIDTH,
    LocalNicknameColumn::WIDTH,
    SymbolColumn::WIDTH,
    PresenceColumn::WIDTH,
    NameColumn::WIDTH,
    SourceColumn::WIDTH,
    FunctionColumn::WIDTH,
    RecordColumn::WIDTH,
    SurvivorColumn::WIDTH,
    RefutedColumn::WIDTH,
];

/// The error for an export or index that cannot be read: it is truncated, or was written by another
/// version of the Lisp code or this program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Malformed {
    /// The part that was expected.
    pub expected: &'static str,
    /// The byte at which it was missing.
    pub at: usize,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "cross-reference data lacks its {} at byte {}: the core and this program have different versions; rebuild both",
            self.expected, self.at
        )
    }
}

impl std::error::Error for Malformed {}

/// A table of numbers with the columns `C`, stored by column.
#[derive(Debug, Clone, Copy)]
pub struct ExportTable<'a, C> {
    cells: &'a [u8],
    rows: usize,
    columns: PhantomData<C>,
}

impl<C: Column> ExportTable<'_, C> {
    /// Returns the number of rows.
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the number in `column` of `row`, or [`NONE`] outside the table.
    pub fn cell(&self, row: usize, column: C) -> u32 {
        if row < self.rows { word(self.cells, column.index() * self.rows + row) } else { NONE }
    }

    /// Returns the number in `column` of `row`, or `None` if the cell is empty.
    pub fn get(&self, row: usize, column: C) -> Option<u32> {
        Some(self.cell(row, column)).filter(|cell| *cell != NONE)
    }
}

/// Returns the `index`-th little-endian number in `cells`, or [`NONE`] if out of range.
pub fn word(cells: &[u8], index: usize) -> u32 {
    match cells.get(index * 4..).and_then(|rest| rest.first_chunk::<4>()) {
        Some(bytes) => u32::from_le_bytes(*bytes),
        None => NONE,
    }
}

/// An export, borrowed from the bytes that Lisp returned.
#[derive(Debug)]
pub struct Export<'a> {
    /// SBCL's `*code-alloc-count*` at the time of the export.
    pub stamp: u64,
    /// The export covers functions with serial numbers above this number.
    pub since: u64,
    /// The highest code serial number that the export covers.
    pub serial: u64,
    ends: &'a [u8],
    blob: &'a [u8],
    tables: [(&'a [u8], usize); 12],
}

impl<'a> Export<'a> {
    /// Reads the header and the table positions of an export. Rows are read on demand.
    pub fn read(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = ExportReader { bytes, at: 0 };
        if reader.take(8, "heading")? != b"SBXREF01" {
            return Err(Malformed { expected: "heading", at: 0 });
        }
        let stamp = reader.long()?;
        let since = reader.long()?;
        let serial = reader.long()?;
        let strings = reader.word()?;
        let ends = reader.take(strings * 4, "strings")?;
        let length = if strings == 0 { 0 } else { word(ends, strings - 1) as usize };
        let blob = reader.take(length.next_multiple_of(4), "text")?;
        let mut tables = [(&[][..], 0); 12];
        for (table, width) in tables.iter_mut().zip(WIDTHS) {
            let rows = reader.word()?;
            *table = (reader.take(rows * width * 4, "table")?, rows);
        }
        Ok(Self { stamp, since, serial, ends, blob, tables })
    }

    /// Returns string number `number`, in UTF-8 as encoded by Lisp.
    pub fn string(&self, number: u32) -> &'a [u8] {
        let number = number as usize;
        let start = if number == 0 { 0 } else { word(self.ends, number - 1) as usize };
        self.blob.get(start..word(self.ends, number) as usize).unwrap_or_default()
    }

    /// Returns the number of strings.
    pub fn strings(&self) -> usize {
        self.ends.len() / 4
    }

    /// Returns the packages, sorted by name.
    pub fn packages(&self) -> ExportTable<'a, PackageColumn> {
        self.table(0)
    }

    /// Returns the nicknames of packages.
    pub fn nicknames(&self) -> ExportTable<'a, NicknameColumn> {
        self.table(1)
    }

    /// Returns each pair of a package and another package that it uses.
    pub fn uses(&self) -> ExportTable<'a, UseColumn> {
        self.table(2)
    }

    /// Returns the package-local nicknames.
    pub fn local_nicknames(&self) -> ExportTable<'a, LocalNicknameColumn> {
        self.table(3)
    }

    /// Returns the symbols that other tables refer to.
    pub fn symbols(&self) -> ExportTable<'a, SymbolColumn> {
        self.table(4)
    }

    /// Returns the pairs of a package and a symbol that is present in it.
    pub fn presents(&self) -> ExportTable<'a, PresenceColumn> {
        self.table(5)
    }

    /// Returns the used names.
    pub fn names(&self) -> ExportTable<'a, NameColumn> {
        self.table(6)
    }

    /// Returns the source files of the functions.
    pub fn sources(&self) -> ExportTable<'a, SourceColumn> {
        self.table(7)
    }

    /// Returns the functions with records in the exported code objects, and the methods defined
    /// since the base.
    pub fn functions(&self) -> ExportTable<'a, FunctionColumn> {
        self.table(8)
    }

    /// Returns the uses recorded for the functions.
    pub fn records(&self) -> ExportTable<'a, RecordColumn> {
        self.table(9)
    }

    /// Returns the functions of earlier exports that still exist.
    pub fn survivors(&self) -> ExportTable<'a, SurvivorColumn> {
        self.table(10)
    }

    /// Returns the functions of the base index that are no longer the definitions of their names,
    /// and its removed methods.
    pub fn refuted(&self) -> ExportTable<'a, RefutedColumn> {
        self.table(11)
    }

    /// Returns the top-level forms of the functions: each a file and the form's start in bytes. A
    /// form that contains several functions is returned several times.
    pub fn toplevel_forms(&self) -> impl Iterator<Item = (Cow<'a, str>, u32)> {
        let functions = self.functions();
        (0..functions.rows()).filter_map(move |row| {
            let source = functions.get(row, FunctionColumn::Source)?;
            let path = self.string(self.sources().cell(source as usize, SourceColumn::Path));
            Some((String::from_utf8_lossy(path), functions.get(row, FunctionColumn::Offset)?))
        })
    }

    fn table<C: Column>(&self, number: usize) -> ExportTable<'a, C> {
        let (cells, rows) = self.tables[number];
        ExportTable { cells, rows, columns: PhantomData }
    }
}

struct ExportReader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> ExportReader<'a> {
    fn take(&mut self, length: usize, expected: &'static str) -> Result<&'a [u8], Malformed> {
        let taken = self
            .at
            .checked_add(length)
            .and_then(|end| self.bytes.get(self.at..end))
            .ok_or(Malformed { expected, at: self.at })?;
        self.at += length;
        Ok(taken)
    }

    fn word(&mut self) -> Result<usize, Malformed> {
        Ok(word(self.take(4, "number")?, 0) as usize)
    }

    fn long(&mut self) -> Result<u64, Malformed> {
        let bytes = self.take(8, "number")?;
        Ok(u64::from(word(bytes, 0)) | u64::from(word(bytes, 1)) << 32)
    }
}
