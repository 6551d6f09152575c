//! The names in a project's files as a snapshot keeps them, so that a first question need not read all files.
//!
//! The format: the length of a JSON text (64 bits, little-endian like all numbers), that text ([`Head`]), the
//! hashes of the texts' names, as many as it counts, and [rows](Row).
//!
//! The names of a text are valid while the file's stamp is the same. The names of a loaded file are valid
//! while the image holds that version, which starting from the snapshot has checked.

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::headed;
use super::name_table::{NameTable, Row, row};
use super::text::PackageText;
use super::texts::CachedNames;
use super::{FileStamp, Project};

#[derive(Debug, Default, Serialize, Deserialize)]
struct Head {
    files: Vec<FileHead>,
}

#[derive(Debug, Serialize, Deserialize)]
struct FileHead {
    path: PathBuf,
    /// The write date (universal time) and the sidecar, if the file is loaded and all its names are known.
    loaded: Option<(u64, PathBuf)>,
    /// The stamp and the write date, if the file on disk is the version that is loaded.
    seen: Option<(FileStamp, u64)>,
    text: Option<TextHead>,
}

#[derive(Debug, Serialize, Deserialize)]
struct TextHead {
    stamp: FileStamp,
    names: usize,
    left_out: usize,
    packages: Vec<PackageText>,
    readable: bool,
}

/// The hashes of a text's names.
#[derive(Debug, Default)]
struct Hashes {
    names: Vec<u64>,
    left_out: Vec<u64>,
}

/// Files with the hashes of their texts' names, and the rows of the loaded ones.
type FileTable<'a> = (Vec<(FileHead, Hashes)>, &'a [Row]);

impl Project {
    /// Serializes the known names in the project's files and in loaded files.
    pub(crate) fn bake_names(&self) -> Vec<u8> {
        self.read_new_files();
        // Note the loaded files that are unchanged on disk.
        self.unseen_packages();
        let own = self.own_files();
        let loaded = self.loaded.read().clone();
        let paths: BTreeSet<&PathBuf> = own.iter().chain(loaded.keys()).collect();
        let (mut head, mut hashes, mut whole) = (Head::default(), Vec::new(), HashMap::new());
        for path in paths {
            let loaded = loaded.get(path).and_then(|&written| self.whole_sidecar(path, written));
            if loaded.is_some() {
                whole.insert(path, head.files.len() as u32);
            }
            let mut texts = self.texts.lock();
            let seen = texts.seen.get(path).copied();
            let text = texts.known(path).filter(|known| known.settled).map(|known| {
                hashes.extend(known.names.iter().chain(&known.left_out).copied());
                TextHead {
                    stamp: known.stamp,
                    names: known.names.len(),
                    left_out: known.left_out.len(),
                    packages: known.packages.to_vec(),
                    readable: known.readable,
                }
            });
            head.files.push(FileHead { path: path.clone(), loaded, seen, text });
        }
        let mut bytes = headed::write(&head, hashes);
        let names = self.names.lock();
        for (hash, path, toplevel) in names.table.rows() {
            if let Some(&number) = whole.get(path) {
                bytes.extend(row(hash, number, toplevel));
            }
        }
        bytes
    }

    /// Returns the write date and sidecar of a loaded file, if all its names are known.
    fn whole_sidecar(&self, path: &Path, written: u64) -> Option<(u64, PathBuf)> {
        let names = self.names.lock();
        let whole = names.table.knows(path) && !names.gaps.contains_key(path);
        drop(names);
        whole.then(|| self.sidecar(path, written)).flatten().map(|sidecar| (written, sidecar))
    }

    /// Restores the names that [`Project::bake_names`] wrote in the image that this one was started from.
    /// Restores nothing if the bytes are malformed.
    pub(crate) fn restore_names(&self, bytes: &'static [u8]) {
        let Some((files, rows)) = parse(bytes) else { return };
        let (loaded, mut names, mut texts) = (self.loaded.read(), self.names.lock(), self.texts.lock());
        let mut baked = Vec::new();
        for (file, hashes) in files {
            let whole = file
                .loaded
                .filter(|(written, sidecar)| loaded.get(&file.path) == Some(written) && sidecar.exists());
            if whole.is_some() {
                names.pending.remove(&file.path);
            }
            baked.push(whole.map(|_| file.path.clone()));
            if let Some(seen) = file.seen {
                texts.seen.insert(file.path.clone(), seen);
            }
            if let Some(text) = file.text {
                let known = CachedNames {
                    stamp: text.stamp,
                    settled: true,
                    names: hashes.names,
                    left_out: hashes.left_out,
                    packages: text.packages.into(),
                    readable: text.readable,
                };
                texts.files.insert(file.path, Arc::new(known));
            }
        }
        names.baked = NameTable::baked(rows, baked);
    }
}

/// Parses all bytes that [`Project::bake_names`] wrote.
fn parse(bytes: &[u8]) -> Option<FileTable<'_>> {
    let (head, mut rest) = headed::read::<Head>(bytes)?;
    let mut files = Vec::with_capacity(head.files.len());
    for file in head.files {
        let hashes = match &file.text {
            Some(text) => Hashes { names: rest.take(text.names)?, left_out: rest.take(text.left_out)? },
            None => Hashes::default(),
        };
        files.push((file, hashes));
    }
    Some((files, rest.0.as_chunks().0))
}

/// Whether `bytes` parse as written by [`Project::bake_names`]. For fuzzing.
#[cfg(feature = "server")]
pub(crate) fn reads(bytes: &[u8]) -> bool {
    parse(bytes).is_some()
}
