//! Which of the files that can be searched differ from what the image has loaded, and which names stand in them. Works
//! out again only what has changed.

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
    /// Whether it is the project's own.
    pub(super) own: bool,
    /// The write date of the version that is loaded, if any.
    loaded: Option<u64>,
    /// The relation of the image to the file; none if there is no such file.
    pub(super) standing: Option<TextState>,
    pub(super) known: Option<Arc<CachedNames>>,
    /// Whether the watch, or the index, reports every change of it.
    is_watched: bool,
}

impl FileState {
    /// Whether the file should be searched, but cannot be read.
    fn is_unreadable(&self) -> bool {
        self.standing.is_some() && self.known.as_ref().is_some_and(|known| !known.readable)
    }
}

/// Where a file is among the entries.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum EntryPlace {
    #[default]
    Unknown,
    None,
    At(u32),
}

/// The standings of all files that can be searched.
#[derive(Debug, Default)]
pub(super) struct Standings {
    pub(super) entries: IndexMap<Arc<Path>, FileState>,
    /// Where the files of the index are among the entries, by segment and by number there, as far as was asked; forgotten
    /// where entries come or go.
    pub(super) places: HashMap<u64, Vec<EntryPlace>>,
    /// The files whose names are to be looked for in their text.
    pub(super) loose: BTreeSet<Arc<Path>>,
    pub(super) unreadable: BTreeSet<Arc<Path>>,
    /// The loaded files that may not be loaded as they stand.
    behind: BTreeSet<Arc<Path>>,
    /// The files to look at for each question, because their changes are not reported.
    looked_at: BTreeSet<Arc<Path>>,
    packages: Option<Arc<[PackageText]>>,
}

impl Standings {
    /// Returns the stamp of the file at `path`, if all changes of it are reported. Such a file is no
    /// link.
    pub(super) fn stamp_if_watched(&self, path: &Path) -> Option<FileStamp> {
        let entry = self.entries.get(path).filter(|entry| entry.is_watched)?;
        Some(entry.known.as_ref()?.stamp)
    }

    /// Returns the entry of a file of the index, whose path is `path`.
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

    /// Returns the packages defined in files whose text the image does not have as it stands.
    pub(super) fn packages(&mut self) -> Arc<[PackageText]> {
        let entries = &self.entries;
        let unseen = || {
            let unseen = |entry: &&FileState| !matches!(entry.standing, None | Some(TextState::LeftOut));
            // Only these have some: the index knows those of the others.
            let loose = self.loose.iter().filter_map(|path| entries.get(path));
            let known = loose.filter(unseen).filter_map(|entry| entry.known.as_ref());
            known.flat_map(|known| known.packages.iter().cloned()).collect()
        };
        Arc::clone(self.packages.get_or_insert_with(unseen))
    }

    /// Lists the loaded files that may not be loaded as they stand, sorted.
    pub(super) fn behind(&self) -> Vec<PathBuf> {
        self.behind.iter().map(|path| path.to_path_buf()).collect()
    }

    fn unindex(&mut self, path: &Arc<Path>) {
        self.loose.remove(path);
        self.behind.remove(path);
        self.unreadable.remove(path);
        self.looked_at.remove(path);
        self.packages = None;
    }

    fn put_in(&mut self, path: Arc<Path>, entry: FileState) {
        if entry.known.as_ref().is_some_and(|known| known.is_loose) {
            self.loose.insert(Arc::clone(&path));
        }
        if entry.is_unreadable() {
            self.unreadable.insert(Arc::clone(&path));
        }
        if entry.loaded.is_some() && entry.standing != Some(TextState::LeftOut) {
            self.behind.insert(Arc::clone(&path));
        }
        if !entry.is_watched {
            self.looked_at.insert(Arc::clone(&path));
        }
        self.entries.insert(path, entry);
        self.packages = None;
    }
}

