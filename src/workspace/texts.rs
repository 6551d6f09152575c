//! Finds the files whose text on disk the image does not have, and the names in them.
//!
//! A question looks only for changes where the kernel reports them; else it calls `stat` for each file and
//! folder. The names in the tree's files come from the index of its text. Others (documents, files outside of the tree, all
//! of them where there can be no index) are read; the text is kept of those that were asked about last.

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
use crate::workspace::live::WatchedTree;
use crate::workspace::standings::Standings;
use crate::workspace::tree::ProjectWalk;
use crate::workspace::{FileStamp, Project};
use steelbank_text::{
    FileNameTokens, FileTokens, IndexControl, IndexedText, LispNames, PackageText, TextContext, TokenClass,
    WordMatch,
};
use steelbank_tree::{is_lisp, is_vendored};

/// How the image relates to a file's text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum TextState {
    /// It is not loaded.
    NotLoaded,
    /// It was loaded, and has changed since.
    Changed,
    /// It is loaded, but how the compiler read it is not known.
    Unrecorded,
    /// It is loaded as it stands; a feature expression leaves this part out.
    LeftOut,
    /// It is loaded as it stands; the name is made into a symbol only when the code runs: in a string that is read or
    /// formatted, or where a symbol is looked up.
    Named,
}

/// Where a name stands in a file's text.
#[derive(Debug)]
pub(crate) struct NamedText {
    pub(crate) path: Arc<Path>,
    /// The relation of the image to the file.
    pub(crate) standing: TextState,
    /// What decides which symbol a token is, by its number.
    pub(crate) classes: Arc<[Arc<TokenClass>]>,
    /// By place: the number of a class, and the line, from 1; and which of them are in the file. Files share them.
    tokens: (Arc<Vec<(u32, u32)>>, Range<usize>),
    stamp: FileStamp,
}

impl NamedText {
    /// The runs of tokens of one class, with its number and their lines, by place.
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

/// Where a name stands in a vendored file.
#[derive(Debug)]
pub(crate) struct VendoredText {
    pub(crate) path: PathBuf,
    /// By place: what decides which symbol the tokens are, and how many there are in a row.
    pub(crate) runs: Vec<(Arc<TokenClass>, usize)>,
}

/// A file with text that the image does not have.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub(crate) struct UnseenText {
    pub(crate) path: PathBuf,
    /// The relation of the image to the file. In one that is [`TextState::LeftOut`], only the tokens of which
    /// [`in_seen_file`] says so are unseen.
    pub(crate) standing: TextState,
    /// The decoded text and its tokens.
    pub(crate) read: Arc<ReadText>,
}

impl Deref for UnseenText {
    type Target = ReadText;

    fn deref(&self) -> &ReadText {
        &self.read
    }
}

/// The text of a file as it was read.
#[derive(Debug)]
pub(crate) struct ReadText {
    /// Decoded: offsets are of it, not of the bytes on disk.
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

    /// Whether a parameter after `&key` without a keyword of its own starts at byte `offset`.
    pub(crate) fn is_key_parameter(&self, offset: u32) -> bool {
        let text = self.text.as_bytes();
        let read = || LispText::read(text, Dialect::CommonLisp, &Features::sbcl());
        self.key_parameters.get_or_init(|| read().key_parameters(text)).contains(&offset)
    }

    /// Estimates the memory that this takes, in bytes.
    fn size(&self) -> usize {
        self.tokens.size() + self.text.len() + 4 * self.lines.count()
    }
}

/// The files that may have a name, and the ones that could not be searched.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) struct NamedTexts<T> {
    /// The files, by path.
    pub(crate) files: Vec<T>,
    /// With [`Look::UnseenAndVendored`], vendored files that no system of the project has.
    pub(crate) vendored: Vec<VendoredText>,
    /// Files that could not be read, or are too large.
    pub(crate) unreadable: Vec<PathBuf>,
    /// Whether the project has more files than are searched.
    pub(crate) cut: bool,
}

