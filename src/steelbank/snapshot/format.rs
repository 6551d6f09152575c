//! The snapshot on disk: a folder with four files.
//!
//! * `core`: SBCL's own format, saved with the heap size that the program starts with.
//! * `index`: the core's cross references, baked as the base core's are.
//! * `names`: the names in each loaded file, and what is known of the project's texts
//!   (`src/project/baked.rs`).
//! * `manifest`: a line `steelbank snapshot 1`, a line with the CRC-32 of the rest in hexadecimal digits, then a JSON object,
//!   [`SnapshotManifest`].
//!
//! A snapshot is made in a folder of another name, synced to the disk, tried by one start, and then renamed,
//! so that half a snapshot is never found. Before it is used, the manifest is compared with its checksum in
//! full; core and index by length and by the CRC-32 of their first and last 64 KiB and of [`SAMPLES`] pages
//! between, as reading 150 MB would take longer than loading without a snapshot. All of them are compared in
//! full when it is made.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use flate2::Crc;
use serde::{Deserialize, Serialize};

use super::inputs::Inputs;
use crate::query::load_system::{ImageContents, LoadAnswer};

/// The manifest's first line.
const MAGIC: &str = "steelbank snapshot 1\n";
/// The number of pages between the ends that are compared.
pub(super) const SAMPLES: u64 = 64;
const END: u64 = 64 << 10;
const PAGE: u64 = 4096;

/// A file of a snapshot, by its length and parts of its contents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FilePart {
    bytes: u64,
    sampled: u32,
}

impl FilePart {
    pub(super) fn of(file: &File) -> io::Result<Self> {
        let bytes = file.metadata()?.len();
        let mut crc = Crc::new();
        let mut buffer = vec![0; END as usize];
        let mut add = |from: u64, length: u64| -> io::Result<()> {
            let length = length.min(bytes.saturating_sub(from)) as usize;
            let part = buffer.get_mut(..length).unwrap_or_default();
            file.read_exact_at(part, from)?;
            crc.update(part);
            Ok(())
        };
        add(0, END)?;
        for sample in 1..=SAMPLES {
            add(bytes / (SAMPLES + 1) * sample / PAGE * PAGE, PAGE)?;
        }
        add(bytes.saturating_sub(END), END)?;
        Ok(Self { bytes, sampled: crc.sum() })
    }

    pub(super) fn bytes(self) -> u64 {
        self.bytes
    }
}

/// The manifest of a snapshot: its files and its inputs.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SnapshotManifest {
    pub(super) core: FilePart,
    pub(super) index: FilePart,
    pub(super) names: FilePart,
    /// The project's folder.
    pub(super) root: Option<PathBuf>,
    /// The systems to load.
    pub(super) systems: Vec<String>,
    pub(super) inputs: Inputs,
    /// The answers to loading each of `systems`, all from fasls.
    pub(super) answers: Vec<LoadAnswer>,
    /// The answer so far to loading the next system, of which a part is loaded.
    #[serde(default)]
    pub(super) partial: Option<LoadAnswer>,
    /// For a part, the files that are not loaded in it.
    #[serde(default)]
    pub(super) before: Vec<PathBuf>,
    pub(super) image: ImageContents,
}

impl SnapshotManifest {
    /// Reads and checks the manifest at `path`. The error is a sentence's end.
    pub(super) fn read(path: &Path) -> Result<Self, String> {
        Self::parse(&std::fs::read(path).map_err(|error| error.to_string())?)
    }

    fn parse(bytes: &[u8]) -> Result<Self, String> {
        let rest = bytes.strip_prefix(MAGIC.as_bytes()).ok_or("its manifest is of another version")?;
        let (sum, body) = rest.split_at_checked(9).ok_or("its manifest is cut off")?;
        let sum = std::str::from_utf8(sum).ok().and_then(|sum| u32::from_str_radix(sum.trim_end(), 16).ok());
        if sum != Some(checksum(body)) {
            return Err("its manifest is damaged".to_owned());
        }
        serde_json::from_slice(body).map_err(|error| format!("its manifest cannot be read: {error}"))
    }

    pub(super) fn write(&self, path: &Path) -> io::Result<()> {
        steelbank_cache::write(path, &sealed(&serde_json::to_vec(self)?))
    }
}

/// Whether `body`, sealed with the right checksum, parses as a manifest. For fuzzing.
#[cfg(feature = "server")]
pub(crate) fn reads_as_manifest(body: &[u8]) -> bool {
    // Parse without the checksum, which would find damage first.
    let _ = SnapshotManifest::parse(body);
    SnapshotManifest::parse(&sealed(body)).is_ok()
}

fn sealed(body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{MAGIC}{:08x}\n", checksum(body)).into_bytes();
    bytes.extend(body);
    bytes
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(folder: &Path) -> SnapshotManifest {
        let part = FilePart::of(&File::open(folder.join("core")).unwrap()).unwrap();
        SnapshotManifest {
            core: part,
            index: part,
            names: part,
            root: Some(folder.to_owned()),
            systems: vec!["a".to_owned()],
            inputs: Inputs::default(),
            answers: Vec::new(),
            partial: None,
            before: Vec::new(),
            image: ImageContents::default(),
        }
    }

    #[test]
    fn a_manifest_is_read_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest");
        std::fs::write(folder.path().join("core"), vec![7; 300_000]).unwrap();
        manifest(folder.path()).write(&path).unwrap();
        assert_eq!(SnapshotManifest::read(&path).unwrap().systems, ["a"]);
        let whole = std::fs::read(&path).unwrap();
        for length in 0..whole.len() {
            std::fs::write(&path, &whole[..length]).unwrap();
            assert!(SnapshotManifest::read(&path).is_err(), "{length} bytes");
        }
        for at in 0..whole.len() {
            let mut other = whole.clone();
            other[at] ^= 1;
            std::fs::write(&path, &other).unwrap();
            // Accept another case of a checksum's digits, which means the same.
            assert!(SnapshotManifest::read(&path).is_err() || at < MAGIC.len() + 9, "byte {at}");
        }
    }

    #[test]
    fn ends_length_and_samples_of_a_part_are_compared() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("core");
        let bytes: Vec<u8> = (0..2_000_000_u32).map(|number| (number >> 3) as u8).collect();
        let part = |bytes: &[u8]| {
            std::fs::write(&path, bytes).unwrap();
            FilePart::of(&File::open(&path).unwrap()).unwrap()
        };
        let whole = part(&bytes);
        assert_eq!(part(&bytes), whole);
        assert_ne!(part(&bytes[..bytes.len() - 1]), whole);
        assert_ne!(part(&[0; 2_000_000]), whole);
        for at in [0, 65_535, 1_999_999, 1_940_000] {
            let mut other = bytes.clone();
            other[at] ^= 1;
            assert_ne!(part(&other), whole, "byte {at}");
        }
        // Write a hole of zeros, as a crash leaves.
        let mut hole = bytes.clone();
        hole[1_000_000..1_200_000].fill(0);
        assert_ne!(part(&hole), whole);
        assert_eq!(part(b"").bytes(), 0);
    }
}
