//! The files of a snapshot. The folder of a snapshot has four files:
//! * `core`: SBCL's own format, saved with the heap size that the program starts with.
//! * `index`: the core's cross references, in the format of the base core's index.
//! * `manifest`: a record, [`SnapshotManifest`].
//! * `checked`: the machine's boot ID and the state of the first two files when they were last
//!   verified.
//!
//! A snapshot is created in a folder with another name, synced to disk, tested by one start, and
//! then renamed, so that an incomplete snapshot is never found. Before use, the manifest is
//! verified by its checksum. Core and index are verified once per boot of the machine, and again
//! after any change of their metadata. If a core is damaged later, the start fails, and the
//! snapshot is removed.
//!
//! If an image cannot be saved, the record `KEY.refused` next to the folders stores the reason; see
//! [`Refusal`].

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use flate2::Crc;
use serde::{Deserialize, Serialize};
use steelbank_cache::RecordKind;

use super::inputs::Inputs;
use super::{SnapshotKey, SnapshotKind};
use crate::handle::loaded::{ImageContents, LoadAnswer};
use crate::handle::recovery::LoadedItem;

const MANIFEST: RecordKind = RecordKind("snapshot", 5);
const REFUSAL: RecordKind = RecordKind("refusal", 5);
/// The name of the file with the state of the verified files.
const CHECKED: &str = "checked";

/// A file of a snapshot: its length and the CRC-32 of its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FilePart {
    bytes: u64,
    crc: u32,
}

impl FilePart {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let (mut crc, mut bytes) = (Crc::new(), 0);
        let mut buffer = vec![0; 1 << 20];
        loop {
            match file.read_at(&mut buffer, bytes)? {
                0 => return Ok(Self { bytes, crc: crc.sum() }),
                length => {
                    crc.update(buffer.get(..length).unwrap_or_default());
                    bytes += length as u64;
                }
            }
        }
    }

    pub(super) fn bytes(self) -> u64 {
        self.bytes
    }
}

/// Verifies the open `files` of the snapshot in `folder` against the manifest. Skips this if it was
/// done since the machine was started and the files' metadata are unchanged. The error is a clause,
/// such as `its core is damaged`.
pub(super) fn check(folder: &Path, files: &[(&str, &File, FilePart)]) -> Result<(), String> {
    let mut state = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    for (name, file, part) in files {
        let found = file.metadata().map_err(|error| format!("its {name} cannot be read: {error}"))?;
        if found.len() != part.bytes {
            return Err(format!("its {name} is damaged"));
        }
        let (written, changed) = ((found.mtime(), found.mtime_nsec()), (found.ctime(), found.ctime_nsec()));
        state.push_str(&format!("{} {} {written:?} {changed:?}\n", found.dev(), found.ino()));
    }
    if steelbank_cache::read(&folder.join(CHECKED)).is_ok_and(|checked| checked == state.as_bytes()) {
        return Ok(());
    }
    for (name, file, part) in files {
        if FilePart::of(file).map_err(|error| format!("its {name} cannot be read: {error}"))? != *part {
            return Err(format!("its {name} is damaged"));
        }
    }
    // Ignore the error: the next start verifies again.
    let _ = steelbank_cache::write(&folder.join(CHECKED), state.as_bytes());
    Ok(())
}

/// The manifest of a snapshot: its files, its loads with their answers, and the inputs that the
/// loads depend on.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotManifest {
    pub(super) core: FilePart,
    pub(super) index: FilePart,
    pub(super) root: Option<PathBuf>,
    pub(super) kind: SnapshotKind,
    /// The requested loads.
    pub(super) loads: Vec<LoadedItem>,
    /// All loaded systems except inferred ones, in load order.
    pub(super) systems: Vec<OrderedSystem>,
    pub(super) inputs: Inputs,
    /// The answers of the loads, one per system; empty in a snapshot of dependencies.
    pub(super) answers: Vec<LoadAnswer>,
    pub(super) image: ImageContents,
}

/// A system that was loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct OrderedSystem {
    pub(super) name: String,
    /// The file that defines it.
    pub(super) asd: PathBuf,
    /// The defining file and the files of the system's components, if the system belongs to the
    /// project; else empty.
    pub(super) own: Vec<PathBuf>,
}

