//! Stamps of files, by which a change shows without reading them.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use serde::{Deserialize, Serialize};

/// A file that changed so shortly before it was read may change again without a new date.
pub(super) const COARSE: Duration = Duration::from_millis(50);

/// A file's dates, size and inode, of which a change of the file changes one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FileStamp {
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

    /// The stamp of what is at `path`, if there is something.
    pub(super) fn of_path(path: &Path) -> Option<FileStamp> {
        std::fs::metadata(path).ok().map(|metadata| FileStamp::of(&metadata))
    }

    /// Whether a later change shows in the stamp: the clock of a file system is coarse.
    pub(super) fn is_settled(&self) -> bool {
        let now = SystemTime::now();
        let changed = u64::try_from(self.changed.0).ok().map(|seconds| {
            SystemTime::UNIX_EPOCH + Duration::new(seconds, u32::try_from(self.changed.1).unwrap_or(0))
        });
        changed.is_some_and(|changed| changed + COARSE < now)
    }
}
