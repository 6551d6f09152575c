//! The index as it lies on disk: sections of little-endian numbers, used in place.
//!
//! Opening one reads its directory only. Depends on nothing but std, because the build script includes it.

use super::export::{Malformed, NONE, word};
use std::sync::Arc;

/// The first octets of an index.
pub const MAGIC: &[u8; 8] = b"SBINDX01";

/// How many kinds of record there are; see [`super::Kind`].
pub const KINDS: usize = 6;

/// The sections, in the order of the directory.
#[derive(Debug, Clone, Copy)]
#[repr(usize)]
pub enum Section {
    /// stamp, since and serial, each low then high.
    Meta,
    /// The end of each string in `Text`.
    Ends,
    /// All strings, one after the other.
    Text,
    /// name, printed name, number in the baseline, 1 if unchanged since.
    Packages,
    /// name or nickname, package; sorted by the name's octets.
    PackageNames,
    /// Where each package's part of `Uses` starts.
    UseStarts,
    /// Used packages.
    Uses,
    /// package, nickname, actual package.
    LocalNicknames,
    /// Where each bucket of `Symbols` starts; a symbol's bucket is the hash of its name.
    Buckets,
    /// home package, name, printed name, first row in `Presents`, first row in `Names`.
    Symbols,
    /// package, 1 if external; grouped by symbol.
    Presents,
    /// role, text or NONE; grouped by principal symbol, those without one last.
    Names,
    /// Where the records of each name and kind start.
    RecordStarts,
    /// function, form number; sorted.
    Records,
    /// text, symbol, kind, source, top-level form, offset, serial number, entry, status; in the order of answers.
    Functions,
    /// Functions sorted by serial number and entry.
    Identities,
    /// path, universal time of writing (low, high).
    Sources,
}

/// Number of sections.
pub const SECTIONS: usize = Section::Sources as usize + 1;

/// Columns of [`Section::Packages`].
pub const PACKAGE_WIDTH: usize = 4;
/// Columns of [`Section::Symbols`].
pub const SYMBOL_WIDTH: usize = 5;
/// Columns of [`Section::Functions`].
pub const FUNCTION_WIDTH: usize = 9;
/// Columns of [`Section::Sources`].
pub const SOURCE_WIDTH: usize = 3;

/// The bucket-independent hash of a symbol's name (FNV-1a, then mixed).
pub fn hash(name: &[u8]) -> u32 {
    let mut hash = 0x811c_9dc5_u32;
    for octet in name {
        hash = (hash ^ u32::from(*octet)).wrapping_mul(0x0100_0193);
    }
    (hash ^ (hash >> 15)).wrapping_mul(0x2c1b_3c6d)
}

/// Where an index's octets live.
#[derive(Debug, Clone)]
pub enum Octets {
    /// Embedded in the program.
    Static(&'static [u8]),
    /// Made or read at run time.
    Shared(Arc<[u8]>),
}

impl Octets {
    fn as_slice(&self) -> &[u8] {
        match self {
            Self::Static(octets) => octets,
            Self::Shared(octets) => octets,
        }
    }
}

impl From<&'static [u8]> for Octets {
    fn from(octets: &'static [u8]) -> Self {
        Self::Static(octets)
    }
}

impl From<Arc<[u8]>> for Octets {
    fn from(octets: Arc<[u8]>) -> Self {
        Self::Shared(octets)
    }
}

/// A baked index, read in place.
#[derive(Debug, Clone)]
pub struct Segment {
    octets: Octets,
    directory: [(u32, u32); SECTIONS],
}

impl Segment {
    /// Opens a baked index: reads the directory and checks that every section lies inside.
    pub fn open(octets: Octets) -> Result<Self, Malformed> {
        let slice = octets.as_slice();
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
        Ok(Self { octets, directory })
    }

    fn section(&self, section: Section) -> &[u8] {
        let (start, length) = self.directory[section as usize];
        let start = start as usize;
        self.octets.as_slice().get(start..start + length as usize).unwrap_or_default()
    }

    fn word(&self, section: Section, index: usize) -> u32 {
        word(self.section(section), index)
    }

    fn words(&self, section: Section) -> usize {
        self.section(section).len() / 4
    }

    fn long(&self, index: usize) -> u64 {
        u64::from(self.word(Section::Meta, index * 2))
            | u64::from(self.word(Section::Meta, index * 2 + 1)) << 32
    }

    /// SBCL's `*code-alloc-count*` at the time of the export.
    pub fn stamp(&self) -> u64 {
        self.long(0)
    }

    /// Functions here have serial numbers above this one.
    pub fn since(&self) -> u64 {
        self.long(1)
    }

    /// The highest code serial number covered.
    pub fn serial(&self) -> u64 {
        self.long(2)
    }

    /// String number `number`, in UTF-8.
    pub fn string(&self, number: u32) -> &[u8] {
        let number = number as usize;
        let start = if number == 0 { 0 } else { self.word(Section::Ends, number - 1) as usize };
        self.section(Section::Text).get(start..self.word(Section::Ends, number) as usize).unwrap_or_default()
    }

