//! The folder of snapshots: publishes, lists and removes snapshots, and limits their number and
//! size. The least recently used snapshots are removed first. [`SnapshotLock`] ensures that one
//! process at a time creates a snapshot.

use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;
#[cfg(feature = "server")]
use steelbank_xref::Index;

use super::SnapshotKind;
use super::format::SnapshotManifest;
use crate::source::tap::sidecar::fnv_1a;

/// The extension of a file that stores why a snapshot cannot be created.
pub(super) const REFUSED: &str = "refused";
/// The extension of the index of an image that could not be saved.
const UNSAVED: &str = "index";
/// The name of the lock that a process must hold to create a snapshot of any key.
pub(super) const ANY: &str = "making";
/// The interval at which a process that waits for a lock tries again.
const LOCK_INTERVAL: Duration = Duration::from_millis(100);

/// The maximum number of snapshots.
pub const MAX_SNAPSHOTS: usize = 24;
/// The maximum size of all snapshots together, in bytes.
pub const MAX_BYTES: u64 = 4 << 30;

/// The age from which an unfinished folder counts as abandoned.
const ABANDONED: Duration = Duration::from_secs(600);

/// The age from which a refusal is removed, because the project may no longer exist.
const FORGOTTEN: Duration = Duration::from_secs(30 * 86_400);

/// A snapshot in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SnapshotEntry {
    /// The snapshot's folder.
    pub path: PathBuf,
    /// The project's folder.
    pub root: Option<PathBuf>,
    /// The systems that the snapshot was created for, or "the project's systems".
    pub systems: Vec<String>,
    /// True if the snapshot has only the systems that are loaded before the project's first system,
    /// before the first system with changed files, or before the first system that prevents saving.
    pub dependencies: bool,
    /// The size in bytes.
    pub bytes: u64,
    /// The number of its input files.
    pub files: usize,
    /// The reason why the snapshot cannot be used: changed inputs or a damaged manifest. `None` if
    /// there is neither; core and index are not checked.
    pub unfit: Option<String>,
    /// The time of its last use, in seconds since 1970.
    pub used: u64,
}

/// Lists the snapshots in `cache`, most recently used first.
pub fn list(cache: &Path) -> Vec<SnapshotEntry> {
    let mut entries: Vec<SnapshotEntry> = folders(&cache.join("snapshots"))
        .map(|path| {
            let used = used(&path);
            match SnapshotManifest::read(&path.join("manifest")) {
                Ok(manifest) => SnapshotEntry {
                    bytes: manifest.core.bytes() + manifest.index.bytes(),
                    root: manifest.root,
                    systems: manifest.loads.iter().map(ToString::to_string).collect(),
                    dependencies: manifest.kind == SnapshotKind::Dependencies,
                    files: manifest.inputs.files(),
                    unfit: manifest.inputs.changes(None).describe(),
                    path,
                    used,
                },
                Err(why) => SnapshotEntry {
                    bytes: size(&path),
                    path,
                    root: None,
                    systems: Vec::new(),
                    dependencies: false,
                    files: 0,
                    unfit: Some(why),
                    used,
                },
            }
        })
        .collect();
    entries.sort_by(|one, other| other.used.cmp(&one.used).then_with(|| one.path.cmp(&other.path)));
    entries
}

/// Returns the path of the index of the last unsaveable image of the project in `root`.
pub(super) fn unsaved_index(all: &Path, root: &Path) -> PathBuf {
    all.join(format!("{:016x}.{UNSAVED}", fnv_1a(root.as_os_str().as_bytes())))
}

/// Reads the index and the names of the project's systems from the most recently used complete
/// snapshot of the project in `root`, even if its files have changed since. If there is none, reads
/// the index of the last image that could not be saved.
#[cfg(feature = "server")]
pub(crate) fn last(cache: &Path, root: &Path) -> Option<(Index, Vec<String>)> {
    let root = std::fs::canonicalize(root).ok()?;
    let folder = cache.join("snapshots");
    let mut all: Vec<PathBuf> = folders(&folder).collect();
    all.sort_by_key(|path| std::cmp::Reverse(used(path)));
    let saved = all.iter().find_map(|path| {
        let manifest = SnapshotManifest::read(&path.join("manifest")).ok()?;
        let is_meant = manifest.root.as_ref() == Some(&root) && manifest.kind == SnapshotKind::Whole;
        let bytes = is_meant.then(|| steelbank_cache::read(&path.join("index")).ok())??;
        let own = manifest.systems.into_iter().filter(|system| !system.own.is_empty());
        let index = Index::open_snapshot(bytes).ok()?;
        Some((index, own.map(|system| system.name).collect()))
    });
    saved.or_else(|| {
        let bytes = steelbank_cache::read(&unsaved_index(&folder, &root)).ok()?;
        Some((Index::open_snapshot(bytes).ok()?, Vec::new()))
    })
}

