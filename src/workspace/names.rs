//! Maps names to the loaded files that contain them, according to the files' sidecars. The map also
//! covers symbols that macros generate in top-level code, and files outside of the project. It is
//! kept in memory and, for later processes, as a table in the cache.
//!
//! The table on disk is a record `ROOT.names` in the folder of the sidecars, where ROOT is a hash
//! of the project's root. It has a list of [`NamedFile`], and [`Row`]s. The rows of a file are
//! valid while its sidecar has the same stamp. A malformed table counts as missing: the sidecars
//! are read, and the table is written again.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use steelbank_cache::RecordKind;

use crate::source::positions::SidecarState;
use crate::source::tap::sidecar::fnv_1a;
use crate::workspace::{FileStamp, FileVersion, LOWER_SIDECARS, Project, SIDECARS};

const TABLE: RecordKind = RecordKind("names", 1);
/// If at most this many files have no recorded stamp, [`Project::write_names`] does not refresh to
/// record their stamps. Each later process then compares these files with their loaded text.
const FEW: usize = 8;

/// Hashes a name, with the same result in every process.
pub(super) fn hash(name: &str) -> u64 {
    fnv_1a(name.as_bytes())
}

/// A name in a file. On disk, a row is little-endian: the hash (64 bits), the file (32 bits), and
/// whether top-level code uses the name (32 bits).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    hash: u64,
    /// The index in the list of files.
    file: u32,
    toplevel: bool,
}

/// A file that the table covers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct NamedFile {
    path: PathBuf,
    /// The write date (universal time) of the loaded version.
    written: u64,
    /// The file name of the sidecar, and the sidecar's stamp before it was read. `None` if the
    /// sidecar is missing or incomplete.
    sidecar: Option<(PathBuf, FileStamp)>,
    /// The stamp of the file when its text was equal to the loaded version; `None` if that is
    /// unknown.
    seen: Option<FileStamp>,
    /// Whether this version is loaded.
    #[serde(skip)]
    is_loaded: bool,
}

/// The names in the loaded files.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Sorted.
    rows: Vec<Row>,
    files: Vec<NamedFile>,
    numbers: HashMap<PathBuf, u32>,
    /// Loaded files with names that were not read yet.
    pub(super) pending: BTreeSet<PathBuf>,
    /// Files with missing or incomplete sidecars.
    pub(super) gaps: BTreeMap<PathBuf, SidecarState>,
    /// Whether the table on disk was read.
    is_read: bool,
    /// Whether the table differs from the table on disk.
    changed: bool,
}

impl Names {
    /// Lists the files that may contain `name`. With `toplevel`, lists only files that may use it
    /// in top-level code.
    pub(super) fn naming(&self, name: &str, toplevel: bool) -> impl Iterator<Item = &Path> {
        let wanted = hash(name);
        let start = self.rows.partition_point(|row| row.hash < wanted);
        let rows =
            self.rows.get(start..).unwrap_or_default().iter().take_while(move |row| row.hash == wanted);
        let files = rows.filter(move |row| row.toplevel || !toplevel);
        files
            .filter_map(|row| self.files.get(row.file as usize))
            .filter(|file| file.is_loaded)
            .map(|file| &*file.path)
    }

    fn file(&mut self, path: &Path) -> Option<&mut NamedFile> {
        self.files.get_mut(*self.numbers.get(path)? as usize)
    }

    /// Marks the file at `path` as not loaded.
    pub(super) fn forget(&mut self, path: &Path) {
        self.pending.remove(path);
        self.gaps.remove(path);
        self.file(path).into_iter().for_each(|file| file.is_loaded = false);
    }

    /// Replaces the names of each file in `read`.
    fn set(&mut self, read: Vec<(NamedFile, Vec<(u64, bool)>)>) {
        let again: HashSet<u32> =
            read.iter().filter_map(|(file, _)| self.numbers.get(&file.path).copied()).collect();
        self.rows.retain(|row| !again.contains(&row.file));
        for (file, names) in read {
            let next = self.files.len() as u32;
            let number = *self.numbers.entry(file.path.clone()).or_insert(next);
            self.changed |= file.sidecar.is_some();
            match self.files.get_mut(number as usize) {
                Some(known) => *known = file,
                None => self.files.push(file),
            }
            self.rows.extend(names.into_iter().map(|(hash, toplevel)| Row { hash, file: number, toplevel }));
        }
        // This is fast, because the old rows are sorted already.
        self.rows.sort();
        self.rows.shrink_to_fit();
    }

    /// Serializes the files that `is_there` accepts, and their rows. `is_there` returns whether a
    /// file's sidecar exists.
    fn write(&self, is_there: impl Fn(&NamedFile) -> bool) -> io::Result<Vec<u8>> {
        let mut numbers = vec![None; self.files.len()];
        let mut files = Vec::new();
        for (number, file) in numbers.iter_mut().zip(&self.files).filter(|(_, file)| is_there(file)) {
            *number = Some(files.len() as u32);
            files.push(file);
        }
        let mut rows = Vec::new();
        for row in &self.rows {
            if let Some(number) = numbers.get(row.file as usize).copied().flatten() {
                let cells = u128::from(row.hash) | u128::from(number) << 64 | u128::from(row.toplevel) << 96;
                rows.extend(cells.to_le_bytes());
            }
        }
        TABLE.write(&files, &rows)
    }
}

