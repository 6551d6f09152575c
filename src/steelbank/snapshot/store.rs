//! The folder of snapshots: its limits, and the order in which snapshots are dropped.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use rustix::fs::{FlockOperation, flock};
use serde::Serialize;

use super::format::SnapshotManifest;

/// The most snapshots that are kept.
pub const MOST_SNAPSHOTS: usize = 24;
/// The most bytes of all snapshots together.
pub const MOST_BYTES: u64 = 4 << 30;

/// The age from which a file that no process holds counts as left behind.
const ABANDONED: Duration = Duration::from_secs(600);

/// A snapshot in the cache.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct SnapshotEntry {
    /// Its folder.
    pub path: PathBuf,
    /// The project's folder.
    pub root: Option<PathBuf>,
    /// The systems that it has loaded.
    pub systems: Vec<String>,
    /// Its size in bytes.
    pub bytes: u64,
    /// How many files it was made of.
    pub files: usize,
    /// The reason for which it cannot be used, if it cannot.
    pub unfit: Option<String>,
    /// When it was last used, in seconds since 1970.
    pub used: u64,
}

/// Lists the snapshots in `cache`, most recently used first.
pub fn list(cache: &Path) -> Vec<SnapshotEntry> {
    let mut entries: Vec<SnapshotEntry> = folders(&cache.join("snapshots"))
        .map(|path| {
            let used = used(&path);
            match SnapshotManifest::read(&path.join("manifest")) {
                Ok(manifest) => {
                    let changes = manifest.inputs.changes();
                    SnapshotEntry {
                        bytes: manifest.core.bytes() + manifest.index.bytes() + manifest.names.bytes(),
                        root: manifest.root,
                        systems: manifest.systems,
                        files: manifest.inputs.files(),
                        unfit: changes.other.or_else(|| {
                            (!changes.files.is_empty())
                                .then(|| format!("{} of its files have changed", changes.files.len()))
                        }),
                        path,
                        used,
                    }
                }
                Err(why) => SnapshotEntry {
                    bytes: size(&path),
                    path,
                    root: None,
                    systems: Vec::new(),
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

/// Removes all snapshots in `cache`. Returns their size in bytes. Processes that run from one keep it until
/// they end.
pub fn clear(cache: &Path) -> u64 {
    folders(&cache.join("snapshots")).map(|path| remove(&path)).sum()
}

/// Lists the folders of whole snapshots.
fn folders(all: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = std::fs::read_dir(all).into_iter().flatten().flatten();
    entries.filter(|entry| is_snapshot(&entry.file_name().to_string_lossy())).map(|entry| entry.path())
}

/// Whether `name` is sixteen digits, a hyphen and a number.
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
    // Ignore errors: an unmarked snapshot is only dropped sooner.
    if let Ok(manifest) = File::options().write(true).open(path.join("manifest")) {
        let _ = manifest.set_modified(SystemTime::now());
    }
}

/// Removes the snapshot at `path`, from which no program starts.
pub(crate) fn discard(path: &Path) {
    remove(path);
}

/// Removes the snapshot at `path`. Renames it first, so that no process finds half of it.
fn remove(path: &Path) -> u64 {
    let bytes = size(path);
    let mut gone = path.as_os_str().to_owned();
    gone.push(".gone");
    match std::fs::rename(path, &gone).and_then(|()| std::fs::remove_dir_all(&gone)) {
        Ok(()) => bytes,
        Err(_) => 0,
    }
}

/// The right to make snapshots of one key, which one process holds at a time.
#[derive(Debug)]
pub(crate) struct MakingRight {
    _lock: File,
}

impl MakingRight {
    /// Takes the right. None if another process holds it.
    pub(super) fn take(all: &Path, key: &str) -> std::io::Result<Option<Self>> {
        steelbank_cache::create_folder(all)?;
        let lock = steelbank_cache::create_file(&all.join(format!("{key}.lock")))?;
        Ok(flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok().then_some(Self { _lock: lock }))
    }
}

/// Publishes the whole snapshot in `made` under `key`. Removes older ones of that key, and the least recently
/// used until the rest is within bounds.
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
    make_room(all, &path);
    sweep(all);
    Ok(path)
}

fn number(path: &Path) -> Option<u64> {
    path.file_name()?.to_str()?.split_once('-')?.1.parse().ok()
}

/// Removes the least recently used snapshots, but not `keep`, until the rest is within bounds.
fn make_room(all: &Path, keep: &Path) {
    let mut others: Vec<(u64, PathBuf)> =
        folders(all).filter(|path| path != keep).map(|path| (used(&path), path)).collect();
    others.sort();
    let mut bytes: u64 = size(keep) + others.iter().map(|(_, path)| size(path)).sum::<u64>();
    let mut count = others.len() + 1;
    for (_, path) in others {
        if count <= MOST_SNAPSHOTS && bytes <= MOST_BYTES {
            break;
        }
        bytes = bytes.saturating_sub(remove(&path));
        count -= 1;
    }
}

/// Removes the folders of processes that ended while they made or removed a snapshot.
fn sweep(all: &Path) {
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let age = entry.metadata().and_then(|metadata| metadata.modified());
        let is_old = age.is_ok_and(|age| age.elapsed().is_ok_and(|age| age > ABANDONED));
        if name.ends_with(".gone") || name.ends_with(".making") && is_old {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_recently_used_go_and_the_newest_of_a_key_stays() {
        let folder = tempfile::tempdir().unwrap();
        let all = folder.path();
        let make = |key: &str| {
            let made = all.join("x.making");
            std::fs::create_dir_all(&made).unwrap();
            std::fs::write(made.join("manifest"), "m").unwrap();
            publish(all, key, &made).unwrap()
        };
        let keys: Vec<String> = (0..MOST_SNAPSHOTS + 2).map(|number| format!("{number:016x}")).collect();
        let mut paths = Vec::new();
        for (number, key) in keys.iter().enumerate() {
            let path = make(key);
            let date = SystemTime::UNIX_EPOCH + Duration::from_secs(1000 + number as u64);
            File::options().write(true).open(path.join("manifest")).unwrap().set_modified(date).unwrap();
            paths.push(path);
        }
        let there: Vec<bool> = paths.iter().map(|path| path.exists()).collect();
        assert_eq!(there.iter().filter(|there| **there).count(), MOST_SNAPSHOTS);
        assert!(!there[0] && !there[1] && there[2], "{there:?}");
        let again = make(&keys[5]);
        assert!(again.exists() && !paths[5].exists());
        assert!(again > paths[5]);
        // Allow one process at a time to make a snapshot.
        let first = MakingRight::take(all, &keys[5]).unwrap();
        assert!(first.is_some() && MakingRight::take(all, &keys[5]).unwrap().is_none());
        assert!(MakingRight::take(all, &keys[6]).unwrap().is_some());
        drop(first);
        assert!(MakingRight::take(all, &keys[5]).unwrap().is_some());
        assert!(!is_snapshot("0123456789abcdef-1.gone") && !is_snapshot("0123456789abcdef.lock"));
    }
}
