//! The names in sidecars as the cache keeps them beside these, so that a load from the cache reads no sidecar for a first question.
//!
//! On disk: a JSON text, a list of [`NamesOfSidecar`]. What it says of a sidecar holds while that file's stamp is the same. A file that cannot
//! be read is as good as none: the sidecars are read, and it is written anew.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::{FileStamp, LOWER_SIDECARS, SIDECARS};
use crate::source::positions::PositionedFile;

/// The name of the file, in the folder of the sidecars.
const FILE: &str = "names";

/// The names of one complete sidecar.
#[derive(Debug, Serialize, Deserialize)]
struct NamesOfSidecar {
    /// The sidecar's file name, which tells the source and its write date.
    sidecar: String,
    stamp: FileStamp,
    /// Of all symbols and package designators in live text.
    names: Vec<Arc<str>>,
    /// Of the symbols that top-level code uses.
    toplevel: Vec<Arc<str>>,
}

/// The names of one file.
#[derive(Debug, Default)]
pub(super) struct FileNames {
    pub(super) names: Vec<Arc<str>>,
    pub(super) toplevel: HashSet<Arc<str>>,
}

impl FileNames {
    pub(super) fn of(file: &PositionedFile) -> FileNames {
        FileNames {
            names: file.names().map(Arc::from).collect(),
            toplevel: file.toplevel_names().into_iter().map(Arc::from).collect(),
        }
    }
}

/// What is kept of the sidecars of a cache, and of the one below it.
#[derive(Debug, Default)]
pub(super) struct SidecarNames {
    folder: PathBuf,
    entries: BTreeMap<String, NamesOfSidecar>,
    /// Whether there is something that the file does not have.
    changed: bool,
}

impl SidecarNames {
    /// Reads what is kept in `cache`.
    pub(super) fn read(cache: &Path) -> SidecarNames {
        let mut entries = BTreeMap::new();
        // What the upper one has of a sidecar counts.
        for folder in [LOWER_SIDECARS, SIDECARS] {
            let bytes = std::fs::read(cache.join(folder).join(FILE)).unwrap_or_default();
            let read: Vec<NamesOfSidecar> = serde_json::from_slice(&bytes).unwrap_or_default();
            entries.extend(read.into_iter().map(|entry| (entry.sidecar.clone(), entry)));
        }
        SidecarNames { folder: cache.join(SIDECARS), entries, changed: false }
    }

    /// The names of `sidecar`, which has `stamp` now, if it is what it was.
    pub(super) fn get(&self, sidecar: &Path, stamp: FileStamp) -> Option<FileNames> {
        let entry = self.entries.get(sidecar.file_name().and_then(OsStr::to_str)?)?;
        (entry.stamp == stamp).then(|| FileNames {
            names: entry.names.clone(),
            toplevel: entry.toplevel.iter().cloned().collect(),
        })
    }

    /// Keeps the `names` of `sidecar`, which had `stamp` before it was read.
    pub(super) fn set(&mut self, sidecar: &Path, stamp: FileStamp, names: &FileNames) {
        let Some(name) = sidecar.file_name().and_then(OsStr::to_str) else { return };
        let toplevel = names.toplevel.iter().cloned().collect();
        let entry = NamesOfSidecar { sidecar: name.to_owned(), stamp, names: names.names.clone(), toplevel };
        self.entries.insert(name.to_owned(), entry);
        self.changed = true;
    }

    /// Writes all of it, if anything is new, without what is gone from the folder. If that fails, sidecars are read again.
    pub(super) fn write(self) {
        if !self.changed {
            return;
        }
        let folder = self.folder;
        let entries: Vec<NamesOfSidecar> =
            self.entries.into_values().filter(|entry| folder.join(&entry.sidecar).exists()).collect();
        let Ok(json) = serde_json::to_vec(&entries) else { return };
        // With a hyphen: what a writer that died leaves is deleted with old sidecars.
        let written = folder.join(format!("{FILE}-{}", std::process::id()));
        if std::fs::write(&written, json).is_err() || std::fs::rename(&written, folder.join(FILE)).is_err() {
            let _ = std::fs::remove_file(&written);
        }
    }
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
        let names = FileNames { names: vec!["F".into(), "É".into()], toplevel: HashSet::from(["F".into()]) };
        let mut kept = SidecarNames::read(cache.path());
        kept.set(&sidecar, stamp(), &names);
        kept.set(&gone, stamp(), &names);
        kept.write();

        let kept = SidecarNames::read(cache.path());
        assert!(!kept.entries.contains_key("b-1.tap"));
        let found = kept.get(&sidecar, stamp()).unwrap();
        assert_eq!((found.names, found.toplevel), (names.names, names.toplevel));
        std::fs::write(&sidecar, "other").unwrap();
        assert!(kept.get(&sidecar, stamp()).is_none());

        let json = std::fs::read(folder.join(FILE)).unwrap();
        for end in 0..json.len() {
            std::fs::write(folder.join(FILE), &json[..end]).unwrap();
            assert!(SidecarNames::read(cache.path()).entries.is_empty(), "cut at {end}");
        }
    }
}
