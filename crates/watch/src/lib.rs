//! Reports the changes in folders since the last query.
//!
//! Linux queues an inotify event before the system call that causes it returns. A caller that reads
//! the queue *at the time of a query* therefore sees everything written before the query. There is
//! no thread with delayed events, and a query without changes costs two system calls.
//! [`Watch::changes`] reads the queue.
//!
//! The kernel does not report everything. [`Watch::folder`] and [`Watch::file`] return whether it
//! reports all changes. If it does not, the caller must check by `stat` each time. The exceptions
//! are
//!
//! * file systems that other machines can write to (NFS, SMB, FUSE, 9p, …), or of unknown type;
//! * links, and files with several hard links: a write through another name is reported only for
//!   the folder of that name;
//! * folders beyond the user's limit of watches, and files after a quarter of that limit is used.
//!
//! Several watches can share a [`SharedQueue`]; paths watched by more than one of them then need
//! only one kernel watch.
//!
//! Folders are identified by path. If a folder *above* all watched ones is moved or replaced, this
//! is reported only if [`Watch::above`] watches it. Otherwise a caller that watches a tree must
//! compare the device and inode of its root each time. After any mount, [`Changes::Everything`] is
//! reported. A write through `mmap` is reported when the mapping and its descriptor are closed.

#![forbid(unsafe_code)]

mod queue;
mod refusal;
mod shared;

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use queue::listen_for_descriptors;
use queue::{EventQueue, KernelEvent};
pub use refusal::WatchRefusal;
pub use shared::SharedQueue;

/// A watch on folders and files. Its queue holds two descriptors, which are closed on exec.
#[derive(Debug)]
pub struct Watch {
    queue: SharedQueue,
    /// Identifies the watch in its queue.
    number: u64,
    /// The kernel's number and the kind of the watch of each path.
    numbers: HashMap<PathBuf, Number>,
    /// The watched paths by the kernel's number. A folder that is mounted in several places has
    /// several paths.
    watched: HashMap<i32, Vec<PathBuf>>,
    /// Whether the kernel reports all changes on a file system, by device.
    reporting: HashMap<u64, bool>,
    /// If this many paths are watched, no further file is watched.
    most: usize,
    names: &'static [&'static str],
    lost: bool,
    refusal: Option<WatchRefusal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    number: i32,
    what: WatchTarget,
}

/// The kind of watched object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchTarget {
    /// A folder. Changes of its entries are reported.
    Entries,
    /// A folder that [`Watch::above`] watches.
    Above,
    File,
}

/// The divisor for the share of the user's watch limit that is used for files. Editors and other
/// instances need watches too.
const FILES_SHARE: usize = 4;

/// The changes since the last query.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// No changes.
    Nothing,
    /// At least one change. Duplicates are possible.
    Some(Vec<Change>),
    /// The changes are unknown: the caller must check everything. Every later query of this watch
    /// returns this, too.
    Everything,
}

/// A change of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The changed path: a watched folder, an entry of a watched folder, or a watched file.
    pub path: PathBuf,
    /// The kind of change.
    pub what: ChangeKind,
}

/// The kinds of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// The contents or attributes changed.
    Contents,
    /// Something other than a folder was added or removed.
    Entry,
    /// A folder was added, removed or moved. The caller must [forget](Watch::forget) the watches at
    /// and below the path.
    Folder,
}

/// The result of watching a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// It is watched from now on. Anything read from it earlier may be out of date.
    New,
    /// It was already watched.
    Already,
    /// The path is not watched, because it is not a folder, the kernel does not report all of its
    /// changes, or the kernel refused the watch.
    No,
}

impl Watch {
    /// Creates a watch with a separate queue. It watches nothing yet.
    ///
    /// # Errors
    ///
    /// The same as for [`SharedQueue::watch`].
    pub fn new() -> io::Result<Watch> {
        SharedQueue::default().watch()
    }

    fn of(queue: SharedQueue, number: u64) -> Watch {
        Watch {
            queue,
            number,
            numbers: HashMap::new(),
            watched: HashMap::new(),
            reporting: HashMap::new(),
            most: queue::limit() / FILES_SHARE,
            names: &[],
            lost: false,
            refusal: None,
        }
    }

