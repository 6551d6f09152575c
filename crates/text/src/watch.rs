//! Watches the tree, so that a query need not check every file to know that nothing has changed.

use crate::store::manifest::IndexManifest;
use crate::tree::Tree;
use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use steelbank_tree::{DECIDING_ABOVE, IGNORE_FILES};
use steelbank_watch::{ChangeKind, Changes, SharedQueue, Waiter, WatchRefusal, Watched};

/// Deletions are checked again for this long, because kernels from 5.3 to 5.16 report them a moment
/// before they happen.
const PREMATURE: Duration = Duration::from_millis(50);
/// The interval at which a wait checks for changes that the kernel does not report.
const UNREPORTED_INTERVAL: Duration = Duration::from_secs(1);

/// A watch on the files that the index covers. Ignored folders are not watched.
#[derive(Debug)]
pub(crate) struct TreeWatch {
    queue: SharedQueue,
    watch: steelbank_watch::Watch,
    root: PathBuf,
    /// The generation: a counter that increases with every batch of changes and with every
    /// [`TreeWatch::mark`].
    seen: u64,
    /// The value of `seen` up to which the index covers all changes. `None` if the index may also
    /// be out of date for another reason than the recorded changes.
    covered: Option<u64>,
    /// The changes that the index does not cover.
    changed: Changed,
    /// Recently added or removed entries. They are checked again, because deletions may have been
    /// reported before they happened.
    fresh: Vec<(PathBuf, Instant)>,
    /// Files and folders with changes that the kernel does not report, each with its signature in
    /// the index (`None` if it did not exist).
    unwatched: HashMap<PathBuf, Option<u64>>,
    /// Whether there are other repositories in the tree. System definitions decide whether these
    /// belong to the project.
    has_repositories: bool,
    /// The reason why a folder of the tree is not watched.
    refusal: Option<WatchRefusal>,
}

/// The changes that the watch has recorded. They count even if the files' signatures match.
#[derive(Debug, Clone, Default)]
pub(crate) struct Changed {
    /// Files and folders that were changed, added or removed, relative to the root.
    pub(crate) files: HashSet<PathBuf>,
    /// Whether files were added or removed; each of them is in `files`.
    pub(crate) entries: bool,
    /// Whether a walk is necessary because the set of files or ignored files may differ.
    pub(crate) walk: bool,
}

impl TreeWatch {
    /// Starts watching `root`.
    ///
    /// # Errors
    ///
    /// If the system cannot watch files.
    pub(crate) fn new(root: &Path, queue: SharedQueue) -> Result<TreeWatch, WatchRefusal> {
        Ok(TreeWatch {
            watch: queue.watch().map_err(|error| WatchRefusal::of(&error))?.noting_names(&DECIDING_ABOVE),
            queue,
            root: root.to_owned(),
            seen: 0,
            covered: None,
            changed: Changed::default(),
            fresh: Vec::new(),
            unwatched: HashMap::new(),
            has_repositories: true,
            refusal: None,
        })
    }

    /// Reads all pending events, checks the files and folders with unreported changes, and records
    /// what changed.
    fn refresh(&mut self, tree: &Tree) {
        match self.watch.changes() {
            Changes::Nothing => {}
            Changes::Some(changes) => {
                self.seen += 1;
                for change in changes {
                    self.record(&change);
                }
            }
            Changes::Everything => {
                self.mark();
                // If no new watch can be created, the old one reports `Everything` each time.
                if let Ok(watch) = self.queue.watch() {
                    self.watch = watch.noting_names(&DECIDING_ABOVE);
                }
            }
        }
        let other = self.unwatched.iter().filter(|(path, signature)| tree.signature(path) != **signature);
        let other: Vec<PathBuf> = other.map(|(path, _)| path.clone()).collect();
        if !other.is_empty() {
            self.changed.walk = true;
            self.changed.files.extend(other);
            self.mark();
        }
    }

    fn record(&mut self, change: &steelbank_watch::Change) {
        // Changes of these files affect which folders are repositories or contain dependencies that
        // a tool installed.
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
        // A path outside the root is a folder above it, or an entry of such a folder that affects
        // which files are ignored.
        self.changed.walk |= change.what == ChangeKind::Folder || path.is_none() || decides(&change.path);
        self.changed.files.extend(path);
    }

    /// Makes the index count as out of date, for a reason other than a reported change.
    pub(crate) fn mark(&mut self) {
        self.seen += 1;
        self.covered = None;
    }

    /// Returns whether something may have changed since the index was updated.
    pub(crate) fn is_dirty(&mut self, tree: &Tree) -> bool {
        self.refresh(tree);
        self.covered != Some(self.seen) || !self.fresh.is_empty()
    }

    /// Returns the only files that may have changed since the last update, with the current
    /// generation. `None` if more than `most` files or any other files may have changed.
    pub(crate) fn few_changes(&mut self, tree: &Tree, most: usize) -> Option<(u64, Vec<PathBuf>)> {
        self.refresh(tree);
        let fresh = self.fresh.iter().map(|(path, _)| path.clone());
        let files: HashSet<PathBuf> = self.changed.files.iter().cloned().chain(fresh).collect();
        let few = self.covered.is_some() && !self.changed.walk && files.len() <= most;
        few.then(|| (self.seen, files.into_iter().collect()))
    }