/// The largest file that is searched, in bytes.
const LARGEST_FILE: u64 = 16 << 20;
/// The most memory of texts that are kept, in bytes.
const KEPT_BYTES: usize = 64 << 20;
/// The cached state of the project's texts.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Shared with the project: an open one stands in for its file.
    pub(super) documents: Arc<RwLock<Documents>>,
    pub(super) root: Option<PathBuf>,
    pub(super) live: WatchedTree,
    /// When the last look began.
    pub(super) looked: Option<Instant>,
    pub(super) standings: Standings,
    pub(super) files: HashMap<PathBuf, Arc<CachedNames>>,
    /// Files of systems that were asked to be loaded, also outside of the project.
    pub(super) asked: BTreeSet<PathBuf>,
    /// The loaded files known to be unchanged on disk, each with its stamp and the write date of the version.
    pub(super) unchanged_since_load: HashMap<PathBuf, (FileStamp, u64)>,
    /// The index of the tree's text, as of the last look.
    pub(super) names: Option<LispNames>,
    read: HashMap<PathBuf, Read>,
    size: usize,
    clock: u64,
}

#[derive(Debug)]
pub(super) struct CachedNames {
    pub(super) stamp: FileStamp,
    /// Whether every later change shows in the stamp.
    pub(super) reliable: bool,
    /// The text whose names the index has: then they are not here.
    pub(super) indexed: Option<IndexedText>,
    /// Whether its names are to be looked for in its text.
    pub(super) is_loose: bool,
    pub(super) packages: Arc<[PackageText]>,
    pub(super) readable: bool,
}

#[derive(Debug)]
struct Read {
    stamp: FileStamp,
    text: Arc<ReadText>,
    asked: u64,
}

impl Texts {
    /// Reads the text that counts for the file at `path`.
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

    /// Brings the cached names of the file at `path` up to date. None if there is no such file.
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

    /// Returns the text of the file at `path` whose names the index has; then it also tells when there is another.
    pub(super) fn indexed(&self, path: &Path) -> Option<IndexedText> {
        let relative = path.strip_prefix(self.root.as_ref()?).ok()?;
        let text = self.names.as_ref()?.text_of(relative)?;
        self.documents.read().get(path).is_none().then_some(text)
    }

    /// Drops what is cached of the file at `path`, whatever its stamp says.
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
            is_loose: false,
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
        let known = CachedNames { is_loose: true, packages: text.tokens.packages().into(), ..nothing };
        self.keep(path, Read { stamp, text, asked: self.clock });
        known
    }

    fn keep(&mut self, path: &Path, read: Read) {
        self.size += read.text.size();
        self.read.insert(path.to_path_buf(), read);
        while self.size > KEPT_BYTES && self.read.len() > 1 {
            let oldest = self.read.iter().min_by_key(|(_, read)| read.asked).map(|(path, _)| path.clone());
            let Some(oldest) = oldest else { break };
            self.forget(&oldest);
        }
    }

    fn forget(&mut self, path: &Path) {
        if let Some(read) = self.read.remove(path) {
            self.size = self.size.saturating_sub(read.text.size());
        }
    }

    /// Returns the text of the file at `path`, whose cached names with `stamp` are up to date.
    fn read(&mut self, path: &Path, stamp: FileStamp) -> Option<Arc<ReadText>> {
        self.clock += 1;
        let clock = self.clock;
        if let Some(read) = self.read.get_mut(path)
            && read.stamp == stamp
        {
            read.asked = clock;
            return Some(Arc::clone(&read.text));
        }
        self.forget(path);
        let bytes = self.text_of(path)?;
        let text = ReadText::new(&bytes);
        self.keep(path, Read { stamp, text: Arc::clone(&text), asked: clock });
        Some(text)
    }
}

/// Returns the state of a token that the compiler did not see as a symbol, although its file is loaded and unchanged.
/// Where the text does not decide over a feature expression, the compiler may have seen it: the sidecar tells.
pub(crate) fn in_seen_file(token: &TokenClass) -> Option<TextState> {
    match token.context {
        TextContext::Comment | TextContext::Prose | TextContext::Parameter => None,
        _ if !token.active || token.guarded => Some(TextState::LeftOut),
        TextContext::Lookup(_) | TextContext::Read => Some(TextState::Named),
        TextContext::Code | TextContext::Package { .. } => None,
    }
}