/// Removes all snapshots and refusals in `cache`, and returns the size of the removed snapshots in
/// bytes. Processes that run from a snapshot can use it until they end.
pub fn clear(cache: &Path) -> u64 {
    let all = cache.join("snapshots");
    let refused =
        entries(&all).filter(|path| path.extension().is_some_and(|end| end == REFUSED || end == UNSAVED));
    // Ignore errors: a file that remains only prevents a snapshot that would be refused again.
    refused.for_each(|path| _ = std::fs::remove_file(path));
    folders(&all).map(|path| remove(&path)).sum()
}

fn entries(all: &Path) -> impl Iterator<Item = PathBuf> {
    std::fs::read_dir(all).into_iter().flatten().flatten().map(|entry| entry.path())
}

/// Lists the folders of published snapshots.
fn folders(all: &Path) -> impl Iterator<Item = PathBuf> {
    entries(all).filter(|path| path.file_name().is_some_and(|name| is_snapshot(&name.to_string_lossy())))
}

/// Returns whether `name` is a published snapshot's: sixteen hexadecimal digits, a hyphen and a
/// number.
fn is_snapshot(name: &str) -> bool {
    name.split_once('-').is_some_and(|(key, number)| {
        key.len() == 16 && !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())
    })
}

pub(super) fn size(path: &Path) -> u64 {
    let entries = std::fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter_map(|entry| Some(entry.metadata().ok()?.len())).sum()
}

fn used(path: &Path) -> u64 {
    let modified = std::fs::metadata(path.join("manifest")).and_then(|metadata| metadata.modified());
    let since = modified.ok().and_then(|modified| modified.duration_since(SystemTime::UNIX_EPOCH).ok());
    since.map_or(0, |since| since.as_secs())
}

/// Marks the snapshot at `path` as used now.
pub(super) fn touch(path: &Path) {
    // Ignore errors: an unmarked snapshot is removed earlier, which does no harm.
    if let Ok(manifest) = File::options().write(true).open(path.join("manifest")) {
        let _ = manifest.set_modified(SystemTime::now());
    }
}

/// Removes the snapshot at `path`, from which the program failed to start.
pub(crate) fn discard(path: &Path) {
    remove(path);
}

/// Removes the snapshot at `path`. Renames it first, so that no process finds a partial snapshot.
fn remove(path: &Path) -> u64 {
    let bytes = size(path);
    let mut gone = path.as_os_str().to_owned();
    gone.push(".gone");
    match std::fs::rename(path, &gone).and_then(|()| std::fs::remove_dir_all(&gone)) {
        Ok(()) => bytes,
        Err(_) => 0,
    }
}

/// A lock for creating the snapshots of one key, or the lock [`ANY`] for creating any snapshot.
#[derive(Debug)]
pub(crate) struct SnapshotLock {
    lock: File,
}

impl SnapshotLock {
    /// Takes the lock. Returns `None` if another process holds it.
    pub(super) fn take(all: &Path, key: &str) -> std::io::Result<Option<Self>> {
        steelbank_cache::create_folder(all)?;
        // Opening the file truncates it, which resets the recorded load time.
        let lock = steelbank_cache::create_file(&lock_of(all, key))?;
        Ok(flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(Self { lock }))
    }

    /// Waits for the lock. Returns `None` if another process still holds it after `allowed`.
    pub(super) fn wait(all: &Path, key: &str, allowed: Duration) -> std::io::Result<Option<Self>> {
        let until = Instant::now() + allowed;
        loop {
            match Self::take(all, key)? {
                None if Instant::now() < until => std::thread::sleep(LOCK_INTERVAL),
                right => return Ok(right),
            }
        }
    }

    /// Resets the load time that was recorded since the lock was taken, after an attempt to create
    /// a snapshot.
    pub(super) fn reset_cost(&self) {
        // Ignore the error: the next snapshot is then created earlier, which does no harm.
        let _ = self.lock.set_len(0);
    }
}

fn lock_of(all: &Path, key: &str) -> PathBuf {
    all.join(format!("{key}.lock"))
}

