//! The on-disk format of the index: sections of little-endian numbers, read in place. Opening an
//! index only reads its directory.

use super::columns::{
    BakedNameColumn, BakedPresenceColumn, BakedRecordColumn, BakedSymbolColumn, Column, FunctionColumn,
    LocalNicknameColumn, NicknameColumn, PackageColumn, SourceColumn,
};
use super::export::{Malformed, NONE, word};
use super::spelling::Spellings;
use std::borrow::Cow;
use std::sync::OnceLock;

/// The first bytes of an index.
pub const MAGIC: &[u8; 8] = b"SBINDX02";

/// The number of record kinds; see [`super::Kind`].
pub const KINDS: usize = 6;

/// The sections, in directory order.
#[derive(Debug, Clone, Copy)]
#[repr(usize)]
pub enum Section {
    /// The fields `stamp`, `since` and `serial`, each as its low and high 32 bits.
    Meta,
    /// The end of each string in `Text`.
    Ends,
    /// All strings, concatenated.
    Text,
    /// Rows of [`PackageColumn`], sorted by name.
    Packages,
    /// Names and nicknames, sorted by bytes: rows of [`NicknameColumn`] with the columns swapped.
    PackageNames,
    /// The start of each package's part of `Uses`.
    UseStarts,
    /// The packages that each package uses.
    Uses,
    /// Rows of [`LocalNicknameColumn`].
    LocalNicknames,
    /// The start of each bucket of `Symbols`. The hash of a symbol's name selects its bucket.
    Buckets,
    /// Rows of [`BakedSymbolColumn`], by bucket.
    Symbols,
    /// Rows of [`BakedPresenceColumn`], grouped by symbol.
    Presents,
    /// Rows of [`BakedNameColumn`], grouped by principal symbol; names without one come last.
    Names,
    /// The start of the records for each name and kind.
    RecordStarts,
    /// Rows of [`BakedRecordColumn`], grouped by name and kind, and sorted by function and form
    /// within each group.
    Records,
    /// Rows of [`FunctionColumn`], sorted by printed principal symbol, then by printed name.
    Functions,
    /// Functions sorted by serial number and entry.
    Identities,
    /// Rows of [`SourceColumn`].
    Sources,
    /// See [`super::places`].
    Places,
}

/// The number of sections.
pub const SECTIONS: usize = Section::Places as usize + 1;

/// Returns the hash of a symbol's name (FNV-1a, then mixed), not yet reduced to a bucket.
pub fn hash(name: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    for byte in name {
        hash = (hash ^ u32::from(*byte)).wrapping_mul(0x0100_0193);
    }
    (hash ^ (hash >> 15)).wrapping_mul(0x2c1b_3c6d)
}

/// A baked index, read in place.
#[derive(Debug)]
pub struct XrefSegment {
    bytes: Cow<'static, [u8]>,
    directory: [(u32, u32); SECTIONS],
    /// Built on the first call of [`XrefSegment::spellings`].
    spellings: OnceLock<Spellings>,
}

impl XrefSegment {
    /// Opens a baked index: reads the directory and checks that every section is inside the bytes.
    pub fn open(bytes: Cow<'static, [u8]>) -> Result<Self, Malformed> {
        let slice = &*bytes;
        if slice.get(..8) != Some(MAGIC.as_slice()) {
            return Err(Malformed { expected: "index heading", at: 0 });
        }
        let mut directory = [(0, 0); SECTIONS];
        for (number, entry) in directory.iter_mut().enumerate() {
            let start = word(slice, 2 + number * 2);
            let length = word(slice, 3 + number * 2);
            let end = (start as usize).checked_add(length as usize);
            if end.is_none_or(|end| end > slice.len()) {
                return Err(Malformed { expected: "index section", at: 8 + number * 8 });
            }
            *entry = (start, length);
        }
        Ok(Self { bytes, directory, spellings: OnceLock::new() })
    }

    /// Returns the spellings of the symbols' names, for approximate matching.
    pub fn spellings(&self) -> &Spellings {
        let name = |row| self.text(self.symbol(row, BakedSymbolColumn::Name));
        self.spellings.get_or_init(|| Spellings::of((0..self.symbols()).map(name)))
    }

    fn section(&self, section: Section) -> &[u8] {
        let (start, length) = self.directory[section as usize];
        let start = start as usize;
        self.bytes.get(start..start + length as usize).unwrap_or_default()
    }

