//! `steelbank cache`: lists the contents of the cache folder, and clears it.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use clap::{Args, ValueEnum};
use serde_json::json;

use super::{CommandError, Exit, Shell, installation};
use crate::answer::counted;
use crate::handle::snapshot;
use crate::handle::snapshot::SnapshotEntry;

#[derive(Debug, Args)]
pub(super) struct Cache {
    /// Clear the cache, or one part of it
    #[arg(long, value_name = "WHAT", num_args = 0..=1, default_missing_value = "all")]
    clear: Option<CachePart>,
}

/// The parts of the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CachePart {
    /// All of the following except undo
    All,
    /// Images of projects with their systems loaded
    Snapshots,
    /// Compiled code
    Fasls,
    /// Recorded positions in source files
    Sidecars,
    /// Text indexes
    Text,
    /// Files of scratch images
    Scratch,
    /// Drawings of call graphs
    Drawings,
    /// The texts before renames, for undoing them
    Undo,
}

impl CachePart {
    const EACH: [(Self, &str, &[&str]); 7] = [
        (Self::Snapshots, "snapshots", &["projects/snapshots"]),
        (Self::Fasls, "fasls", &["projects/fasls", "projects/files"]),
        (Self::Sidecars, "sidecars", &["projects/taps"]),
        (Self::Text, "text indexes", &["projects/text", "text"]),
        (Self::Scratch, "scratch images", &["projects/scratch"]),
        (Self::Drawings, "drawings", &["projects/drawings"]),
        (Self::Undo, "undo", &["projects/undo"]),
    ];
}

impl Cache {
    pub(super) fn run(&self, shell: &Shell) -> Result<Exit, CommandError> {
        let cache = installation::cache().ok_or_else(|| CommandError {
            exit: Exit::Engine,
            message: "There is no cache folder: neither STEELBANK_CACHE nor HOME is set.".to_owned(),
        })?;
        match self.clear {
            Some(what) => self.clear(shell, &cache, what),
            None => self.list(shell, &cache),
        }
    }

    fn list(&self, shell: &Shell, cache: &Path) -> Result<Exit, CommandError> {
        let sizes: Vec<(&str, Size)> = CachePart::EACH
            .iter()
            .map(|(_, name, folders)| (*name, folders.iter().map(|folder| size(&cache.join(folder))).sum()))
            .collect();
        let snapshots = snapshot::list(&cache.join("projects"));
        if shell.options.json {
            let kinds: Vec<_> = sizes
                .iter()
                .map(|(name, size)| json!({ "name": name, "bytes": size.bytes, "files": size.files }))
                .collect();
            shell.output.json(&json!({ "folder": cache, "kinds": kinds, "snapshots": snapshots }))?;
            return Ok(Exit::Answered);
        }
        let mut text = format!("{}\n", cache.display());
        for (name, size) in sizes {
            text.push_str(&format!(
                "\n  {name:<15} {:>10}  {}",
                megabytes(size.bytes),
                counted(size.files, "file", "files")
            ));
        }
        if !snapshots.is_empty() {
            text.push_str("\n\nSnapshots, at most ");
            text.push_str(&format!("{} and {}:\n", snapshot::MAX_SNAPSHOTS, megabytes(snapshot::MAX_BYTES)));
        }
        for entry in &snapshots {
            text.push_str(&format!("\n  {}", line(entry)));
        }
        shell.output.text(&text)?;
        Ok(Exit::Answered)
    }

    fn clear(&self, shell: &Shell, cache: &Path, what: CachePart) -> Result<Exit, CommandError> {
        let mut cleared = Vec::new();
        for (kind, name, folders) in CachePart::EACH {
            // Clear undo data only if it is named, because it cannot be recreated.
            if what != kind && (what != CachePart::All || kind == CachePart::Undo) {
                continue;
            }
            let paths: Vec<PathBuf> = folders.iter().map(|folder| cache.join(folder)).collect();
            let before: Size = paths.iter().map(|path| size(path)).sum();
            if kind == CachePart::Snapshots {
                snapshot::clear(&cache.join("projects"));
            } else {
                for path in paths.iter().filter(|path| path.exists()) {
                    remove(path).map_err(|error| CommandError {
                        exit: Exit::Engine,
                        message: match error.kind() {
                            ErrorKind::DirectoryNotEmpty => format!(
                                "{} cannot be removed: another steelbank process is writing to it. Retry when that process has finished.",
                                path.display()
                            ),
                            _ => format!("{} cannot be removed: {error}.", path.display()),
                        },
                    })?;
                }
            }
            let after: Size = paths.iter().map(|path| size(path)).sum();
            cleared.push((name, before.bytes.saturating_sub(after.bytes)));
        }
        if shell.options.json {
            let cleared: Vec<_> =
                cleared.iter().map(|(name, bytes)| json!({ "name": name, "bytes": bytes })).collect();
            shell.output.json(&json!({ "folder": cache, "cleared": cleared }))?;
        } else {
            let lines = cleared.iter().map(|(name, bytes)| format!("Cleared {name}: {}.", megabytes(*bytes)));
            shell.output.text(&lines.collect::<Vec<_>>().join("\n"))?;
        }
        Ok(Exit::Answered)
    }
}

/// Removes a folder. Tries ten times, because another process may add files to it meanwhile.
fn remove(path: &Path) -> std::io::Result<()> {
    let mut outcome = Ok(());
    for _ in 0..10 {
        outcome = std::fs::remove_dir_all(path);
        if !outcome.as_ref().is_err_and(|error| error.kind() == ErrorKind::DirectoryNotEmpty) {
            break;
        }
    }
    outcome
}

fn line(entry: &SnapshotEntry) -> String {
    let root = entry.root.as_ref().map_or_else(|| "no project".to_owned(), |root| root.display().to_string());
    let used = SystemTime::UNIX_EPOCH + Duration::from_secs(entry.used);
    let age = used.elapsed().map_or(0, |age| age.as_secs());
    let age = match age {
        0..120 => format!("{age} s"),
        120..7200 => format!("{} min", age / 60),
        7200..172_800 => format!("{} h", age / 3600),
        _ => format!("{} days", age / 86_400),
    };
    let how = entry.unfit.as_ref().map_or_else(|| "fresh".to_owned(), |why| format!("not used: {why}"));
    let before = if entry.dependencies { "the dependencies of " } else { "" };
    format!(
        "{before}{} of {root}: {}, {}, used {age} ago, {how}",
        entry.systems.join(", "),
        megabytes(entry.bytes),
        counted(entry.files, "file", "files")
    )
}

fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

#[derive(Debug, Clone, Copy, Default)]
struct Size {
    bytes: u64,
    files: u64,
}

impl std::iter::Sum for Size {
    fn sum<I: Iterator<Item = Self>>(sizes: I) -> Self {
        sizes.fold(Self::default(), |all, size| Self {
            bytes: all.bytes + size.bytes,
            files: all.files + size.files,
        })
    }
}

/// Returns the number of files below `path` and their total size. Does not follow links.
fn size(path: &Path) -> Size {
    let mut all = Size::default();
    for entry in std::fs::read_dir(path).into_iter().flatten().flatten() {
        let Ok(metadata) = entry.metadata() else { continue };
        if metadata.is_dir() {
            all = [all, size(&entry.path())].into_iter().sum();
        } else {
            all.bytes += metadata.len();
            all.files += 1;
        }
    }
    all
}
