//! Holds the user's project: its root, the files that the image has loaded, and the text on disk.
//! Actions ask [`Project`] for positions in files, for files that contain a name, and for places in
//! text that is not loaded. Each question first refreshes the view of the tree ([`watcher`],
//! [`tree`]) and the load states of the files that changed ([`load_states`]). The answer then comes
//! from caches: the sidecars of loaded files ([`names`], [`positions`]) and the text index of the
//! tree ([`texts`]). Edits of project files are also here: [`edits`] replaces texts atomically,
//! [`journal`] records them for undo, and [`write`] determines which files may be edited.

mod buffers;
pub(crate) mod documents;
pub(crate) mod edits;
pub(crate) mod journal;
mod load_states;
pub(crate) mod names;
mod positions;
mod read_symbols;
pub(crate) mod replacement;
mod shown_path;
mod stamp;
pub(crate) mod systems;
mod texts;
mod tree;
mod watcher;
pub(crate) mod write;

pub(crate) use buffers::BufferText;
pub(crate) use read_symbols::ReadSymbols;
pub use shown_path::ShownPath;
pub(crate) use steelbank_text::{PackageText, TextContext, TextToken, TokenClass};
pub use texts::TextState;
pub(crate) use texts::{
    NamedText, NamedTexts, ProjectFiles, ProjectText, TextFilter, TreeView, UnloadedText, VendoredText,
    state_in_loaded_file,
};

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use crate::source::positions::PositionedFile;
use crate::source::tap::sidecar::{fnv_1a, sidecar_name};
use documents::{Document, Documents};
use names::Names;
use positions::{CachedPositions, Positions};
use stamp::FileStamp;
pub(crate) use stamp::version;
use steelbank_text::{Freshness, TextError, TextIndex};
use steelbank_watch::WatchRefusal;

/// The settings of a project, or of a session that loads files without a project.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ProjectSettings {
    /// The project's root folder, or `None` without a project.
    pub root: Option<PathBuf>,
    /// The folder for fasls and sidecars, separate from the user's own fasls.
    pub cache: PathBuf,
    /// The init file to load before the first system. A file that does not exist is ignored.
    pub userinit: Option<PathBuf>,
}

/// Returns the program's cache folder, unless its environment names another one.
pub(crate) fn default_cache() -> Option<PathBuf> {
    Some(std::env::home_dir()?.join(".cache/steelbank"))
}

impl ProjectSettings {
    /// Returns settings for the project in the folder `root`: fasls and sidecars go to
    /// `.cache/steelbank/projects` in the home folder, and no init file is loaded.
    pub fn in_folder(root: impl Into<PathBuf>) -> Self {
        let cache =
            default_cache().unwrap_or_else(|| std::env::temp_dir().join("steelbank")).join("projects");
        Self { cache, root: Some(root.into()), userinit: None }
    }

    /// Returns settings without a project: files are loaded by path, and fasls and sidecars go to
    /// `cache`.
    pub fn without_root(cache: impl Into<PathBuf>) -> Self {
        Self { root: None, cache: cache.into(), userinit: None }
    }

    /// Sets the folder for fasls and sidecars.
    #[must_use]
    pub fn cache(self, folder: impl Into<PathBuf>) -> Self {
        Self { cache: folder.into(), ..self }
    }

    /// Sets the init file to load before the first system.
    #[must_use]
    pub fn userinit(self, path: impl Into<PathBuf>) -> Self {
        Self { userinit: Some(path.into()), ..self }
    }
}

/// Returns `path` relative to `root`, if `path` is below `root`.
fn below<'a>(root: &Path, path: &'a Path) -> Option<&'a Path> {
    let rest = path.as_os_str().as_bytes().strip_prefix(root.as_os_str().as_bytes());
    match rest {
        // Compare bytes where they suffice, because an answer may have thousands of paths.
        Some([b'/', rest @ ..])
            if !matches!(rest.first(), None | Some(b'/' | b'.')) && !rest.ends_with(b"/") =>
        {
            Some(Path::new(OsStr::from_bytes(rest)))
        }
        _ => path.strip_prefix(root).ok(),
    }
}

