//! Tracks the load state of every file that can be searched: whether the image has loaded its
//! current text. A refresh examines only files that may have changed since the last refresh.
//! [`LoadStates`] also has sets of the files that need extra work: files without indexed names,
//! unreadable files, stale files, and files for which no changes are reported.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use indexmap::IndexMap;
use parking_lot::MutexGuard;

use crate::source::positions::SidecarState;
use crate::workspace::texts::{CachedNames, TextState, Texts};
use crate::workspace::{FileStamp, Project};
use steelbank_text::{IndexedFile, PackageText};

/// A file that can be searched.
#[derive(Debug, Default)]
pub(super) struct FileState {
    /// Whether the file belongs to the project.
    pub(super) own: bool,
    /// The write date of the loaded version, if any.
    loaded: Option<u64>,
    /// The relation of the image to the file, or `None` if the file does not exist or can no longer
    /// be read. [`TextState::FeatureExcluded`] means that the file is loaded and unchanged, with a
    /// complete sidecar.
    pub(super) load_state: Option<TextState>,
    pub(super) known: Option<Arc<CachedNames>>,
    /// Whether the watcher or the text index reports every change of the file.
    is_watched: bool,
}

impl FileState {
    /// Returns whether the file should be searched but cannot be read.
    fn is_unreadable(&self) -> bool {
        self.load_state.is_some() && self.known.as_ref().is_some_and(|known| !known.readable)
    }
}

/// The index of a file in [`LoadStates::entries`]. `None` means that the file has no entry, and
/// `Unknown` that the index has not been looked up yet.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum EntryPlace {
    #[default]
    Unknown,
    None,
    At(u32),
}

/// The load states of all files that can be searched.
#[derive(Debug, Default)]
pub(super) struct LoadStates {
    pub(super) entries: IndexMap<Arc<Path>, FileState>,
    /// Cached indices into `entries` for files of the text index, by the file's segment and number
    /// in the text index. Cleared when entries are added or removed.
    pub(super) places: HashMap<u64, Vec<EntryPlace>>,
    /// The files with names that the text index does not have.
    pub(super) unindexed: BTreeSet<Arc<Path>>,
    pub(super) unreadable: BTreeSet<Arc<Path>>,
    /// The loaded files that may have another text on disk.
    stale: BTreeSet<Arc<Path>>,
    /// The files to check at each question, because their changes are not reported.
    unwatched: BTreeSet<Arc<Path>>,
    packages: Option<Arc<[PackageText]>>,
}

impl LoadStates {
    /// Returns the stamp of the file at `path`, if all its changes are reported. Such a file is not
    /// a link.
    pub(super) fn stamp_if_watched(&self, path: &Path) -> Option<FileStamp> {
        let entry = self.entries.get(path).filter(|entry| entry.is_watched)?;
        Some(entry.known.as_ref()?.stamp)
    }

    /// Returns the entry of `file`, a file of the text index at `path`.
    pub(super) fn indexed(
        &mut self,
        file: IndexedFile,
        path: impl FnOnce() -> PathBuf,
    ) -> Option<(&Arc<Path>, &FileState)> {
        let places = self.places.entry(file.segment).or_default();
        let number = file.number as usize;
        if number >= places.len() {
            places.resize(number + 1, EntryPlace::default());
        }
        if let EntryPlace::Unknown = places[number] {
            let found = self.entries.get_index_of(path().as_path());
            places[number] = found.map_or(EntryPlace::None, |at| EntryPlace::At(at as u32));
        }
        match places[number] {
            EntryPlace::At(at) => self.entries.get_index(at as usize),
            EntryPlace::Unknown | EntryPlace::None => None,
        }
    }

    /// Returns the packages that unindexed files define. Omits the packages of files that are
    /// loaded and unchanged, with a complete sidecar.
    pub(super) fn packages(&mut self) -> Arc<[PackageText]> {
        let entries = &self.entries;
        let unseen = || {
            let unseen =
                |entry: &&FileState| !matches!(entry.load_state, None | Some(TextState::FeatureExcluded));
            // The index has the packages of the other files.
            let unindexed = self.unindexed.iter().filter_map(|path| entries.get(path));
            let known = unindexed.filter(unseen).filter_map(|entry| entry.known.as_ref());
            known.flat_map(|known| known.packages.iter().cloned()).collect()
        };
        Arc::clone(self.packages.get_or_insert_with(unseen))
    }

    /// Lists the loaded files that may have another text on disk, sorted.
    pub(super) fn stale(&self) -> Vec<PathBuf> {
        self.stale.iter().map(|path| path.to_path_buf()).collect()
    }