    /// Makes the watch report added and removed entries with these names in the folders that
    /// [`Watch::above`] watches.
    #[must_use]
    pub fn noting_names(mut self, names: &'static [&'static str]) -> Watch {
        self.names = names;
        self
    }

    /// Watches the entries of the folder at `path`, a canonical path, for additions, removals,
    /// writes and changed attributes. Does not watch the contents of subfolders. Must be called
    /// before the folder is read.
    pub fn folder(&mut self, path: &Path) -> Watched {
        self.refusal = None;
        let Ok(found) = path.symlink_metadata() else { return Watched::No };
        if !found.is_dir() {
            return Watched::No;
        }
        if !self.reports_everything(path, found.dev()) {
            self.refusal = Some(WatchRefusal::FileSystem);
            return Watched::No;
        }
        match self.add(|queue| queue.add_folder(path)) {
            Ok(number) => self.register(path, Number { number, what: WatchTarget::Entries }),
            Err(error) => {
                self.refusal = Some(WatchRefusal::of(&error));
                Watched::No
            }
        }
    }

    /// Returns the reason why the last call of [`Watch::folder`] could not watch an existing
    /// folder.
    pub fn refusal(&self) -> Option<WatchRefusal> {
        self.refusal
    }

    /// Watches the folders above `path`, a canonical path, for moves and for entries with the names
    /// given to [`Watch::noting_names`]. Returns `false` if any of them cannot be watched.
    pub fn above(&mut self, path: &Path) -> bool {
        path.ancestors().skip(1).all(|folder| {
            self.numbers.contains_key(folder)
                || self.add(|queue| queue.add_above(folder)).is_ok_and(|number| {
                    self.register(folder, Number { number, what: WatchTarget::Above });
                    true
                })
        })
    }

    /// Watches the file at `path`. Returns whether all of its changes are reported: its folder is
    /// watched, it has no other hard link, the kernel reports all changes on its file system, and
    /// the limit for files is not reached. A new hard link is reported. Must be called before the
    /// file is read, and again after each change.
    pub fn file(&mut self, path: &Path) -> bool {
        let room = self.numbers.len() < self.most || self.is_file_watched(path);
        if !room || !path.parent().is_some_and(|folder| self.is_watched(folder)) {
            return false;
        }
        let Ok(number) = self.add(|queue| queue.add_file(path)) else { return false };
        self.register(path, Number { number, what: WatchTarget::File });
        path.symlink_metadata().is_ok_and(|found| {
            found.is_file() && found.nlink() == 1 && self.reports_everything(path, found.dev())
        })
    }

    /// Returns whether the folder at `path` is watched.
    pub fn is_watched(&self, path: &Path) -> bool {
        self.numbers.get(path).is_some_and(|known| known.what == WatchTarget::Entries)
    }

    /// Returns whether the file at `path` is watched since the last call of [`Watch::file`], even
    /// if that call returned `false` because not all changes are reported.
    pub fn is_file_watched(&self, path: &Path) -> bool {
        self.numbers.get(path).is_some_and(|known| known.what == WatchTarget::File)
    }

    /// Stops watching `path` and everything below it.
    pub fn forget(&mut self, path: &Path) {
        let gone: Vec<PathBuf> = self.numbers.keys().filter(|each| each.starts_with(path)).cloned().collect();
        for path in gone {
            self.forget_one(&path);
        }
    }

    /// Reads the changes since the last call, without waiting.
    pub fn changes(&mut self) -> Changes {
        if self.lost {
            return Changes::Everything;
        }
        let mut changes = Vec::new();
        let events = self.queue.read(self.number);
        if !events.is_some_and(|events| events.iter().all(|event| self.handle(event, &mut changes))) {
            self.lost = true;
            return Changes::Everything;
        }
        if changes.is_empty() { Changes::Nothing } else { Changes::Some(changes) }
    }

    /// Returns a handle with which a thread can wait for changes while other threads use the watch.
    pub fn waiter(&self) -> Waiter {
        Waiter(self.queue.clone(), self.number)
    }

    fn add(&self, add: impl FnOnce(&EventQueue) -> io::Result<i32>) -> io::Result<i32> {
        self.queue.add(self.number, add)
    }

    /// Adds the changes reported by an event. Returns `false` if further changes may be lost,
    /// because the file system was unmounted.
    fn handle(&mut self, event: &KernelEvent, changes: &mut Vec<Change>) -> bool {
        // The event may be for a watch that has been removed meanwhile.
        let Some(paths) = self.watched.get(&event.number) else { return true };
        if event.unmounted {
            return false;
        }
        for path in paths.clone() {
            let what = match (&event.name, event.moved_itself || event.ended, event.entry) {
                (None, true, _) if self.is_file_watched(&path) => ChangeKind::Entry,
                (None, true, _) => ChangeKind::Folder,
                (_, _, true) if event.folder => ChangeKind::Folder,
                (_, _, true) => ChangeKind::Entry,
                _ => ChangeKind::Contents,
            };
            let changed = event.name.as_ref().map_or_else(|| path.clone(), |name| path.join(name));
            let is_noise = event.name.as_ref().is_some_and(|name| {
                !self.is_watched(&path)
                    && !self.names.iter().any(|each| *name == **each)
                    && !self.numbers.contains_key(&changed)
            });
            if is_noise {
                continue;
            }
            let change = Change { path: changed, what };
            if changes.last() != Some(&change) {
                changes.push(change);
            }
            if event.ended {
                self.numbers.remove(&path);
            }
        }
        if event.ended {
            self.watched.remove(&event.number);
        }
        true
    }

    fn register(&mut self, path: &Path, new: Number) -> Watched {
        match self.numbers.get(path) {
            Some(before) if *before == new => return Watched::Already,
            Some(before) if before.number != new.number => self.forget_one(path),
            Some(_) | None => {}
        }
        self.numbers.insert(path.to_owned(), new);
        let paths = self.watched.entry(new.number).or_default();
        if !paths.iter().any(|each| each == path) {
            paths.push(path.to_owned());
        }
        Watched::New
    }

    fn forget_one(&mut self, path: &Path) {
        let Some(Number { number, .. }) = self.numbers.remove(path) else { return };
        if let Some(paths) = self.watched.get_mut(&number) {
            paths.retain(|each| each != path);
            if paths.is_empty() {
                self.watched.remove(&number);
                self.queue.release(self.number, number);
            }
        }
    }

    fn reports_everything(&mut self, path: &Path, device: u64) -> bool {
        *self.reporting.entry(device).or_insert_with(|| queue::reports_all_changes(path))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.queue.remove(self.number, self.watched.keys().copied());
    }
}

/// A handle to wait for changes.
#[derive(Debug, Clone)]
pub struct Waiter(SharedQueue, u64);

impl Waiter {
    /// Waits until there are changes to read, or until the timeout. Returns whether there may be
    /// changes.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.0.wait(self.1, timeout)
    }
}

#[cfg(test)]
mod tests;