    /// Watches the file at `path`. Returns whether the kernel reports all of its changes. Must be
    /// called before the file is read.
    pub(crate) fn reports(&mut self, path: &Path) -> bool {
        self.watch.file(&self.root.join(path))
    }

    /// Records that the index covers the changes that [`TreeWatch::few_changes`] returned with
    /// `generation`.
    pub(crate) fn mark_covered_few(&mut self, generation: u64) {
        self.covered = Some(generation);
        self.fresh.retain(|(_, then)| then.elapsed() < PREMATURE);
        if generation == self.seen {
            self.changed = Changed::default();
        }
    }

    /// Returns the current generation, to be passed to [`TreeWatch::mark_covered`] later, and the
    /// recorded changes.
    pub(crate) fn generation(&mut self, tree: &Tree) -> (u64, Changed) {
        self.refresh(tree);
        (self.seen, self.changed.clone())
    }

    /// Records that the index covers all changes up to `generation`, and watches everything listed
    /// in `manifest`. A folder that was not watched before may have changed before its watch
    /// started, so the index does not count as up to date yet.
    pub(crate) fn mark_covered(&mut self, generation: u64, manifest: &IndexManifest, tree: &Tree) {
        let mut unwatched = tree.outside(&manifest.watched);
        self.has_repositories = tree.has_repositories(&manifest.watched);
        // If all folders above the root are watched, new files in them are reported.
        if self.watch.above(&self.root) {
            unwatched.retain(|path, signature| {
                let is_above =
                    path.is_absolute() && path.parent().is_some_and(|above| self.root.starts_with(above));
                !is_above || signature.is_some() || tree.signature(path).is_some()
            });
        }
        let mut covered = !unwatched.keys().any(|path| tree.is_recent(path));
        self.refusal = None;
        let within = manifest.watched.iter().filter(|(path, _)| !path.is_absolute());
        for (path, signature) in within {
            let full = self.root.join(path);
            match self.watch.folder(&full) {
                Watched::Already => {}
                Watched::New => covered = false,
                // The path is an ignore file, or a folder that cannot be watched.
                Watched::No if full.is_dir() => {
                    covered = false;
                    self.refusal = self.refusal.or(self.watch.refusal());
                }
                Watched::No if self.watch.file(&full) => {}
                Watched::No => drop(unwatched.insert(path.clone(), Some(*signature))),
            }
        }
        for file in &manifest.files {
            let full = self.root.join(&file.path);
            let told = self.watch.is_file_watched(&full)
                && !self.changed.files.contains(&*file.path)
                && !self.unwatched.contains_key(&*file.path);
            if !told && !self.watch.file(&full) {
                covered &= !file.recent;
                unwatched.insert(file.path.to_path_buf(), Some(file.signature));
            }
        }
        self.unwatched = unwatched;
        self.fresh.retain(|(_, then)| then.elapsed() < PREMATURE);
        self.covered = covered.then_some(generation);
        if self.covered == Some(self.seen) {
            self.changed = Changed::default();
        }
    }

    /// Returns the reason why a folder of the tree is not watched. Then each query must check all
    /// files.
    pub(crate) fn refusal(&self) -> Option<WatchRefusal> {
        self.refusal
    }

    /// Returns a handle with which a thread can wait for a change, and the maximum wait. After
    /// that, the changes that the kernel does not report must be checked.
    pub(crate) fn waiter(&self) -> (Waiter, Duration) {
        (self.watch.waiter(), if self.unwatched.is_empty() { Duration::MAX } else { UNREPORTED_INTERVAL })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn refusal_is_reported_until_folder_is_watched() {
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
            watch.mark_covered(generation, &manifest, &tree);
            assert_eq!(watch.refusal(), expected);
        }
    }

    /// The kernel never reports changes through a link to a folder, so the test uses such a link as
    /// an unwatchable folder.
    #[test]
    fn unwatchable_folder_never_counts_as_watched() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        fs::create_dir(root.join("seen")).unwrap();
        std::os::unix::fs::symlink("seen", root.join("unseen")).unwrap();
        let tree = Tree::open(&root).unwrap();
        let covered = |watch: &mut TreeWatch, folders: &[&str]| {
            let watched = folders.iter().map(|path| (PathBuf::from(path), 0)).collect();
            let manifest = IndexManifest { root: root.clone(), watched, ..IndexManifest::default() };
            let (generation, _) = watch.generation(&tree);
            watch.mark_covered(generation, &manifest, &tree);
            !watch.is_dirty(&tree)
        };
        let mut watch = TreeWatch::new(&root, SharedQueue::default()).unwrap();
        // A folder may have changed before it was watched.
        assert!(!covered(&mut watch, &["", "seen"]));
        assert!(covered(&mut watch, &["", "seen"]));
        for question in 1..4 {
            assert!(!covered(&mut watch, &["", "seen", "unseen"]), "query {question}");
        }
    }
}
