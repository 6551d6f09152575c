//! What is known of the user's project: its root, the files that were loaded, and where their sidecars are.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::time::{Duration, SystemTime};

use parking_lot::{Mutex, RwLock};

use crate::source::positions::PositionedFile;
use crate::source::sidecar::sidecar_name;

/// A user's project, or what is needed to load files without one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProjectSettings {
    /// The folder with the project's systems, if there is a project.
    pub root: Option<PathBuf>,
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
    positions: Mutex<Positions>,
    names: Mutex<Names>,
}

/// A file as it was at a write date (universal time).
pub(super) type Version = (PathBuf, u64);

/// Which of the loaded files name what.
#[derive(Debug, Default)]
struct Names {
    /// Files that were loaded and not read since.
    pending: BTreeSet<PathBuf>,
    /// By file: the names in it.
    named: HashMap<PathBuf, Vec<Arc<str>>>,
    /// By name: the files that name it.
    naming: HashMap<Arc<str>, BTreeSet<PathBuf>>,
}

impl Names {
    fn set(&mut self, path: &Path, names: Vec<Arc<str>>) {
        for name in self.named.remove(path).into_iter().flatten() {
            if let Some(files) = self.naming.get_mut(&name) {
                files.remove(path);
            }
        }
        for name in &names {
            self.naming.entry(Arc::clone(name)).or_default().insert(path.to_path_buf());
        }
        self.named.insert(path.to_path_buf(), names);
    }
}

/// The files whose positions are kept in memory: those that were asked for last.
#[derive(Debug, Default)]
struct Positions {
    files: HashMap<Version, Known>,
    /// Of all of them together, in octets.
    size: usize,
    /// Counts questions.
    clock: u64,
}

impl Positions {
    fn get(&mut self, version: &Version) -> Option<&Known> {
        self.clock += 1;
        let known = self.files.get_mut(version)?;
        known.asked = self.clock;
        Some(known)
    }

    fn insert(&mut self, version: Version, known: Known) {
        self.remove(&version);
        self.size += known.file.size();
        self.files.insert(version, Known { asked: self.clock, ..known });
        while self.size > MOST_OCTETS && self.files.len() > 1 {
            let oldest = self.files.iter().min_by_key(|(_, known)| known.asked);
            let Some(oldest) = oldest.map(|(version, _)| version.clone()) else { break };
            self.remove(&oldest);
        }
    }

    fn remove(&mut self, version: &Version) {
        if let Some(known) = self.files.remove(version) {
            self.size -= known.file.size();
        }
    }
}

/// A file's positions, and what the file looked like when they were read.
#[derive(Debug)]
struct Known {
    stamp: Stamp,
    file: Arc<PositionedFile>,
    asked: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    modified: Option<SystemTime>,
    size: u64,
    // A program that writes may set the date back; nobody sets this one.
    changed: (i64, i64),
    inode: u64,
}

impl Stamp {
    fn of(metadata: &Metadata) -> Stamp {
        Stamp {
            modified: metadata.modified().ok(),
            size: metadata.len(),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
        }
    }
}

/// How much memory the kept positions may take, in octets.
const MOST_OCTETS: usize = 256 << 20;

impl Project {
    /// The project of `settings`, or none.
    pub fn new(settings: Option<ProjectSettings>) -> Project {
        let settings = settings.map(|settings| ProjectSettings {
            root: settings.root.map(|root| std::fs::canonicalize(&root).unwrap_or(root)),
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
        self.settings.as_ref()?.root.as_deref()
    }

    /// Remembers the files that are loaded, each with the write date (universal time) that it had then. `anew` tells
    /// which of them were compiled or loaded since this was last called: they are read again.
    pub fn note_loaded(&self, files: impl IntoIterator<Item = (PathBuf, u64)>, anew: impl Fn(&Path) -> bool) {
        let (mut loaded, mut names) = (self.loaded.write(), self.names.lock());
        let mut positions = self.positions.lock();
        for (path, written) in files {
            let before = loaded.insert(path.clone(), written);
            if before != Some(written) || anew(&path) {
                let version = (path, written);
                positions.remove(&version);
                names.pending.insert(version.0);
            }
        }
    }

    /// The files that were loaded, with the write dates that they had then.
    pub fn loaded(&self) -> Vec<(PathBuf, u64)> {
        self.loaded.read().iter().map(|(path, &written)| (path.clone(), written)).collect()
    }

    /// Whether the version of `path` that was written at `written` is the one that was loaded last, as far as is known:
    /// what an earlier version defined may still be in the image.
    pub fn is_current(&self, path: &Path, written: u64) -> bool {
        self.loaded.read().get(path).is_none_or(|&loaded| loaded == written)
    }

    /// The write date that the file at `path` had when it was loaded.
    pub fn loaded_date(&self, path: &Path) -> Option<u64> {
        self.loaded.read().get(path).copied()
    }

    /// The loaded files in whose live text a symbol called `name`, of whatever package, or a designator of one stands.
    /// Only files with sidecars are known.
    pub fn naming(&self, name: &str) -> Vec<(PathBuf, u64)> {
        self.read_new_files();
        let (loaded, names) = (self.loaded.read(), self.names.lock());
        let naming = names.naming.get(name).into_iter().flatten();
        naming.filter_map(|path| Some((path.clone(), *loaded.get(path)?))).collect()
    }

    /// Reads the sidecars of the files that were loaded since this was last called. The first question does it if
    /// nobody did before.
    pub(crate) fn read_new_files(&self) {
        let loaded = self.loaded.read();
        let mut names = self.names.lock();
        for path in std::mem::take(&mut names.pending) {
            let Some(&written) = loaded.get(&path) else { continue };
            let file = self.positions(&path, written);
            let named = file.map_or_else(|_| Vec::new(), |file| file.names().map(Arc::from).collect());
            names.set(&path, named);
        }
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
        let stamp = Stamp::of(&std::fs::metadata(path)?);
        let version = (path.to_path_buf(), write_date);
        if let Some(known) = self.positions.lock().get(&version)
            && known.stamp == stamp
        {
            return Ok(Arc::clone(&known.file));
        }
        let sidecar = self.sidecar(path, write_date);
        let file = Arc::new(PositionedFile::open(path, write_date, sidecar.as_deref())?);
        let known = Known { stamp, file: Arc::clone(&file), asked: 0 };
        self.positions.lock().insert(version, known);
        Ok(file)
    }

    /// Where the sidecar of `path` would be.
    fn sidecar(&self, path: &Path, write_date: u64) -> Option<PathBuf> {
        let truename = std::fs::canonicalize(path).ok()?;
        Some(self.sidecars()?.join(sidecar_name(&truename, write_date)))
    }

    fn sidecars(&self) -> Option<PathBuf> {
        Some(self.settings.as_ref()?.cache.join("taps"))
    }

    /// Deletes the sidecars of earlier versions of `paths`, and what writers that died have left. What cannot be
    /// deleted stays: nobody reads it.
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
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}
