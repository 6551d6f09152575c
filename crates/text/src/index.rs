//! The index of one project: opening, building and updating it, and watching the tree for changes.

use crate::cache::TextCache;
use crate::control::IndexControl;
use crate::error::TextError;
use crate::language::Language;
use crate::store::manifest::{FilePlace, IndexManifest, Skipped};
use crate::store::pages::PageError;
use crate::store::snapshot::TextSnapshot;
use crate::tree::{Root, Tree};
use crate::update::{PRIVATE_SEGMENT, Update};
use crate::watch::{Changed, TreeWatch};
use parking_lot::Mutex;
use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use steelbank_watch::{SharedQueue, WatchRefusal};

/// The interval at which an update that waits for another writer checks for cancellation.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// If the watch reports at most this many changed files, only this process's snapshot is updated.
/// Otherwise, the index on disk is updated.
const FEW_CHANGES: usize = 64;
/// If the segments that are private to this process cover more text than this, in bytes, the index
/// on disk is updated.
const MAX_OPEN_BYTES: u64 = 4 << 20;

/// Whether queries update the index first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Queries update the index first.
    Automatic,
    /// Only [`TextIndex::build`] updates the index; queries fail if the index is missing, damaged
    /// or stale.
    Manual,
}

/// The result of [`TextIndex::status`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeStatus {
    /// The index matches the files.
    Fresh,
    /// The index differs from the files: the number of files that were changed, added or removed.
    Stale(usize),
    /// There is no usable index, for this reason.
    Missing(String),
}

/// The result of [`TextIndex::build`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Built {
    /// The number of files that the index now covers.
    pub indexed: usize,
    /// The number of files read and analysed by this build.
    pub analysed: usize,
    /// The files that were skipped, with the reason.
    pub skipped: Vec<(PathBuf, Skipped)>,
    /// Paths that could not be listed, paths that were skipped although no ignore file matches, and
    /// ignore files that were not read, with the reason.
    pub failures: Vec<(PathBuf, String)>,
    /// The size of the indexed text, in bytes.
    pub text_bytes: u64,
    /// The size of the index, in bytes.
    pub index_bytes: u64,
    /// The duration of the build.
    pub duration: Duration,
}

/// The text index of one project.
///
/// It can be shared between threads, and queries do not block each other. Several processes can use
/// one index at once; only writers take a lock.
#[derive(Debug)]
pub struct TextIndex {
    tree: Arc<Tree>,
    folder: PathBuf,
    freshness: Freshness,
    current: Mutex<Option<Arc<TextSnapshot>>>,
    writing: Mutex<()>,
    queue: SharedQueue,
    watch: Mutex<Option<TreeWatch>>,
    /// The reason why the tree, or a folder in it, is not watched. Stored apart from `watch`, so
    /// that reading it never waits for an update.
    unwatched: Mutex<Option<WatchRefusal>>,
    cache: TextCache,
}

impl TextIndex {
    /// Opens the project at `root`. Its index is stored in a separate folder under `cache`. No
    /// index is read yet.
    ///
    /// # Errors
    ///
    /// If the root is not a readable folder, or the cache folder cannot be used.
    pub fn open(root: &Path, cache: &Path, freshness: Freshness) -> Result<TextIndex, TextError> {
        let tree = Tree::open(root)?;
        steelbank_cache::claim(cache)?;
        let name = format!("{:016x}", crate::store::codec::checksum(crate::tree::bytes(tree.path())));
        Ok(TextIndex {
            folder: cache.join("text").join(name),
            tree: Arc::new(tree),
            freshness,
            current: Mutex::new(None),
            writing: Mutex::new(()),
            queue: SharedQueue::default(),
            watch: Mutex::new(None),
            unwatched: Mutex::new(None),
            cache: TextCache::default(),
        })
    }

    /// Returns the canonical path of the root.
    pub fn root(&self) -> &Path {
        self.tree.path()
    }

