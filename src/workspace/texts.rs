//! Tracks files that are not loaded or are stale, and the names in them. The text index holds the
//! names of most of the tree's files. Documents, files outside of the tree, and all files if there
//! is no index are read here; the most recently used texts stay in a cache. [`Project::tree_view`]
//! refreshes this state and returns a [`TreeView`]; queries such as [`Project::named_at`] take the
//! view and do not refresh again. A refresh reads only changes if the kernel reports them.
//! Otherwise, it calls `stat` for each file and folder.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::ops::{Deref, Range};
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::{MutexGuard, RwLock};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::lines::{LineIndex, decode};
use steelbank_reader::{Dialect, Features, LispText};
use steelbank_watch::WatchRefusal;

use crate::workspace::documents::Documents;
use crate::workspace::load_states::LoadStates;
use crate::workspace::tree::ProjectWalk;
use crate::workspace::watcher::WatchedTree;
use crate::workspace::{FileStamp, Project};
use steelbank_text::{
    FileNameTokens, FileTokens, IndexControl, IndexedText, LispNames, PackageText, TextContext, TokenClass,
    WordMatch,
};
use steelbank_tree::{is_backup, is_lisp, is_vendored};

/// The relation of the image to a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TextState {
    /// The file is not loaded.
    NotLoaded,
    /// The file was loaded and has changed since.
    Changed,
    /// The file is loaded, but there is no complete record of how the compiler read it.
    #[serde(rename = "unrecorded")]
    NoSidecar,
    /// The file is loaded and unchanged, but a feature expression excludes this part.
    #[serde(rename = "left-out")]
    FeatureExcluded,
    /// The file is loaded and unchanged. Code turns the name into a symbol only when it runs: the
    /// name is in a string that is read or formatted, or in a symbol lookup.
    #[serde(rename = "named")]
    RuntimeName,
    /// The name is in a string that code may read or compare with names.
    #[serde(rename = "string")]
    InString,
}

/// The occurrences of a name in a file's text.
#[derive(Debug)]
pub(crate) struct NamedText {
    pub(crate) path: Arc<Path>,
    /// The relation of the image to the file. [`TextState::FeatureExcluded`] means that the file is
    /// loaded and unchanged, with a complete sidecar.
    pub(crate) load_state: TextState,
    /// The token classes. All tokens of one class denote the same symbol.
    pub(crate) classes: Arc<[Arc<TokenClass>]>,
    /// The tokens of this and other files, in order, and the range of this file's tokens. A token
    /// is the index of its class, and its line (from 1).
    tokens: (Arc<Vec<(u32, u32)>>, Range<usize>),
    stamp: FileStamp,
}

impl NamedText {
    /// Returns the runs of consecutive tokens of the same class: the class's index, the class, and
    /// the lines.
    pub(crate) fn runs(
        &self,
    ) -> impl Iterator<Item = (u32, &TokenClass, impl ExactSizeIterator<Item = u32>)> {
        let (tokens, range) = &self.tokens;
        let runs = tokens[range.clone()].chunk_by(|(one, _), (other, _)| one == other);
        runs.filter_map(|run| {
            let number = run.first()?.0;
            let class = self.classes.get(number as usize)?;
            Some((number, &**class, run.iter().map(|(_, line)| *line)))
        })
    }
}

/// The occurrences of a name in a vendored file.
#[derive(Debug)]
pub(crate) struct VendoredText {
    pub(crate) path: PathBuf,
    /// The runs of consecutive tokens of the same class, in order: the class and the number of
    /// tokens.
    pub(crate) runs: Vec<(Arc<TokenClass>, usize)>,
}

/// The text of a file that contains a name.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub(crate) struct UnloadedText {
    pub(crate) path: PathBuf,
    /// The relation of the image to the file. [`TextState::FeatureExcluded`] means that the file is
    /// loaded and unchanged, except for the tokens that [`state_in_loaded_file`] accepts.
    pub(crate) load_state: TextState,
    /// The decoded text and its tokens.
    pub(crate) read: Arc<ReadText>,
}

impl Deref for UnloadedText {
    type Target = ReadText;

    fn deref(&self) -> &ReadText {
        &self.read
    }
}

/// The text of a file as it was read.
#[derive(Debug)]
pub(crate) struct ReadText {
    /// The decoded text. Offsets refer to it, not to the bytes on disk.
    pub(crate) text: String,
    pub(crate) lines: LineIndex,
    pub(crate) tokens: FileTokens,
    key_parameters: OnceLock<BTreeSet<u32>>,
}

