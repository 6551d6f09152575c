//! Stamps of files, which show a change without reading the file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The time after a change in which another one may get the same date: the clock of a file system is coarse.
pub(super) const COARSE: Duration = Duration::from_millis(50);

/// Hashes a file's contents to the version that answers show, in sixteen digits.
pub(crate) fn version(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

/// A file's dates, size and inode. A change of the file changes one of them, unless it follows another one within the clock's
/// grain and keeps the size: see [`FileStamp::is_reliable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    pub(super) modified: Option<SystemTime>,
    pub(super) size: u64,
    // Compare the change time too: a program may set the modification date back, but not this.
    pub(super) changed: (i64, i64),
    pub(super) inode: u64,
}

impl FileStamp {
    pub(super) fn of(metadata: &Metadata) -> FileStamp {
        FileStamp {
            modified: metadata.modified().ok(),
            size: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }

    /// Stamps `text`, which stands for a file's.
    pub(super) fn of_text(text: &[u8]) -> FileStamp {
        let hash = xxh3_64(text) as i64;
        FileStamp { modified: None, size: text.len() as u64, changed: (hash, 0), inode: 0 }
    }

    /// Stamps the file at `path`, if it exists.
    pub(super) fn of_path(path: &Path) -> Option<FileStamp> {
        std::fs::metadata(path).ok().map(|metadata| FileStamp::of(&metadata))
    }

    /// Whether every later change shows in the stamp: it is older than the clock's grain.
    pub(super) fn is_reliable(&self) -> bool {
        // A document has no dates: another text has another hash.
        if self.modified.is_none() {
            return true;
        }
        let now = SystemTime::now();
        let changed = u64::try_from(self.changed.0).ok().map(|seconds| {
            SystemTime::UNIX_EPOCH + Duration::new(seconds, u32::try_from(self.changed.1).unwrap_or(0))
        });
        changed.is_some_and(|changed| changed + COARSE < now)
    }
}
