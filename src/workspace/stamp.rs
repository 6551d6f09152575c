//! Stamps of files. Comparing the stamps of a file shows whether it has changed, without reading
//! it.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

/// The granularity of file dates: two changes within this time may get the same date.
pub(super) const COARSE: Duration = Duration::from_millis(50);

/// Returns the version of a file with these contents, as answers show it: a hash in sixteen
/// hexadecimal digits.
pub(crate) fn version(bytes: &[u8]) -> String {
    format!("{:016x}", xxh3_64(bytes))
}

/// A file's dates, size and inode. A change of the file alters at least one of them, unless it
/// keeps the size and follows another change within [`COARSE`]: see [`FileStamp::is_reliable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FileStamp {
    pub(super) modified: Option<SystemTime>,
    pub(super) size: u64,
    // A program can reset the modification date, but not the change date.
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

    /// Returns the stamp of a document's `text`.
    pub(super) fn of_text(text: &[u8]) -> FileStamp {
        let hash = xxh3_64(text) as i64;
        FileStamp { modified: None, size: text.len() as u64, changed: (hash, 0), inode: 0 }
    }

    /// Returns the stamp of the file at `path`, if it exists.
    pub(super) fn of_path(path: &Path) -> Option<FileStamp> {
        std::fs::metadata(path).ok().map(|metadata| FileStamp::of(&metadata))
    }

    /// Returns whether every later change will alter the stamp: the last change is older than
    /// [`COARSE`].
    pub(super) fn is_reliable(&self) -> bool {
        // A document's stamp contains a hash instead of dates.
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