/// Parses the output of [`Names::write`].
fn parse(bytes: &[u8]) -> Option<(Vec<NamedFile>, Vec<Row>)> {
    let (files, raw) = TABLE.read(bytes).ok()?;
    let (rows, rest) = raw.as_chunks();
    let row = |row: &[u8; 16]| {
        let cells = u128::from_le_bytes(*row);
        Row { hash: cells as u64, file: (cells >> 64) as u32, toplevel: cells >> 96 == 1 }
    };
    let rows: Vec<Row> = rows.iter().map(row).collect();
    (rest.is_empty() && rows.is_sorted()).then_some((files, rows))
}

impl Project {
    /// Lists the loaded files with a symbol or designator called `name`, in any package: in their
    /// active text, or in the expansion of their top-level code. Files without sidecars are not
    /// covered.
    pub(crate) fn naming(&self, name: &str) -> Vec<FileVersion> {
        self.find_naming(name, false)
    }

    /// Lists the loaded files that use a symbol called `name` in top-level code, in any package.
    pub(crate) fn naming_at_toplevel(&self, name: &str) -> Vec<FileVersion> {
        self.find_naming(name, true)
    }

    fn find_naming(&self, name: &str, toplevel: bool) -> Vec<FileVersion> {
        self.read_new_files();
        let (loaded, names) = (self.loaded.read(), self.names.lock());
        names.naming(name, toplevel).filter_map(|path| FileVersion::loaded(&loaded, path)).collect()
    }

    /// Lists the loaded files with missing or incomplete sidecars. [`Project::naming`] may omit
    /// these files.
    pub(crate) fn sidecar_gaps(&self) -> Vec<(PathBuf, SidecarState)> {
        self.read_new_files();
        self.names.lock().gaps.iter().map(|(path, &state)| (path.clone(), state)).collect()
    }

    /// Lists the complete sidecars of the loaded files by name, with their stamps.
    pub(super) fn loaded_sidecars(&self) -> Vec<(PathBuf, FileStamp)> {
        self.read_new_files();
        let names = self.names.lock();
        names.files.iter().filter(|file| file.is_loaded).filter_map(|file| file.sidecar.clone()).collect()
    }

    /// Reads the names in the files that were loaded since the last call, from the names table in
    /// the cache or else from the sidecars. A load calls this on a background thread. Every query
    /// for names and every refresh calls it first.
    pub(crate) fn read_new_files(&self) {
        let loaded = self.loaded.read();
        let mut names = self.names.lock();
        if names.pending.is_empty() {
            return;
        }
        if !std::mem::replace(&mut names.is_read, true) {
            let tables = self.name_tables();
            let known = tables.iter().find_map(|path| parse(&steelbank_cache::read(path).ok()?));
            (names.files, names.rows) = known.unwrap_or_default();
            names.numbers =
                (0..).zip(&names.files).map(|(number, file)| (file.path.clone(), number)).collect();
        }
        let (mut read, mut seen) = (Vec::new(), Vec::new());
        for path in std::mem::take(&mut names.pending) {
            let Some(&written) = loaded.get(&path) else { continue };
            if let Some(known) = names.file(&path) {
                let stamp = |name: &PathBuf| Some(self.sidecar_called(name)?.1);
                let of_sidecar = known.sidecar.as_ref();
                known.is_loaded = known.written == written
                    && of_sidecar.is_some_and(|(name, then)| stamp(name) == Some(*then));
                if known.is_loaded {
                    seen.extend(known.seen.map(|stamp| (path.clone(), (stamp, written))));
                    names.gaps.remove(&path);
                    continue;
                }
            }
            let sidecar = self.sidecar(&path, written);
            let sidecar =
                sidecar.and_then(|path| Some((path.file_name()?.into(), FileStamp::of_path(&path)?)));
            let mut file = NamedFile { path: path.clone(), written, sidecar, seen: None, is_loaded: true };
            let (known, state) = match self.positions(&path, written) {
                Ok(positions) => {
                    let used = positions.toplevel_names();
                    let known = positions.names().map(|name| (hash(name), used.contains(name))).collect();
                    (known, positions.sidecar_state())
                }
                Err(_) => (Vec::new(), SidecarState::Missing),
            };
            if state == SidecarState::Complete {
                names.gaps.remove(&path);
            } else {
                file.sidecar = None;
                names.gaps.insert(path, state);
            }
            read.push((file, known));
        }
        if !read.is_empty() {
            names.set(read);
        }
        drop(names);
        self.texts.lock().unchanged_since_load.extend(seen);
    }

