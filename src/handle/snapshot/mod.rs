//! Snapshots: saved images of a project with its systems loaded, from which the program starts
//! quickly. A `SnapshotKey` identifies a project's snapshot. At a start, `Choice` finds a snapshot
//! with unchanged inputs (files, folders, environment variables): the complete snapshot, or else
//! the snapshot of the dependencies. `make` creates snapshots in copies of the program, `inputs`
//! records and compares the inputs, `format` defines the files, and `store` limits the number and
//! size of snapshots.

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
pub use store::{MAX_BYTES, MAX_SNAPSHOTS, SnapshotEntry, clear, list};

use serde::{Deserialize, Serialize};

use crate::engine::{Core, map_for_process_lifetime, with_huge_page_capacity};
use crate::handle::loaded::{ImageContents, LoadAnswer};
use crate::handle::recovery::LoadedItem;
use crate::handle::scratch::TEMPORARY_FILES;
use crate::source::tap::sidecar::fnv_1a;
use crate::{IndexData, Installation, ProjectSettings};
use format::{Refusal, SnapshotManifest};
use inputs::ComparedInputs;

/// The total load time from which saving an image is worthwhile: the processor time that saving
/// takes, as measured by `cargo bench --bench start`.
const SAVE_COST: Duration = Duration::from_secs(2);

/// The part of the loads that a snapshot contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum SnapshotKind {
    /// All loads.
    Whole,
    /// The systems that are loaded before the project's first system, before the first system with
    /// recently changed files, or before the first system that prevents saving. A load depends only
    /// on earlier loads, so this image is valid whatever happens to the later systems.
    Dependencies,
}

/// The identity of a snapshot: its project with cache and init file, its loads, the heap size, and
/// the program and the SBCL that create it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SnapshotKey {
    /// The folder of all snapshots.
    pub(crate) folder: PathBuf,
    /// The loads, in order.
    pub(crate) loads: Vec<LoadedItem>,
    pub(crate) root: Option<PathBuf>,
    pub(crate) kind: SnapshotKind,
    /// Whether to accept a snapshot even if its files have changed since, to get the image as it
    /// was loaded.
    #[serde(default)]
    pub(crate) as_loaded: bool,
    /// A hash of the identity without the kind. Folders are named after the sum of this hash and
    /// the kind's number.
    number: u64,
}

impl SnapshotKey {
    /// Creates the key for `loads` of the project, run by `program` with the SBCL of `installation`
    /// and a heap of `heap` bytes.
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
        let number = fnv_1a(described.as_bytes());
        let folder = project.cache.join("snapshots");
        Self { folder, loads: loads.to_vec(), root, kind: SnapshotKind::Whole, as_loaded: false, number }
    }

    /// Returns the same key with another value of `as_loaded`.
    pub(crate) fn with_changes(self, as_loaded: bool) -> Self {
        Self { as_loaded, ..self }
    }

    /// Returns the key for the dependencies of the same loads.
    fn dependencies(&self) -> Self {
        Self { kind: SnapshotKind::Dependencies, as_loaded: false, ..self.clone() }
    }

    /// Returns the path of the file that stores why the snapshot cannot be created.
    fn refusal(&self) -> PathBuf {
        self.folder.join(self.name()).with_extension(store::REFUSED)
    }

    /// Returns the prefix that the names of the snapshot's folders have.
    fn name(&self) -> String {
        format!("{:016x}", self.number.wrapping_add(self.kind as u64))
    }

    /// Returns whether to create a snapshot after a start with loads that took `load_time`. If
    /// inputs were edited (`is_edited`), returns true only once the loads since the last snapshot
    /// have taken as long as saving does, so that a quickly loaded project is not saved after each
    /// edit.
    fn is_worth_saving(&self, load_time: Duration, is_edited: bool) -> bool {
        // If the sum of load times cannot be stored, create the snapshot: faster starts matter
        // more.
        !is_edited
            || store::spend(&self.folder, &self.name(), load_time).is_none_or(|spent| spent >= SAVE_COST)
    }

    /// Returns the inputs recorded with the snapshot, or with its refusal.
    fn last_inputs(&self) -> Option<Inputs> {
        let manifest = self.path().and_then(|path| SnapshotManifest::read(&path.join("manifest")).ok());
        let known = manifest.map(|manifest| manifest.inputs);
        known.or_else(|| Refusal::last(self).map(|refusal| refusal.inputs))
    }

    /// Returns whether there is a snapshot that was created, or last used, after `time`; `None`
    /// means at any time.
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

/// Returns a string that identifies the core and the library of an installation, if they are files.
/// Embedded parts are identified by the program's file.
fn identity(installation: &Installation) -> String {
    let core = match &installation.image.core {
        Core::File(path) => file_identity(path),
        Core::Embedded => String::new(),
    };
    let library = installation.image.library.path().map(file_identity).unwrap_or_default();
    format!("{core}\n{library}")
}

/// Returns a string that identifies a file and its version.
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