/// A project with its caches. All questions share it.
#[derive(Debug, Default)]
pub(crate) struct Project {
    settings: Option<ProjectSettings>,
    /// Whether Lisp has opened this project.
    pub(crate) opened: Mutex<bool>,
    documents: Arc<RwLock<Documents>>,
    /// The number of loads in progress.
    pub(crate) loading: AtomicUsize,
    loaded: RwLock<BTreeMap<PathBuf, u64>>,
    stale: Mutex<Stale>,
    /// Results of comparing loaded files with their text on disk: the file's stamp, the loaded
    /// contents, and whether they differ.
    compared: Mutex<HashMap<PathBuf, (FileStamp, Contents, bool)>>,
    image: RwLock<LastImageReport>,
    positions: Mutex<Positions>,
    names: Mutex<Names>,
    read_symbols: Mutex<ReadSymbols>,
    texts: Mutex<texts::Texts>,
    /// The text index of the tree, opened by the first question that needs it.
    text: OnceLock<Arc<TextIndex>>,
    buffers: RwLock<Vec<BufferText>>,
    watching: AtomicBool,
    interrupted_edits: Mutex<edits::InterruptedEdits>,
    /// The reason why the tree is not watched. It is outside of `texts`, so that reading it does
    /// not wait for a tree walk.
    watch_refusal: Mutex<Option<WatchRefusal>>,
}

/// Files to examine at the next refresh, even if the tree reports no change.
#[derive(Debug, Default)]
struct Stale {
    /// Files that were loaded or removed from the image, and files that got a document.
    files: BTreeSet<PathBuf>,
    /// Whether the set of project files may have changed with the systems' components.
    components: bool,
}

/// The image's files and systems, as of its last report.
#[derive(Debug, Default)]
struct LastImageReport {
    contents: HashMap<PathBuf, Contents>,
    systems: BTreeMap<String, ImageSystem>,
    /// The files of the project's systems that are below the root, each with the `.asd` files of
    /// the systems that contain it.
    components: Arc<HashMap<PathBuf, Vec<PathBuf>>>,
    /// The files of the project's systems, each with whether only systems with tests contain it.
    tests: HashMap<PathBuf, bool>,
}

/// The size and the hash of a file's contents when the file was loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Contents {
    /// The size in bytes.
    pub(crate) size: u64,
    /// The FNV-1a hash of the bytes.
    pub(crate) hash: u64,
}

impl Contents {
    fn matches(&self, bytes: &[u8]) -> bool {
        bytes.len() as u64 == self.size && fnv_1a(bytes) == self.hash
    }
}

/// A system that is registered with ASDF.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub(crate) struct ImageSystem {
    /// The `.asd` file that defines it.
    pub(crate) asd: PathBuf,
    /// Whether it is loaded.
    pub(crate) loaded: bool,
    /// Whether ASDF inferred it from a file of a package-inferred system.
    pub(crate) inferred: bool,
    /// Its Lisp files, if its `.asd` file is below the project's root.
    pub(crate) files: Option<Vec<PathBuf>>,
}

/// The version of a file that was loaded or compiled.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct FileVersion {
    pub(super) path: PathBuf,
    /// The write date in universal time (seconds).
    pub(super) write_date: u64,
}

impl FileVersion {
    fn loaded(write_dates: &BTreeMap<PathBuf, u64>, path: &Path) -> Option<FileVersion> {
        let write_date = *write_dates.get(path)?;
        Some(FileVersion { path: path.to_path_buf(), write_date })
    }
}

/// The folder of the sidecars in the cache.
const SIDECARS: &str = "taps";

/// The link to the lower cache, in the cache of a scratch image.
const LOWER: &str = "lower";

/// The folder of sidecars in the lower cache of a scratch image.
const LOWER_SIDECARS: &str = "lower/taps";

/// Resolves `given` against the root of the project, if there is one.
pub(crate) fn native(root: Option<&Path>, given: &Path) -> PathBuf {
    root.map_or_else(|| given.to_owned(), |root| root.join(given))
}

/// The session has no project.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("There is no project.")]
pub struct NoProject;

impl From<NoProject> for String {
    fn from(error: NoProject) -> String {
        error.to_string()
    }
}

impl Project {
    /// Returns whether a load is in progress, so that answers may soon change.
    pub(crate) fn is_loading(&self) -> bool {
        self.loading.load(Ordering::SeqCst) > 0
    }

    /// Creates a project with `settings`, and makes its root canonical.
    pub(crate) fn new(settings: Option<ProjectSettings>) -> Project {
        steelbank_watch::listen_for_descriptors(crate::engine::close_in_children);
        let settings = settings.map(|settings| ProjectSettings {
            root: settings.root.map(|root| std::fs::canonicalize(&root).unwrap_or(root)),
            ..settings
        });
        let project = Project { settings, ..Project::default() };
        project.texts.lock().documents = Arc::clone(&project.documents);
        project
    }

