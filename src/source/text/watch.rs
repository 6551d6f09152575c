//! Watching the tree, so that a question need not look at every file to know that nothing changed.

use notify::{RecommendedWatcher, RecursiveMode, Watcher};
use parking_lot::{Condvar, Mutex};
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A watch on the folders that the index covers. Ignored folders are not watched.
pub(super) struct Watch {
    watcher: RecommendedWatcher,
    root: PathBuf,
    watched: HashSet<PathBuf>,
    /// Whether every folder is watched.
    complete: bool,
    signal: Arc<Signal>,
}

/// What the watcher's thread tells.
#[derive(Default)]
pub(super) struct Signal {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Goes up with every change.
    seen: u64,
    /// Up to which the index is known to be up to date.
    settled: Option<u64>,
}

impl std::fmt::Debug for Watch {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Watch").field("root", &self.root).field("complete", &self.complete).finish()
    }
}

impl Signal {
    fn mark(&self) {
        self.state.lock().seen += 1;
        self.changed.notify_all();
    }

    /// Waits until something changes that is not in the index. Says whether something did.
    pub(super) fn wait(&self, timeout: Duration) -> bool {
        let mut state = self.state.lock();
        if state.settled != Some(state.seen) {
            return true;
        }
        self.changed.wait_for(&mut state, timeout);
        state.settled != Some(state.seen)
    }
}

impl Watch {
    /// `None` if this system cannot watch.
    pub(super) fn new(root: &Path) -> Option<Watch> {
        let signal = Arc::new(Signal::default());
        let told = Arc::clone(&signal);
        let watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            // Opening and reading is no change; what cannot be understood may be one.
            if !event.is_ok_and(|event| event.kind.is_access() && !event.need_rescan()) {
                told.mark();
            }
        });
        let root = root.to_owned();
        Some(Watch { watcher: watcher.ok()?, root, watched: HashSet::new(), complete: false, signal })
    }

    pub(super) fn signal(&self) -> Arc<Signal> {
        Arc::clone(&self.signal)
    }

    /// Something changed that the watcher did not see.
    pub(super) fn mark(&self) {
        self.signal.mark();
    }

    /// Whether something may have changed since the index was brought up to date.
    pub(super) fn is_dirty(&self) -> bool {
        let state = self.signal.state.lock();
        !self.complete || state.settled != Some(state.seen)
    }

    /// To be passed to [`Watch::settle`] later.
    pub(super) fn generation(&self) -> u64 {
        self.signal.state.lock().seen
    }

    /// The index covers all that happened up to `generation`. What of `watched` is a folder is watched from now on; a
    /// folder that was not watched before may have changed before it was, so the index is not yet called up to date.
    pub(super) fn settle(&mut self, generation: u64, watched: &[(PathBuf, u64)]) {
        let folders: HashSet<PathBuf> =
            watched.iter().map(|(path, _)| self.root.join(path)).filter(|path| path.is_dir()).collect();
        let mut complete = true;
        for gone in self.watched.difference(&folders) {
            // It may have been removed already.
            let _ = self.watcher.unwatch(gone);
        }
        let mut added = false;
        for new in folders.difference(&self.watched) {
            added = true;
            complete &= self.watcher.watch(new, RecursiveMode::NonRecursive).is_ok();
        }
        self.watched = folders;
        self.complete = complete;
        self.signal.state.lock().settled = if added { None } else { Some(generation) };
    }
}