    fn word(&self, section: Section, index: usize) -> u32 {
        word(self.section(section), index)
    }

    /// Returns one cell of a row.
    fn cell<C: Column>(&self, section: Section, row: u32, column: C) -> u32 {
        self.word(section, row as usize * C::WIDTH + column.index())
    }

    /// Returns the number of rows in a section.
    fn rows<C: Column>(&self, section: Section) -> usize {
        self.words(section) / C::WIDTH
    }

    fn words(&self, section: Section) -> usize {
        self.section(section).len() / 4
    }

    fn long(&self, index: usize) -> u64 {
        u64::from(self.word(Section::Meta, index * 2))
            | u64::from(self.word(Section::Meta, index * 2 + 1)) << 32
    }

    /// Returns SBCL's `*code-alloc-count*` at the time of the export.
    pub fn stamp(&self) -> u64 {
        self.long(0)
    }

    /// Returns the serial number at which this index begins: it covers functions with higher
    /// numbers.
    pub fn since(&self) -> u64 {
        self.long(1)
    }

    /// Returns the highest code serial number that this index covers.
    pub fn serial(&self) -> u64 {
        self.long(2)
    }

    /// Returns string number `number`, in UTF-8.
    pub fn string(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.word(Section::Ends, number - 1) as usize };
        self.section(Section::Text).get(start..self.word(Section::Ends, number) as usize).unwrap_or_default()
    }

    /// Returns string number `number`, with invalid UTF-8 replaced.
    pub fn text(&self, number: u32) -> Cow<'_, str> {
        let bytes = self.string(number);
        // `from_utf8` checks ASCII a word at a time and is faster than `from_utf8_lossy`, which
        // checks each byte.
        std::str::from_utf8(bytes).map_or_else(|_| String::from_utf8_lossy(bytes), Cow::Borrowed)
    }

    /// Returns the number of packages.
    pub fn packages(&self) -> u32 {
        self.rows::<PackageColumn>(Section::Packages) as u32
    }

    /// Returns one cell of a package's row.
    pub fn package(&self, package: u32, column: PackageColumn) -> u32 {
        self.cell(Section::Packages, package, column)
    }

    /// Returns the package with this name or nickname.
    pub fn package_named(&self, name: &[u8]) -> Option<u32> {
        let (mut low, mut high) = (0, self.rows::<NicknameColumn>(Section::PackageNames));
        while low < high {
            let middle = usize::midpoint(low, high);
            match self.string(self.word(Section::PackageNames, middle * 2)).cmp(name) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(self.word(Section::PackageNames, middle * 2 + 1)),
            }
        }
        None
    }

    /// Returns the package for which `package` has the local nickname `name`.
    pub fn local_package(&self, package: u32, name: &[u8]) -> Option<u32> {
        let cell = |row, column| self.cell(Section::LocalNicknames, row, column);
        (0..self.rows::<LocalNicknameColumn>(Section::LocalNicknames) as u32)
            .find(|row| {
                cell(*row, LocalNicknameColumn::Package) == package
                    && self.string(cell(*row, LocalNicknameColumn::Nickname)) == name
            })
            .map(|row| cell(row, LocalNicknameColumn::Actual))
    }

    /// Returns the packages that `package` uses.
    pub fn used_by(&self, package: u32) -> impl Iterator<Item = u32> + '_ {
        // As in `range_of`: a damaged index must not cause an iteration over four billion rows.
        let uses = self.words(Section::Uses);
        let end = |package| (self.word(Section::UseStarts, package) as usize).min(uses);
        (end(package as usize)..end(package as usize + 1)).map(|index| self.word(Section::Uses, index))
    }

    /// Returns the symbols with this name, in any package or uninterned.
    pub fn symbols_named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        let mask = self.words(Section::Buckets).saturating_sub(2) as u32;
        let bucket = (hash(name) & mask) as usize;
        let end = |bucket| self.word(Section::Buckets, bucket).min(self.symbols());
        (end(bucket)..end(bucket + 1))
            .filter(move |symbol| self.string(self.symbol(*symbol, BakedSymbolColumn::Name)) == name)
    }

    /// Returns the number of symbols.
    pub fn symbols(&self) -> u32 {
        self.rows::<BakedSymbolColumn>(Section::Symbols).saturating_sub(1) as u32
    }

    /// Returns one cell of a symbol's row.
    pub fn symbol(&self, symbol: u32, column: BakedSymbolColumn) -> u32 {
        self.cell(Section::Symbols, symbol, column)
    }

    /// Returns the packages that contain `symbol`, each with `true` if the symbol is external
    /// there.
    pub fn presents(&self, symbol: u32) -> impl Iterator<Item = (u32, bool)> + '_ {
        let rows = self.rows::<BakedPresenceColumn>(Section::Presents);
        self.range_of(symbol, BakedSymbolColumn::FirstPresence, rows).map(|row| {
            let cell = |column| self.cell(Section::Presents, row, column);
            (cell(BakedPresenceColumn::Package), cell(BakedPresenceColumn::External) == 1)
        })
    }

    /// Returns the used names with the principal symbol `symbol`.
    pub fn names_of(&self, symbol: u32) -> std::ops::Range<u32> {
        self.range_of(symbol, BakedSymbolColumn::FirstName, self.names() as usize)
    }

    /// Returns the rows of `symbol` in a section with `rows` rows; `column` holds their start.
    fn range_of(&self, symbol: u32, column: BakedSymbolColumn, rows: usize) -> std::ops::Range<u32> {
        // A damaged index must not cause an iteration over four billion rows.
        let end = |symbol| self.symbol(symbol, column).min(rows as u32);
        end(symbol)..symbol.checked_add(1).map_or(0, end)
    }

    /// Returns the number of used names.
    pub fn names(&self) -> u32 {
        self.rows::<BakedNameColumn>(Section::Names) as u32
    }

    /// Returns the number of a used name's role: how it is built from its principal symbol.
    pub fn role(&self, name: u32) -> u32 {
        self.cell(Section::Names, name, BakedNameColumn::Role)
    }

    /// Returns the printed form of a used name, or `None` if the name is just its principal symbol.
    pub fn name_text(&self, name: u32) -> Option<Cow<'_, str>> {
        let text = self.cell(Section::Names, name, BakedNameColumn::Text);
        (text != NONE).then(|| self.text(text))
    }

    /// Returns the records of one kind for one name, each a function and a form number, sorted by
    /// both.
    pub fn records(&self, name: u32, kind: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        const ROW: usize = 4 * BakedRecordColumn::WIDTH;
        let cell = name as usize * KINDS + kind;
        let start = |cell| (self.word(Section::RecordStarts, cell) as usize).saturating_mul(ROW);
        let records = self.section(Section::Records);
        let rows = records.get(start(cell)..start(cell + 1).min(records.len())).unwrap_or_default();
        rows.chunks_exact(ROW).map(|row| {
            let cell = |column: BakedRecordColumn| word(row, column.index());
            (cell(BakedRecordColumn::Function), cell(BakedRecordColumn::Form))
        })
    }

    /// Returns the number of records.
    pub fn record_count(&self) -> usize {
        self.rows::<BakedRecordColumn>(Section::Records)
    }

    /// Returns the number of functions.
    pub fn functions(&self) -> u32 {
        self.rows::<FunctionColumn>(Section::Functions) as u32
    }

    /// Returns one cell of a function's row.
    pub fn function(&self, function: u32, column: FunctionColumn) -> u32 {
        self.cell(Section::Functions, function, column)
    }

    /// Returns the function in the code object with this serial number, at this entry. For a
    /// method, `serial` is [`NONE`] and `entry` is the method's number.
    pub fn identified(&self, serial: u32, entry: u32) -> Option<u32> {
        let (mut low, mut high) = (0, self.words(Section::Identities));
        while low < high {
            let middle = usize::midpoint(low, high);
            let function = self.word(Section::Identities, middle);
            let identity = (
                self.function(function, FunctionColumn::Serial),
                self.function(function, FunctionColumn::Entry),
            );
            match identity.cmp(&(serial, entry)) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(function),
            }
        }
        None
    }

    /// Returns the positions of forms in SBCL's sources; see [`super::places`].
    pub fn places(&self) -> &[u8] {
        self.section(Section::Places)
    }

    /// Returns one cell of a source's row.
    pub fn source(&self, source: u32, column: SourceColumn) -> u32 {
        self.cell(Section::Sources, source, column)
    }
}
