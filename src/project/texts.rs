//! Finds the files whose text on disk the image does not have, and the names in them.
//!
//! A question looks only for changes where the kernel reports them; else it calls `stat` for each file and
//! folder. A file is read when it is new or has changed. Only the hashes of its names are kept; the whole
//! text is kept of the files that were asked about last.

use std::collections::{BTreeSet, HashMap};
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::lines::{LineIndex, decode};
use steelbank_watch::WatchRefusal;

use super::live::Live;
use super::name_table::hash;
use super::standings::Standings;
use super::text::{FileTokens, PackageText, TextContext, TextToken};
use super::tree::{ProjectWalk, is_lisp};
use super::{FileStamp, Project};

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

/// A file with text that the image does not have.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub(crate) struct UnseenText {
    /// The path.
    pub(crate) path: PathBuf,
    /// The relation of the image to the file. In one that is [`TextState::LeftOut`], only the tokens of which
    /// [`TextToken::in_seen_file`] says so are unseen.
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
    /// The decoded text.
    pub(crate) text: String,
    /// Its lines.
    pub(crate) lines: LineIndex,
    /// The tokens of its names.
    pub(crate) tokens: FileTokens,
}

impl ReadText {
    fn new(bytes: &[u8]) -> Arc<Self> {
        let text = decode(bytes);
        let (lines, tokens) = (LineIndex::new(text.as_bytes()), FileTokens::read(text.as_bytes()));
        Arc::new(Self { text: text.into(), lines, tokens })
    }

    /// Estimates the memory that this takes, in bytes.
    fn size(&self) -> usize {
        self.tokens.size() + self.text.len() + 4 * self.lines.count()
    }
}

/// The files that may have a name, and the ones that could not be searched.
#[derive(Debug, Default)]
#[non_exhaustive]
pub(crate) struct UnseenTexts {
    /// The files, by path.
    pub(crate) files: Vec<UnseenText>,
    /// Files that could not be read, or are too large.
    pub(crate) unreadable: Vec<PathBuf>,
    /// Whether the project has more files than are searched.
    pub(crate) cut: bool,
}

/// The largest file that is searched, in bytes.
const LARGEST: u64 = 16 << 20;
/// The most memory of texts that are kept, in bytes.
const MOST_BYTES: usize = 64 << 20;
/// The cached state of the project's texts.
#[derive(Debug, Default)]
pub(super) struct Texts {
    /// Overlays: real paths, each with the file that holds its text.
    pub(super) overlays: HashMap<PathBuf, PathBuf>,
    pub(super) live: Live,
    pub(super) standings: Standings,
    pub(super) files: HashMap<PathBuf, Arc<CachedNames>>,
    /// Files of systems that were asked to be loaded, also outside of the project.
    pub(super) asked: BTreeSet<PathBuf>,
    /// The loaded files known to be unchanged on disk, each with its stamp and the write date of the version.
    pub(super) seen: HashMap<PathBuf, (FileStamp, u64)>,
    read: HashMap<PathBuf, Read>,
    size: usize,
    clock: u64,
}

#[derive(Debug)]
pub(super) struct CachedNames {
    pub(super) stamp: FileStamp,
    /// Whether every later change shows in the stamp.
    pub(super) settled: bool,
    /// The hashes of all names, sorted; empty for a file that is not Lisp.
    pub(super) names: Vec<u64>,
    /// The hashes of names that the compiler does not see as symbols: [`TextToken::in_seen_file`].
    pub(super) left_out: Vec<u64>,
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
    /// Returns the path to read the text of the file at `path` from.
    fn text_of(&self, path: &Path) -> PathBuf {
        self.overlays.get(path).cloned().unwrap_or_else(|| path.to_owned())
    }

    /// Brings the cached names of the file at `path` up to date. None if there is no such file.
    pub(super) fn known(&mut self, path: &Path) -> Option<Arc<CachedNames>> {
        let Some(stamp) = FileStamp::of_path(&self.text_of(path)) else {
            self.distrust(path);
            return None;
        };
        if let Some(known) = self.files.get(path)
            && known.settled
            && known.stamp == stamp
        {
            return Some(Arc::clone(known));
        }
        self.forget(path);
        let known = Arc::new(self.read_known(path, stamp));
        self.files.insert(path.to_path_buf(), Arc::clone(&known));
        Some(known)
    }