    /// Writes the names table if it has changed. Ignores errors: sidecars are then read again.
    pub(crate) fn write_names(&self) {
        self.read_new_files();
        // Record which loaded files are unchanged on disk. Do not refresh for only a few files, as
        // after an edit.
        let unseen =
            self.names.lock().files.iter().filter(|file| file.is_loaded && file.seen.is_none()).count();
        let texts = if unseen > FEW { self.refresh() } else { self.texts.lock() };
        let seen = texts.unchanged_since_load.clone();
        drop(texts);
        let mut names = self.names.lock();
        for (path, (stamp, written)) in seen {
            if let Some(file) = names.file(&path).filter(|file| file.written == written)
                && file.seen.replace(stamp) != Some(stamp)
            {
                names.changed = true;
            }
        }
        let Some(table) = self.name_tables().into_iter().next().filter(|_| names.changed) else { return };
        names.changed = false;
        // A loaded file's sidecar existed when the file was read. Readers of the table notice if
        // the sidecar was deleted since.
        let is_there = |file: &NamedFile| {
            let sidecar = file.sidecar.as_ref();
            sidecar.is_some_and(|(name, _)| file.is_loaded || self.sidecar_called(name).is_some())
        };
        let bytes = names.write(is_there);
        drop(names);
        // The name has a hyphen, so that leftovers of processes that died are deleted with old
        // sidecars.
        let written = table.with_file_name(format!("names-{}", steelbank_cache::unique_name()));
        let write = || {
            steelbank_cache::write(&written, &bytes?)?;
            steelbank_cache::rename(&written, &table)
        };
        if write().is_err() {
            let _ = std::fs::remove_file(&written);
        }
    }

    /// Returns the paths of the project's names tables: in its cache, and in the lower cache.
    fn name_tables(&self) -> Vec<PathBuf> {
        let Some(settings) = self.settings() else { return Vec::new() };
        let root = self.root().unwrap_or(Path::new("")).as_os_str().as_encoded_bytes();
        let name = format!("{:016x}.names", fnv_1a(root));
        [SIDECARS, LOWER_SIDECARS].map(|folder| settings.cache.join(folder).join(&name)).into()
    }
}

/// Returns whether `body` parses as a names table. For fuzzing.
#[cfg(feature = "server")]
pub(crate) fn reads(body: &[u8]) -> bool {
    parse(&TABLE.seal(body)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, sidecar: &str) -> NamedFile {
        let stamp = FileStamp { modified: None, size: 1, changed: (2, 3), inode: 4 };
        NamedFile {
            path: path.into(),
            written: 1,
            sidecar: Some((sidecar.into(), stamp)),
            seen: Some(stamp),
            is_loaded: true,
        }
    }

    fn hashes(toplevel: &[&str], others: &[&str]) -> Vec<(u64, bool)> {
        let hashes =
            |names: &[&str], toplevel| names.iter().map(|name| (hash(name), toplevel)).collect::<Vec<_>>();
        [hashes(toplevel, true), hashes(others, false)].concat()
    }

    #[track_caller]
    fn check(names: &Names, name: &str, toplevel: bool, expected: &[&str]) {
        let found: Vec<_> = names.naming(name, toplevel).map(|path| path.to_str().unwrap()).collect();
        assert_eq!(found, expected, "{name}");
    }

    #[test]
    fn setting_file_again_replaces_its_names() {
        let mut names = Names::default();
        names.set(vec![
            (file("a", "a-1.tap"), hashes(&["F"], &["G"])),
            (file("b", "b-1.tap"), hashes(&[], &["F", "É"])),
        ]);
        check(&names, "F", false, &["a", "b"]);
        check(&names, "F", true, &["a"]);
        check(&names, "É", false, &["b"]);
        check(&names, "H", false, &[]);
        names.set(vec![
            (file("a", "a-2.tap"), hashes(&[], &["H"])),
            (file("c", "c-1.tap"), hashes(&["G"], &[])),
        ]);
        check(&names, "F", false, &["b"]);
        check(&names, "G", false, &["c"]);
        check(&names, "H", false, &["a"]);
        names.file(Path::new("a")).unwrap().is_loaded = false;
        check(&names, "H", false, &[]);
    }

    #[test]
    fn damaged_names_table_is_not_read() {
        let mut names = Names::default();
        names.set(vec![
            (file("a", "a-1.tap"), hashes(&["F"], &["G"])),
            (file("b", "b-1.tap"), hashes(&["H"], &["F"])),
        ]);
        let bytes = names.write(|_| true).unwrap();
        let (files, rows) = parse(&bytes).unwrap();
        assert_eq!(rows, names.rows);
        assert_eq!(
            files,
            names.files.iter().map(|file| NamedFile { is_loaded: false, ..file.clone() }).collect::<Vec<_>>()
        );
        let (files, rows) = parse(&names.write(|file| file.path == Path::new("b")).unwrap()).unwrap();
        assert_eq!((files.len(), rows.len()), (1, 2));
        for at in 0..bytes.len() {
            assert!(parse(&bytes[..at]).is_none(), "cut at {at}");
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert!(parse(&other).is_none(), "byte {at}");
        }
    }
}