/// The part of a file's text to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Text that the image does not have.
    Unseen,
    /// The same, and beside it that of vendored files that no system of the project has.
    UnseenAndVendored,
    /// All text.
    All,
}

impl Project {
    /// Watches the project's tree from now on, so that a question need not look at every file for changes. If
    /// that fails, questions do look. For programs that ask often: the kernel takes some 10 ms to end a
    /// watch.
    pub(crate) fn watch(&self) {
        self.texts.lock().live.watch();
        self.watching.store(true, std::sync::atomic::Ordering::Release);
        if let Some(index) = self.text.get() {
            index.watch();
        }
    }

    /// Returns the reason for which the tree is not watched, as of the last question, though
    /// [`Project::watch`] was called: then each question looks at every file.
    pub(crate) fn unwatched(&self) -> Option<WatchRefusal> {
        *self.unwatched.lock()
    }

    /// Applies the changes in the tree since the last look.
    pub(super) fn look_at_tree(&self, texts: &mut Texts) {
        // What the index of the text watches, too, is watched once.
        let index = || self.text_index(self.root()?).ok();
        texts.live.look(self.root(), &|| index().map(|index| index.queue()).unwrap_or_default());
        *self.unwatched.lock() = texts.live.refusal;
    }

    /// Whether the file at `path` is the project's own, as [`Own`].
    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.own().contains(path)
    }

    /// Locks the texts, with the changes in the tree until now.
    fn looked_at_tree(&self) -> MutexGuard<'_, Texts> {
        let mut texts = self.texts.lock();
        self.look_at_tree(&mut texts);
        for path in &texts.live.news.changed {
            self.positions.lock().forget(path);
        }
        texts
    }

    /// Returns the set of the project's own files as it is now.
    pub(crate) fn own(&self) -> Own {
        self.own_in(&self.looked_at_tree().live.walk)
    }

    pub(super) fn own_in(&self, walk: &ProjectWalk) -> Own {
        let components = Arc::clone(&self.image.read().components);
        Own { folders: Arc::clone(&walk.folders), changes: walk.changes, components }
    }

    /// Looks at what has changed.
    pub(crate) fn now(&self) -> Now {
        Now(self.own_in(&self.look().live.walk))
    }

    /// Lists the project's own files that may be Lisp, sorted.
    pub(crate) fn own_files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.looked_at_tree().live.walk.files.iter().cloned().collect();
        files.sort_unstable();
        files
    }

    /// Remembers files of systems that were asked to be loaded, to search the ones that were not loaded.
    pub(crate) fn note_asked(&self, files: impl IntoIterator<Item = PathBuf>) {
        self.texts.lock().asked.extend(files);
    }

    /// Takes the index of the tree's text, brought up to date. Returns the files of which it has another text than at the
    /// last look.
    pub(super) fn look_at_index(&self, texts: &mut Texts) -> Vec<PathBuf> {
        let Some(root) = self.root() else { return Vec::new() };
        texts.root = Some(root.to_owned());
        let now = self.text_index(root).and_then(|index| index.lisp_names(&IndexControl::none())).ok();
        let before = std::mem::replace(&mut texts.names, now);
        let both = texts.names.as_ref().zip(before.as_ref());
        let taken: Option<Vec<PathBuf>> = both
            .and_then(|(now, before)| now.updated_between(before))
            .map(|taken| taken.map(|path| root.join(path)).collect());
        if taken.is_none() {
            texts.standings.places.clear();
        }
        let is_other = |path: &Path| {
            let entry = texts.standings.entries.get(path);
            let known = entry.and_then(|entry| entry.known.as_ref());
            known.is_some_and(|known| known.indexed != texts.indexed(path))
        };
        match taken {
            Some(taken) => taken.into_iter().filter(|path| is_other(path)).collect(),
            None => {
                let all = texts.standings.entries.keys();
                all.filter(|path| is_other(path)).map(|path| path.to_path_buf()).collect()
            }
        }
    }

    /// Finds where `name` stands in the project's text or, unless `own_only`, also in that of systems that were asked
    /// for, as of the look of `_now` or a later one. Reads no file of which the index has the names.
    pub(crate) fn named_at(
        &self,
        _now: &Now,
        name: &str,
        look: Look,
        own_only: bool,
    ) -> NamedTexts<NamedText> {
        let mut guard = self.texts.lock();
        let texts = &mut *guard;
        let standings = &texts.standings;
        let of_interest = |path: &Arc<Path>| {
            let entry = standings.entries.get(path)?;
            let (standing, known) = (entry.standing?, entry.known.as_ref()?);
            (entry.own || !own_only).then(|| (Arc::clone(path), standing, known.stamp))
        };
        let unreadable = standings.unreadable.iter().filter_map(of_interest);
        // Leave out folders: one that was to be loaded as a file has no text.
        let mut unreadable: Vec<PathBuf> =
            unreadable.map(|(path, ..)| path.to_path_buf()).filter(|path| !path.is_dir()).collect();
        let loose: Vec<_> = standings.loose.iter().filter_map(of_interest).collect();
        // Where a name stands in nothing but what the compiler saw, the image tells.
        let shows = |standing, class: &TokenClass| {
            look == Look::All || standing != TextState::LeftOut || in_seen_file(class).is_some()
        };
        let (mut files, mut vendored) = (Vec::new(), Vec::new());
        let Texts { names: index, root, standings, .. } = texts;
        if let (Some(names), Some(root)) = (index.as_ref(), root.as_ref()) {
            let Some(named) = names.named(name) else {
                // The next question has a new index.
                self.text.get().into_iter().for_each(|index| index.discard());
                *index = None;
                unreadable.extend(self.root().map(Path::to_owned));
                return NamedTexts { files, vendored, unreadable, cut: texts.live.walk.cut };
            };
            let tokens = Arc::new(named.tokens);
            for FileNameTokens { path: relative, file, classes, tokens: range, .. } in named.files {
                let entry = standings.indexed(file, || root.join(relative));
                let Some((path, entry)) = entry.filter(|(_, entry)| entry.own || !own_only) else {
                    if look == Look::UnseenAndVendored && is_vendored(root, relative) {
                        let runs = tokens[range].chunk_by(|(one, _), (other, _)| one == other);
                        let class = |run: &[(u32, u32)]| classes.get(run.first()?.0 as usize).cloned();
                        let runs = runs.filter_map(|run| Some((class(run)?, run.len()))).collect();
                        vendored.push(VendoredText { path: root.join(relative), runs });
                    }
                    continue;
                };
                let (Some(standing), Some(known)) = (entry.standing, &entry.known) else { continue };
                let is_shown = |(class, _): &(u32, u32)| {
                    classes.get(*class as usize).is_some_and(|class| shows(standing, class))
                };
                if known.indexed.is_some() && tokens[range.clone()].iter().any(is_shown) {
                    let (path, classes, stamp) = (Arc::clone(path), Arc::clone(classes), known.stamp);
                    let tokens = (Arc::clone(&tokens), range);
                    files.push(NamedText { path, standing, classes, tokens, stamp });
                }
            }
        }
        let indexed = files.len();
        for (path, standing, stamp) in loose {
            let Some(read) = texts.read(&path, stamp) else { continue };
            let found = read.tokens.named(name).iter();
            if found.clone().any(|token| shows(standing, token)) {
                let classes = found.clone().map(|token| Arc::clone(&token.class)).collect();
                let lines = found.map(|token| read.lines.line(token.span.start));
                let tokens: Vec<(u32, u32)> = (0..).zip(lines).collect();
                let range = 0..tokens.len();
                files.push(NamedText { path, standing, classes, tokens: (Arc::new(tokens), range), stamp });
            }
        }
        // Those of the index are in order.
        if files.len() > indexed {
            files.sort_by(|left, right| left.path.as_os_str().cmp(right.path.as_os_str()));
        }
        NamedTexts { files, vendored, unreadable, cut: texts.live.walk.cut }
    }

    /// Returns what tells this text from that of another moment, as of the look of `now` or a later one.
    pub(crate) fn text_now(&self, now: &Now) -> ProjectText {
        let texts = self.texts.lock();
        let stamp = |path: &Arc<Path>| Some(texts.standings.entries.get(path)?.known.as_ref()?.stamp);
        let loose = texts.standings.loose.iter().filter_map(|path| Some((Arc::clone(path), stamp(path)?)));
        ProjectText { own: now.0.clone(), names: texts.names.clone(), loose: loose.collect() }
    }

    /// Finds where `name` stands as a word of the project's text that is no Lisp, as of the look of `now` or a later one.
    /// None if the text cannot be searched.
    pub(crate) fn words(&self, now: &Now, name: &str) -> Option<Vec<WordMatch>> {
        let names = self.texts.lock().names.clone()?;
        let index = self.text.get()?;
        names.words(index, name, &|path| now.contains(&index.root().join(path)))
    }

    /// Reads the text of a file in which a name was found. None if the file is gone.
    pub(crate) fn read_named(&self, named: &NamedText) -> Option<UnseenText> {
        let read = self.texts.lock().read(&named.path, named.stamp)?;
        Some(UnseenText { path: named.path.to_path_buf(), standing: named.standing, read })
    }

    /// Reads the texts that [`Project::named_at`] finds.
    pub(crate) fn texts_naming_at(
        &self,
        now: &Now,
        name: &str,
        look: Look,
        own_only: bool,
    ) -> NamedTexts<UnseenText> {
        let NamedTexts { files, vendored, unreadable, cut } = self.named_at(now, name, look, own_only);
        let files = files.iter().filter_map(|named| self.read_named(named)).collect();
        NamedTexts { files, vendored, unreadable, cut }
    }

    /// Finds the definitions of the package that is called `name` in files whose text the image does not have as it
    /// stands, as of the look of `_now` or a later one.
    pub(crate) fn unseen_packages(&self, _now: &Now, name: &str) -> Vec<Arc<PackageText>> {
        let mut texts = self.texts.lock();
        let is_called = |package: &&PackageText| package.names.iter().any(|each| each == name);
        let mut all: Vec<Arc<PackageText>> =
            texts.standings.packages().iter().filter(is_called).cloned().map(Arc::new).collect();
        if let (Some(names), Some(root)) = (&texts.names, &texts.root) {
            for (path, package) in names.packages(name).unwrap_or_default() {
                // Copies of a file have the same definition.
                if all.iter().any(|known| Arc::ptr_eq(known, &package)) {
                    continue;
                }
                let entry = texts.standings.entries.get(root.join(path).as_path());
                let standing =
                    entry.filter(|entry| entry.known.as_ref().is_some_and(|known| known.indexed.is_some()));
                if !matches!(standing.and_then(|entry| entry.standing), None | Some(TextState::LeftOut)) {
                    all.push(package);
                }
            }
        }
        all
    }
}

