//! Snapshots: images of a project with its systems loaded, kept in the cache, from which the program starts ready.

mod format;
mod inputs;
mod make;
mod store;

use std::borrow::Cow;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

pub(crate) use format::OrderedSystem;
#[cfg(feature = "server")]
pub(crate) use format::reads;
pub(crate) use inputs::Inputs;
pub use make::{MadeSnapshot, MakeError};
pub(crate) use make::{SnapshotOrder, save, trial};
pub(crate) use store::discard;
#[cfg(feature = "server")]
pub(crate) use store::last;
pub use store::{MOST_BYTES, MOST_SNAPSHOTS, SnapshotEntry, clear, list};

use serde::{Deserialize, Serialize};

use crate::engine::{Core, map_beside_core, room_in_huge_pages};
use crate::handle::loaded::{ImageContents, LoadAnswer};
use crate::handle::recovery::LoadedItem;
use crate::handle::scratch::TEMPORARY_FILES;
use crate::source::tap::sidecar::fnv_1a;
use crate::{IndexData, Installation, ProjectSettings};
use format::{Refusal, SnapshotManifest};
use inputs::ComparedInputs;

/// How long loads take together that cost as much as saving an image: its processor time, as `cargo bench --bench start` measures it.
const SAVING: Duration = Duration::from_secs(2);

/// What of the loads a snapshot holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SnapshotKind {
    /// All of them.
    Whole,
    /// The systems that are loaded before the first of the project's own, or before the first whose files changed
    /// lately. A load depends on the loads before it and on none after it: that image is right whatever becomes of the rest.
    Dependencies,
}

/// The identity of a snapshot: its project, the systems loaded, and the program that makes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SnapshotKey {
    /// The folder of all snapshots.
    pub(crate) folder: PathBuf,
    /// The loads, in order.
    pub(crate) loads: Vec<LoadedItem>,
    pub(crate) root: Option<PathBuf>,
    pub(crate) kind: SnapshotKind,
    /// Whether files that it holds may have changed since: an image as this one was loaded is meant.
    #[serde(default)]
    pub(crate) as_loaded: bool,
    /// A hash of the identity, the same for every kind: folders are named after the sum of both.
    number: u64,
}

impl SnapshotKey {
    /// Makes the key for `loads` of the project, done by `program` with the SBCL of `installation` in a
    /// heap of `heap` bytes.
    pub(crate) fn new(
        project: &ProjectSettings,
        loads: &[LoadedItem],
        installation: &Installation,
        program: &Path,
        heap: Option<usize>,
    ) -> Self {
        let root =
            project.root.as_ref().map(|root| std::fs::canonicalize(root).unwrap_or_else(|_| root.clone()));
        let described = format!(
            "{root:?}\n{:?}\n{:?}\n{loads:?}\n{heap:?}\n{}\n{}\n{}",
            project.cache,
            project.userinit,
            env!("CARGO_PKG_VERSION"),
            file_identity(program),
            identity(installation),
        );
        // Hash with FNV-1a.
        let number = fnv_1a(described.as_bytes());
        let folder = project.cache.join("snapshots");
        Self { folder, loads: loads.to_vec(), root, kind: SnapshotKind::Whole, as_loaded: false, number }
    }

    /// Returns the key of the same snapshot, `as_loaded` or fresh.
    pub(crate) fn with_changes(self, as_loaded: bool) -> Self {
        Self { as_loaded, ..self }
    }

    /// Returns the key of the dependencies of the same loads.
    fn dependencies(&self) -> Self {
        Self { kind: SnapshotKind::Dependencies, as_loaded: false, ..self.clone() }
    }

    /// Returns the path of the file that says why there is no snapshot.
    fn refusal(&self) -> PathBuf {
        self.folder.join(self.name()).with_extension(store::REFUSED)
    }

    /// Returns the common prefix of the folders' names.
    fn name(&self) -> String {
        format!("{:016x}", self.number.wrapping_add(self.kind as u64))
    }