    /// Drops what is cached of the file at `path`, whatever its stamp says.
    pub(super) fn distrust(&mut self, path: &Path) {
        self.files.remove(path);
        self.seen.remove(path);
        self.forget(path);
    }

    fn read_known(&mut self, path: &Path, stamp: FileStamp) -> CachedNames {
        let settled = stamp.is_settled();
        let nothing = CachedNames {
            stamp,
            settled,
            names: Vec::new(),
            left_out: Vec::new(),
            packages: Arc::default(),
            readable: true,
        };
        if stamp.size > LARGEST {
            return CachedNames { readable: false, ..nothing };
        }
        let Ok(bytes) = steelbank_tree::read_source(&self.text_of(path)) else {
            return CachedNames { readable: false, ..nothing };
        };
        if !is_lisp(path, &bytes) {
            return nothing;
        }
        let text = ReadText::new(&bytes);
        let tokens = &text.tokens;
        let hashes = |keep: &dyn Fn(&TextToken) -> bool| {
            let mut hashes: Vec<u64> = tokens
                .names()
                .filter(|(_, tokens)| tokens.iter().any(keep))
                .map(|(name, _)| hash(name))
                .collect();
            hashes.sort_unstable();
            hashes
        };
        let known = CachedNames {
            names: hashes(&|_| true),
            left_out: hashes(&|token| token.in_seen_file().is_some()),
            packages: tokens.packages().into(),
            ..nothing
        };
        self.keep(path, Read { stamp, text, asked: self.clock });
        known
    }

    fn keep(&mut self, path: &Path, read: Read) {
        self.size += read.text.size();
        self.read.insert(path.to_path_buf(), read);
        while self.size > MOST_BYTES && self.read.len() > 1 {
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
        let bytes = steelbank_tree::read_source(&self.text_of(path)).ok()?;
        let text = ReadText::new(&bytes);
        self.keep(path, Read { stamp, text: Arc::clone(&text), asked: clock });
        Some(text)
    }
}

impl TextToken {
    /// Returns the state of a token that the compiler did not see as a symbol, though its file is loaded as
    /// it stands; else none.
    pub(crate) fn in_seen_file(&self) -> Option<TextState> {
        match self.context {
            TextContext::Comment | TextContext::Prose => None,
            _ if !self.active => Some(TextState::LeftOut),
            TextContext::Lookup(_) | TextContext::Read => Some(TextState::Named),
            TextContext::Code | TextContext::Package { .. } => None,
        }
    }
}

/// The part of a file's text to search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Look {
    /// Text that the image does not have.
    Unseen,
    /// All text.
    All,
}

impl Project {
    /// Watches the project's tree from now on, so that a question need not look at every file for changes. If
    /// that fails, questions do look. For programs that ask often: the kernel takes some 10 ms to end a
    /// watch.
    pub(crate) fn watch(&self) {
        self.texts.lock().live.watch();
    }

    /// Returns the reason for which the tree is not watched, as of the last question, though
    /// [`Project::watch`] was called: then each question looks at every file.
    pub(crate) fn unwatched(&self) -> Option<WatchRefusal> {
        *self.unwatched.lock()
    }

    /// Applies the changes in the tree since the last look.
    pub(super) fn look_at_tree(&self, texts: &mut Texts) {
        texts.live.look(self.root());
        *self.unwatched.lock() = texts.live.refusal;
    }

    /// Whether the file at `path` is the project's own, as [`Own`].
    pub(crate) fn contains(&self, path: &Path) -> bool {
        self.own().contains(path)
    }

    /// Returns the set of the project's own files as it is now.
    pub(crate) fn own(&self) -> Own {
        let mut texts = self.texts.lock();
        self.look_at_tree(&mut texts);
        for path in &texts.live.news.changed {
            self.positions.lock().forget(path);
        }
        self.own_in(&texts.live.walk)
    }

    pub(super) fn own_in(&self, walk: &Arc<ProjectWalk>) -> Own {
        Own { walk: Arc::clone(walk), components: Arc::clone(&self.image.read().components) }
    }

