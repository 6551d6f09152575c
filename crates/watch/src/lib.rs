//! Reports what changed in folders since the last look.
//!
//! Linux queues an inotify event before the system call that caused it returns. A caller that reads the queue *when a
//! question is asked* therefore knows of everything that was written before the question: there is no thread whose
//! events are late, and a question after which nothing happened costs two system calls. [`Watch::changes`] is that
//! reading.
//!
//! The kernel does not report everything. [`Watch::folder`] and [`Watch::file`] return whether it does; what they
//! refuse is to be checked by `stat` each time:
//!
//! * file systems that others write to (NFS, SMB, FUSE, 9p, …) or that are not known here;
//! * links, and files that have several names: a write through another name is reported to that name's folder;
//! * folders beyond the user's limit of watches, and files beyond a quarter of it.
//!
//! Watches of one [`SharedQueue`] have what they have in common watched once.
//!
//! A folder is known by its path. Nothing is reported of a path that leads elsewhere because a folder *above* all
//! watched ones was moved or replaced: a caller that watches a tree compares the device and inode of its root each
//! time. A mount anywhere counts as a change of everything. A write by `mmap` is reported when the mapping and its
//! descriptor are gone.

#![forbid(unsafe_code)]

#[cfg(feature = "operations")]
pub mod operations;
mod queue;
mod refusal;
mod shared;

use std::collections::HashMap;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub use queue::tell_of_descriptors;
use queue::{EventQueue, KernelEvent};
pub use refusal::WatchRefusal;
pub use shared::SharedQueue;

/// A watch on folders and files. Its queue holds two descriptors, which are closed by execution.
#[derive(Debug)]
pub struct Watch {
    queue: SharedQueue,
    /// Its number among the watches of the queue.
    number: u64,
    /// The watches by path.
    numbers: HashMap<PathBuf, Number>,
    /// What is watched, by number: several paths if a folder is mounted in several places.
    watched: HashMap<i32, Vec<PathBuf>>,
    /// Whether the kernel reports all changes of a file system, by device.
    reporting: HashMap<u64, bool>,
    /// The most watches; beyond them, files are refused.
    most: usize,
    names: &'static [&'static str],
    lost: bool,
    refusal: Option<WatchRefusal>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    number: i32,
    what: WatchedThing,
}

/// What a watch is on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WatchedThing {
    /// A folder, changes of whose entries are reported.
    Entries,
    /// A folder above others.
    Above,
    File,
}

/// One part in so many of the watches that a user may have is for files: editors need some, and other programs like
/// this one.
const FILES_SHARE: usize = 4;

/// The changes since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Changes {
    /// Nothing.
    Nothing,
    /// These, at least one. The same may be reported several times.
    Some(Vec<Change>),
    /// The changes are not known: everything is to be checked again, and this watch reports nothing any more.
    Everything,
}

/// A change of a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    /// The path that changed: a watched folder, an entry of one, or a watched file.
    pub path: PathBuf,
    /// The kind of the change.
    pub what: ChangeKind,
}

/// The kind of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ChangeKind {
    /// Its contents or its attributes changed.
    Contents,
    /// Something other than a folder was added or removed there.
    Entry,
    /// A folder was added or removed there. What was watched below it is to be [forgotten](Watch::forget).
    Folder,
}

/// Whether something is watched.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Watched {
    /// It is watched from now on: what was read of it before may be out of date.
    New,
    /// It was watched before.
    Already,
    /// The kernel does not report all of its changes.
    No,
}

impl Watch {
    /// A watch on nothing yet, with a queue of its own.
    ///
    /// # Errors
    /// As of [`SharedQueue::watch`].
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

