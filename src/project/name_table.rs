//! A table from names to the loaded files that have them: rows, sorted by the names' hashes.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};

use crate::source::positions::PositionedFile;
use crate::source::tap::sidecar::fnv_1a;

/// The bytes of a [`Row`].
const ROW: usize = 16;

/// A row, in little-endian numbers: the hash of a name (64 bits), the number of the file (32), whether its
/// top-level code uses the name (32). Snapshots keep rows in this form.
pub(super) type Row = [u8; ROW];

/// Hashes a name to its key in the table, the same in every process.
pub(super) fn hash(name: &str) -> u64 {
    fnv_1a(name.as_bytes())
}

/// Makes the row of the name hashed to `hash` in the file number `number`.
pub(super) fn row(hash: u64, number: u32, toplevel: bool) -> Row {
    let mut row = [0; ROW];
    let (start, rest) = row.split_at_mut(8);
    let (middle, end) = rest.split_at_mut(4);
    start.copy_from_slice(&hash.to_le_bytes());
    middle.copy_from_slice(&number.to_le_bytes());
    end.copy_from_slice(&u32::from(toplevel).to_le_bytes());
    row
}

fn hash_of(row: &Row) -> u64 {
    row.first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes))
}

fn short(row: &Row, at: usize) -> u32 {
    row.get(at..).and_then(|rest| rest.first_chunk()).map_or(0, |bytes| u32::from_le_bytes(*bytes))
}

/// The hashes of the names in one file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct FileNames {
    /// Hashes of the symbols that top-level code uses.
    pub(super) toplevel: Vec<u64>,
    /// Hashes of the other symbols and package designators in live text.
    pub(super) others: Vec<u64>,
}

impl FileNames {
    pub(super) fn of(file: &PositionedFile) -> FileNames {
        let used = file.toplevel_names();
        let (toplevel, others) = file.names().partition::<Vec<&str>, _>(|name| used.contains(name));
        let hashes = |names: Vec<&str>| names.into_iter().map(hash).collect();
        FileNames { toplevel: hashes(toplevel), others: hashes(others) }
    }
}

/// Files, and the names in them.
#[derive(Debug, Default)]
pub(super) struct NameTable {
    rows: Cow<'static, [Row]>,
    /// The files by number; none for one whose rows are not valid any more.
    files: Vec<Option<PathBuf>>,
    numbers: HashMap<PathBuf, u32>,
}

impl NameTable {
    /// Makes the table of `rows`, which are sorted, and of their `files` by number.
    pub(super) fn baked(rows: &'static [Row], files: Vec<Option<PathBuf>>) -> NameTable {
        let numbers =
            (0u32..).zip(&files).filter_map(|(number, path)| Some((path.clone()?, number))).collect();
        NameTable { rows: Cow::Borrowed(rows), files, numbers }
    }

    /// Lists the files that may have `name`; with `toplevel`, those whose top-level code may use it.
    pub(super) fn naming(&self, name: &str, toplevel: bool) -> impl Iterator<Item = &PathBuf> {
        let wanted = hash(name);
        let start = self.rows.partition_point(|row| hash_of(row) < wanted);
        let rows =
            self.rows.get(start..).unwrap_or_default().iter().take_while(move |row| hash_of(row) == wanted);
        let rows = rows.filter(move |row| !toplevel || short(row, 12) == 1);
        rows.filter_map(|row| self.file(row))
    }

    /// Lists all rows: a name's hash, a file, and whether its top-level code uses the name.
    pub(super) fn rows(&self) -> impl Iterator<Item = (u64, &PathBuf, bool)> {
        self.rows.iter().filter_map(|row| Some((hash_of(row), self.file(row)?, short(row, 12) == 1)))
    }

    fn file(&self, row: &Row) -> Option<&PathBuf> {
        self.files.get(short(row, 8) as usize)?.as_ref()
    }

    /// Whether the table has the names in the file at `path`.
    pub(super) fn knows(&self, path: &Path) -> bool {
        self.numbers.contains_key(path)
    }

    /// Removes the file at `path`.
    pub(super) fn forget(&mut self, path: &Path) {
        if let Some(number) = self.numbers.remove(path)
            && let Some(file) = self.files.get_mut(number as usize)
        {
            *file = None;
        }
    }

    /// Replaces the names of each of `files`.
    pub(super) fn set(&mut self, files: Vec<(PathBuf, FileNames)>) {
        let again: HashSet<u32> =
            files.iter().filter_map(|(path, _)| self.numbers.get(path).copied()).collect();
        let rows = self.rows.to_mut();
        rows.retain(|row| !again.contains(&short(row, 8)));
        for (path, names) in files {
            let next = self.files.len() as u32;
            let number = *self.numbers.entry(path.clone()).or_insert(next);
            if number == next {
                self.files.push(Some(path));
            }
            rows.extend(names.toplevel.into_iter().map(|hash| row(hash, number, true)));
            rows.extend(names.others.into_iter().map(|hash| row(hash, number, false)));
        }
        // Sort the rows: fast, as the old ones are sorted already.
        rows.sort_by_key(|row| (hash_of(row), short(row, 8)));
        rows.shrink_to_fit();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(toplevel: &[&str], others: &[&str]) -> FileNames {
        let hashes = |names: &[&str]| names.iter().map(|name| hash(name)).collect();
        FileNames { toplevel: hashes(toplevel), others: hashes(others) }
    }

    fn naming(table: &NameTable, name: &str, toplevel: bool) -> Vec<String> {
        let mut files: Vec<String> =
            table.naming(name, toplevel).map(|path| path.display().to_string()).collect();
        files.sort();
        files
    }

    #[test]
    fn a_file_that_is_set_again_has_its_new_names_alone() {
        let mut table = NameTable::default();
        table.set(vec![("a".into(), names(&["F"], &["G"])), ("b".into(), names(&[], &["F", "É"]))]);
        assert_eq!(naming(&table, "F", false), ["a", "b"]);
        assert_eq!(naming(&table, "F", true), ["a"]);
        assert_eq!(naming(&table, "É", false), ["b"]);
        assert!(naming(&table, "H", false).is_empty());

        table.set(vec![("a".into(), names(&[], &["H"])), ("c".into(), names(&["G"], &[]))]);
        assert_eq!(naming(&table, "F", false), ["b"]);
        assert_eq!(naming(&table, "G", false), ["c"]);
        assert_eq!(naming(&table, "H", false), ["a"]);
        assert!(table.knows(Path::new("a")) && !table.knows(Path::new("d")));
    }

    #[test]
    fn what_a_snapshot_told_holds_until_it_is_forgotten() {
        let mut rows = vec![row(hash("F"), 0, true), row(hash("F"), 1, false), row(hash("G"), 1, false)];
        rows.sort_by_key(|row| (hash_of(row), short(row, 8)));
        let mut table = NameTable::baked(rows.leak(), vec![Some("a".into()), Some("b".into())]);
        assert_eq!(naming(&table, "F", false), ["a", "b"]);
        table.forget(Path::new("b"));
        assert_eq!(naming(&table, "F", false), ["a"]);
        assert!(naming(&table, "G", false).is_empty());
        assert_eq!(table.rows().count(), 1);
    }
}