    /// Looks at what has changed.
    pub(crate) fn now(&self) -> Now {
        Now(self.own_in(&self.look().live.walk))
    }

    /// Lists the project's own files that may be Lisp, sorted.
    pub(crate) fn own_files(&self) -> Vec<PathBuf> {
        self.own().walk.files.clone()
    }

    /// Remembers files of systems that were asked to be loaded, to search the ones that were not loaded.
    pub(crate) fn note_asked(&self, files: impl IntoIterator<Item = PathBuf>) {
        self.texts.lock().asked.extend(files);
    }

    /// Finds the files with text that has `name`, in the project or, unless `own_only`, in systems that were
    /// asked for.
    pub(crate) fn texts_naming(&self, name: &str, look: Look, own_only: bool) -> UnseenTexts {
        self.texts_naming_at(&self.now(), name, look, own_only)
    }

    /// Like [`Project::texts_naming`], as of the look of `_now` or a later one.
    pub(crate) fn texts_naming_at(&self, _now: &Now, name: &str, look: Look, own_only: bool) -> UnseenTexts {
        let wanted = hash(name);
        let mut guard = self.texts.lock();
        let texts = &mut *guard;
        let standings = &texts.standings;
        let of_interest = |path: &Arc<Path>| {
            let entry = standings.entries.get(path)?;
            let (standing, known) = (entry.standing?, entry.known.as_ref()?);
            (entry.own || !own_only).then(|| (Arc::clone(path), standing, known.stamp))
        };
        let unreadable = standings.unreadable.iter().filter_map(of_interest);
        let mut found = UnseenTexts {
            // Leave out folders: one that was to be loaded as a file has no text.
            unreadable: unreadable
                .map(|(path, ..)| path.to_path_buf())
                .filter(|path| !path.is_dir())
                .collect(),
            cut: texts.live.walk.cut,
            files: Vec::new(),
        };
        let mut naming: Vec<_> = match look {
            Look::Unseen => standings.naming(wanted).iter().filter_map(of_interest).collect(),
            Look::All => {
                let named = standings.entries.iter().filter(|(_, entry)| {
                    entry.known.as_ref().is_some_and(|known| known.names.binary_search(&wanted).is_ok())
                });
                named.filter_map(|(path, _)| of_interest(path)).collect()
            }
        };
        naming.sort_unstable_by(|(left, ..), (right, ..)| left.cmp(right));
        for (path, standing, stamp) in naming {
            if let Some(read) = texts.read(&path, stamp) {
                found.files.push(UnseenText { path: path.to_path_buf(), standing, read });
            }
        }
        found
    }

    /// Returns the packages defined in files whose text the image does not have as it stands.
    pub(crate) fn unseen_packages(&self) -> Arc<[PackageText]> {
        self.look().standings.packages()
    }

    /// Like [`Project::unseen_packages`], as of the look of `_now` or a later one.
    pub(crate) fn unseen_packages_at(&self, _now: &Now) -> Arc<[PackageText]> {
        self.texts.lock().standings.packages()
    }

    /// Lists the project's own files that are not loaded, or changed since, with the relation of the image to
    /// each.
    pub(crate) fn unseen_files(&self) -> Vec<(PathBuf, TextState)> {
        let texts = self.look();
        let unseen = texts.standings.entries.iter().filter_map(|(path, entry)| {
            let standing = entry.standing.filter(|standing| *standing != TextState::LeftOut)?;
            Some((path.to_path_buf(), standing))
        });
        unseen.collect()
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
    walk: Arc<ProjectWalk>,
    /// The components of the systems below the root, each with the files that define such a system.
    components: Arc<HashMap<PathBuf, Vec<PathBuf>>>,
}

impl Own {
    /// Whether the file at `path` is in the set.
    pub(crate) fn contains(&self, path: &Path) -> bool {
        let is_walked = |path: &Path| path.parent().is_some_and(|folder| self.walk.owns(folder));
        is_walked(path)
            || self
                .components
                .get(path)
                .is_some_and(|definitions| definitions.iter().any(|asd| is_walked(asd)))
    }
}
