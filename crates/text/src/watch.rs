//! Watching the tree, so that a question need not look at every file to know that nothing changed.

use crate::store::manifest::IndexManifest;
use crate::tree::Tree;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use steelbank_tree::{DECIDING_ABOVE, IGNORE_FILES};
use steelbank_watch::{ChangeKind, Changes, SharedQueue, Waiter, WatchRefusal, Watched};

/// Recheck deletions for this long: kernels from 5.3 to 5.16 tell of one a moment before it happens.
const PREMATURE: Duration = Duration::from_millis(50);
/// The interval at which a wait checks what the kernel does not report.
const UNREPORTED_INTERVAL: Duration = Duration::from_secs(1);

/// A watch on the files that the index covers. Ignored folders are not watched.
#[derive(Debug)]
pub(crate) struct TreeWatch {
    queue: SharedQueue,
    watch: steelbank_watch::Watch,
    root: PathBuf,
    /// Goes up with every change.
    seen: u64,
    /// The generation up to which the index is known to be up to date.
    settled: Option<u64>,
    /// The changes since then.
    changed: Changed,
    /// The entries that came or went a moment ago, which premature events may still contradict.
    fresh: Vec<(PathBuf, Instant)>,
    /// Files and folders whose changes the kernel does not report, each with its signature as the index knows it.
    looked_at: HashMap<PathBuf, Option<u64>>,
    /// Whether there are other repositories in the tree: definitions of systems decide about them.
    has_repositories: bool,
    /// Why a folder of the tree is not watched.
    refusal: Option<WatchRefusal>,
}

/// The changes that the watch knows of, whatever the files' signatures say.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changed {
    /// Files that were written to, relative to the root.
    pub(crate) files: HashSet<PathBuf>,
    /// Whether files came or went, each of them in `files`.
    pub(crate) entries: bool,
    /// Whether there may be other files, or others may be ignored.
    pub(crate) walk: bool,
}

impl TreeWatch {
    /// # Errors
    /// This system cannot watch.
    pub(crate) fn new(root: &Path, queue: SharedQueue) -> Result<TreeWatch, WatchRefusal> {
        Ok(TreeWatch {
            watch: queue.watch().map_err(|error| WatchRefusal::of(&error))?.noting(&DECIDING_ABOVE),
            queue,
            root: root.to_owned(),
            seen: 0,
            settled: None,
            changed: Changed::default(),
            fresh: Vec::new(),
            looked_at: HashMap::new(),
            has_repositories: true,
            refusal: None,
        })
    }

    /// Reads all events until now, and records what changed.
    fn look(&mut self, tree: &Tree) {
        match self.watch.changes() {
            Changes::Nothing => {}
            Changes::Some(changes) => {
                self.seen += 1;
                for change in changes {
                    self.note(&change);
                }
            }
            Changes::Everything => {
                self.mark();
                // If no new watch can be made, the old one reports `Everything` each time.
                if let Ok(watch) = self.queue.watch() {
                    self.watch = watch.noting(&DECIDING_ABOVE);
                }
            }
        }
        let other = self.looked_at.iter().filter(|(path, signature)| tree.signature(path) != **signature);
        let other: Vec<PathBuf> = other.map(|(path, _)| path.clone()).collect();
        if !other.is_empty() {
            self.changed.walk = true;
            self.changed.files.extend(other);
            self.mark();
        }
    }

    fn note(&mut self, change: &steelbank_watch::Change) {
        // Some names decide what is vendored.
        const DECIDING: [&str; 4] = [".git", "systems.csv", "ocicl.csv", "setup.lisp"];
        let decides = |path: &Path| {
            self.has_repositories && steelbank_tree::defines_systems(path)
                || IGNORE_FILES.iter().chain(&DECIDING).any(|name| path.file_name() == Some(name.as_ref()))
        };
        if change.what == ChangeKind::Folder {
            self.watch.forget(&change.path);
        }
        let path = change.path.strip_prefix(&self.root).ok().map(Path::to_owned);
        if change.what != ChangeKind::Contents {
            self.fresh.push((path.clone().unwrap_or_default(), Instant::now()));
        }
        self.changed.entries |= change.what == ChangeKind::Entry;
        // What happens above the root is known as a change of the folder itself.
        self.changed.walk |= change.what == ChangeKind::Folder || path.is_none() || decides(&change.path);
        self.changed.files.extend(path);
    }

    /// Records a change that the kernel did not report.
    pub(crate) fn mark(&mut self) {
        self.seen += 1;
        self.settled = None;
    }

    /// Whether something may have changed since the index was brought up to date.
    pub(crate) fn is_dirty(&mut self, tree: &Tree) -> bool {
        self.look(tree);
        self.settled != Some(self.seen) || !self.fresh.is_empty()
    }

    /// Returns the files that alone may be other ones than when the index was up to date last, with the number of what
    /// happened until now. `None` if anything may be.
    pub(crate) fn few_changes(&mut self, tree: &Tree, most: usize) -> Option<(u64, Vec<PathBuf>)> {
        self.look(tree);
        let fresh = self.fresh.iter().map(|(path, _)| path.clone());
        let files: HashSet<PathBuf> = self.changed.files.iter().cloned().chain(fresh).collect();
        let few = self.settled.is_some() && !self.changed.walk && files.len() <= most;
        few.then(|| (self.seen, files.into_iter().collect()))
    }