    fn unindex(&mut self, path: &Arc<Path>) {
        self.unindexed.remove(path);
        self.stale.remove(path);
        self.unreadable.remove(path);
        self.unwatched.remove(path);
        self.packages = None;
    }

    fn insert(&mut self, path: Arc<Path>, entry: FileState) {
        if entry.known.as_ref().is_some_and(|known| known.is_unindexed) {
            self.unindexed.insert(Arc::clone(&path));
        }
        if entry.is_unreadable() {
            self.unreadable.insert(Arc::clone(&path));
        }
        if entry.loaded.is_some() && entry.load_state != Some(TextState::FeatureExcluded) {
            self.stale.insert(Arc::clone(&path));
        }
        if !entry.is_watched {
            self.unwatched.insert(Arc::clone(&path));
        }
        self.entries.insert(path, entry);
        self.packages = None;
    }
}

impl Project {
    /// Locks the texts, as refreshed at `then` or later. Refreshes them only if no other question
    /// has refreshed them since `then`.
    pub(super) fn refresh_since(&self, then: Instant) -> MutexGuard<'_, Texts> {
        let texts = self.texts.lock();
        match texts.refreshed.is_some_and(|refreshed| refreshed >= then) {
            true => texts,
            false => {
                drop(texts);
                self.refresh()
            }
        }
    }

    /// Refreshes the texts, and locks them.
    pub(super) fn refresh(&self) -> MutexGuard<'_, Texts> {
        // Read the names table first: it records files that are unchanged since their load.
        self.read_new_files();
        // Lock `loaded` before the texts, as everywhere.
        let loaded = self.loaded.read();
        let mut guard = self.texts.lock();
        let texts = &mut *guard;
        texts.refreshed = Some(Instant::now());
        self.update_tree(texts);
        let other_text = self.update_index(texts);
        let mut changes = std::mem::take(&mut texts.watcher.changes);
        changes.changed.extend(other_text);
        for path in &changes.changed {
            texts.invalidate(path);
            self.positions.lock().forget(path);
        }
        let stale = std::mem::take(&mut *self.stale.lock());
        let mut todo: BTreeSet<Arc<Path>> = texts.load_states.unwatched.clone();
        if changes.everything {
            todo.extend(texts.load_states.entries.keys().cloned());
        }
        let entries = &texts.load_states.entries;
        let is_new = |path: &&PathBuf| !entries.contains_key(path.as_path());
        let asked = texts.requested.iter().filter(is_new);
        let mut doubtful: Vec<PathBuf> =
            changes.changed.iter().chain(&stale.files).chain(asked).cloned().collect();
        if changes.walked || stale.components {
            doubtful.extend(entries.keys().map(|path| path.to_path_buf()));
            doubtful.extend(texts.watcher.walk.files.iter().chain(loaded.keys()).filter(is_new).cloned());
        }
        todo.extend(self.select_files(texts, &loaded, doubtful));
        let load_states = &texts.load_states;
        todo.extend(
            changes
                .changed
                .iter()
                .chain(&stale.files)
                .filter_map(|path| load_states.entries.get_key_value(path.as_path()))
                .map(|(path, _)| Arc::clone(path)),
        );
        for folder in &changes.folders {
            todo.extend(load_states.entries.keys().filter(|path| path.starts_with(folder)).map(Arc::clone));
        }
        for path in todo {
            self.update_load_state(texts, &path, loaded.get(&*path).copied());
        }
        guard
    }

    /// Adds the files among `paths` that can be searched, and removes the others. Returns the new
    /// files.
    fn select_files(
        &self,
        texts: &mut Texts,
        loaded: &BTreeMap<PathBuf, u64>,
        mut paths: Vec<PathBuf>,
    ) -> Vec<Arc<Path>> {
        let Texts { watcher, load_states, requested, .. } = texts;
        let own = self.project_files_in(&watcher.walk);
        let mut new = Vec::new();
        // Queries for names access the entries in this order.
        paths.sort_unstable_by(|left, right| left.as_os_str().cmp(right.as_os_str()));
        for path in paths {
            let is_own = watcher.walk.has(&path) || (loaded.contains_key(&path) && own.contains(&path));
            match load_states.entries.get_mut(path.as_path()) {
                Some(entry) if is_own || requested.contains(&path) => entry.own = is_own,
                Some(_) => {
                    let gone = load_states.entries.swap_remove_entry(path.as_path());
                    gone.into_iter().for_each(|(path, _)| load_states.unindex(&path));
                    load_states.places.clear();
                }
                None if is_own || requested.contains(&path) => {
                    let path: Arc<Path> = Arc::from(path);
                    new.push(Arc::clone(&path));
                    load_states.entries.insert(path, FileState { own: is_own, ..FileState::default() });
                    load_states.places.clear();
                }
                None => {}
            }
        }
        new
    }

    /// Updates the load state of the file at `path`. `loaded` is the loaded version, if any.
    fn update_load_state(&self, texts: &mut Texts, path: &Arc<Path>, loaded: Option<u64>) {
        let Some(before) = texts.load_states.entries.get_mut(path).map(std::mem::take) else { return };
        let overlaid = texts.documents.read().get(path).is_some();
        // Start watching the file before reading it, unless the index watches it.
        let mut is_watched =
            !overlaid && (texts.indexed(path).is_some() || texts.watcher.begin_watching(path, true));
        let known = texts.known(path);
        if known.is_none() {
            is_watched = !overlaid && texts.watcher.begin_watching(path, false);
        }
        let load_state = match (&known, loaded) {
            (None, _) => None,
            (Some(_), None) => Some(TextState::NotLoaded),
            (Some(known), Some(written)) => self.load_state(texts, path, known, written),
        };
        let entry = FileState { own: before.own, loaded, load_state, known, is_watched };
        let same = before.load_state == entry.load_state
            && before.is_watched == entry.is_watched
            && before.loaded == entry.loaded
            && match (&before.known, &entry.known) {
                (Some(before), Some(now)) => Arc::ptr_eq(before, now),
                (None, None) => true,
                _ => false,
            };
        if same {
            texts.load_states.entries.insert(Arc::clone(path), before);
            // Check a file at each question if no change of it is reported, for example because it
            // does not exist yet.
            if !entry.is_watched {
                texts.load_states.unwatched.insert(Arc::clone(path));
            }
            return;
        }
        texts.load_states.unindex(path);
        texts.load_states.insert(Arc::clone(path), entry);
    }

    /// Returns the load state of a loaded file, given its current names.
    /// [`TextState::FeatureExcluded`] means that the file is unchanged, with a complete sidecar.
    /// Returns `None` if the file can no longer be read.
    fn load_state(
        &self,
        texts: &mut Texts,
        path: &Path,
        known: &CachedNames,
        written: u64,
    ) -> Option<TextState> {
        if texts.unchanged_since_load.get(path) == Some(&(known.stamp, written)) {
            return Some(TextState::FeatureExcluded);
        }
        let file = self.positions(path, written).ok()?;
        if !file.is_fresh() {
            return Some(TextState::Changed);
        }
        if file.sidecar_state() != SidecarState::Complete {
            return Some(TextState::NoSidecar);
        }
        if known.stamp.is_reliable() {
            texts.unchanged_since_load.insert(path.to_path_buf(), (known.stamp, written));
        }
        Some(TextState::FeatureExcluded)
    }
}