/// The snapshot to start from, and the state of the snapshots with the same loads.
#[derive(Debug, Default)]
pub(crate) struct Choice {
    pub(crate) snapshot: Option<Snapshot>,
    /// The reason why the complete snapshot is not used, as a sentence fragment.
    pub(crate) without: Option<String>,
    /// The reason why the complete snapshot cannot be saved, as a sentence.
    pub(crate) refused: Option<String>,
    /// Whether all snapshots that can be created exist.
    pub(crate) complete: bool,
    /// Whether inputs have changed since the complete snapshot was created or refused.
    pub(crate) is_edited: bool,
}

impl Choice {
    /// Chooses the snapshot to start from: the complete snapshot if it is up to date, otherwise the
    /// snapshot of the dependencies if that is up to date.
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

/// A snapshot with unchanged inputs and intact files. With [`SnapshotKey::as_loaded`], only the
/// environment variables are known to be unchanged. Its index is not read yet.
struct CheckedSnapshot {
    path: PathBuf,
    manifest: SnapshotManifest,
    core: File,
    index: File,
}

impl CheckedSnapshot {
    /// Finds the snapshot of `key`. The error is the reason why there is no usable snapshot, as a
    /// sentence fragment. If inputs have changed, stores the comparison in `compared`, so that it
    /// need not be repeated for another snapshot.
    fn find(key: &SnapshotKey, compared: &mut Option<ComparedInputs>) -> Result<Self, String> {
        let checked = Self::open(&key.path().ok_or("none was made")?, key.as_loaded, compared)?;
        let is_meant = checked.manifest.loads == key.loads;
        if is_meant { Ok(checked) } else { Err("it contains other systems".to_owned()) }
    }

    fn open(path: &Path, as_loaded: bool, compared: &mut Option<ComparedInputs>) -> Result<Self, String> {
        let manifest = SnapshotManifest::read(&path.join("manifest"))?;
        // For an image as it was loaded, changed files do not matter. The variable for temporary
        // files does not matter either, because a confined copy uses another folder for them.
        if as_loaded {
            manifest.inputs.changed_variable(&[TEMPORARY_FILES]).map_or(Ok(()), Err)?;
        } else {
            let changes = manifest.inputs.changes(compared.as_ref());
            if let Some(told) = changes.describe() {
                compared.get_or_insert(ComparedInputs { inputs: manifest.inputs, changes });
                return Err(told);
            }
        }
        let open = |name: &str| -> Result<File, String> {
            steelbank_cache::open(&path.join(name)).map_err(|error| format!("cannot open {name}: {error}"))
        };
        let (core, index) = (open("core")?, open("index")?);
        format::check(path, &[("core", &core, manifest.core), ("index", &index, manifest.index)])?;
        Ok(Self { path: path.to_owned(), manifest, core, index })
    }

    /// Reads or maps the index, if it is needed, and marks the snapshot as used.
    fn read(self, index_use: IndexUse) -> Result<Snapshot, String> {
        let Self { path, manifest, core, index } = self;
        let length = manifest.index.bytes() as usize;
        let index = match index_use {
            IndexUse::None => None,
            IndexUse::Read => Some(read_whole(index, length).map(Cow::Owned)),
            IndexUse::Mapped => Some(map_for_process_lifetime(&index, length).map(Cow::Borrowed)),
        };
        let index = index.transpose().map_err(|error| format!("its index cannot be read: {error}"))?;
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
    let mut bytes = with_huge_page_capacity(length);
    let is_whole = index.read_to_end(&mut bytes)? == length;
    is_whole.then_some(bytes).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}

/// How an index is brought into memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IndexUse {
    /// The index is not needed.
    None,
    /// Read completely, so that a long-running process does not crash if the file is truncated.
    Read,
    /// Memory-mapped, because reading all of it takes longer than most questions.
    Mapped,
}

/// A snapshot that the program can start from.
#[derive(Debug)]
pub(crate) struct Snapshot {
    pub(crate) path: PathBuf,
    /// The core, which must stay open until SBCL has opened it.
    pub(crate) core: File,
    /// The index of the image; `None` for an image as it was loaded, which answers no questions.
    pub(crate) index: Option<Cow<'static, [u8]>>,
    /// The loads in the image, their inputs, and their answers.
    pub(crate) loads: Vec<LoadedItem>,
    pub(crate) inputs: Inputs,
    pub(crate) answers: Vec<LoadAnswer>,
    pub(crate) image: ImageContents,
}

impl Snapshot {
    /// Opens and checks the snapshot at `path`. Fails if its inputs have changed or its files are
    /// damaged.
    pub(crate) fn open(path: &Path) -> Result<Self, String> {
        CheckedSnapshot::open(path, false, &mut None)?.read(IndexUse::Read)
    }

    /// Returns `installation` with this snapshot's core and, if it was read, this snapshot's index.
    /// The core's path is that of its open descriptor, because another process may remove the file.
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
