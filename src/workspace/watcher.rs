//! Keeps the list of the project's files up to date. [`WatchedTree`] walks the tree once and then
//! applies the changes that the kernel reports. It walks again after a change of a file that
//! determines which files belong to the project, such as `.gitignore`. Without a watch, it compares
//! stamps at each question.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use steelbank_tree::{DECIDING_ABOVE, may_be_lisp};
use steelbank_watch::{Change, ChangeKind, Changes, SharedQueue, Watch, WatchRefusal, Watched};

use crate::workspace::tree::ProjectWalk;

/// Recheck changes of entries and folders for this long: kernels 5.3 to 5.16 report a deletion
/// slightly before it happens.
const PREMATURE: Duration = Duration::from_millis(50);
/// The maximum number of walks in a row. A walk that begins to watch folders is repeated, because
/// they may have changed before the watch began.
const WALKS: usize = 4;

/// The changes since the last refresh.
#[derive(Debug, Default)]
pub(super) struct WorkspaceChanges {
    /// Whether the tree was walked again.
    pub(super) walked: bool,
    /// Whether all cached information on files is invalid.
    pub(super) everything: bool,
    pub(super) changed: BTreeSet<PathBuf>,
    /// Folders that were created, deleted or replaced, with everything below them.
    pub(super) folders: BTreeSet<PathBuf>,
}

/// The project's tree as last walked, with the changes since.
#[derive(Debug, Default)]
pub(super) struct WatchedTree {
    begun: bool,
    pub(super) walk: ProjectWalk,
    /// The watch. If there is none, every file is examined at each refresh.
    watch: Option<Watch>,
    /// The reason why the tree is not watched, if it should be watched.
    pub(super) refusal: Option<WatchRefusal>,
    /// The root's device and inode, if it exists.
    root: Option<(u64, u64)>,
    /// Whether another walk may find other files, even if the watch reports no change.
    needs_walk: bool,
    /// Recent changes, checked again until [`PREMATURE`] has passed.
    fresh: Vec<(Change, Instant)>,
    watching: bool,
    pub(super) changes: WorkspaceChanges,
}

impl WatchedTree {
    /// Reads all pending events, records the changes, and walks the tree again if necessary. If a
    /// new watch is needed, it is opened on `queue`.
    pub(super) fn update(&mut self, root: Option<&Path>, queue: &dyn Fn() -> SharedQueue) {
        let identity = root.and_then(|root| root.metadata().ok()).map(|found| (found.dev(), found.ino()));
        if !self.begun || identity != self.root {
            self.begun = true;
            self.root = identity;
            return self.begin(root, queue);
        }
        let Some(watch) = &mut self.watch else {
            self.changes.everything = true;
            if !self.walk.is_current() {
                self.walk_again(root);
            }
            return;
        };
        let mut again = self.needs_walk;
        match watch.changes() {
            Changes::Nothing => {}
            Changes::Everything => return self.begin(root, queue),
            Changes::Some(changes) => {
                for change in changes {
                    again |= self.take(root, change);
                }
            }
        }
        if !self.fresh.is_empty() {
            let fresh = std::mem::take(&mut self.fresh);
            for (change, then) in fresh {
                again |= !self.takes_entry(root, &change);
                self.changes.changed.insert(change.path.clone());
                if then.elapsed() < PREMATURE {
                    self.fresh.push((change, then));
                }
            }
        }
        if again || !self.walk.is_current() {
            self.walk_again(root);
        }
    }

    /// Starts watching the file at `path`. Returns whether all later changes are reported. Call
    /// this before reading the file, and again after each change. If `exists` is false, the file is
    /// missing: only returns whether its creation will be reported.
    pub(super) fn begin_watching(&mut self, path: &Path, exists: bool) -> bool {
        let (Some(watch), Some(folder)) = (&mut self.watch, path.parent()) else { return false };
        let own = self.walk.owns(folder);
        if !exists {
            // The target of a link may be created elsewhere.
            return own && !path.is_symlink();
        }
        if !own && !watch.is_watched(folder) {
            let is_real = folder.canonicalize().is_ok_and(|real| real == folder);
            if !(is_real && watch.above(folder) && watch.folder(folder) != Watched::No) {
                return false;
            }
        }
        watch.file(path)
    }

    /// Watches the tree from the next refresh on.
    pub(super) fn watch(&mut self) {
        (self.watching, self.begun) = (true, false);
    }

    fn begin(&mut self, root: Option<&Path>, queue: &dyn Fn() -> SharedQueue) {
        (self.watch, self.refusal) = match self.watching.then(|| queue().watch()) {
            None => (None, None),
            Some(Ok(watch)) => (Some(watch.noting_names(&DECIDING_ABOVE)), None),
            // Record no refusal without a project: there is no tree to watch.
            Some(Err(error)) => (None, root.map(|_| WatchRefusal::of(&error))),
        };
        self.fresh.clear();
        self.changes.everything = true;
        self.walk_again(root);
    }

    fn walk_again(&mut self, root: Option<&Path>) {
        let Some(root) = root else { return };
        self.changes.walked = true;
        for _ in 0..WALKS {
            let Some(watch) = &mut self.watch else { break };
            let walk = ProjectWalk::watched(root, watch);
            if !walk.is_watched {
                self.refusal = watch.refusal();
                self.watch = None;
                break;
            }
            self.needs_walk = walk.is_new;
            self.walk = walk;
            if !self.needs_walk {
                return;
            }
        }
        if self.watch.is_none() {
            self.changes.everything = true;
            self.walk = ProjectWalk::new(root);
        }
    }

    /// Records a change. Returns whether another walk is needed.
    fn take(&mut self, root: Option<&Path>, change: Change) -> bool {
        let decides = self.walk.decides(&change.path) || self.walk.decides_in(change.path.parent());
        self.changes.changed.insert(change.path.clone());
        let again = match change.what {
            ChangeKind::Contents => decides || self.walk.owns(&change.path),
            ChangeKind::Entry => decides || !self.takes_entry(root, &change),
            ChangeKind::Folder => {
                if let Some(watch) = &mut self.watch {
                    watch.forget(&change.path);
                }
                self.changes.folders.insert(change.path.clone());
                true
            }
        };
        if change.what != ChangeKind::Contents && !self.fresh.iter().any(|(known, _)| *known == change) {
            self.fresh.push((change, Instant::now()));
        }
        again
    }

    /// Adds or removes a file in the list of the last walk. Returns false if this needs another
    /// walk.
    fn takes_entry(&mut self, root: Option<&Path>, change: &Change) -> bool {
        if self.is_as_walked(change) {
            return true;
        }
        let (Some(root), ChangeKind::Entry) = (root, change.what) else { return false };
        let is_file = change.path.symlink_metadata().is_ok_and(|found| found.is_file());
        match steelbank_tree::admits(root, &change.path) {
            Some(admitted) => self.walk.set(&change.path, is_file && admitted),
            None => false,
        }
    }

    /// Returns whether the last walk agrees with the path's current state. Also returns true for a
    /// file that the walk never lists.
    fn is_as_walked(&self, change: &Change) -> bool {
        let path = &change.path;
        let found = path.symlink_metadata();
        if change.what == ChangeKind::Folder {
            return found.is_ok_and(|found| found.is_dir()) == self.walk.owns(path);
        }
        let is_own = path.parent().is_some_and(|folder| self.walk.owns(folder)) && may_be_lisp(path);
        let is_hidden = path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(b"."));
        !is_own || is_hidden || found.is_ok_and(|found| found.is_file()) == self.walk.has(path)
    }
}