#[cfg(test)]
#[path = "../../tests/operations/mod.rs"]
mod operations;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::operations::{begin, operate};
    use super::*;
    use crate::ProjectSettings;
    use crate::workspace::TextFilter;

    /// Creates a project with some loaded files, and requested files outside of it.
    fn project(home: &Path) -> Project {
        let root = home.join("root");
        let settings = ProjectSettings::in_folder(&root).cache(home.join("cache"));
        let project = Project::new(Some(settings));
        let loaded = ["x.lisp", "a/x.lisp", "b/w.lisp"].map(|path| (root.join(path), 3_900_000_000));
        project.note_loaded(loaded, |_| true);
        project
            .note_requested(["x.lisp", "y.lisp", "deep/z.lisp"].map(|path| home.join("outside").join(path)));
        project
    }

    type Found = Vec<(PathBuf, TextState, String)>;

    /// Lists the files with text that is not loaded, each with its load state.
    fn unseen_files(project: &Project) -> Vec<(PathBuf, TextState)> {
        let texts = project.refresh();
        let unseen = texts.load_states.entries.iter().filter_map(|(path, entry)| {
            Some((
                path.to_path_buf(),
                entry.load_state.filter(|load_state| *load_state != TextState::FeatureExcluded)?,
            ))
        });
        let mut unseen: Vec<_> = unseen.collect();
        unseen.sort();
        unseen
    }

    /// Collects all data that answers depend on.
    fn known(project: &Project) -> (Vec<PathBuf>, Vec<(PathBuf, TextState)>, [Found; 3]) {
        let naming = |look, own| {
            let found = project.texts_naming_at(&project.tree_view(), "SOUGHT", look, own).files.into_iter();
            found.map(|file| (file.path.clone(), file.load_state, file.text.clone())).collect()
        };
        let naming = [
            naming(TextFilter::Unloaded, true),
            naming(TextFilter::Unloaded, false),
            naming(TextFilter::All, false),
        ];
        (project.lisp_files(), unseen_files(project), naming)
    }

    fn home() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().canonicalize().unwrap();
        begin(&home).unwrap();
        std::fs::create_dir(home.join("outside/deep")).unwrap();
        std::fs::write(home.join("outside/deep/z.lisp"), "(sought)").unwrap();
        (folder, home)
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(if std::env::var_os("STEELBANK_FULL").is_some() { 3200 } else { 32 }) })]

        #[test]
        fn refreshed_state_equals_fresh_state(
            operations in prop::collection::vec(any::<(u8, u8, u8)>(), 1..32),
            watched in any::<bool>(),
        ) {
            let (_folder, home) = home();
            let kept = project(&home);
            if watched {
                kept.watch();
            }
            known(&kept);
            let mut done = Vec::new();
            for operation in operations {
                done.push(operate(&home, operation));
                prop_assert_eq!(known(&kept), known(&project(&home)), "after {:#?}", done);
            }
        }
    }

    #[test]
    fn only_missing_requested_files_are_unwatched() {
        let (_folder, home) = home();
        let project = project(&home);
        project.watch();
        known(&project);
        let texts = project.refresh();
        let unwatched: Vec<_> = texts.load_states.unwatched.iter().map(|path| path.to_path_buf()).collect();
        assert_eq!(unwatched, ["x.lisp", "y.lisp"].map(|path| home.join("outside").join(path)));
    }

    #[test]
    fn new_or_deleted_file_needs_no_walk() {
        let (_folder, home) = home();
        let project = project(&home);
        project.watch();
        known(&project);
        known(&project);
        let walked = Arc::clone(&project.refresh().watcher.walk.folders);
        let found = |name| {
            project.texts_naming_at(&project.tree_view(), name, TextFilter::Unloaded, true).files.len()
        };
        let (file, new) = (home.join("root/a/new.lisp"), home.join("new"));
        for _ in 0..3 {
            std::fs::write(&file, "(first)").unwrap();
            assert_eq!((found("FIRST"), found("SECOND")), (1, 0));
            std::fs::write(&new, "(second)").unwrap();
            std::fs::rename(&new, &file).unwrap();
            assert_eq!((found("FIRST"), found("SECOND")), (0, 1));
            std::fs::remove_file(&file).unwrap();
            assert_eq!((found("FIRST"), found("SECOND")), (0, 0));
        }
        assert!(Arc::ptr_eq(&project.refresh().watcher.walk.folders, &walked));
    }

    #[test]
    fn indexed_files_are_not_checked_at_each_question() {
        let (_folder, home) = home();
        let (file, another) = (home.join("root/a/c/y.lisp"), home.join("another-name"));
        std::fs::hard_link(&file, &another).unwrap();
        let project = project(&home);
        project.watch();
        known(&project);
        assert!(!project.refresh().load_states.unwatched.contains(&*file));
        std::fs::write(&another, "(renewed)").unwrap();
        let found =
            project.texts_naming_at(&project.tree_view(), "RENEWED", TextFilter::Unloaded, true).files;
        assert_eq!(found.iter().map(|file| &file.path).collect::<Vec<_>>(), [&file]);
    }

    #[test]
    fn created_link_target_is_noticed() {
        let (_folder, home) = home();
        let (link, file) = (home.join("root/b/w.lisp"), home.join("outside/later.lisp"));
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let project = project(&home);
        project.watch();
        known(&project);
        known(&project);
        std::fs::write(&file, "(sought)").unwrap();
        assert!(unseen_files(&project).contains(&(link, TextState::Changed)));
    }

    #[test]
    fn one_view_is_refreshed_once() {
        let (_folder, home) = home();
        for watched in [false, true] {
            let project = project(&home);
            if watched {
                project.watch();
            }
            let found = |now| project.texts_naming_at(&now, "ONCE", TextFilter::Unloaded, true).files.len();
            let now = project.tree_view();
            std::fs::write(home.join("root/once.lisp"), "(once)").unwrap();
            assert_eq!((found(now), found(project.tree_view())), (0, 1));
            std::fs::remove_file(home.join("root/once.lisp")).unwrap();
        }
    }

    #[test]
    fn moved_folder_of_requested_file_is_noticed() {
        let (_folder, home) = home();
        let project = project(&home);
        project.watch();
        let found = |name| {
            project.texts_naming_at(&project.tree_view(), name, TextFilter::Unloaded, false).files.len()
        };
        let before = found("SOUGHT");
        std::fs::rename(home.join("outside"), home.join("away")).unwrap();
        assert_eq!(found("SOUGHT"), before - 1);
        std::fs::create_dir_all(home.join("outside/deep")).unwrap();
        std::fs::write(home.join("outside/deep/z.lisp"), "(other)").unwrap();
        assert_eq!((found("SOUGHT"), found("OTHER")), (before - 1, 1));
    }
}
