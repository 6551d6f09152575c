//! The names in sidecars as the cache keeps them beside these, so that a load from the cache reads no sidecar for a first question.
//!
//! On disk: a JSON text, a list of [`Entry`]. What it says of a sidecar holds while that file's stamp is the same. A file that cannot
//! be read is as good as none: the sidecars are read, and it is written anew.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::Stamp;
use crate::source::positions::PositionedFile;

/// The name of the file, in the folder of the sidecars.
const FILE: &str = "names";

/// The names of one complete sidecar.
#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    /// The sidecar's file name, which tells the source and its write date.
    sidecar: String,
    stamp: Stamp,
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

/// What is kept of the sidecars of a folder.
#[derive(Debug, Default)]
pub(super) struct SidecarNames {
    entries: BTreeMap<String, Entry>,
    /// Whether there is something that the file does not have.
    changed: bool,
}

impl SidecarNames {
    /// Reads what is kept in `folder`.
    pub(super) fn read(folder: &Path) -> SidecarNames {
        let bytes = std::fs::read(folder.join(FILE)).unwrap_or_default();
        let entries: Vec<Entry> = serde_json::from_slice(&bytes).unwrap_or_default();
        let entries = entries.into_iter().map(|entry| (entry.sidecar.clone(), entry)).collect();
        SidecarNames { entries, changed: false }
    }

    /// Takes over what `others` has of other sidecars.
    pub(super) fn extend(&mut self, others: SidecarNames) {
        for (sidecar, entry) in others.entries {
            self.entries.entry(sidecar).or_insert(entry);
        }
    }

    /// The names of `sidecar`, if it is what it was.
    pub(super) fn get(&self, sidecar: &Path) -> Option<FileNames> {
        let entry = self.entries.get(sidecar.file_name().and_then(OsStr::to_str)?)?;
        let same = Stamp::of(&std::fs::metadata(sidecar).ok()?) == entry.stamp;
        same.then(|| FileNames {
            names: entry.names.clone(),
            toplevel: entry.toplevel.iter().cloned().collect(),
        })
    }

    /// Keeps the `names` of `sidecar`, which had `stamp` before it was read.
    pub(super) fn set(&mut self, sidecar: &Path, stamp: Stamp, names: &FileNames) {
        let Some(name) = sidecar.file_name().and_then(OsStr::to_str) else { return };
        let toplevel = names.toplevel.iter().cloned().collect();
        let entry = Entry { sidecar: name.to_owned(), stamp, names: names.names.clone(), toplevel };
        self.entries.insert(name.to_owned(), entry);
        self.changed = true;
    }

    /// Writes all of it into `folder`, without what is gone there. If that fails, sidecars are read again.
    pub(super) fn write(&mut self, folder: &Path) {
        if !std::mem::take(&mut self.changed) {
            return;
        }
        self.entries.retain(|sidecar, _| folder.join(sidecar).exists());
        let entries: Vec<&Entry> = self.entries.values().collect();
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
        let folder = tempfile::tempdir().unwrap();
        let (sidecar, gone) = (folder.path().join("a-1.tap"), folder.path().join("b-1.tap"));
        std::fs::write(&sidecar, "one").unwrap();
        let stamp = || Stamp::of(&std::fs::metadata(&sidecar).unwrap());
        let names = FileNames { names: vec!["F".into(), "É".into()], toplevel: HashSet::from(["F".into()]) };
        let mut kept = SidecarNames::read(folder.path());
        kept.set(&sidecar, stamp(), &names);
        kept.set(&gone, stamp(), &names);
        kept.write(folder.path());

        let kept = SidecarNames::read(folder.path());
        assert!(!kept.entries.contains_key("b-1.tap"));
        let found = kept.get(&sidecar).unwrap();
        assert_eq!((found.names, found.toplevel), (names.names, names.toplevel));
        std::fs::write(&sidecar, "other").unwrap();
        assert!(kept.get(&sidecar).is_none());

        let json = std::fs::read(folder.path().join(FILE)).unwrap();
        for end in 0..json.len() {
            std::fs::write(folder.path().join(FILE), &json[..end]).unwrap();
            assert!(SidecarNames::read(folder.path()).entries.is_empty(), "cut at {end}");
        }
    }
}