    /// Returns the settings that were passed to [`Project::new`], with the root in canonical form.
    pub(crate) fn settings(&self) -> Option<&ProjectSettings> {
        self.settings.as_ref()
    }

    /// Returns the project's root directory, in canonical form.
    pub(crate) fn root(&self) -> Option<&Path> {
        self.settings.as_ref()?.root.as_deref()
    }

    /// Returns the text index of the project's tree at `root`, and opens it at the first call. A
    /// scratch image uses the index in its lower cache.
    ///
    /// # Errors
    /// The root cannot be read, or the cache cannot be used.
    pub(crate) fn text_index(&self, root: &Path) -> Result<&Arc<TextIndex>, TextError> {
        if let Some(index) = self.text.get() {
            return Ok(index);
        }
        let cache = self.settings.as_ref().map(|settings| settings.cache.clone()).unwrap_or_default();
        let lower = cache.join(LOWER).canonicalize();
        let index = TextIndex::open(root, lower.as_deref().unwrap_or(&cache), Freshness::Automatic)?;
        if self.watching.load(Ordering::Acquire) {
            index.watch();
        }
        Ok(self.text.get_or_init(|| Arc::new(index)))
    }

    /// Uses `index` for this project, unless the project has already opened an index.
    pub(crate) fn share_text_index(&self, index: &Arc<TextIndex>) {
        let _ = self.text.set(Arc::clone(index));
    }

    /// Returns the project's root directory.
    ///
    /// # Errors
    /// There is no project.
    pub(crate) fn project_root(&self) -> Result<&Path, NoProject> {
        self.root().ok_or(NoProject)
    }

    /// Records loaded files, each with its write date (universal time) at the load. The names in a
    /// file will be read again if the date has changed, if `reload` selects the file because it was
    /// compiled or loaded since the last call, or if its sidecar was missing or incomplete.
    pub(crate) fn note_loaded(
        &self,
        files: impl IntoIterator<Item = (PathBuf, u64)>,
        reload: impl Fn(&Path) -> bool,
    ) {
        let (mut loaded, mut names) = (self.loaded.write(), self.names.lock());
        let mut positions = self.positions.lock();
        let mut stale = self.stale.lock();
        for (path, written) in files {
            let before = loaded.insert(path.clone(), written);
            if before != Some(written) || reload(&path) || names.gaps.contains_key(&path) {
                let version = FileVersion { path, write_date: written };
                positions.remove(&version);
                positions.epoch += 1;
                stale.files.insert(version.path.clone());
                names.pending.insert(version.path);
            }
        }
    }

    /// Removes deleted `files` from the loaded files, after the image has removed their
    /// definitions.
    pub(crate) fn forget_loaded(&self, files: &[PathBuf]) {
        let (mut loaded, mut names) = (self.loaded.write(), self.names.lock());
        let (mut image, mut stale) = (self.image.write(), self.stale.lock());
        for path in files {
            loaded.remove(path);
            names.forget(path);
            image.contents.remove(path);
            stale.files.insert(path.clone());
        }
    }

    /// Records the contents of the loaded files and, unless `systems` is `None`, the systems that
    /// are registered with ASDF.
    pub(crate) fn note_image(
        &self,
        contents: impl IntoIterator<Item = (PathBuf, Contents)>,
        systems: Option<BTreeMap<String, ImageSystem>>,
    ) {
        let contents = contents.into_iter().collect();
        let Some(systems) = systems else {
            self.image.write().contents = contents;
            return;
        };
        let mut components: HashMap<PathBuf, Vec<PathBuf>> = HashMap::new();
        let mut tests = HashMap::new();
        for (name, system) in &systems {
            let has_tests = has_tests(name);
            for file in system.files.iter().flatten() {
                tests.entry(file.clone()).and_modify(|all| *all &= has_tests).or_insert(has_tests);
                if self.root().is_some_and(|root| file.starts_with(root)) {
                    components.entry(file.clone()).or_default().push(system.asd.clone());
                }
            }
        }
        let mut image = self.image.write();
        self.stale.lock().components |= *image.components != components;
        *image = LastImageReport { contents, systems, components: Arc::new(components), tests };
    }