impl ReadText {
    fn new(bytes: &[u8]) -> Arc<Self> {
        let text = decode(bytes);
        let (lines, tokens) = (LineIndex::new(text.as_bytes()), FileTokens::read(text.as_bytes()));
        Arc::new(Self { text: text.into(), lines, tokens, key_parameters: OnceLock::new() })
    }

    /// Returns whether a parameter after `&key` without an explicit keyword starts at byte
    /// `offset`.
    pub(crate) fn is_key_parameter(&self, offset: u32) -> bool {
        let text = self.text.as_bytes();
        let read = || LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
        self.key_parameters.get_or_init(|| read().key_parameters(text)).contains(&offset)
    }

    /// Estimates the memory use in bytes.
    fn size(&self) -> usize {
        self.tokens.size() + self.text.len() + 4 * self.lines.count()
    }
}

/// The files that contain a name, and the files that could not be searched.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) struct NamedTexts<T> {
    /// The files, by path.
    pub(crate) files: Vec<T>,
    /// With [`TextFilter::UnloadedAndVendored`], the vendored files that contain the name and
    /// belong to no project system.
    pub(crate) vendored: Vec<VendoredText>,
    /// Files that could not be read or are too large. Contains the project's root if the text
    /// index is damaged.
    pub(crate) unreadable: Vec<PathBuf>,
    /// Whether the project has more files than are searched.
    pub(crate) cut: bool,
}

/// The maximum size of a searched file, in bytes.
const LARGEST_FILE: u64 = 16 << 20;
/// The maximum memory of cached texts, in bytes.
const CACHED_BYTES: usize = 64 << 20;
/// The cached state of the project's texts.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// The documents, shared with the project. A document's text replaces the text of its file.
    pub(super) documents: Arc<RwLock<Documents>>,
    pub(super) root: Option<PathBuf>,
    pub(super) watcher: WatchedTree,
    /// The time when the last refresh began.
    pub(super) refreshed: Option<Instant>,
    pub(super) load_states: LoadStates,
    pub(super) files: HashMap<PathBuf, Arc<CachedNames>>,
    /// Files that requested loads compiled or failed at, and all files of requested systems outside
    /// of the project. They are searched even if they do not belong to the project.
    pub(super) requested: BTreeSet<PathBuf>,
    /// Loaded files that are unchanged on disk, each with its stamp and the write date of the
    /// loaded version.
    pub(super) unchanged_since_load: HashMap<PathBuf, (FileStamp, u64)>,
    /// The names in the tree's text index, as of the last refresh.
    pub(super) names: Option<LispNames>,
    read: HashMap<PathBuf, Read>,
    size: usize,
    clock: u64,
}

#[derive(Debug)]
pub(super) struct CachedNames {
    pub(super) stamp: FileStamp,
    /// Whether every later change will alter the stamp.
    pub(super) reliable: bool,
    /// The version of the text that the text index covers. If set, the names are in the index, not
    /// here.
    pub(super) indexed: Option<IndexedText>,
    /// Whether the text index lacks the file's names, so that the file's text must be searched.
    pub(super) is_unindexed: bool,
    pub(super) packages: Arc<[PackageText]>,
    pub(super) readable: bool,
}

#[derive(Debug)]
struct Read {
    stamp: FileStamp,
    text: Arc<ReadText>,
    last_used: u64,
}

impl Texts {
    /// Reads the text to use for the file at `path`: its document, or else the file.
    fn text_of(&self, path: &Path) -> Option<Vec<u8>> {
        match self.documents.read().get(path) {
            Some(document) => Some(document.text.to_vec()),
            None => steelbank_tree::read_source(path).ok(),
        }
    }

    fn stamp_of(&self, path: &Path) -> Option<FileStamp> {
        match self.documents.read().get(path) {
            Some(document) => Some(document.stamp),
            None => FileStamp::of_path(path),
        }
    }

    /// Refreshes the cached names of the file at `path`. Returns `None` if there is no such file.
    pub(super) fn known(&mut self, path: &Path) -> Option<Arc<CachedNames>> {
        let Some(stamp) = self.stamp_of(path) else {
            self.invalidate(path);
            return None;
        };
        let indexed = self.indexed(path);
        if let Some(known) = self.files.get(path)
            && known.reliable
            && known.stamp == stamp
            && known.indexed == indexed
        {
            return Some(Arc::clone(known));
        }
        self.forget(path);
        let known = Arc::new(self.read_known(path, stamp, indexed));
        self.files.insert(path.to_path_buf(), Arc::clone(&known));
        Some(known)
    }

