//! Watching the tree, so that a question need not look at every file to know that nothing changed.

use notify::event::{EventKind, ModifyKind};
use notify::{Event, RecursiveMode, Watcher};
use parking_lot::{Condvar, Mutex};
use std::collections::{HashMap, HashSet};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// Device and inode: a path may be another folder's later.
type Identity = (u64, u64);

/// A watch on the folders that the index covers. Ignored folders are not watched.
pub(crate) struct Watch {
    watcher: Box<dyn Watcher + Send>,
    root: PathBuf,
    signal: Arc<Signal>,
}

/// What the watcher's thread tells.
#[derive(Default)]
pub(crate) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Goes up with every change.
    seen: u64,
    /// Up to which the index is known to be up to date.
    settled: Option<u64>,
    /// The folders that are watched.
    watched: HashMap<PathBuf, Identity>,
    /// Whether every folder is watched.
    complete: bool,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let complete = self.signal.state.lock().complete;
        formatter.debug_struct("Watch").field("root", &self.root).field("complete", &complete).finish()
    }
}

impl Signal {
    fn mark(&self) {
        self.state.lock().seen += 1;
        self.changed.notify_all();
    }

    /// Takes note of what the watcher tells.
    fn note(&self, event: notify::Result<Event>) {
        {
            let mut state = self.state.lock();
            match event {
                Ok(event) if event.need_rescan() => state.watched.clear(),
                // Opening and reading is no change.
                Ok(event) if event.kind.is_access() => return,
                Ok(event) => state.forget(&event),
                Err(_) => state.watched.clear(),
            }
        }
        self.mark();
    }

    /// Waits until something changes that is not in the index. Says whether something did.
    pub(crate) fn wait(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        if state.settled != Some(state.seen) {
            return true;
        }
        self.changed.wait_for(&mut state, timeout);
        state.settled != Some(state.seen)
    }
}

impl State {
    /// Forgets the watches that went with a folder: one that is made again at the same path is not watched yet.
    fn forget(&mut self, event: &Event) {
        let (removed, renamed) = match event.kind {
            EventKind::Remove(_) => (true, false),
            EventKind::Modify(ModifyKind::Name(_)) => (true, true),
            _ => (false, false),
        };
        for path in event.paths.iter().filter(|_| removed) {
            if self.watched.remove(path).is_some() && renamed {
                // What is inside moved along, and tells nothing itself.
                self.watched.retain(|each, _| !each.starts_with(path));
            }
        }
    }
}

impl Watch {
    /// `None` if this system cannot watch.
    pub(crate) fn new(root: &Path) -> Option<Watch> {
        let signal = Arc::new(Signal::default());
        let told = Arc::clone(&signal);
        let watcher = notify::recommended_watcher(move |event| told.note(event)).ok()?;
        Some(Watch { watcher: Box::new(watcher), root: root.to_owned(), signal })
    }

    pub(crate) fn signal(&self) -> Arc<Signal> {
        Arc::clone(&self.signal)
    }

    /// Something changed that the watcher did not see.
    pub(crate) fn mark(&self) {
        self.signal.mark();
    }

    /// Whether something may have changed since the index was brought up to date.
    pub(crate) fn is_dirty(&self) -> bool {
        let state = self.signal.state.lock();
        !state.complete || state.settled != Some(state.seen)
    }

    /// To be passed to [`Watch::settle`] later.
    pub(crate) fn generation(&self) -> u64 {
        self.signal.state.lock().seen
    }

    /// The index covers all that happened up to `generation`. What of `watched` is a folder is watched from now on; a
    /// folder that was not watched before may have changed before it was, so the index is not yet called up to date.
    pub(crate) fn settle(&mut self, generation: u64, watched: &[(PathBuf, u64)]) {
        let folders: HashMap<PathBuf, Identity> =
            watched.iter().filter_map(|(path, _)| identified(self.root.join(path))).collect();
        let known = self.signal.state.lock().watched.clone();
        for (gone, _) in known.iter().filter(|(path, identity)| folders.get(*path) != Some(*identity)) {
            self.signal.state.lock().watched.remove(gone);
            // It may have been removed already.
            let _ = self.watcher.unwatch(gone);
        }
        let new = folders.iter().filter(|(path, identity)| known.get(*path) != Some(*identity));
        let mut added = false;
        let mut failed = HashSet::new();
        for (path, identity) in new {
            added = true;
            // Entered before it is watched, so that its removal is not missed.
            self.signal.state.lock().watched.insert(path.clone(), *identity);
            if self.watcher.watch(path, RecursiveMode::NonRecursive).is_err() {
                self.signal.state.lock().watched.remove(path);
                failed.insert(path);
            }
        }
        let mut state = self.signal.state.lock();
        state.complete = failed.is_empty() && folders.keys().all(|path| state.watched.contains_key(path));
        state.settled = if added { None } else { Some(generation) };
    }
}

/// A folder with its identity; `None` for anything else.
fn identified(path: PathBuf) -> Option<(PathBuf, Identity)> {
    let metadata = path.symlink_metadata().ok().filter(std::fs::Metadata::is_dir)?;
    Some((path, (metadata.dev(), metadata.ino())))
}

#[cfg(test)]
mod tests {
    use super::*;
    use notify::{Config, EventHandler, WatcherKind};

    /// Watches so many folders, like a system whose limit is reached.
    #[derive(Debug)]
    struct Limited(usize);

    impl Watcher for Limited {
        fn new<F: EventHandler>(_: F, _: Config) -> notify::Result<Self> {
            Ok(Limited(0))
        }

        fn watch(&mut self, _: &Path, _: RecursiveMode) -> notify::Result<()> {
            self.0 = self.0.checked_sub(1).ok_or(notify::Error::new(notify::ErrorKind::MaxFilesWatch))?;
            Ok(())
        }

        fn unwatch(&mut self, _: &Path) -> notify::Result<()> {
            Ok(())
        }

        fn kind() -> WatcherKind {
            WatcherKind::NullWatcher
        }
    }

    #[test]
    fn a_folder_that_cannot_be_watched_leaves_the_watch_incomplete() {
        let folder = tempfile::tempdir().unwrap();
        let names = ["", "a", "b", "c"];
        names.iter().skip(1).for_each(|name| std::fs::create_dir(folder.path().join(name)).unwrap());
        let watched: Vec<_> = names.iter().map(|name| (PathBuf::from(name), 1)).collect();
        let signal = Arc::new(Signal::default());
        let mut watch = Watch { watcher: Box::new(Limited(2)), root: folder.path().to_owned(), signal };
        for _ in 0..3 {
            watch.settle(watch.generation(), &watched);
            assert!(watch.is_dirty());
        }
        // Two folders less are few enough.
        std::fs::remove_dir(folder.path().join("b")).unwrap();
        std::fs::remove_dir(folder.path().join("c")).unwrap();
        let mut watch =
            Watch { watcher: Box::new(Limited(2)), root: folder.path().to_owned(), signal: watch.signal() };
        watch.signal.state.lock().watched.clear();
        watch.settle(watch.generation(), &watched);
        assert!(watch.is_dirty(), "what was not watched before may have changed before it was");
        watch.settle(watch.generation(), &watched);
        assert!(!watch.is_dirty());
    }
}