    /// Returns whether the file at `path` contains tests, by the names of its systems. `None`: no
    /// system of the project contains the file.
    pub(crate) fn is_test_file(&self, path: &Path) -> Option<bool> {
        self.image.read().tests.get(path).copied()
    }

    /// Returns the systems that are registered with ASDF, by name.
    pub(crate) fn image_systems(&self) -> BTreeMap<String, ImageSystem> {
        self.image.read().systems.clone()
    }

    /// Returns the name of the loaded project system that contains the file at `path`.
    pub(crate) fn system_of(&self, path: &Path) -> Option<String> {
        let image = self.image.read();
        let has =
            |system: &ImageSystem| system.loaded && system.files.iter().flatten().any(|file| file == path);
        image.systems.iter().find(|(_, system)| has(system)).map(|(name, _)| name.clone())
    }

    /// Lists the loaded files that belong to the project.
    pub(crate) fn loaded_project_files(&self) -> Vec<PathBuf> {
        let mut paths: Vec<PathBuf> = self.image.read().contents.keys().cloned().collect();
        let own = self.project_files();
        paths.retain(|path| own.contains(path));
        paths.sort();
        paths
    }

    /// Lists the registered systems that `.asd` files of the project define.
    pub(crate) fn project_systems(&self) -> Vec<(String, ImageSystem)> {
        let own = self.project_files();
        let is_own = |system: &ImageSystem| !system.inferred && own.contains(&system.asd);
        self.image_systems().into_iter().filter(|(_, system)| is_own(system)).collect()
    }

    /// Returns whether any loaded project file has changed.
    pub(crate) fn has_changed_files(&self) -> bool {
        self.loaded_project_files().iter().any(|path| self.has_changed(path))
    }

    /// Returns whether `system` is loaded in the image.
    pub(crate) fn is_loaded(&self, system: &str) -> bool {
        self.image.read().systems.get(system).is_some_and(|system| system.loaded)
    }

    /// Returns advice on how to give paths, to append to error messages.
    pub(crate) fn path_advice(&self) -> String {
        match self.root() {
            Some(root) => {
                format!(
                    "Give the path of an existing file, absolute or relative to the project ({}).",
                    root.display()
                )
            }
            None => "Give the path of an existing file.".to_owned(),
        }
    }

    /// Returns whether the file at `path` was loaded and has since been deleted or got other
    /// contents. If the file has a document, compares the document. A file that cannot be read
    /// counts as changed; a new date alone does not count.
    pub(crate) fn has_changed(&self, path: &Path) -> bool {
        let Some(then) = self.image.read().contents.get(path).copied() else { return false };
        if let Some(document) = self.document(path) {
            return !then.matches(&document.text);
        }
        // Do not follow links: a loaded file is not a link.
        let Ok(found) = std::fs::symlink_metadata(path) else { return true };
        let stamp = FileStamp::of(&found);
        match self.compared.lock().get(path) {
            Some(&(seen, with, changed)) if (seen, with) == (stamp, then) => return changed,
            _ => (),
        }
        let changed = stamp.size != then.size
            || steelbank_tree::read_plain(path, then.size).map_or(true, |bytes| !then.matches(&bytes));
        if stamp.is_reliable() {
            self.compared.lock().insert(path.to_owned(), (stamp, then, changed));
        }
        changed
    }

    /// Returns whether `text` equals the loaded contents of the file at `path`, or `None` if the
    /// file is not loaded.
    pub(crate) fn is_as_loaded(&self, path: &Path, text: &[u8]) -> Option<bool> {
        Some(self.image.read().contents.get(path)?.matches(text))
    }

    /// Lists the loaded files that were deleted or changed, as of `then` or later, sorted. Returns
    /// no files unless the tree is watched: a command that does not watch it has just loaded its
    /// files.
    pub(crate) fn changed_files(&self, then: Instant) -> Vec<PathBuf> {
        if !self.watching.load(Ordering::Acquire) || self.loaded.read().is_empty() {
            return Vec::new();
        }
        let mut files = self.refresh_since(then).load_states.stale();
        files.retain(|path| self.has_changed(path));
        files
    }

    /// Lists the loaded files, each with its write date at the load.
    pub(crate) fn loaded(&self) -> Vec<(PathBuf, u64)> {
        self.loaded.read().iter().map(|(path, &written)| (path.clone(), written)).collect()
    }