    /// Has the watch report entries of these names that come or go in folders [above](Watch::above) others.
    #[must_use]
    pub fn noting(mut self, names: &'static [&'static str]) -> Watch {
        self.names = names;
        self
    }

    /// Watches what is in the folder at `path`, a real path: what comes, goes, is written to or is given other
    /// attributes. Not what is in the folders in it. To be called before the folder is read.
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
            Ok(number) => self.note(path, Number { number, what: WatchedThing::Entries }),
            Err(error) => {
                self.refusal = Some(WatchRefusal::of(&error));
                Watched::No
            }
        }
    }

    /// Why the kernel does not report all changes of the folder that was asked for last, if so.
    pub fn refusal(&self) -> Option<WatchRefusal> {
        self.refusal
    }

    /// Watches whether a folder above `path`, a real path, is moved, and whether something [of note](Watch::noting)
    /// comes or goes in one. False if any of them cannot be watched.
    pub fn above(&mut self, path: &Path) -> bool {
        path.ancestors().skip(1).all(|folder| {
            self.numbers.contains_key(folder)
                || self.add(|queue| queue.add_above(folder)).is_ok_and(|number| {
                    self.note(folder, Number { number, what: WatchedThing::Above });
                    true
                })
        })
    }

    /// Whether all changes of the file at `path` are reported: its folder is watched, and no other name leads to it. A
    /// new name of it is reported. To be called before the file is read, and again whenever it has changed.
    pub fn file(&mut self, path: &Path) -> bool {
        let room = self.numbers.len() < self.most || self.is_file_watched(path);
        if !room || !path.parent().is_some_and(|folder| self.is_watched(folder)) {
            return false;
        }
        let Ok(number) = self.add(|queue| queue.add_file(path)) else { return false };
        self.note(path, Number { number, what: WatchedThing::File });
        path.symlink_metadata().is_ok_and(|found| {
            found.is_file() && found.nlink() == 1 && self.reports_everything(path, found.dev())
        })
    }

    /// Whether the folder at `path` is watched.
    pub fn is_watched(&self, path: &Path) -> bool {
        self.numbers.get(path).is_some_and(|known| known.what == WatchedThing::Entries)
    }

    /// Whether the file at `path` was watched when [`Watch::file`] was last asked.
    pub fn is_file_watched(&self, path: &Path) -> bool {
        self.numbers.get(path).is_some_and(|known| known.what == WatchedThing::File)
    }

    /// Watches `path`, and what is below it, no longer.
    pub fn forget(&mut self, path: &Path) {
        let gone: Vec<PathBuf> = self.numbers.keys().filter(|each| each.starts_with(path)).cloned().collect();
        for path in gone {
            self.forget_one(&path);
        }
    }

    /// Reads the changes since the last call. It does not wait.
    pub fn changes(&mut self) -> Changes {
        if self.lost {
            return Changes::Everything;
        }
        let mut changes = Vec::new();
        let events = self.queue.read(self.number);
        if !events.is_some_and(|events| events.iter().all(|event| self.take(event, &mut changes))) {
            self.lost = true;
            return Changes::Everything;
        }
        if changes.is_empty() { Changes::Nothing } else { Changes::Some(changes) }
    }

    /// Makes a handle with which a thread can wait for changes while others ask.
    pub fn waiter(&self) -> Waiter {
        Waiter(self.queue.clone(), self.number)
    }

    fn add(&self, add: impl FnOnce(&EventQueue) -> io::Result<i32>) -> io::Result<i32> {
        self.queue.add(self.number, add)
    }

    /// Adds the changes that an event reports. False if it reports that events were lost.
    fn take(&mut self, event: &KernelEvent, changes: &mut Vec<Change>) -> bool {
        // What was watched no longer when the event was read has a number that is not known.
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

    fn note(&mut self, path: &Path, new: Number) -> Watched {
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
        *self.reporting.entry(device).or_insert_with(|| queue::tells_everything(path))
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.queue.leave(self.number, self.watched.keys().copied());
    }
}

/// A handle to wait for changes.
#[derive(Debug, Clone)]
pub struct Waiter(SharedQueue, u64);

impl Waiter {
    /// Waits until there are changes to read, or until the time is up. Says whether there are.
    pub fn wait(&self, timeout: Duration) -> bool {
        self.0.wait(self.1, timeout)
    }
}

#[cfg(test)]
mod tests;
