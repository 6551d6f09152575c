//! What is known of the user's project: its root, the files that were loaded, and where their sidecars are.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock};

use crate::source::positions::PositionedFile;
use crate::source::sidecar::sidecar_name;

/// A user's project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectSettings {
    /// The folder with the project's systems.
    pub root: PathBuf,
    /// Where fasls and sidecars go: a folder of our own, so that they never clash with the user's.
    pub cache: PathBuf,
    /// The init file to load before the first system, if any. A file that does not exist is none.
    pub userinit: Option<PathBuf>,
}

/// A project and the positions in its files. Shared between questions; cheap to ask.
#[derive(Debug, Default)]
pub struct Project {
    settings: Option<ProjectSettings>,
    /// Whether Lisp knows of the project.
    pub(crate) opened: Mutex<bool>,
    /// How many loads are under way.
    pub(crate) loading: AtomicUsize,
    loaded: RwLock<BTreeMap<PathBuf, u64>>,
    positions: Mutex<HashMap<Version, Known>>,
    names: Mutex<Names>,
}

/// A file as it was at a write date.
type Version = (PathBuf, u64);

/// Which of the loaded files name what.
#[derive(Debug, Default)]
struct Names {
    indexed: HashSet<Version>,
    files: HashMap<String, Vec<Version>>,
}

/// A file's positions, and what the file and its sidecar looked like when they were read.
#[derive(Debug, Clone)]
struct Known {
    sidecar: Option<PathBuf>,
    stamp: Stamp,
    file: Arc<PositionedFile>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    size: u64,
    sidecar: Option<SystemTime>,
}

/// How many files' positions are kept.
const KEPT_FILES: usize = 1024;

impl Project {
    /// The project of `settings`, or none.
    pub fn new(settings: Option<ProjectSettings>) -> Project {
        let settings = settings.map(|settings| ProjectSettings {
            root: std::fs::canonicalize(&settings.root).unwrap_or(settings.root),
            ..settings
        });
        Project { settings, ..Project::default() }
    }

    /// How the project was given.
    pub fn settings(&self) -> Option<&ProjectSettings> {
        self.settings.as_ref()
    }

    /// The project's root directory, canonical.
    pub fn root(&self) -> Option<&Path> {
        Some(self.settings.as_ref()?.root.as_path())
    }

    /// Remembers the files that were loaded, each with the write date (universal time) that it had then.
    pub fn note_loaded(&self, files: impl IntoIterator<Item = (PathBuf, u64)>) {
        self.loaded.write().extend(files);
    }

    /// The files that were loaded, with the write dates that they had then.
    pub fn loaded(&self) -> Vec<(PathBuf, u64)> {
        self.loaded.read().iter().map(|(path, &date)| (path.clone(), date)).collect()
    }

    /// The loaded files in whose live text a symbol called `name`, of whatever package, or a designator of one stands.
    /// Only files with sidecars are known.
    pub fn naming(&self, name: &str) -> Vec<(PathBuf, u64)> {
        let mut names = self.names.lock();
        let loaded = self.loaded();
        for version in &loaded {
            if names.indexed.insert(version.clone())
                && let Ok(file) = self.positions(&version.0, version.1)
            {
                for name in file.names() {
                    names.files.entry(name.to_owned()).or_default().push(version.clone());
                }
            }
        }
        let current = self.loaded.read();
        names
            .files
            .get(name)
            .into_iter()
            .flatten()
            .filter(|(path, date)| current.get(path) == Some(date))
            .cloned()
            .collect()
    }

    /// Whether `path` is below the root.
    pub fn contains(&self, path: &Path) -> bool {
        self.root().is_some_and(|root| path.starts_with(root))
    }

    /// `path` relative to the root if it is below it, as answers show it.
    pub fn shown(&self, path: &Path) -> String {
        let shown = self.root().and_then(|root| path.strip_prefix(root).ok()).unwrap_or(path);
        shown.to_string_lossy().into_owned()
    }

    /// The positions in the file at `path`, of which the image holds the version of `write_date`.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn positions(&self, path: &Path, write_date: u64) -> std::io::Result<Arc<PositionedFile>> {
        let metadata = std::fs::metadata(path)?;
        let key = (path.to_path_buf(), write_date);
        let known = self.positions.lock().get(&key).cloned();
        let sidecar = match &known {
            Some(known) => known.sidecar.clone(),
            None => self.sidecar(path, write_date),
        };
        let stamp = Stamp {
            modified: metadata.modified().ok(),
            size: metadata.len(),
            sidecar: sidecar.as_deref().and_then(modified),
        };
        if let Some(known) = known.filter(|known| known.stamp == stamp) {
            return Ok(known.file);
        }
        let file = Arc::new(PositionedFile::open(path, write_date, sidecar.as_deref())?);
        let mut positions = self.positions.lock();
        if positions.len() >= KEPT_FILES {
            positions.clear();
        }
        positions.insert(key, Known { sidecar, stamp, file: Arc::clone(&file) });
        Ok(file)
    }

    /// Where the sidecar of `path` would be.
    fn sidecar(&self, path: &Path, write_date: u64) -> Option<PathBuf> {
        let truename = std::fs::canonicalize(path).ok()?;
        Some(self.settings.as_ref()?.cache.join("taps").join(sidecar_name(&truename, write_date)))
    }
}

fn modified(path: &Path) -> Option<SystemTime> {
    std::fs::metadata(path).ok()?.modified().ok()
}
