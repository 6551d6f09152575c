//! Writes exports in the format of `lisp/index/xref.lisp`, for tests, benches and fuzzing (feature
//! `writer`).

use std::collections::HashMap;

use super::export::{NONE, WIDTHS};

/// An export under construction.
#[derive(Debug, Default)]
pub struct ExportWriter {
    since: u64,
    serial: u64,
    numbers: HashMap<String, u32>,
    strings: Vec<String>,
    tables: [Vec<Vec<u32>>; 12],
}

impl ExportWriter {
    /// Creates an empty export of code with serial numbers above `since`, up to `serial`.
    pub fn new(since: u64, serial: u64) -> Self {
        Self { since, serial, ..Self::default() }
    }

    /// Returns the number of a string, adding it if necessary.
    pub fn string(&mut self, text: &str) -> u32 {
        if let Some(number) = self.numbers.get(text) {
            return *number;
        }
        let number = self.strings.len() as u32;
        self.strings.push(text.to_owned());
        self.numbers.insert(text.to_owned(), number);
        number
    }

    fn row(&mut self, table: usize, row: Vec<u32>) -> u32 {
        self.tables[table].push(row);
        self.tables[table].len() as u32 - 1
    }

    /// Adds a package that is not in the base.
    pub fn package(&mut self, name: &str, nicknames: &[&str]) -> u32 {
        let text = self.string(name);
        let package = self.row(0, vec![text, text, NONE, 0]);
        for nickname in nicknames {
            let nickname = self.string(nickname);
            self.row(1, vec![package, nickname]);
        }
        package
    }

    /// Adds a package that is unchanged since the base, where it has number `base`.
    pub fn unchanged(&mut self, name: &str, base: u32) -> u32 {
        let text = self.string(name);
        self.row(0, vec![text, text, base, 1])
    }

    /// Records that `package` uses `used`.
    pub fn uses(&mut self, package: u32, used: u32) {
        self.row(2, vec![package, used]);
    }

    /// Adds the local nickname `nickname` for `actual` to `package`.
    pub fn local_nickname(&mut self, package: u32, nickname: &str, actual: u32) {
        let nickname = self.string(nickname);
        self.row(3, vec![package, nickname, actual]);
    }

    /// Adds a symbol, not yet present in any package.
    pub fn symbol(&mut self, home: Option<u32>, name: &str) -> u32 {
        let name = self.string(name);
        self.row(4, vec![home.unwrap_or(NONE), name, NONE])
    }

    /// Makes `symbol` present in `package`.
    pub fn present(&mut self, package: u32, symbol: u32, external: bool) {
        self.row(5, vec![package, symbol, u32::from(external)]);
    }

    /// Adds a symbol that is present in its home package.
    pub fn intern(&mut self, package: u32, name: &str, external: bool) -> u32 {
        let symbol = self.symbol(Some(package), name);
        self.present(package, symbol, external);
        symbol
    }

    /// Adds a used name.
    pub fn name(&mut self, symbol: u32, role: u32) -> u32 {
        self.row(6, vec![symbol, role, NONE])
    }

    /// Adds a source file.
    pub fn source(&mut self, path: &str) -> u32 {
        let path = self.string(path);
        self.row(7, vec![path, 7, 0])
    }

    /// Adds a function without a position. `identity` is its serial number and entry.
    pub fn function(&mut self, text: &str, symbol: u32, identity: (u32, u32), status: u32) -> u32 {
        let text = self.string(text);
        self.row(8, vec![text, symbol, 0, NONE, NONE, NONE, identity.0, identity.1, status])
    }

    /// Sets the position of `function`.
    pub fn placed(&mut self, function: u32, source: u32, form: u32, offset: u32) {
        let row = &mut self.tables[8][function as usize];
        row[3] = source;
        row[4] = form;
        row[5] = offset;
    }

    /// Records that `function` uses `name` in form `form`; `kind` is the kind of use.
    pub fn record(&mut self, kind: u32, name: u32, function: u32, form: u32) {
        self.row(9, vec![kind, name, function, form]);
    }

    /// Records that a function of an earlier export still exists.
    pub fn survivor(&mut self, identity: (u32, u32), status: u32) {
        self.row(10, vec![identity.0, identity.1, status]);
    }

    /// Records that a function of the base is no longer the definition of its name.
    pub fn refuted(&mut self, identity: (u32, u32)) {
        self.row(11, vec![identity.0, identity.1]);
    }

    /// Returns the bytes of the export.
    pub fn finish(&self) -> Vec<u8> {
        let mut bytes = b"SBXREF01".to_vec();
        for long in [0, self.since, self.serial] {
            bytes.extend(long.to_le_bytes());
        }
        let mut word = |word: u32| bytes.extend(word.to_le_bytes());
        word(self.strings.len() as u32);
        let mut end = 0;
        for string in &self.strings {
            end += string.len() as u32;
            word(end);
        }
        bytes.extend(self.strings.iter().flat_map(|string| string.bytes()));
        bytes.resize(bytes.len() + (end as usize).next_multiple_of(4) - end as usize, 0);
        for (table, width) in self.tables.iter().zip(WIDTHS) {
            bytes.extend((table.len() as u32).to_le_bytes());
            for column in 0..width {
                bytes.extend(table.iter().flat_map(|row| row[column].to_le_bytes()));
            }
        }
        bytes
    }
}
