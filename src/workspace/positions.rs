//! Caches the positions of forms and symbols in files, in memory.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

use crate::source::positions::PositionedFile;
use crate::workspace::FileVersion;
use crate::workspace::stamp::FileStamp;

/// The maximum memory of cached positions, in bytes.
const MOST_BYTES: usize = 256 << 20;

/// A cache of files' positions, which drops the least recently used positions.
#[derive(Debug, Default)]
pub(super) struct Positions {
    pub(super) files: HashMap<FileVersion, CachedPositions>,
    /// The total size in bytes.
    pub(super) size: usize,
    /// Counts lookups, to order entries by use.
    pub(super) clock: u64,
    /// Counts the files that were loaded. Positions that were read before the last load may be
    /// stale.
    pub(super) epoch: u64,
}

impl Positions {
    pub(super) fn get(&mut self, version: &FileVersion) -> Option<&CachedPositions> {
        self.clock += 1;
        let known = self.files.get_mut(version)?;
        known.last_used = self.clock;
        Some(known)
    }

    pub(super) fn insert(&mut self, version: FileVersion, known: CachedPositions) {
        self.remove(&version);
        self.size += known.file.size();
        self.files.insert(version, CachedPositions { last_used: self.clock, ..known });
        while self.size > MOST_BYTES && self.files.len() > 1 {
            let oldest = self.files.iter().min_by_key(|(_, known)| known.last_used);
            let Some(oldest) = oldest.map(|(version, _)| version.clone()) else { break };
            self.remove(&oldest);
        }
    }

    /// Removes every version of the file at `path`, because its text may have changed with the same
    /// stamp.
    pub(super) fn forget(&mut self, path: &Path) {
        let versions: Vec<FileVersion> =
            self.files.keys().filter(|version| version.path == path).cloned().collect();
        versions.iter().for_each(|version| self.remove(version));
    }

    pub(super) fn remove(&mut self, version: &FileVersion) {
        if let Some(known) = self.files.remove(version) {
            self.size -= known.file.size();
        }
    }
}

/// A file's positions, and the file's stamp when they were read.
#[derive(Debug)]
pub(super) struct CachedPositions {
    pub(super) stamp: FileStamp,
    pub(super) file: Arc<PositionedFile>,
    pub(super) last_used: u64,
}