/// Adds `cost` to the load time since the last attempt to create the snapshot of `key`, and returns
/// the sum. The lock file stores the sum in milliseconds. Returns `None` if it cannot be stored.
pub(super) fn spend(all: &Path, key: &str, cost: Duration) -> Option<Duration> {
    let path = lock_of(all, key);
    let kept = steelbank_cache::read(&path).ok().and_then(|kept| String::from_utf8(kept).ok()?.parse().ok());
    let spent = Duration::from_millis(kept.unwrap_or(0)).saturating_add(cost);
    steelbank_cache::write(&path, spent.as_millis().to_string().as_bytes()).ok()?;
    Some(spent)
}

/// Publishes the snapshot in the folder `made` under `key`. Removes older snapshots and the refusal
/// of that key, and then the least recently used snapshots until the limits are met.
pub(super) fn publish(all: &Path, key: &str, made: &Path) -> std::io::Result<PathBuf> {
    let before: Vec<PathBuf> = folders(all)
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(key)))
        .collect();
    let newest = before.iter().filter_map(|path| number(path)).max().unwrap_or(0);
    // Pad the number, so that the names sort by age.
    let path = all.join(format!("{key}-{:010}", newest + 1));
    std::fs::rename(made, &path)?;
    File::open(all)?.sync_all()?;
    for old in &before {
        remove(old);
    }
    // Ignore the error: usually there is no refusal.
    let _ = std::fs::remove_file(all.join(key).with_extension(REFUSED));
    make_room(all, &path);
    sweep(all);
    Ok(path)
}

fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.split_once('-')?.1.parse().ok()
}

/// Removes the least recently used snapshots except `keep`, until the limits are met.
fn make_room(all: &Path, keep: &Path) {
    let mut others: Vec<(u64, PathBuf)> =
        folders(all).filter(|path| path != keep).map(|path| (used(&path), path)).collect();
    others.sort();
    let mut bytes: u64 = size(keep) + others.iter().map(|(_, path)| size(path)).sum::<u64>();
    let mut count = others.len() + 1;
    for (_, path) in others {
        if count <= MAX_SNAPSHOTS && bytes <= MAX_BYTES {
            break;
        }
        bytes = bytes.saturating_sub(remove(&path));
        count -= 1;
    }
}

/// Removes the folders of processes that ended while they created or removed a snapshot, and old
/// refusals.
fn sweep(all: &Path) {
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_old = age_of(&entry).is_some_and(|age| age > ABANDONED);
        if name.ends_with(".gone") || name.ends_with(".making") && is_old {
            let _ = std::fs::remove_dir_all(entry.path());
        } else if (name.ends_with(REFUSED) || name.ends_with(UNSAVED))
            && age_of(&entry).is_some_and(|age| age > FORGOTTEN)
        {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn age_of(entry: &std::fs::DirEntry) -> Option<Duration> {
    entry.metadata().ok()?.modified().ok()?.elapsed().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn least_recently_used_snapshots_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        let all = folder.path();
        let make = |key: &str| {
            let made = all.join("x.making");
            std::fs::create_dir_all(&made).unwrap();
            std::fs::write(made.join("manifest"), "m").unwrap();
            publish(all, key, &made).unwrap()
        };
        let keys: Vec<String> = (0..MAX_SNAPSHOTS + 2).map(|number| format!("{number:016x}")).collect();
        let mut paths = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let path = make(key);
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + number as u64);
            File::options().write(true).open(path.join("manifest")).unwrap().set_modified(date).unwrap();
            paths.push(path);
        }
        let there: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
        assert_eq!(there.iter().filter(|there| **there).count(), MAX_SNAPSHOTS);
        assert!(!there[0] && !there[1] && there[2], "{there:?}");
        let again = make(&keys[5]);
        assert!(again.exists() && !paths[5].exists());
        assert!(again > paths[5]);
        // Only one process at a time can create a snapshot.
        let first = SnapshotLock::take(all, &keys[5]).unwrap();
        assert!(first.is_some() && SnapshotLock::take(all, &keys[5]).unwrap().is_none());
        assert!(SnapshotLock::take(all, &keys[6]).unwrap().is_some());
        drop(first);
        // Load times add up until the lock is reset.
        let spend = || spend(all, &keys[5], Duration::from_millis(300)).unwrap().as_millis();
        assert_eq!((spend(), spend()), (300, 600));
        let lock = SnapshotLock::take(all, &keys[5]).unwrap().unwrap();
        assert_eq!((spend(), spend()), (300, 600));
        lock.reset_cost();
        assert_eq!(spend(), 300);
        assert!(!is_snapshot("0123456789abcdef-1.gone") && !is_snapshot("0123456789abcdef.lock"));
    }
}