    /// Returns whether `written` is the write date of the loaded version of `path`. The image may
    /// still have definitions from earlier versions. Also returns true if no version is recorded,
    /// and for the number of a buffer text.
    pub(crate) fn is_current(&self, path: &Path, written: u64) -> bool {
        buffers::is_text(written) || self.loaded.read().get(path).is_none_or(|&loaded| loaded == written)
    }

    /// Returns the write date that the file at `path` had when it was loaded.
    pub(crate) fn loaded_date(&self, path: &Path) -> Option<u64> {
        self.loaded.read().get(path).copied()
    }

    /// Formats `path` for answers: relative to the root, if `path` is below the root.
    pub(crate) fn shown(&self, path: &Path) -> String {
        let shown = self.root().and_then(|root| below(root, path)).unwrap_or(path);
        match shown.as_os_str().is_empty() {
            true => ".".to_owned(),
            // Try `to_str` first: it is faster, and most paths are UTF-8.
            false => shown.to_str().map_or_else(|| shown.to_string_lossy().into_owned(), str::to_owned),
        }
    }

    /// Like [`Project::shown`], but shares `path` instead of copying it.
    pub(crate) fn shown_path(&self, path: &Arc<Path>) -> ShownPath {
        let shown = self.root().and_then(|root| below(root, path)).unwrap_or(path);
        ShownPath::end_of(Arc::clone(path), shown.as_os_str().len())
    }

    /// Resolves `given` against the project's root.
    pub(crate) fn native(&self, given: impl AsRef<Path>) -> PathBuf {
        native(self.root(), given.as_ref())
    }

    /// Resolves `given` against the project's root, and follows links.
    pub(crate) fn real(&self, given: impl AsRef<Path>) -> PathBuf {
        let native = self.native(given);
        native.canonicalize().unwrap_or(native)
    }

