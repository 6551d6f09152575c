//! The cache's table of names in sidecars, from which a first question after a load from the cache is
//! answered without reading sidecars.
//!
//! The format: the length of a JSON text (64 bits, little-endian like all numbers), that text, a list of
//! [`EntryHead`], and for each of them its hashes (64 bits each), as many as it counts. An entry is valid
//! while its sidecar's stamp is the same. A malformed file counts as missing: the sidecars are read, and it
//! is written anew.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::headed;
use super::name_table::FileNames;
use super::{FileStamp, LOWER_SIDECARS, SIDECARS};

/// The name of the table's file, in the folder of the sidecars.
const FILE: &str = "hashes";

/// The head of an entry, before its hashes.
#[derive(Debug, Serialize, Deserialize)]
struct EntryHead {
    /// The sidecar's file name, which identifies the source and its write date.
    sidecar: String,
    stamp: FileStamp,
    /// The number of names that top-level code uses.
    toplevel: usize,
    /// The number of other names.
    others: usize,
}

/// The names of one complete sidecar.
#[derive(Debug)]
struct Entry {
    stamp: FileStamp,
    names: FileNames,
}

/// The tables of a cache and of the one below it.
#[derive(Debug, Default)]
pub(super) struct SidecarNames {
    folder: PathBuf,
    entries: BTreeMap<String, Entry>,
    /// Whether there is an entry that the file does not have.
    changed: bool,
}

impl SidecarNames {
    /// Reads the tables of `cache`.
    pub(super) fn read(cache: &Path) -> SidecarNames {
        let mut entries = BTreeMap::new();
        // Read the upper table last: its entries replace those of the lower.
        for folder in [LOWER_SIDECARS, SIDECARS] {
            let bytes = std::fs::read(cache.join(folder).join(FILE)).unwrap_or_default();
            entries.extend(parse(&bytes).unwrap_or_default());
        }
        SidecarNames { folder: cache.join(SIDECARS), entries, changed: false }
    }

    /// Returns the names of `sidecar`, if its entry has the stamp `stamp`.
    pub(super) fn get(&self, sidecar: &Path, stamp: FileStamp) -> Option<FileNames> {
        let entry = self.entries.get(sidecar.file_name().and_then(OsStr::to_str)?)?;
        (entry.stamp == stamp).then(|| entry.names.clone())
    }

    /// Adds the `names` of `sidecar`, whose stamp was `stamp` before it was read.
    pub(super) fn set(&mut self, sidecar: &Path, stamp: FileStamp, names: &FileNames) {
        let Some(name) = sidecar.file_name().and_then(OsStr::to_str) else { return };
        self.entries.insert(name.to_owned(), Entry { stamp, names: names.clone() });
        self.changed = true;
    }

    /// Writes the table if an entry is new, without entries of deleted sidecars. Ignores errors: sidecars are
    /// then read again.
    pub(super) fn write(self) {
        if !self.changed {
            return;
        }
        let folder = self.folder;
        let (mut heads, mut hashes) = (Vec::new(), Vec::new());
        for (sidecar, Entry { stamp, names }) in self.entries {
            if folder.join(&sidecar).exists() {
                let (toplevel, others) = (names.toplevel.len(), names.others.len());
                heads.push(EntryHead { sidecar, stamp, toplevel, others });
                hashes.extend(names.toplevel.into_iter().chain(names.others));
            }
        }
        let bytes = headed::write(&heads, hashes);
        // Write under a name with a hyphen: leftovers of writers that died are deleted with old sidecars.
        let written = folder.join(format!("{FILE}-{}", steelbank_cache::unique_name()));
        if steelbank_cache::write(&written, &bytes).is_err()
            || steelbank_cache::rename(&written, &folder.join(FILE)).is_err()
        {
            let _ = std::fs::remove_file(&written);
        }
    }
}

/// Parses all bytes that [`SidecarNames::write`] wrote.
fn parse(bytes: &[u8]) -> Option<BTreeMap<String, Entry>> {
    let (heads, mut rest) = headed::read::<Vec<EntryHead>>(bytes)?;
    let mut entries = BTreeMap::new();
    for EntryHead { sidecar, stamp, toplevel, others } in heads {
        let names = FileNames { toplevel: rest.take(toplevel)?, others: rest.take(others)? };
        entries.insert(sidecar, Entry { stamp, names });
    }
    rest.0.is_empty().then_some(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_hold_while_the_sidecar_is_the_same() {
        let cache = tempfile::tempdir().unwrap();
        let folder = cache.path().join(SIDECARS);
        std::fs::create_dir(&folder).unwrap();
        let (sidecar, gone) = (folder.join("a-1.tap"), folder.join("b-1.tap"));
        std::fs::write(&sidecar, "one").unwrap();
        let stamp = || FileStamp::of(&std::fs::metadata(&sidecar).unwrap());
        let names = FileNames { toplevel: vec![1], others: vec![2, u64::MAX] };
        let mut kept = SidecarNames::read(cache.path());
        kept.set(&sidecar, stamp(), &names);
        kept.set(&gone, stamp(), &names);
        kept.write();

        let kept = SidecarNames::read(cache.path());
        assert!(!kept.entries.contains_key("b-1.tap"));
        assert_eq!(kept.get(&sidecar, stamp()), Some(names));
        std::fs::write(&sidecar, "other").unwrap();
        assert!(kept.get(&sidecar, stamp()).is_none());

        let bytes = std::fs::read(folder.join(FILE)).unwrap();
        for end in 0..bytes.len() {
            std::fs::write(folder.join(FILE), &bytes[..end]).unwrap();
            assert!(SidecarNames::read(cache.path()).entries.is_empty(), "cut at {end}");
        }
    }
}
