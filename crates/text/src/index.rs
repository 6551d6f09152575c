//! The index of one project: opened, built, kept up to date.

use crate::cache::TextCache;
use crate::control::IndexControl;
use crate::error::TextError;
use crate::language::Language;
use crate::store::manifest::{FilePlace, IndexManifest, Skipped};
use crate::store::pages::PageError;
use crate::store::snapshot::TextSnapshot;
use crate::tree::{Root, Tree};
use crate::update::{OPEN_SEGMENT, Update};
use crate::watch::{Changed, TreeWatch};
use parking_lot::Mutex;
use std::fs::TryLockError;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};
use steelbank_watch::{SharedQueue, WatchRefusal};

/// How often a question that waits for another's build checks for its cancellation.
const TRY_AGAIN: Duration = Duration::from_millis(20);

/// With more changes than this, the index on disk is brought up to date.
const FEW_CHANGES: usize = 64;
/// With more bytes of text in segments of this process alone than this, too.
const MOST_OPEN_BYTES: u64 = 4 << 20;

/// Whether questions bring the index up to date first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Freshness {
    /// Questions bring the index up to date.
    Automatic,
    /// Only [`TextIndex::build`] does; questions fail when the index is missing or stale.
    Manual,
}

/// The answer of [`TextIndex::status`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeStatus {
    /// The index covers the files as they are.
    Fresh,
    /// So many files were changed, added or removed.
    Stale(usize),
    /// There is no index, for this reason.
    Missing(String),
}

/// The result of [`TextIndex::build`].
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Built {
    /// Files that the index now covers.
    pub indexed: usize,
    /// Files read and analysed this time.
    pub analysed: usize,
    /// Files left out, with the reason.
    pub skipped: Vec<(PathBuf, Skipped)>,
    /// What could not be listed, and why.
    pub failures: Vec<(PathBuf, String)>,
    /// Bytes of text that the index covers.
    pub text_bytes: u64,
    /// Bytes of the index.
    pub index_bytes: u64,
    /// The time that it took.
    pub duration: Duration,
}

/// The text index of one project.
///
/// It is shared between threads; questions do not wait for each other. Several processes may use one index at once:
/// only a writer takes a lock.
#[derive(Debug)]
pub struct TextIndex {
    tree: Arc<Tree>,
    folder: PathBuf,
    freshness: Freshness,
    current: Mutex<Option<Arc<TextSnapshot>>>,
    writing: Mutex<()>,
    queue: SharedQueue,
    watch: Mutex<Option<TreeWatch>>,
    /// Why the tree is not watched. Kept apart from the watch, so that reading it waits for no update.
    unwatched: Mutex<Option<WatchRefusal>>,
    cache: TextCache,
}

impl TextIndex {
    /// Opens the project at `root`, whose index is kept in a folder of its own under `cache`. Reads no index yet.
    ///
    /// # Errors
    ///
    /// If the root is no folder that can be read, or the cache not its user's alone.
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

    /// The root's real path.
    pub fn root(&self) -> &Path {
        self.tree.path()
    }