    /// Returns the version of the file at `path` that the index covers. The index reports changes
    /// of this file. Returns `None` if the index does not cover the file or a document replaces it.
    pub(super) fn indexed(&self, path: &Path) -> Option<IndexedText> {
        let relative = path.strip_prefix(self.root.as_ref()?).ok()?;
        let text = self.names.as_ref()?.text_of(relative)?;
        self.documents.read().get(path).is_none().then_some(text)
    }

    /// Drops everything cached for the file at `path`, even if its stamp is the same.
    pub(super) fn invalidate(&mut self, path: &Path) {
        self.files.remove(path);
        self.unchanged_since_load.remove(path);
        self.forget(path);
    }

    fn read_known(&mut self, path: &Path, stamp: FileStamp, indexed: Option<IndexedText>) -> CachedNames {
        let reliable = stamp.is_reliable();
        let nothing = CachedNames {
            stamp,
            reliable,
            indexed,
            is_unindexed: false,
            packages: Arc::default(),
            readable: true,
        };
        if indexed.is_some() {
            return nothing;
        }
        if stamp.size > LARGEST_FILE {
            return CachedNames { readable: false, ..nothing };
        }
        let Some(bytes) = self.text_of(path) else {
            return CachedNames { readable: false, ..nothing };
        };
        if !is_lisp(path, &bytes) {
            return nothing;
        }
        let text = ReadText::new(&bytes);
        let known = CachedNames { is_unindexed: true, packages: text.tokens.packages().into(), ..nothing };
        self.cache(path, Read { stamp, text, last_used: self.clock });
        known
    }

    fn cache(&mut self, path: &Path, read: Read) {
        self.size += read.text.size();
        self.read.insert(path.to_path_buf(), read);
        while self.size > CACHED_BYTES && self.read.len() > 1 {
            let oldest =
                self.read.iter().min_by_key(|(_, read)| read.last_used).map(|(path, _)| path.clone());
            let Some(oldest) = oldest else { break };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, path: &Path) {
        if let Some(read) = self.read.remove(path) {
            self.size = self.size.saturating_sub(read.text.size());
        }
    }

    /// Returns the text of the file at `path`. Its cached names must be up to date and have
    /// `stamp`.
    fn read(&mut self, path: &Path, stamp: FileStamp) -> Option<Arc<ReadText>> {
        self.clock += 1;
        let clock = self.clock;
        if let Some(read) = self.read.get_mut(path)
            && read.stamp == stamp
        {
            read.last_used = clock;
            return Some(Arc::clone(&read.text));
        }
        self.forget(path);
        let bytes = self.text_of(path)?;
        let text = ReadText::new(&bytes);
        self.cache(path, Read { stamp, text: Arc::clone(&text), last_used: clock });
        Some(text)
    }
}

/// Returns the state of a token that the compiler did not read as a symbol, although the file is
/// loaded and unchanged. Returns `None` for words in comments and ordinary strings, LOOP keywords,
/// parameters of DEFGENERIC, and tokens that the compiler read. A token is guarded if the text
/// alone does not show whether its feature expression is true. A guarded token counts as excluded;
/// only the sidecar shows whether the compiler read it.
pub(crate) fn state_in_loaded_file(token: &TokenClass) -> Option<TextState> {
    match token.context {
        TextContext::Comment | TextContext::Prose | TextContext::Parameter => None,
        _ if !token.active || token.guarded => Some(TextState::FeatureExcluded),
        TextContext::Lookup(_) | TextContext::Read => Some(TextState::RuntimeName),
        TextContext::Code | TextContext::Package { .. } => None,
    }
}

/// The part of a file's text to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TextFilter {
    /// Text that is not loaded, is stale or has no complete sidecar; in other loaded files, the
    /// tokens that [`state_in_loaded_file`] accepts.
    Unloaded,
    /// The same as `Unloaded`, and vendored files that belong to no project system.
    UnloadedAndVendored,
    /// All text.
    All,
}

impl Project {
    /// Watches the project's tree from now on, so that a question does not check every file for
    /// changes. If watching fails, questions check all files. This is for long-running programs,
    /// because the kernel takes about 10 ms to end a watch.
    pub(crate) fn watch(&self) {
        self.texts.lock().watcher.watch();
        self.watching.store(true, std::sync::atomic::Ordering::Release);
        if let Some(index) = self.text.get() {
            index.watch();
        }
    }