    /// Whether one is to be made after a start whose loads took `load_time`. If a project `is_edited`, it is once the loads have cost as
    /// much as saving does: one that loads in less is not saved anew at each edit.
    fn pays(&self, load_time: Duration, is_edited: bool) -> bool {
        // Make it if the sum cannot be kept: the next start is what takes less.
        !is_edited || store::spend(&self.folder, &self.name(), load_time).is_none_or(|spent| spent >= SAVING)
    }

    /// Returns the inputs of the snapshot, or of its refusal, as they were.
    fn last_inputs(&self) -> Option<Inputs> {
        let manifest = self.path().and_then(|path| SnapshotManifest::read(&path.join("manifest")).ok());
        let known = manifest.map(|manifest| manifest.inputs);
        known.or_else(|| Refusal::last(self).map(|refusal| refusal.inputs))
    }

    /// Whether there is a snapshot that was made after `time`.
    pub(crate) fn is_made_after(&self, time: Option<SystemTime>) -> bool {
        let made =
            self.path().and_then(|path| std::fs::metadata(path.join("manifest")).ok()?.modified().ok());
        made.is_some_and(|made| time.is_none_or(|time| made > time))
    }

    /// Finds the newest folder of the snapshot, if there is one.
    fn path(&self) -> Option<PathBuf> {
        let prefix = format!("{}-", self.name());
        let names = std::fs::read_dir(&self.folder).ok()?.flatten();
        let named = names.filter(|entry| entry.file_name().to_string_lossy().starts_with(&prefix));
        named.max_by_key(|entry| entry.file_name()).map(|entry| entry.path())
    }
}

/// Identifies the parts of an installation. Embedded ones are identified with the program.
fn identity(installation: &Installation) -> String {
    let core = match &installation.image.core {
        Core::File(path) => file_identity(path),
        Core::Embedded => String::new(),
    };
    let library = installation.image.library.path().map(file_identity).unwrap_or_default();
    format!("{core}\n{library}")
}

/// Identifies a file and its version.
fn file_identity(path: &Path) -> String {
    std::fs::metadata(path).map_or_else(
        |error| error.to_string(),
        |metadata| {
            format!(
                "{} {} {} {}.{}",
                metadata.dev(),
                metadata.ino(),
                metadata.len(),
                metadata.mtime(),
                metadata.mtime_nsec()
            )
        },
    )
}

/// What there is to start from.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) snapshot: Option<Snapshot>,
    /// Why it is not the whole, as a sentence's end.
    pub(crate) without: Option<String>,
    /// Why the whole cannot be saved: a sentence.
    pub(crate) refused: Option<String>,
    /// Whether there is nothing to make.
    pub(crate) complete: bool,
    /// Whether inputs have changed since the whole was made or refused.
    pub(crate) is_edited: bool,
}

impl Choice {
    /// Chooses the snapshot to start from: the whole one if it is fresh, else that of the dependencies.
    pub(crate) fn of(key: &SnapshotKey, index_use: IndexUse) -> Self {
        let mut compared = None;
        let found = CheckedSnapshot::find(key, &mut compared);
        let without = match found
            .and_then(|whole| whole.read(if key.as_loaded { IndexUse::None } else { index_use }))
        {
            Ok(whole) => return Self { snapshot: Some(whole), complete: true, ..Self::default() },
            Err(why) => why,
        };
        let last = Refusal::last(key);
        let is_refused = last.as_ref().is_some_and(|last| last.inputs.hold());
        let is_edited = match &compared {
            Some(whole) => !whole.changes.is_none(),
            None => last.is_some() && !is_refused,
        };
        let refusal = last.filter(|_| is_refused);
        let part = key.dependencies();
        let snapshot = CheckedSnapshot::find(&part, &mut compared).and_then(|part| part.read(index_use)).ok();
        let has_part = || snapshot.is_some() || Refusal::of(&part).is_some();
        let complete = refusal.as_ref().is_some_and(|refusal| refusal.systems.is_empty() || has_part());
        let refused = refusal.map(|refusal| refusal.why);
        Self { without: Some(without), refused, complete, is_edited, snapshot }
    }
}

/// A snapshot whose inputs are as they were and whose files are whole; nothing of them is read.
struct CheckedSnapshot {
    path: PathBuf,
    manifest: SnapshotManifest,
    core: File,
    index: File,
}