    /// The folder of the index.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    pub(crate) fn tree(&self) -> &Tree {
        &self.tree
    }

    pub(crate) fn cache(&self) -> &TextCache {
        &self.cache
    }

    /// Watches the tree from now on, so that questions need not look at every file to know what changed. Returns
    /// whether that works here; if it does not, each question looks at every file.
    pub fn watch(&self) -> bool {
        let mut watch = self.watch.lock();
        watch.is_some() || self.watch_anew(&mut watch)
    }

    /// Returns the queue of its watch, for others that watch the tree.
    pub fn queue(&self) -> SharedQueue {
        self.queue.clone()
    }

    fn watch_anew(&self, watch: &mut Option<TreeWatch>) -> bool {
        let outcome = TreeWatch::new(self.tree.path(), self.queue.clone());
        *self.unwatched.lock() = outcome.as_ref().err().copied();
        *watch = outcome.ok();
        watch.is_some()
    }

    /// Why the tree is not watched, though [`TextIndex::watch`] was asked for, as far as questions have found out. Then
    /// each question looks at every file.
    pub fn unwatched(&self) -> Option<WatchRefusal> {
        *self.unwatched.lock()
    }

    /// Waits until something in a watched tree changes, or until the time is up. Returns whether something did.
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

    /// The state of the index on disk, without changing it.
    ///
    /// # Errors
    ///
    /// If the project's folder is gone, or the caller gives up.
    pub fn status(&self, control: &IndexControl<'_>) -> Result<TreeStatus, TextError> {
        self.refresh_root()?;
        let snapshot = match self.load() {
            Ok(Some(snapshot)) => snapshot,
            Ok(None) => return Ok(TreeStatus::Missing("the project was never indexed".to_owned())),
            Err(PageError::Damaged) => {
                return Ok(TreeStatus::Missing("the index is damaged or of another version".to_owned()));
            }
            Err(PageError::Io(error)) => {
                return Ok(TreeStatus::Missing(format!("the index cannot be read: {error}")));
            }
        };
        let (_, changed) = self.generation();
        Ok(match snapshot.changes(&self.tree, &changed, control)?.count() {
            0 => TreeStatus::Fresh,
            changed => TreeStatus::Stale(changed),
        })
    }

    /// Builds the index, or brings it up to date; with `force` from nothing. If `languages` are given the index covers
    /// these only, until it is built again.
    ///
    /// # Errors
    ///
    /// If the index cannot be written, or the caller gives up.
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

    /// Returns the index as a question needs it: up to date, or with the error that says that it is not.
    pub(crate) fn snapshot(&self, control: &IndexControl<'_>) -> Result<Arc<TextSnapshot>, TextError> {
        self.refresh_root()?;
        let known = self.current.lock().clone();
        if let Some(snapshot) = &known
            && self.watch.lock().as_mut().is_some_and(|watch| !watch.is_dirty(&self.tree))
        {
            return Ok(Arc::clone(snapshot));
        }
        if let Some(snapshot) = known.as_ref().filter(|_| self.freshness == Freshness::Automatic)
            && let Some(changed) = self.take_few_changes(snapshot, control)
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
                    // Folders may have come or gone without a file: then others are to be watched.
                    (0, _) if !changes.walk || freshness == Freshness::Manual => {
                        *self.current.lock() = Some(Arc::clone(&snapshot));
                        self.settle(generation, &snapshot);
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

    /// Brings `known` up to date where the watch says that only a few files may have changed: at a cost by these. What
    /// is read is kept in this process, until more has changed. `None` if that cannot be done.
    fn take_few_changes(
        &self,
        known: &Arc<TextSnapshot>,
        control: &IndexControl<'_>,
    ) -> Option<Arc<TextSnapshot>> {
        let _writing = self.writing.try_lock()?;
        let mut watch = self.watch.lock();
        let watch = watch.as_mut()?;
        let (generation, files) = watch.few_changes(&self.tree, FEW_CHANGES)?;
        let manifest = known.manifest();
        let open: u64 =
            manifest.segments.iter().filter(|(name, _)| *name == OPEN_SEGMENT).map(|(_, bytes)| bytes).sum();
        let is_told = |path: &PathBuf| match self.tree.admits(path, manifest) {
            Some(is_found) => !is_found || watch.tells_of(path),
            None => false,
        };
        if open > MOST_OPEN_BYTES || !files.iter().filter(|path| self.tree.stamp(path).is_some()).all(is_told)
        {
            return None;
        }
        let changed = Changed::default();
        let update = Update::new(&self.tree, &self.folder, &changed, control);
        let snapshot = update.take(known, files)?;
        *self.current.lock() = Some(Arc::clone(&snapshot));
        watch.settle_few(generation);
        Some(snapshot)
    }

    /// Follows the root when another folder stands at its path. The old folder's watches tell nothing of the new one.
    fn refresh_root(&self) -> Result<(), TextError> {
        let root = self.tree.refresh()?;
        if root != Root::Same {
            let mut watch = self.watch.lock();
            if watch.is_some() {
                self.watch_anew(&mut watch);
            }
        }
        Ok(())
    }

    /// Drops the opened index: it is damaged, or a file changed while a query was running.
    pub(crate) fn distrust(&self, damaged: bool) {
        *self.current.lock() = None;
        if damaged && self.freshness == Freshness::Automatic {
            // The next question builds it anew. If it cannot be removed, that question says why.
            let _ = std::fs::remove_file(self.manifest_path());
        }
        if let Some(watch) = self.watch.lock().as_mut() {
            watch.mark();
        }
    }

    /// Makes the error for a damaged index.
    pub(crate) fn explain(&self, error: PageError) -> TextError {
        match error {
            PageError::Damaged => TextError::Damaged { path: self.folder.clone() },
            PageError::Io(source) => TextError::Read { path: self.folder.clone(), source },
        }
    }

    fn manifest_path(&self) -> PathBuf {
        self.folder.join("manifest")
    }

    /// Opens the index on disk. Another process may replace its segments while they are opened: then it is tried again.
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

    /// Brings the index up to date after applying `prepare`. Returns it with the number of files analysed.
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
        // Another process may just have done the work: what it left is looked at first.
        let mut manifest = self.load().ok().flatten().map(|old| old.manifest().clone()).unwrap_or_default();
        prepare(&mut manifest);
        manifest.root = self.tree.path().to_owned();
        let (generation, changed) = self.generation();
        let update = Update::new(&self.tree, &self.folder, &changed, control);
        let (snapshot, analysed) = update.run(manifest)?;
        let snapshot = Arc::new(snapshot);
        *self.current.lock() = Some(Arc::clone(&snapshot));
        self.settle(generation, &snapshot);
        Ok((snapshot, analysed))
    }

    /// The watch's generation, and the changes that it knows of.
    fn generation(&self) -> (Option<u64>, Changed) {
        match self.watch.lock().as_mut() {
            Some(watch) => {
                let (generation, changed) = watch.generation(&self.tree);
                (Some(generation), changed)
            }
            None => (None, Changed::default()),
        }
    }

    /// Tells the watch that everything up to `generation` is in the index, and what to watch.
    fn settle(&self, generation: Option<u64>, snapshot: &TextSnapshot) {
        if let (Some(watch), Some(generation)) = (self.watch.lock().as_mut(), generation) {
            watch.settle(generation, snapshot.manifest(), &self.tree);
            *self.unwatched.lock() = watch.refusal();
        }
    }
}