    /// Number of packages.
    pub fn packages(&self) -> u32 {
        (self.words(Section::Packages) / PACKAGE_WIDTH) as u32
    }

    /// One cell of a package's row.
    pub fn package(&self, package: u32, column: usize) -> u32 {
        self.word(Section::Packages, package as usize * PACKAGE_WIDTH + column)
    }

    /// The package with this name or nickname.
    pub fn package_named(&self, name: &[u8]) -> Option<u32> {
        let (mut low, mut high) = (0, self.words(Section::PackageNames) / 2);
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

    /// The package that `package` knows by the local nickname `name`.
    pub fn local_package(&self, package: u32, name: &[u8]) -> Option<u32> {
        (0..self.words(Section::LocalNicknames) / 3)
            .map(|row| row * 3)
            .find(|cell| {
                self.word(Section::LocalNicknames, *cell) == package
                    && self.string(self.word(Section::LocalNicknames, cell + 1)) == name
            })
            .map(|cell| self.word(Section::LocalNicknames, cell + 2))
    }

    /// The packages that `package` uses.
    pub fn used_by(&self, package: u32) -> impl Iterator<Item = u32> + '_ {
        let start = self.word(Section::UseStarts, package as usize) as usize;
        let end = self.word(Section::UseStarts, package as usize + 1) as usize;
        (start..end).map(|index| self.word(Section::Uses, index))
    }

    /// The symbols with this name, in any package or none.
    pub fn symbols_named<'a>(&'a self, name: &'a [u8]) -> impl Iterator<Item = u32> + 'a {
        let mask = self.words(Section::Buckets).saturating_sub(2) as u32;
        let bucket = (hash(name) & mask) as usize;
        let start = self.word(Section::Buckets, bucket);
        let end = self.word(Section::Buckets, bucket + 1);
        (start..end).filter(move |symbol| self.string(self.symbol(*symbol, 1)) == name)
    }

    /// Number of symbols.
    pub fn symbols(&self) -> u32 {
        (self.words(Section::Symbols) / SYMBOL_WIDTH).saturating_sub(1) as u32
    }

    /// One cell of a symbol's row.
    pub fn symbol(&self, symbol: u32, column: usize) -> u32 {
        self.word(Section::Symbols, symbol as usize * SYMBOL_WIDTH + column)
    }

    /// The packages in which `symbol` is present, and whether it is external there.
    pub fn presents(&self, symbol: u32) -> impl Iterator<Item = (u32, bool)> + '_ {
        (self.symbol(symbol, 3)..self.symbol(symbol + 1, 3)).map(|row| {
            let cell = row as usize * 2;
            (self.word(Section::Presents, cell), self.word(Section::Presents, cell + 1) == 1)
        })
    }

    /// The used names whose principal symbol is `symbol`.
    pub fn names_of(&self, symbol: u32) -> std::ops::Range<u32> {
        self.symbol(symbol, 4)..self.symbol(symbol + 1, 4)
    }

    /// Number of used names.
    pub fn names(&self) -> u32 {
        (self.words(Section::Names) / 2) as u32
    }

    /// How a used name is made from its principal symbol.
    pub fn role(&self, name: u32) -> u32 {
        self.word(Section::Names, name as usize * 2)
    }

    /// The printed form of a used name that is not a symbol.
    pub fn name_text(&self, name: u32) -> Option<&[u8]> {
        let text = self.word(Section::Names, name as usize * 2 + 1);
        (text != NONE).then(|| self.string(text))
    }

    /// The records of one kind on one name: function and form number, in the order of answers.
    pub fn records(&self, name: u32, kind: usize) -> impl Iterator<Item = (u32, u32)> + '_ {
        let cell = name as usize * KINDS + kind;
        (self.word(Section::RecordStarts, cell)..self.word(Section::RecordStarts, cell + 1)).map(|record| {
            let cell = record as usize * 2;
            (self.word(Section::Records, cell), self.word(Section::Records, cell + 1))
        })
    }

    /// Number of records.
    pub fn record_count(&self) -> usize {
        self.words(Section::Records) / 2
    }

    /// Number of functions.
    pub fn functions(&self) -> u32 {
        (self.words(Section::Functions) / FUNCTION_WIDTH) as u32
    }

    /// One cell of a function's row.
    pub fn function(&self, function: u32, column: usize) -> u32 {
        self.word(Section::Functions, function as usize * FUNCTION_WIDTH + column)
    }

    /// The function in the code object with this serial number, at this entry.
    pub fn identified(&self, serial: u32, entry: u32) -> Option<u32> {
        let (mut low, mut high) = (0, self.words(Section::Identities));
        while low < high {
            let middle = usize::midpoint(low, high);
            let function = self.word(Section::Identities, middle);
            match (self.function(function, 6), self.function(function, 7)).cmp(&(serial, entry)) {
                std::cmp::Ordering::Less => low = middle + 1,
                std::cmp::Ordering::Greater => high = middle,
                std::cmp::Ordering::Equal => return Some(function),
            }
        }
        None
    }

    /// One cell of a source's row.
    pub fn source(&self, source: u32, column: usize) -> u32 {
        self.word(Section::Sources, source as usize * SOURCE_WIDTH + column)
    }
}