/// The text of the project's own files at a moment: of what is equal, each name stands at the same places.
#[derive(Debug, Clone)]
pub(crate) struct ProjectText {
    own: Own,
    names: Option<LispNames>,
    /// The files of which the index has no names.
    loose: Vec<(Arc<Path>, FileStamp)>,
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
            && self.loose == other.loose
    }
}

/// Proof that a look at what has changed was taken, so that a question need not look again.
#[derive(Debug, Clone)]
pub(crate) struct Now(Own);

impl Deref for Now {
    type Target = Own;

    fn deref(&self) -> &Own {
        &self.0
    }
}

/// The set of the project's own files at a moment: those below the root that are neither vendored nor ignored, and
/// whatever else below the root belongs to a system that one of them defines.
#[derive(Debug, Clone)]
pub(crate) struct Own {
    folders: Arc<HashSet<PathBuf>>,
    /// How often files came or went in them.
    changes: u64,
    /// The components of the systems below the root, each with the files that define such a system.
    components: Arc<HashMap<PathBuf, Vec<PathBuf>>>,
}

impl Own {
    /// Whether the file at `path` is in the set.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        let is_walked = |path: &Path| path.parent().is_some_and(|folder| self.folders.contains(folder));
        is_walked(path)
            || self
                .components
                .get(path)
                .is_some_and(|definitions| definitions.iter().any(|asd| is_walked(asd)))
    }
}
