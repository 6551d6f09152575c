//! The project's tree as it is now: walked once, and walked again when a file has changed that decides which
//! files are the project's own.

use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use steelbank_tree::{DECIDING_ABOVE, may_be_lisp};
use steelbank_watch::{Change, ChangeKind, Changes, SharedQueue, Watch, WatchRefusal, Watched};

use crate::workspace::tree::ProjectWalk;

/// Recheck deletions for this long: kernels from 5.3 to 5.16 tell of one a moment before it happens.
const PREMATURE: Duration = Duration::from_millis(50);
/// The most walks at a time: a walk that begins to watch folders is repeated, as they may have changed
/// before.
const WALKS: usize = 4;

/// The changes since the last look.
#[derive(Debug, Default)]
pub(super) struct WorkspaceChanges {
    /// Whether the tree was walked again.
    pub(super) walked: bool,
    /// Whether nothing that was known of files is valid.
    pub(super) everything: bool,
    pub(super) changed: BTreeSet<PathBuf>,
    /// Folders that were created, deleted or replaced, with all that is below them.
    pub(super) folders: BTreeSet<PathBuf>,
}

/// The project's tree as it was last walked, and what is known of its changes since.
#[derive(Debug, Default)]
pub(super) struct WatchedTree {
    begun: bool,
    pub(super) walk: ProjectWalk,
    /// The watch; without one, every file is looked at each time.
    watch: Option<Watch>,
    /// The reason for which the tree is not watched.
    pub(super) refusal: Option<WatchRefusal>,
    /// The root's device and inode, if it exists.
    root: Option<(u64, u64)>,
    /// Whether another walk may find other files, whatever the watch reports.
    unsure: bool,
    /// Recent changes, which premature events may still contradict.
    fresh: Vec<(Change, Instant)>,
    watching: bool,
    pub(super) news: WorkspaceChanges,
}

impl WatchedTree {
    /// Reads all events until now, and records what changed. A new watch is one of `queue`.
    pub(super) fn look(&mut self, root: Option<&Path>, queue: &dyn Fn() -> SharedQueue) {
        let identity = root.and_then(|root| root.metadata().ok()).map(|found| (found.dev(), found.ino()));
        if !self.begun || identity != self.root {
            self.begun = true;
            self.root = identity;
            return self.begin(root, queue);
        }
        let Some(watch) = &mut self.watch else {
            self.news.everything = true;
            if !self.walk.is_current() {
                self.walk_again(root);
            }
            return;
        };
        let mut again = self.unsure;
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
                self.news.changed.insert(change.path.clone());
                if then.elapsed() < PREMATURE {
                    self.fresh.push((change, then));
                }
            }
        }
        if again || !self.walk.is_current() {
            self.walk_again(root);
        }
    }

    /// Whether the watch reports all changes of the file at `path` from now on. Must be called before the
    /// file is read, or with `exists` false if it is missing.
    pub(super) fn tells_of(&mut self, path: &Path, exists: bool) -> bool {
        let (Some(watch), Some(folder)) = (&mut self.watch, path.parent()) else { return false };
        let own = self.walk.owns(folder);
        if !exists {
            // What a link leads to may come elsewhere.
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

    /// Watches the tree from the next look on.
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
        self.news.everything = true;
        self.walk_again(root);
    }

    fn walk_again(&mut self, root: Option<&Path>) {
        let Some(root) = root else { return };
        self.news.walked = true;
        for _ in 0..WALKS {
            let Some(watch) = &mut self.watch else { break };
            let walk = ProjectWalk::watched(root, watch);
            if !walk.is_told {
                self.refusal = watch.refusal();
                self.watch = None;
                break;
            }
            self.unsure = walk.is_new;
            self.walk = walk;
            if !self.unsure {
                return;
            }
        }
        if self.watch.is_none() {
            self.news.everything = true;
            self.walk = ProjectWalk::new(root);
        }
    }

    /// Records a change. True if another walk is needed.
    fn take(&mut self, root: Option<&Path>, change: Change) -> bool {
        let decides = self.walk.decides(&change.path) || self.walk.decides_in(change.path.parent());
        self.news.changed.insert(change.path.clone());
        let again = match change.what {
            ChangeKind::Contents => decides || self.walk.owns(&change.path),
            ChangeKind::Entry => decides || !self.takes_entry(root, &change),
            ChangeKind::Folder => {
                if let Some(watch) = &mut self.watch {
                    watch.forget(&change.path);
                }
                self.news.folders.insert(change.path.clone());
                true
            }
        };
        if change.what != ChangeKind::Contents && !self.fresh.iter().any(|(known, _)| *known == change) {
            self.fresh.push((change, Instant::now()));
        }
        again
    }

    /// Adds a file that came to those that the walk found, or removes one that went. False if only a walk can tell.
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

    /// Whether the walk found at the path what is there now.
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