    /// Returns the folder of the index.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn cache(&self) -> &TextCache {
        &self.cache
    }

    /// Starts watching the tree, so that queries need not check every file for changes. Returns
    /// `false` if the tree cannot be watched. Each query then checks every file.
    pub fn watch(&self) -> bool {
        let mut watch = self.watch.lock();
        watch.is_some() || self.restart_watch(&mut watch)
    }

    /// Returns the queue of the index's watch, so that other watches of the tree can share it.
    pub fn queue(&self) -> SharedQueue {
        self.queue.clone()
    }

    fn restart_watch(&self, watch: &mut Option<TreeWatch>) -> bool {
        let outcome = TreeWatch::new(self.tree.path(), self.queue.clone());
        *self.unwatched.lock() = outcome.as_ref().err().copied();
        *watch = outcome.ok();
        watch.is_some()
    }

    /// Returns the reason why the tree, or a folder in it, is not watched although
    /// [`TextIndex::watch`] was called. Each query then checks every file. `None` if neither that
    /// call nor a query has found a reason.
    pub fn unwatched(&self) -> Option<WatchRefusal> {
        *self.unwatched.lock()
    }

    /// Waits until something in a watched tree changes, or until the timeout. Returns whether
    /// something may have changed. If the tree is not watched, waits for the timeout and returns
    /// `true`.
    pub fn wait_for_change(&self, timeout: Duration) -> bool {
        let begun = Instant::now();
        loop {
            let left = timeout.saturating_sub(begun.elapsed());
            let (waiter, at_most) = {
                let mut watch = self.watch.lock();
                let Some(watch) = watch.as_mut() else { break };
                if watch.is_dirty(&self.tree) {
                    return true;
                }
                watch.waiter()
            };
            if left.is_zero() {
                return false;
            }
            waiter.wait(left.min(at_most));
        }
        std::thread::sleep(timeout.saturating_sub(begun.elapsed()));
        true
    }

    /// Returns the state of the index on disk without changing it.
    ///
    /// # Errors
    ///
    /// If the root cannot be opened, for example because it has been removed, or if the operation
    /// is cancelled.
    pub fn status(&self, control: &IndexControl<'_>) -> Result<TreeStatus, TextError> {
        self.refresh_root()?;
        let snapshot = match self.load() {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => return Ok(TreeStatus::Missing("the project is not indexed".to_owned())),
            Err(PageError::Damaged) => {
                return Ok(TreeStatus::Missing("the index is damaged or has another version".to_owned()));
            }
            Err(PageError::Io(error)) => {
                return Ok(TreeStatus::Missing(format!("cannot read the index: {error}")));
            }
        };
        let (_, changed) = self.generation();
        Ok(match snapshot.changes(&self.tree, &changed, control)?.count() {
            0 => TreeStatus::Fresh,
            changed => TreeStatus::Stale(changed),
        })
    }

    /// Builds or updates the index. Rebuilds it from scratch with `force`, or if the last build had
    /// other `languages`. If `languages` is not empty, the index covers only these languages until
    /// the next build.
    ///
    /// # Errors
    ///
    /// If the root cannot be opened, if the index cannot be written or read back, or if the
    /// operation is cancelled.
    pub fn build(
        &self,
        force: bool,
        languages: &[Language],
        control: &IndexControl<'_>,
    ) -> Result<Built, TextError> {
        let start = Instant::now();
        let (snapshot, analysed) = self.update(control, |manifest| {
            if force || manifest.languages != languages {
                *manifest = IndexManifest { generation: manifest.generation, ..IndexManifest::default() };
            }
            manifest.languages = languages.to_vec();
        })?;
        let manifest = snapshot.manifest();
        let mut built = Built { analysed, failures: manifest.failures.clone(), ..Built::default() };
        for file in &manifest.files {
            match file.place {
                FilePlace::Segment(..) => {
                    built.indexed += 1;
                    built.text_bytes += file.size;
                }
                FilePlace::Skipped(reason) => built.skipped.push((file.path.to_path_buf(), reason)),
            }
        }
        built.index_bytes = self.size();
        built.duration = start.elapsed();
        Ok(built)
    }

    fn size(&self) -> u64 {
        let entries = std::fs::read_dir(&self.folder).into_iter().flatten().flatten();
        entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
    }

    /// Returns the snapshot for a query. Updates the index first if that is necessary and allowed.
    /// Otherwise, fails if the index is missing, stale, damaged or unreadable.
    pub(crate) fn snapshot(&self, control: &IndexControl<'_>) -> Result<Arc<TextSnapshot>, TextError> {
        self.refresh_root()?;
        let known = self.current.lock().clone();
        if let Some(snapshot) = &known
            && self.watch.lock().as_mut().is_some_and(|watch| !watch.is_dirty(&self.tree))
        {
            return Ok(Arc::clone(snapshot));
        }
        if let Some(snapshot) = known.as_ref().filter(|_| self.freshness == Freshness::Automatic)
            && let Some(changed) = self.apply_few_changes(snapshot, control)
        {
            return Ok(changed);
        }
        let loaded = match known {
            Some(snapshot) if self.freshness == Freshness::Automatic => Ok(Some(snapshot)),
            _ => self.load(),
        };
        let missing = || TextError::Missing { root: self.root().to_owned() };
        match (loaded, self.freshness) {
            (Ok(Some(snapshot)), freshness) => {
                let (generation, changed) = self.generation();
                let changes = snapshot.changes(&self.tree, &changed, control)?;
                match (changes.count(), freshness) {
                    // After a walk, update the index even if no file changed: folders may have been
                    // added or removed, so the set of folders to watch may differ.
                    (0, _) if !changes.walk || freshness == Freshness::Manual => {
                        *self.current.lock() = Some(Arc::clone(&snapshot));
                        self.mark_covered(generation, &snapshot);
                        Ok(snapshot)
                    }
                    (changed, Freshness::Manual) => {
                        Err(TextError::Stale { root: self.root().to_owned(), changed })
                    }
                    (_, Freshness::Automatic) => Ok(self.update(control, |_| {})?.0),
                }
            }
            (_, Freshness::Automatic) => Ok(self.update(control, |_| {})?.0),
            (Ok(None), Freshness::Manual) => Err(missing()),
            (Err(PageError::Damaged), Freshness::Manual) => {
                Err(TextError::Damaged { path: self.folder.clone() })
            }
            (Err(PageError::Io(source)), Freshness::Manual) => {
                Err(TextError::Read { path: self.folder.clone(), source })
            }
        }
    }

    /// Updates `known` if the watch reports only a few changed files. Reads only these files, and
    /// stores the result in this process only. `None` if that is not possible.
    fn apply_few_changes(
        &self,
        known: &Arc<TextSnapshot>,
        control: &IndexControl<'_>,
    ) -> Option<Arc<TextSnapshot>> {
        let _writing = self.writing.try_lock()?;
        let mut watch = self.watch.lock();
        let watch = watch.as_mut()?;
        let (generation, files) = watch.few_changes(&self.tree, FEW_CHANGES)?;
        let manifest = known.manifest();
        let open: u64 = manifest
            .segments
            .iter()
            .filter(|(name, _)| *name == PRIVATE_SEGMENT)
            .map(|(_, bytes)| bytes)
            .sum();
        let is_reported = |path: &PathBuf| match self.tree.admits(path, manifest) {
            Some(is_found) => !is_found || watch.reports(path),
            None => false,
        };
        if open > MAX_OPEN_BYTES
            || !files.iter().filter(|path| self.tree.stamp(path).is_some()).all(is_reported)
        {
            return None;
        }
        let changed = Changed::default();
        let update = Update::new(&self.tree, &self.folder, &changed, control);
        let snapshot = update.apply(known, files)?;
        *self.current.lock() = Some(Arc::clone(&snapshot));
        watch.mark_covered_few(generation);
        Some(snapshot)
    }

    /// Reopens the root if another folder has replaced it, or if code in this process closed the
    /// root's descriptor. Then also restarts the watch: the old watch does not cover the new
    /// folder, or its descriptor may have been closed, too.
    fn refresh_root(&self) -> Result<(), TextError> {
        let root = self.tree.refresh()?;
        if root != Root::Same {
            let mut watch = self.watch.lock();
            if watch.is_some() {
                self.restart_watch(&mut watch);
            }
        }
        Ok(())
    }

    /// Discards the snapshot in memory, because it is damaged or unreadable, or because a file
    /// changed during a query. With `damaged`, also removes the manifest on disk if queries may
    /// update the index.
    pub(crate) fn invalidate(&self, damaged: bool) {
        *self.current.lock() = None;
        if damaged && self.freshness == Freshness::Automatic {
            // Without the manifest, the next query rebuilds the index. If the file cannot be
            // removed, queries report the damage.
            let _ = std::fs::remove_file(self.manifest_path());
        }
        if let Some(watch) = self.watch.lock().as_mut() {
            watch.mark();
        }
    }

    /// Converts a page error to the error for a damaged or unreadable index.
    pub(crate) fn explain(&self, error: PageError) -> TextError {
        match error {
            PageError::Damaged => TextError::Damaged { path: self.folder.clone() },
            PageError::Io(source) => TextError::Read { path: self.folder.clone(), source },
        }
    }

    fn manifest_path(&self) -> PathBuf {
        self.folder.join("manifest")
    }

    /// Opens the index on disk. `None` if there is none. Retries if a segment cannot be opened:
    /// another process may have replaced the segments meanwhile.
    fn load(&self) -> Result<Option<Arc<TextSnapshot>>, PageError> {
        let mut last = PageError::Damaged;
        for _ in 0..5 {
            let manifest = match IndexManifest::read(&self.manifest_path()) {
                Ok(manifest) => manifest,
                Err(PageError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
            if manifest.root != self.tree.path() {
                return Err(PageError::Damaged);
            }
            match TextSnapshot::open(manifest, &self.folder) {
                Ok(snapshot) => return Ok(Some(Arc::new(snapshot))),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Updates the index after applying `prepare` to the manifest. Returns the snapshot and the
    /// number of files analysed.
    fn update(
        &self,
        control: &IndexControl<'_>,
        prepare: impl FnOnce(&mut IndexManifest),
    ) -> Result<(Arc<TextSnapshot>, usize), TextError> {
        let _writing = loop {
            control.check()?;
            if let Some(guard) = self.writing.try_lock_for(TRY_AGAIN) {
                break guard;
            }
        };
        self.refresh_root()?;
        let failed =
            |source| TextError::Write { root: self.root().to_owned(), path: self.folder.clone(), source };
        steelbank_cache::create_folder(&self.folder).map_err(failed)?;
        let lock = steelbank_cache::create_file(&self.folder.join("lock")).map_err(failed)?;
        loop {
            match lock.try_lock() {
                Ok(()) => break,
                Err(TryLockError::WouldBlock) => {
                    control.check()?;
                    std::thread::sleep(TRY_AGAIN);
                }
                Err(TryLockError::Error(error)) => return Err(failed(error)),
            }
        }
        // Another process may just have updated the index, so load it again first.
        let mut manifest = self.load().ok().flatten().map(|old| old.manifest().clone()).unwrap_or_default();
        prepare(&mut manifest);
        manifest.root = self.tree.path().to_owned();
        let (generation, changed) = self.generation();
        let update = Update::new(&self.tree, &self.folder, &changed, control);
        let (snapshot, analysed) = update.run(manifest)?;
        let snapshot = Arc::new(snapshot);
        *self.current.lock() = Some(Arc::clone(&snapshot));
        self.mark_covered(generation, &snapshot);
        Ok((snapshot, analysed))
    }

    /// Returns the watch's generation, or `None` without a watch, and the changes that the watch
    /// has recorded.
    fn generation(&self) -> (Option<u64>, Changed) {
        match self.watch.lock().as_mut() {
            Some(watch) => {
                let (generation, changed) = watch.generation(&self.tree);
                (Some(generation), changed)
            }
            None => (None, Changed::default()),
        }
    }

    /// Records in the watch that the index covers everything up to `generation`, and watches the
    /// files and folders of `snapshot`. Updates `unwatched`. No effect without a watch.
    fn mark_covered(&self, generation: Option<u64>, snapshot: &TextSnapshot) {
        if let (Some(watch), Some(generation)) = (self.watch.lock().as_mut(), generation) {
            watch.mark_covered(generation, snapshot.manifest(), &self.tree);
            *self.unwatched.lock() = watch.refusal();
        }
    }
}