    /// Returns why the tree is not watched although [`Project::watch`] was called, as of the last
    /// question. Then each question checks every file.
    pub(crate) fn watch_refusal(&self) -> Option<WatchRefusal> {
        *self.watch_refusal.lock()
    }

    /// Applies the changes in the tree since the last refresh.
    pub(super) fn update_tree(&self, texts: &mut Texts) {
        // Share the event queue of the text index, which watches the same folders.
        let index = || self.text_index(self.root()?).ok();
        texts.watcher.update(self.root(), &|| index().map(|index| index.queue()).unwrap_or_default());
        *self.watch_refusal.lock() = texts.watcher.refusal;
    }

    /// Returns whether the file at `path` belongs to the project: see [`ProjectFiles`].
    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.project_files().contains(path)
    }

    /// Applies the changes in the tree, and locks the texts.
    fn refresh_tree(&self) -> MutexGuard<'_, Texts> {
        let mut texts = self.texts.lock();
        self.update_tree(&mut texts);
        for path in &texts.watcher.changes.changed {
            self.positions.lock().forget(path);
        }
        texts
    }

    /// Returns the current set of project files.
    pub(crate) fn project_files(&self) -> ProjectFiles {
        self.project_files_in(&self.refresh_tree().watcher.walk)
    }

    pub(super) fn project_files_in(&self, walk: &ProjectWalk) -> ProjectFiles {
        let components = Arc::clone(&self.image.read().components);
        ProjectFiles { folders: Arc::clone(&walk.folders), changes: walk.changes, components }
    }

    /// Refreshes the texts, and returns the resulting view.
    pub(crate) fn tree_view(&self) -> TreeView {
        TreeView(self.project_files_in(&self.refresh().watcher.walk))
    }

    /// Lists the project's files that may be Lisp, sorted.
    pub(crate) fn lisp_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.refresh_tree().watcher.walk.files.iter().cloned().collect();
        files.sort_unstable();
        files
    }

    /// Records files to search even if they do not belong to the project: files that requested
    /// loads compiled or failed at, and files of requested systems outside of the project.
    pub(crate) fn note_requested(&self, files: impl IntoIterator<Item = PathBuf>) {
        self.texts.lock().requested.extend(files);
    }

    /// Updates the text index. Returns the files with indexed text that has changed since the last
    /// refresh.
    pub(super) fn update_index(&self, texts: &mut Texts) -> Vec<PathBuf> {
        let Some(root) = self.root() else { return Vec::new() };
        texts.root = Some(root.to_owned());
        let now = self.text_index(root).and_then(|index| index.lisp_names(&IndexControl::none())).ok();
        let before = std::mem::replace(&mut texts.names, now);
        let both = texts.names.as_ref().zip(before.as_ref());
        let taken: Option<Vec<PathBuf>> = both
            .and_then(|(now, before)| now.updated_between(before))
            .map(|taken| taken.map(|path| root.join(path)).collect());
        if taken.is_none() {
            texts.load_states.places.clear();
        }
        let is_other = |path: &Path| {
            let entry = texts.load_states.entries.get(path);
            let known = entry.and_then(|entry| entry.known.as_ref());
            known.is_some_and(|known| known.indexed != texts.indexed(path))
        };
        match taken {
            Some(taken) => taken.into_iter().filter(|path| is_other(path)).collect(),
            None => {
                let all = texts.load_states.entries.keys();
                all.filter(|path| is_other(path)).map(|path| path.to_path_buf()).collect()
            }
        }
    }

    /// Finds the project files with an occurrence of `name` that `filter` accepts, as of the
    /// refresh of `_view` or later. Returns all occurrences in these files. Unless `own_only`, also
    /// searches the other files that [`Project::note_requested`] has recorded. Does not read files
    /// that the index covers.
    pub(crate) fn named_at(
        &self,
        _view: &TreeView,
        name: &str,
        filter: TextFilter,
        own_only: bool,
    ) -> NamedTexts<NamedText> {
        let mut guard = self.texts.lock();
        let texts = &mut *guard;
        let load_states = &texts.load_states;
        let of_interest = |path: &Arc<Path>| {
            let entry = load_states.entries.get(path)?;
            let (load_state, known) = (entry.load_state?, entry.known.as_ref()?);
            (entry.own || !own_only).then(|| (Arc::clone(path), load_state, known.stamp))
        };
        let unreadable = load_states.unreadable.iter().filter_map(of_interest);
        // Skip folders: a folder that was to be loaded as a file has no text.
        let mut unreadable: Vec<PathBuf> =
            unreadable.map(|(path, ..)| path.to_path_buf()).filter(|path| !path.is_dir()).collect();
        let unindexed: Vec<_> = load_states.unindexed.iter().filter_map(of_interest).collect();
        // In a loaded, unchanged file, the other tokens are only words in comments or strings, or
        // the compiler read them as symbols and the image's data covers them.
        let shows = |load_state, class: &TokenClass| {
            filter == TextFilter::All
                || load_state != TextState::FeatureExcluded
                || state_in_loaded_file(class).is_some()
        };
        let (mut files, mut vendored) = (Vec::new(), Vec::new());
        let Texts { names: index, root, load_states, .. } = texts;
        if let (Some(names), Some(root)) = (index.as_ref(), root.as_ref()) {
            let Some(named) = names.named(name) else {
                // Discard the damaged index, so that the next question opens a new one.
                self.text.get().into_iter().for_each(|index| index.discard());
                *index = None;
                unreadable.extend(self.root().map(Path::to_owned));
                return NamedTexts { files, vendored, unreadable, cut: texts.watcher.walk.cut };
            };
            let tokens = Arc::new(named.tokens);
            for FileNameTokens { path: relative, file, classes, tokens: range, .. } in named.files {
                let entry = load_states.indexed(file, || root.join(relative));
                let Some((path, entry)) = entry.filter(|(_, entry)| entry.own || !own_only) else {
                    if filter == TextFilter::UnloadedAndVendored && is_vendored(root, relative) {
                        let runs = tokens[range].chunk_by(|(one, _), (other, _)| one == other);
                        let class = |run: &[(u32, u32)]| classes.get(run.first()?.0 as usize).cloned();
                        let runs = runs.filter_map(|run| Some((class(run)?, run.len()))).collect();
                        vendored.push(VendoredText { path: root.join(relative), runs });
                    }
                    continue;
                };
                let (Some(load_state), Some(known)) = (entry.load_state, &entry.known) else { continue };
                let is_shown = |(class, _): &(u32, u32)| {
                    classes.get(*class as usize).is_some_and(|class| shows(load_state, class))
                };
                if known.indexed.is_some() && tokens[range.clone()].iter().any(is_shown) {
                    let (path, classes, stamp) = (Arc::clone(path), Arc::clone(classes), known.stamp);
                    let tokens = (Arc::clone(&tokens), range);
                    files.push(NamedText { path, load_state, classes, tokens, stamp });
                }
            }
        }
        let indexed = files.len();
        for (path, load_state, stamp) in unindexed {
            let Some(read) = texts.read(&path, stamp) else { continue };
            let found = read.tokens.named(name).iter();
            if found.clone().any(|token| shows(load_state, token)) {
                let classes = found.clone().map(|token| Arc::clone(&token.class)).collect();
                let lines = found.map(|token| read.lines.line(token.span.start));
                let tokens: Vec<(u32, u32)> = (0..).zip(lines).collect();
                let range = 0..tokens.len();
                files.push(NamedText { path, load_state, classes, tokens: (Arc::new(tokens), range), stamp });
            }
        }
        // The indexed files are sorted already.
        if files.len() > indexed {
            files.sort_by(|left, right| left.path.as_os_str().cmp(right.path.as_os_str()));
        }
        NamedTexts { files, vendored, unreadable, cut: texts.watcher.walk.cut }
    }

    /// Returns an identity of the project's text as of the refresh of `view` or later, to be
    /// compared with the identity at another time.
    pub(crate) fn text_now(&self, view: &TreeView) -> ProjectText {
        let texts = self.texts.lock();
        let stamp = |path: &Arc<Path>| Some(texts.load_states.entries.get(path)?.known.as_ref()?.stamp);
        let unindexed =
            texts.load_states.unindexed.iter().filter_map(|path| Some((Arc::clone(path), stamp(path)?)));
        ProjectText { own: view.0.clone(), names: texts.names.clone(), unindexed: unindexed.collect() }
    }

    /// Finds the words equal to `name`, ignoring the case of ASCII letters, in the project's text
    /// files that are neither Lisp nor loaded nor backups, as of the refresh of `view` or later.
    /// Returns `None` if the text cannot be searched.
    pub(crate) fn words(&self, view: &TreeView, name: &str) -> Option<Vec<WordMatch>> {
        let names = self.texts.lock().names.clone()?;
        let index = self.text.get()?;
        names.words(index, name, &|path| {
            let full = index.root().join(path);
            view.contains(&full) && !is_backup(path) && self.loaded_date(&full).is_none()
        })
    }

    /// Reads the text of a file where a name was found. Returns `None` if the file can no longer be
    /// read.
    pub(crate) fn read_named(&self, named: &NamedText) -> Option<UnloadedText> {
        let read = self.texts.lock().read(&named.path, named.stamp)?;
        Some(UnloadedText { path: named.path.to_path_buf(), load_state: named.load_state, read })
    }

    /// Reads the texts that [`Project::named_at`] finds.
    pub(crate) fn texts_naming_at(
        &self,
        view: &TreeView,
        name: &str,
        filter: TextFilter,
        own_only: bool,
    ) -> NamedTexts<UnloadedText> {
        let NamedTexts { files, vendored, unreadable, cut } = self.named_at(view, name, filter, own_only);
        let files = files.iter().filter_map(|named| self.read_named(named)).collect();
        NamedTexts { files, vendored, unreadable, cut }
    }

    /// Finds the definitions of the package called `name` in files that are not loaded, are stale
    /// or have no complete sidecar, as of the refresh of `_view` or later.
    pub(crate) fn unloaded_packages(&self, _view: &TreeView, name: &str) -> Vec<Arc<PackageText>> {
        let mut texts = self.texts.lock();
        let is_called = |package: &&PackageText| package.names.iter().any(|each| each == name);
        let mut all: Vec<Arc<PackageText>> =
            texts.load_states.packages().iter().filter(is_called).cloned().map(Arc::new).collect();
        if let (Some(names), Some(root)) = (&texts.names, &texts.root) {
            for (path, package) in names.packages(name).unwrap_or_default() {
                // Copies of a file share one definition.
                if all.iter().any(|known| Arc::ptr_eq(known, &package)) {
                    continue;
                }
                let entry = texts.load_states.entries.get(root.join(path).as_path());
                let load_state =
                    entry.filter(|entry| entry.known.as_ref().is_some_and(|known| known.indexed.is_some()));
                if !matches!(
                    load_state.and_then(|entry| entry.load_state),
                    None | Some(TextState::FeatureExcluded)
                ) {
                    all.push(package);
                }
            }
        }
        all
    }
}