impl Project {
    /// Locks the texts, up to date with what had changed by `then`: a look that a question took since serves.
    pub(super) fn looked_since(&self, then: Instant) -> MutexGuard<'_, Texts> {
        let texts = self.texts.lock();
        match texts.looked.is_some_and(|looked| looked >= then) {
            true => texts,
            false => {
                drop(texts);
                self.look()
            }
        }
    }

    /// Brings the texts up to date with what has changed, and locks them.
    pub(super) fn look(&self) -> MutexGuard<'_, Texts> {
        // Know first which files were compared with what is loaded of them already.
        self.read_new_files();
        // Lock this before the texts, in the same order everywhere.
        let loaded = self.loaded.read();
        let mut guard = self.texts.lock();
        let texts = &mut *guard;
        texts.looked = Some(Instant::now());
        self.look_at_tree(texts);
        let other_text = self.look_at_index(texts);
        let mut news = std::mem::take(&mut texts.live.news);
        news.changed.extend(other_text);
        for path in &news.changed {
            texts.invalidate(path);
            self.positions.lock().forget(path);
        }
        let stale = std::mem::take(&mut *self.stale.lock());
        let mut todo: BTreeSet<Arc<Path>> = texts.standings.looked_at.clone();
        if news.everything {
            todo.extend(texts.standings.entries.keys().cloned());
        }
        let entries = &texts.standings.entries;
        let is_new = |path: &&PathBuf| !entries.contains_key(path.as_path());
        let asked = texts.asked.iter().filter(is_new);
        let mut doubtful: Vec<PathBuf> =
            news.changed.iter().chain(&stale.files).chain(asked).cloned().collect();
        if news.walked || stale.components {
            doubtful.extend(entries.keys().map(|path| path.to_path_buf()));
            doubtful.extend(texts.live.walk.files.iter().chain(loaded.keys()).filter(is_new).cloned());
        }
        todo.extend(self.choose(texts, &loaded, doubtful));
        let standings = &texts.standings;
        todo.extend(
            news.changed
                .iter()
                .chain(&stale.files)
                .filter_map(|path| standings.entries.get_key_value(path.as_path()))
                .map(|(path, _)| Arc::clone(path)),
        );
        for folder in &news.folders {
            todo.extend(standings.entries.keys().filter(|path| path.starts_with(folder)).map(Arc::clone));
        }
        for path in todo {
            self.examine(texts, &path, loaded.get(&*path).copied());
        }
        guard
    }

    /// Updates which of `paths` are files that can be searched. Returns the new ones.
    fn choose(
        &self,
        texts: &mut Texts,
        loaded: &BTreeMap<PathBuf, u64>,
        mut paths: Vec<PathBuf>,
    ) -> Vec<Arc<Path>> {
        let Texts { live, standings, asked, .. } = texts;
        let own = self.own_in(&live.walk);
        let mut new = Vec::new();
        // Questions about names take the entries in this order.
        paths.sort_unstable_by(|left, right| left.as_os_str().cmp(right.as_os_str()));
        for path in paths {
            let is_own = live.walk.has(&path) || (loaded.contains_key(&path) && own.contains(&path));
            match standings.entries.get_mut(path.as_path()) {
                Some(entry) if is_own || asked.contains(&path) => entry.own = is_own,
                Some(_) => {
                    let gone = standings.entries.swap_remove_entry(path.as_path());
                    gone.into_iter().for_each(|(path, _)| standings.unindex(&path));
                    standings.places.clear();
                }
                None if is_own || asked.contains(&path) => {
                    let path: Arc<Path> = Arc::from(path);
                    new.push(Arc::clone(&path));
                    standings.entries.insert(path, FileState { own: is_own, ..FileState::default() });
                    standings.places.clear();
                }
                None => {}
            }
        }
        new
    }

    /// Works out the relation of the image to the file at `path`; `loaded` is the version that the image
    /// holds, if any.
    fn examine(&self, texts: &mut Texts, path: &Arc<Path>, loaded: Option<u64>) {
        let Some(before) = texts.standings.entries.get_mut(path).map(std::mem::take) else { return };
        let overlaid = texts.documents.read().get(path).is_some();
        // Begin to watch the file before reading it, unless the index does.
        let mut is_watched = !overlaid && (texts.indexed(path).is_some() || texts.live.tells_of(path, true));
        let known = texts.known(path);
        if known.is_none() {
            is_watched = !overlaid && texts.live.tells_of(path, false);
        }
        let standing = match (&known, loaded) {
            (None, _) => None,
            (Some(_), None) => Some(TextState::NotLoaded),
            (Some(known), Some(written)) => self.standing(texts, path, known, written),
        };
        let entry = FileState { own: before.own, loaded, standing, known, is_watched };
        let same = before.standing == entry.standing
            && before.is_watched == entry.is_watched
            && before.loaded == entry.loaded
            && match (&before.known, &entry.known) {
                (Some(before), Some(now)) => Arc::ptr_eq(before, now),
                (None, None) => true,
                _ => false,
            };
        if same {
            texts.standings.entries.insert(Arc::clone(path), before);
            // Look at a new file that is missing each time, unless its creation is reported.
            if !entry.is_watched {
                texts.standings.looked_at.insert(Arc::clone(path));
            }
            return;
        }
        texts.standings.unindex(path);
        texts.standings.put_in(Arc::clone(path), entry);
    }

    /// Works out the relation of the image to a loaded file with up-to-date `known`. None if the file is
    /// gone.
    fn standing(
        &self,
        texts: &mut Texts,
        path: &Path,
        known: &CachedNames,
        written: u64,
    ) -> Option<TextState> {
        if texts.unchanged_since_load.get(path) == Some(&(known.stamp, written)) {
            return Some(TextState::LeftOut);
        }
        let file = self.positions(path, written).ok()?;
        if !file.is_fresh() {
            return Some(TextState::Changed);
        }
        if file.sidecar_state() != SidecarState::Complete {
            return Some(TextState::Unrecorded);
        }
        if known.stamp.is_reliable() {
            texts.unchanged_since_load.insert(path.to_path_buf(), (known.stamp, written));
        }
        Some(TextState::LeftOut)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use steelbank_watch::operations::{begin, operate};

    use super::*;
    use crate::ProjectSettings;
    use crate::workspace::Look;

    /// Makes a project with some files taken for loaded, and others outside that were asked for.
    fn project(home: &Path) -> Project {
        let root = home.join("root");
        let settings = ProjectSettings::in_folder(&root).cache(home.join("cache"));
        let project = Project::new(Some(settings));
        let loaded = ["x.lisp", "a/x.lisp", "b/w.lisp"].map(|path| (root.join(path), 3_900_000_000));
        project.note_loaded(loaded, |_| true);
        project.note_asked(["x.lisp", "y.lisp", "deep/z.lisp"].map(|path| home.join("outside").join(path)));
        project
    }

    type Found = Vec<(PathBuf, TextState, String)>;

    /// Lists the files whose text the image does not have as it stands, with its relation to each.
    fn unseen_files(project: &Project) -> Vec<(PathBuf, TextState)> {
        let texts = project.look();
        let unseen = texts.standings.entries.iter().filter_map(|(path, entry)| {
            Some((path.to_path_buf(), entry.standing.filter(|standing| *standing != TextState::LeftOut)?))
        });
        let mut unseen: Vec<_> = unseen.collect();
        unseen.sort();
        unseen
    }

    /// Collects all that questions are answered from.
    fn known(project: &Project) -> (Vec<PathBuf>, Vec<(PathBuf, TextState)>, [Found; 3]) {
        let naming = |look, own| {
            let found = project.texts_naming_at(&project.now(), "SOUGHT", look, own).files.into_iter();
            found.map(|file| (file.path.clone(), file.standing, file.text.clone())).collect()
        };
        let naming = [naming(Look::Unseen, true), naming(Look::Unseen, false), naming(Look::All, false)];
        (project.own_files(), unseen_files(project), naming)
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
        fn what_is_kept_is_what_is_worked_out_from_nothing(
            operations in prop::collection::vec(any::<(u8, u8, u8)>(), 1..32),
            told in any::<bool>(),
        ) {
            let (_folder, home) = home();
            let kept = project(&home);
            if told {
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
    fn where_nothing_happens_nothing_is_looked_at() {
        let (_folder, home) = home();
        let project = project(&home);
        project.watch();
        known(&project);
        let texts = project.look();
        // Expect missing files that were asked for among those that are looked at.
        let looked_at: Vec<_> = texts.standings.looked_at.iter().map(|path| path.to_path_buf()).collect();
        assert_eq!(looked_at, ["x.lisp", "y.lisp"].map(|path| home.join("outside").join(path)));
    }

    #[test]
    fn a_file_that_comes_or_goes_is_looked_at_alone() {
        let (_folder, home) = home();
        let project = project(&home);
        project.watch();
        known(&project);
        known(&project);
        let walked = Arc::clone(&project.look().live.walk.folders);
        let found = |name| project.texts_naming_at(&project.now(), name, Look::Unseen, true).files.len();
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
        assert!(Arc::ptr_eq(&project.look().live.walk.folders, &walked));
    }

    #[test]
    fn what_the_index_has_is_not_looked_at_beside_it() {
        let (_folder, home) = home();
        let (file, another) = (home.join("root/a/c/y.lisp"), home.join("another-name"));
        std::fs::hard_link(&file, &another).unwrap();
        let project = project(&home);
        project.watch();
        known(&project);
        assert!(!project.look().standings.looked_at.contains(&*file));
        std::fs::write(&another, "(renewed)").unwrap();
        let found = project.texts_naming_at(&project.now(), "RENEWED", Look::Unseen, true).files;
        assert_eq!(found.iter().map(|file| &file.path).collect::<Vec<_>>(), [&file]);
    }

    #[test]
    fn what_a_link_leads_to_may_come_later() {
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
    fn a_question_that_has_looked_does_not_look_again() {
        let (_folder, home) = home();
        for watched in [false, true] {
            let project = project(&home);
            if watched {
                project.watch();
            }
            let found = |now| project.texts_naming_at(&now, "ONCE", Look::Unseen, true).files.len();
            let now = project.now();
            std::fs::write(home.join("root/once.lisp"), "(once)").unwrap();
            assert_eq!((found(now), found(project.now())), (0, 1));
            std::fs::remove_file(home.join("root/once.lisp")).unwrap();
        }
    }

    #[test]
    fn a_folder_above_what_was_asked_for_may_move() {
        let (_folder, home) = home();
        let project = project(&home);
        project.watch();
        let found = |name| project.texts_naming_at(&project.now(), name, Look::Unseen, false).files.len();
        let before = found("SOUGHT");
        std::fs::rename(home.join("outside"), home.join("away")).unwrap();
        assert_eq!(found("SOUGHT"), before - 1);
        std::fs::create_dir_all(home.join("outside/deep")).unwrap();
        std::fs::write(home.join("outside/deep/z.lisp"), "(other)").unwrap();
        assert_eq!((found("SOUGHT"), found("OTHER")), (before - 1, 1));
    }
}