impl CheckedSnapshot {
    /// Finds that of `key`. The error, a sentence's end, says why there is none to start from. If its inputs have changed, they are
    /// `compared` from then on: they need not be looked at again for another.
    fn find(key: &SnapshotKey, compared: &mut Option<ComparedInputs>) -> Result<Self, String> {
        let checked = Self::open(&key.path().ok_or("none was made")?, key.as_loaded, compared)?;
        let is_meant = checked.manifest.loads == key.loads;
        if is_meant { Ok(checked) } else { Err("it is of other systems".to_owned()) }
    }

    fn open(path: &Path, as_loaded: bool, compared: &mut Option<ComparedInputs>) -> Result<Self, String> {
        let manifest = SnapshotManifest::read(&path.join("manifest"))?;
        // What becomes of files and folders changes nothing of an image as it was loaded. A confined copy has its own place
        // for temporary files.
        if as_loaded {
            manifest.inputs.changed_variable(&[TEMPORARY_FILES]).map_or(Ok(()), Err)?;
        } else {
            let changes = manifest.inputs.changes(compared.as_ref());
            if let Some(told) = changes.told() {
                compared.get_or_insert(ComparedInputs { inputs: manifest.inputs, changes });
                return Err(told);
            }
        }
        let open = |name: &str| -> Result<File, String> {
            steelbank_cache::open(&path.join(name)).map_err(|error| format!("its {name}: {error}"))
        };
        let (core, index) = (open("core")?, open("index")?);
        format::check(path, &[("core", &core, manifest.core), ("index", &index, manifest.index)])?;
        Ok(Self { path: path.to_owned(), manifest, core, index })
    }

    /// Opens its index, if it is wanted, and marks it as used.
    fn read(self, index_use: IndexUse) -> Result<Snapshot, String> {
        let Self { path, manifest, core, index } = self;
        let length = manifest.index.bytes() as usize;
        let index = match index_use {
            IndexUse::None => None,
            IndexUse::Read => Some(read_whole(index, length).map(Cow::Owned)),
            IndexUse::Mapped => Some(map_beside_core(&index, length).map(Cow::Borrowed)),
        };
        let index = index.transpose().map_err(|error| format!("its index: {error}"))?;
        store::touch(&path);
        Ok(Snapshot {
            path,
            core,
            index,
            loads: manifest.loads,
            inputs: manifest.inputs,
            answers: manifest.answers,
            image: manifest.image,
        })
    }
}

fn read_whole(mut index: File, length: usize) -> io::Result<Vec<u8>> {
    let mut bytes = room_in_huge_pages(length);
    let is_whole = index.read_to_end(&mut bytes)? == length;
    is_whole.then_some(bytes).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// How an index comes into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexUse {
    /// It is not wanted.
    None,
    /// Whole: a process that lives long does not die of a file that is cut.
    Read,
    /// As far as it is used: reading it takes longer than most questions.
    Mapped,
}

/// A snapshot that the program can start from.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) path: PathBuf,
    /// The core, to be kept open until SBCL has opened it.
    pub(crate) core: File,
    /// The index of its image; none for an image as it was loaded, which answers no question.
    pub(crate) index: Option<Cow<'static, [u8]>>,
    /// The loads that it has done, what they read, and the answers to them.
    pub(crate) loads: Vec<LoadedItem>,
    pub(crate) inputs: Inputs,
    pub(crate) answers: Vec<LoadAnswer>,
    pub(crate) image: ImageContents,
}

impl Snapshot {
    /// Opens and checks the snapshot at `path`. An error if its inputs have changed.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        CheckedSnapshot::open(path, false, &mut None)?.read(IndexUse::Read)
    }

    /// Returns `installation` with this core, by its open descriptor, so that no other process can remove it
    /// meanwhile, and with this index, if it has one.
    pub(crate) fn installation(&self, installation: &Installation) -> Installation {
        let mut installation = installation.clone();
        installation.image.core =
            Core::File(PathBuf::from(format!("/proc/self/fd/{}", self.core.as_raw_fd())));
        if self.index.is_some() {
            installation.index = IndexData::File(self.path.join("index"));
        }
        installation
    }
}