    /// Whether the kernel reports all changes of the file at `path`. To be called before it is read.
    pub(crate) fn tells_of(&mut self, path: &Path) -> bool {
        self.watch.file(&self.root.join(path))
    }

    /// Records that the index covers the changes that [`TreeWatch::few_changes`] gave with `generation`.
    pub(crate) fn settle_few(&mut self, generation: u64) {
        self.settled = Some(generation);
        self.fresh.retain(|(_, then)| then.elapsed() < PREMATURE);
        if generation == self.seen {
            self.changed = Changed::default();
        }
    }

    /// What happened until now: a number to be passed to [`TreeWatch::settle`] later, and what is known to have
    /// changed.
    pub(crate) fn generation(&mut self, tree: &Tree) -> (u64, Changed) {
        self.look(tree);
        (self.seen, self.changed.clone())
    }

    /// Records that the index covers all that happened up to `generation`. Everything that `manifest` says of the tree
    /// is watched from now on; a folder that was not watched before may have changed before it was, so the index is not
    /// yet called up to date.
    pub(crate) fn settle(&mut self, generation: u64, manifest: &IndexManifest, tree: &Tree) {
        let mut looked_at = tree.outside(&manifest.watched);
        self.has_repositories = tree.has_repositories(&manifest.watched);
        // What comes above the root is told of, if all folders there are watched.
        if self.watch.above(&self.root) {
            looked_at.retain(|path, signature| {
                let is_above =
                    path.is_absolute() && path.parent().is_some_and(|above| self.root.starts_with(above));
                !is_above || signature.is_some() || tree.signature(path).is_some()
            });
        }
        let mut settled = !looked_at.keys().any(|path| tree.is_recent(path));
        self.refusal = None;
        let within = manifest.watched.iter().filter(|(path, _)| !path.is_absolute());
        for (path, signature) in within {
            let full = self.root.join(path);
            match self.watch.folder(&full) {
                Watched::Already => {}
                Watched::New => settled = false,
                // One of the files that say what to ignore, or a folder that cannot be watched.
                Watched::No if full.is_dir() => {
                    settled = false;
                    self.refusal = self.refusal.or(self.watch.refusal());
                }
                Watched::No if self.watch.file(&full) => {}
                Watched::No => drop(looked_at.insert(path.clone(), Some(*signature))),
            }
        }
        for file in &manifest.files {
            let full = self.root.join(&file.path);
            let told = self.watch.is_file_watched(&full)
                && !self.changed.files.contains(&*file.path)
                && !self.looked_at.contains_key(&*file.path);
            if !told && !self.watch.file(&full) {
                settled &= !file.recent;
                looked_at.insert(file.path.to_path_buf(), Some(file.signature));
            }
        }
        self.looked_at = looked_at;
        self.fresh.retain(|(_, then)| then.elapsed() < PREMATURE);
        self.settled = settled.then_some(generation);
        if self.settled == Some(self.seen) {
            self.changed = Changed::default();
        }
    }

    /// Why a folder of the tree is not watched, so that the index never counts as up to date without a look at all
    /// files.
    pub(crate) fn refusal(&self) -> Option<WatchRefusal> {
        self.refusal
    }

    /// The handle with which a thread can wait for a change, and the longest wait: after it, what the kernel does not
    /// report is to be checked.
    pub(crate) fn waiter(&self) -> (Waiter, Duration) {
        (self.watch.waiter(), if self.looked_at.is_empty() { Duration::MAX } else { UNREPORTED_INTERVAL })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn why_a_folder_is_not_watched_is_kept() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        for (root, expected) in
            [(root.as_path(), None), (Path::new("/proc/sys/fs"), Some(WatchRefusal::FileSystem))]
        {
            let tree = Tree::open(root).unwrap();
            let manifest = IndexManifest {
                root: root.into(),
                watched: vec![("".into(), 0)],
                ..IndexManifest::default()
            };
            let mut watch = TreeWatch::new(root, SharedQueue::default()).unwrap();
            let (generation, _) = watch.generation(&tree);
            watch.settle(generation, &manifest, &tree);
            assert_eq!(watch.refusal(), expected);
        }
    }

    /// A link to a folder stands for one that the kernel does not tell of, whatever file system the test runs on.
    #[test]
    fn a_folder_that_cannot_be_watched_never_counts_as_watched() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        fs::create_dir(root.join("seen")).unwrap();
        std::os::unix::fs::symlink("seen", root.join("unseen")).unwrap();
        let tree = Tree::open(&root).unwrap();
        let settled = |watch: &mut TreeWatch, folders: &[&str]| {
            let watched = folders.iter().map(|path| (PathBuf::from(path), 0)).collect();
            let manifest = IndexManifest { root: root.clone(), watched, ..IndexManifest::default() };
            let (generation, _) = watch.generation(&tree);
            watch.settle(generation, &manifest, &tree);
            !watch.is_dirty(&tree)
        };
        let mut watch = TreeWatch::new(&root, SharedQueue::default()).unwrap();
        // What is watched from now on may have changed before.
        assert!(!settled(&mut watch, &["", "seen"]));
        assert!(settled(&mut watch, &["", "seen"]));
        for question in 1..4 {
            assert!(!settled(&mut watch, &["", "seen", "unseen"]), "at question {question}");
        }
    }
}