/// The reason why an image with the loads of a snapshot key cannot be saved.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Refusal {
    pub(super) why: String,
    /// The loaded systems that a snapshot of the dependencies can contain, in load order.
    pub(super) systems: Vec<OrderedSystem>,
    /// The inputs of the failed attempt. Saving is not tried again while they are unchanged.
    pub(super) inputs: Inputs,
}

impl Refusal {
    /// Reads the last refusal of `key`, even if its inputs have changed.
    pub(super) fn last(key: &SnapshotKey) -> Option<Self> {
        Some(REFUSAL.read(&steelbank_cache::read(&key.refusal()).ok()?).ok()?.0)
    }

    /// Reads the refusal of `key`, if its inputs are unchanged.
    pub(super) fn of(key: &SnapshotKey) -> Option<Self> {
        Self::last(key).filter(|refusal| refusal.inputs.hold())
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        steelbank_cache::write(path, &REFUSAL.write(self, &[])?)
    }
}

impl SnapshotManifest {
    /// Reads and checks the manifest at `path`. The error is a sentence fragment.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        let read = || Ok(MANIFEST.read(&steelbank_cache::read(path)?)?.0);
        read().map_err(|error: io::Error| error.to_string())
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        steelbank_cache::write(path, &MANIFEST.write(self, &[])?)
    }
}

/// Returns whether `body` parses as a manifest, and as a refusal, for fuzzing.
#[cfg(feature = "server")]
pub(crate) fn reads(body: &[u8]) -> [bool; 2] {
    [
        MANIFEST.read::<SnapshotManifest>(&MANIFEST.seal(body)).is_ok(),
        REFUSAL.read::<Refusal>(&REFUSAL.seal(body)).is_ok(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(folder: &Path) -> SnapshotManifest {
        let part = FilePart::of(&File::open(folder.join("core")).unwrap()).unwrap();
        SnapshotManifest {
            core: part,
            index: part,
            root: Some(folder.to_owned()),
            kind: SnapshotKind::Whole,
            loads: vec![LoadedItem::System("a".to_owned())],
            systems: Vec::new(),
            inputs: Inputs::default(),
            answers: Vec::new(),
            image: ImageContents::default(),
        }
    }

    #[test]
    fn damaged_manifests_are_rejected() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest");
        std::fs::write(folder.path().join("core"), vec![7; 300_000]).unwrap();
        manifest(folder.path()).write(&path).unwrap();
        assert_eq!(SnapshotManifest::read(&path).unwrap().loads, [LoadedItem::System("a".to_owned())]);
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(SnapshotManifest::read(&path).is_err(), "{length} bytes");
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            std::fs::write(&path, &other).unwrap();
            assert!(SnapshotManifest::read(&path).is_err(), "byte {at}");
        }
    }

    #[test]
    fn parts_are_verified_per_boot_and_after_changes() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core");
        let bytes: Vec<u8> = (0..3_000_000_u32).map(|number| (number >> 3) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let part = FilePart::of(&File::open(&path).unwrap()).unwrap();
        assert_eq!(part.bytes(), 3_000_000);
        let checks = || check(folder.path(), &[("core", &File::open(&path).unwrap(), part)]);
        checks().unwrap();
        let checked = folder.path().join(CHECKED);
        assert!(checked.exists());
        // The second check compares only the state.
        let state = std::fs::read_to_string(&checked).unwrap();
        checks().unwrap();
        for at in [0, 1_234_567, 2_999_999] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            std::fs::write(&path, &other).unwrap();
            assert!(checks().unwrap_err().contains("its core is damaged"), "byte {at}");
        }
        std::fs::write(&path, &bytes).unwrap();
        checks().unwrap();
        assert_ne!(std::fs::read_to_string(&checked).unwrap(), state);
        // After another boot or with a damaged state, verify again.
        std::fs::write(&checked, "an older boot").unwrap();
        checks().unwrap();
        assert_ne!(std::fs::read_to_string(&checked).unwrap(), "an older boot");
        std::fs::write(&path, &bytes[1..]).unwrap();
        assert!(checks().is_err());
    }
}