/// The identity of the project's text at one moment. In equal texts, each name has the same places.
#[derive(Debug, Clone)]
pub(crate) struct ProjectText {
    own: ProjectFiles,
    names: Option<LispNames>,
    /// The files that the index does not cover.
    unindexed: Vec<(Arc<Path>, FileStamp)>,
}

impl PartialEq for ProjectText {
    fn eq(&self, other: &Self) -> bool {
        let is_same_index = match (&self.names, &other.names) {
            (Some(names), Some(other)) => names.is(other),
            (names, other) => names.is_none() && other.is_none(),
        };
        is_same_index
            && Arc::ptr_eq(&self.own.folders, &other.own.folders)
            && self.own.changes == other.own.changes
            && Arc::ptr_eq(&self.own.components, &other.own.components)
            && self.unindexed == other.unindexed
    }
}

/// A view of the project's tree after a refresh. Queries that take it do not refresh again.
#[derive(Debug, Clone)]
pub(crate) struct TreeView(ProjectFiles);

impl Deref for TreeView {
    type Target = ProjectFiles;

    fn deref(&self) -> &ProjectFiles {
        &self.0
    }
}

/// The set of the project's files at one moment. It contains the files in those folders below the
/// root that are neither vendored nor ignored. It also contains other files below the root if they
/// belong to a system with an `.asd` file in such a folder.
#[derive(Debug, Clone)]
pub(crate) struct ProjectFiles {
    folders: Arc<HashSet<PathBuf>>,
    /// Counts the files that were added to or removed from these folders.
    changes: u64,
    /// The files of the project's systems that are below the root, each with the `.asd` files of
    /// the systems that contain it.
    components: Arc<HashMap<PathBuf, Vec<PathBuf>>>,
}

impl ProjectFiles {
    /// Returns whether the file at `path` is in the set.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        let is_walked = |path: &Path| path.parent().is_some_and(|folder| self.folders.contains(folder));
        is_walked(path)
            || self
                .components
                .get(path)
                .is_some_and(|definitions| definitions.iter().any(|asd| is_walked(asd)))
    }
}