    /// Returns the positions in the file at `path`, for the loaded version with `write_date`.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn positions(&self, path: &Path, write_date: u64) -> std::io::Result<Arc<PositionedFile>> {
        let document = self.document(path);
        let stamp = match &document {
            Some(document) => document.stamp,
            None => FileStamp::of(&std::fs::metadata(path)?),
        };
        let version = FileVersion { path: path.to_path_buf(), write_date };
        let epoch = {
            let mut positions = self.positions.lock();
            if let Some(known) = positions.get(&version)
                && known.stamp == stamp
            {
                return Ok(Arc::clone(&known.file));
            }
            positions.epoch
        };
        let sidecar = self.sidecar(path, write_date);
        let file = match document {
            document if buffers::is_text(write_date) => {
                let bytes =
                    document.map_or_else(|| steelbank_tree::read_source(path), |it| Ok(it.text.to_vec()))?;
                let (compiled, position) = self.buffer_text(write_date);
                PositionedFile::from_buffer(path, &bytes, &compiled, position)
            }
            None => PositionedFile::open(path, write_date, sidecar.as_deref())?,
            Some(document) => PositionedFile::of_text(path, &document.text, write_date, sidecar.as_deref()),
        };
        let file = Arc::new(file);
        let known = CachedPositions { stamp, file: Arc::clone(&file), last_used: 0 };
        let mut positions = self.positions.lock();
        // Do not cache positions that were read before a load ended: the load may have written
        // another sidecar.
        if positions.epoch == epoch {
            positions.insert(version, known);
        }
        Ok(file)
    }

    /// Like [`Project::positions`], but relies on the refresh that created `_view`: a watched file
    /// is not examined again.
    ///
    /// # Errors
    /// As for [`Project::positions`].
    pub(crate) fn positions_at(
        &self,
        _view: &TreeView,
        path: &Path,
        write_date: u64,
    ) -> std::io::Result<Arc<PositionedFile>> {
        if let Some(stamp) = self.texts.lock().load_states.stamp_if_watched(path) {
            let version = FileVersion { path: path.to_path_buf(), write_date };
            let mut positions = self.positions.lock();
            if let Some(known) = positions.get(&version).filter(|known| known.stamp == stamp) {
                return Ok(Arc::clone(&known.file));
            }
        }
        self.positions(path, write_date)
    }

    /// Returns the positions in the file on disk, even if a document replaces its text.
    ///
    /// # Errors
    /// The file cannot be read.
    pub(crate) fn positions_on_disk(&self, path: &Path, write_date: u64) -> std::io::Result<PositionedFile> {
        PositionedFile::open(path, write_date, self.sidecar(path, write_date).as_deref())
    }

    /// Returns whether `path` is a link, as of the refresh that created `_view` or later.
    pub(crate) fn is_link_at(&self, _view: &TreeView, path: &Path) -> bool {
        self.texts.lock().load_states.stamp_if_watched(path).is_none() && path.is_symlink()
    }

    /// Returns the path of the sidecar for `path`. The sidecar may not exist.
    fn sidecar(&self, path: &Path, write_date: u64) -> Option<PathBuf> {
        let truename =
            std::fs::canonicalize(path).ok().or_else(|| self.document(path).map(|_| path.to_path_buf()))?;
        let name = sidecar_name(&truename, write_date);
        let found = self.sidecar_called(name.as_ref()).map(|(path, _)| path);
        found.or_else(|| Some(self.sidecars()?.join(name)))
    }

    /// Returns the path and stamp of the sidecar named `name`, from this cache or else from the
    /// lower cache of a scratch image.
    fn sidecar_called(&self, name: &Path) -> Option<(PathBuf, FileStamp)> {
        let cache = &self.settings.as_ref()?.cache;
        [SIDECARS, LOWER_SIDECARS].into_iter().find_map(|folder| {
            let path = cache.join(folder).join(name);
            let stamp = FileStamp::of_path(&path)?;
            Some((path, stamp))
        })
    }

    /// Uses the text of `document` for the file at `path`, a real path, instead of the text on
    /// disk.
    pub(crate) fn set_document(&self, path: &Path, document: Document) {
        self.documents.write().set(path, document);
        self.stale.lock().files.insert(path.to_owned());
    }

    /// Returns the document that replaces the file at `path`, a real path.
    pub(crate) fn document(&self, path: &Path) -> Option<Arc<Document>> {
        self.documents.read().get(path)
    }

    /// Reads the text of the file at `path`, a real path, from its document or else from disk.
    pub(crate) fn read(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        match self.document(path) {
            Some(document) => Ok(document.text.to_vec()),
            None => steelbank_tree::read_source(path),
        }
    }

    fn sidecars(&self) -> Option<PathBuf> {
        Some(self.settings.as_ref()?.cache.join(SIDECARS))
    }

    /// Deletes sidecars of earlier versions of `paths`, and temporary files that are older than a
    /// day. Ignores errors, because stale sidecars are never read.
    pub(crate) fn delete_old_sidecars<'a>(&self, paths: impl IntoIterator<Item = &'a Path>) {
        const ABANDONED: Duration = Duration::from_secs(24 * 3600);
        let Some(entries) = self.sidecars().and_then(|folder| std::fs::read_dir(folder).ok()) else { return };
        let loaded = self.loaded.read();
        let current: HashMap<String, String> = paths
            .into_iter()
            .filter_map(|path| {
                let name = sidecar_name(path, *loaded.get(path)?);
                Some((name.split_once('-')?.0.to_owned(), name))
            })
            .collect();
        for entry in entries.flatten() {
            let name = entry.file_name();
            let Some((file, version)) = name.to_str().and_then(|name| name.split_once('-')) else { continue };
            let abandoned = || {
                let age = entry.metadata().and_then(|metadata| metadata.modified());
                age.is_ok_and(|age| age.elapsed().is_ok_and(|age| age > ABANDONED))
            };
            let old = match version.ends_with(".tap") {
                true => current.get(file).is_some_and(|current| **current != *name),
                false => abandoned(),
            };
            if old {
                // The entry may be a folder.
                let _ = std::fs::remove_file(entry.path()).or_else(|_| std::fs::remove_dir_all(entry.path()));
            }
        }
    }
}
/// Whether a system contains tests, by its name: `app/tests`, `app-test`, `app-test-suite`. A word
/// such as `test-runner` does not count.
fn has_tests(system: &str) -> bool {
    system.split('/').any(|part| {
        let part = part.strip_suffix("-suite").unwrap_or(part);
        let last = part.rsplit(['-', '.']).next().unwrap_or(part);
        matches!(last, "test" | "tests" | "testing" | "testsuite" | "spec") || part == "t"
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_systems_are_recognized_by_name() {
        for name in ["app/tests", "app-test", "tests/app", "app.test", "app-test-suite", "app/t", "app-spec"]
        {
            assert!(has_tests(name), "{name}");
        }
        for name in ["app", "app/src/test-runner", "latest", "test-tools", "app/contest"] {
            assert!(!has_tests(name), "{name}");
        }
    }
}
