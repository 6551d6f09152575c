//! Snapshots: images of a project with its systems loaded, kept in the cache, from which the program starts ready.

mod format;
mod inputs;
mod make;
mod store;

use std::fs::File;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

#[cfg(feature = "server")]
pub(crate) use format::reads_as_manifest;
pub use make::{MadeSnapshot, MakeError};
pub(crate) use make::{SnapshotOrder, save, take_background, trial};
pub(crate) use store::discard;
pub use store::{MOST_BYTES, MOST_SNAPSHOTS, SnapshotEntry, clear, list};

use serde::{Deserialize, Serialize};

use crate::engine::Core;
use crate::query::load_system::{ImageContents, LoadAnswer};
use crate::{IndexData, Installation, ProjectSettings};
use format::{FilePart, SnapshotManifest};

/// The part of the systems that a snapshot holds. A load depends on the loads before it and on none after it:
/// when a file has changed, the image is right up to the loads before that file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Layer {
    /// All systems.
    Whole,
    /// The loads before the first of the files that changed lately.
    BeforeChanges,
    /// The loads before the first of the project's own files.
    BeforeProject,
}

impl Layer {
    const PARTS: [Self; 2] = [Self::BeforeChanges, Self::BeforeProject];
}

/// The identity of a snapshot: its project, the systems loaded, and the program that makes it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct SnapshotKey {
    /// The folder of all snapshots.
    pub(crate) folder: PathBuf,
    /// The systems, in the order of their loads.
    pub(crate) systems: Vec<String>,
    pub(crate) root: Option<PathBuf>,
    pub(crate) layer: Layer,
    /// The hash of the identity.
    number: u64,
}

impl SnapshotKey {
    /// Makes the key for `systems` of the project, loaded by `program` with the SBCL of `installation` in a
    /// heap of `heap` bytes.
    pub(crate) fn new(
        project: &ProjectSettings,
        systems: &[String],
        installation: &Installation,
        program: &Path,
        heap: Option<usize>,
    ) -> Self {
        let root =
            project.root.as_ref().map(|root| std::fs::canonicalize(root).unwrap_or_else(|_| root.clone()));
        let described = format!(
            "{root:?}\n{:?}\n{:?}\n{systems:?}\n{heap:?}\n{}\n{}\n{}",
            project.cache,
            project.userinit,
            env!("CARGO_PKG_VERSION"),
            file_identity(program),
            identity(installation),
        );
        // Hash with FNV-1a.
        let number = described.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let folder = project.cache.join("snapshots");
        Self { folder, systems: systems.to_vec(), root, layer: Layer::Whole, number }
    }

    /// Returns the key of another layer of the same systems.
    fn of(&self, layer: Layer) -> Self {
        Self { layer, ..self.clone() }
    }

    /// Returns the common prefix of the folders' names.
    fn name(&self) -> String {
        format!("{:016x}", self.number.wrapping_add(self.layer as u64))
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

/// A snapshot that the program can start from.
#[derive(Debug)]
pub(crate) struct Snapshot {
    /// Its folder.
    pub(crate) path: PathBuf,
    /// The core, to be kept open until SBCL has opened it.
    pub(crate) core: File,
    pub(crate) index: Arc<[u8]>,
    /// The input of [`crate::project::Project::restore_names`].
    pub(crate) names: Vec<u8>,
    /// The files that have changed since; empty if the snapshot is fresh.
    pub(crate) changed: Vec<PathBuf>,
    /// The answers to loads of its systems.
    pub(crate) answers: Vec<LoadAnswer>,
    /// The answer so far to the load of the next system.
    pub(crate) partial: Option<LoadAnswer>,
    /// The files that are not loaded in it, if it is [`Layer::BeforeChanges`].
    before: Vec<PathBuf>,
    /// The contents of its image.
    pub(crate) image: ImageContents,
}

impl Snapshot {
    /// Finds the snapshot of `key`, fresh or not. The error, a sentence's end, says why there is none to
    /// start from.
    pub(crate) fn find(key: &SnapshotKey) -> Result<Self, String> {
        let path = key.path().ok_or("none was made")?;
        Self::open(&path, Some(&key.systems))
    }

    /// Chooses the snapshot to start from: the whole one if it is fresh, else the largest part that is.
    /// Returns also why it is not the whole.
    pub(crate) fn choose(key: &SnapshotKey) -> (Option<Self>, Option<String>) {
        let why = match Self::find(key) {
            Ok(whole) if whole.changed.is_empty() => return (Some(whole), None),
            Ok(whole) => crate::query::counted(whole.changed.len(), "file has changed", "files have changed"),
            Err(why) => why,
        };
        let mut parts = Layer::PARTS.into_iter().filter_map(|layer| Self::find_fresh(&key.of(layer)));
        (parts.next(), Some(why))
    }

    fn find_fresh(key: &SnapshotKey) -> Option<Self> {
        Self::find(key).ok().filter(|snapshot| snapshot.changed.is_empty())
    }

    /// Opens and checks the snapshot at `path`.
    pub(crate) fn open(path: &Path, systems: Option<&[String]>) -> Result<Self, String> {
        let manifest = SnapshotManifest::read(&path.join("manifest"))?;
        if systems.is_some_and(|systems| systems != manifest.systems) {
            return Err("it is of other systems".to_owned());
        }
        let changes = manifest.inputs.changes();
        if let Some(other) = changes.other {
            return Err(other);
        }
        let open = |name: &str| -> Result<File, String> {
            File::open(path.join(name)).map_err(|error| format!("its {name}: {error}"))
        };
        let (core, index, names) = (open("core")?, open("index")?, open("names")?);
        format::check(
            path,
            &[
                ("core", &core, manifest.core),
                ("index", &index, manifest.index),
                ("names", &names, manifest.names),
            ],
        )?;
        // Read them: whoever cuts a file that is mapped ends the process.
        let read = |name: &str, mut file: File, part: FilePart| -> Result<Vec<u8>, String> {
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).map_err(|error| format!("its {name}: {error}"))?;
            if bytes.len() as u64 != part.bytes() {
                return Err(format!("its {name} is damaged"));
            }
            Ok(bytes)
        };
        let index = read("index", index, manifest.index)?.into();
        let names = read("names", names, manifest.names)?;
        store::touch(path);
        Ok(Self {
            path: path.to_owned(),
            core,
            index,
            names,
            changed: changes.files,
            answers: manifest.answers,
            partial: manifest.partial,
            before: manifest.before,
            image: manifest.image,
        })
    }

    /// Returns `installation` with this core, by its open descriptor, so that no other process can remove it
    /// meanwhile, and with this index.
    pub(crate) fn installation(&self, installation: &Installation) -> Installation {
        let mut installation = installation.clone();
        installation.image.core =
            Core::File(PathBuf::from(format!("/proc/self/fd/{}", self.core.as_raw_fd())));
        installation.index = IndexData::File(self.path.join("index"));
        installation
    }
}
