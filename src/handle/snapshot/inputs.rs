//! The inputs of an image: files, folders and environment variables. [`Inputs::gather`] records
//! their state when a snapshot is created, and [`Inputs::changes`] compares it with the current
//! state before the snapshot is used.

use std::collections::BTreeSet;
use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use flate2::CrcReader;
use serde::{Deserialize, Serialize};

use crate::answer::counted;

/// The maximum number of folders that are searched for system definitions. A project with more has
/// no snapshots.
const MAX_FOLDERS: usize = 20_000;

/// Lisp's report of an image's inputs (operation `snapshot-inputs`).
#[derive(Debug, Deserialize)]
pub(super) struct InputsReport {
    #[serde(default)]
    files: Vec<PathBuf>,
    #[serde(default)]
    configuration: Vec<PathBuf>,
    #[serde(default)]
    registry: Vec<Registered>,
    #[serde(default)]
    variables: Vec<String>,
    #[serde(default)]
    libraries: Vec<PathBuf>,
}

/// A folder that ASDF searches for system definitions.
#[derive(Debug, Deserialize)]
struct Registered {
    path: PathBuf,
    recurse: bool,
    #[serde(default)]
    exclude: Vec<String>,
}

/// All inputs of an image: files, folders and environment variables.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Inputs {
    files: Vec<(PathBuf, Option<InputStamp>)>,
    folders: Vec<SearchedFolder>,
    variables: Vec<(String, Option<String>)>,
}

/// The state of a file or a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct InputStamp {
    size: u64,
    /// The modification time: seconds since 1970, and nanoseconds.
    modified: (i64, i64),
    changed: (i64, i64),
    inode: u64,
    /// The CRC-32 of the contents; `None` for a folder.
    sum: Option<u32>,
}

impl InputStamp {
    fn of(path: &Path, metadata: &Metadata) -> io::Result<Self> {
        let sum = match metadata.is_file() {
            true => Some(sum(path)?),
            false => None,
        };
        Ok(Self {
            size: metadata.len(),
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            changed: (metadata.ctime(), metadata.ctime_nsec()),
            inode: metadata.ino(),
            sum,
        })
    }

    /// Returns whether the file at `path` is unchanged: its contents, and its date in seconds,
    /// which is what ASDF compares. Reads the contents only if the file may have been written.
    fn holds(&self, path: &Path, metadata: &Metadata) -> bool {
        let untouched = self.modified == (metadata.mtime(), metadata.mtime_nsec())
            && self.changed == (metadata.ctime(), metadata.ctime_nsec())
            && self.inode == metadata.ino();
        self.size == metadata.len()
            && (untouched
                || self.modified.0 == metadata.mtime() && self.sum.is_some() && self.sum == sum(path).ok())
    }
}

fn sum(path: &Path) -> io::Result<u32> {
    // Hash in chunks, because a system may load data of any size.
    let mut hashed = CrcReader::new(steelbank_tree::open_plain(path)?);
    io::copy(&mut hashed, &mut io::sink())?;
    Ok(hashed.crc().sum())
}

/// A folder that ASDF searches for system definitions, or a folder inside such a folder.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct SearchedFolder {
    path: PathBuf,
    /// The folder's modification time; `None` if the folder does not exist.
    modified: Option<(i64, i64)>,
    /// The names of `.asd` and `.cl-source-registry` files, and of subfolders if ASDF searches
    /// subfolders, too.
    names: Vec<String>,
    /// The names of subfolders that ASDF skips; `None` if it searches no subfolders.
    exclude: Option<Vec<String>>,
}

impl SearchedFolder {
    fn read(path: PathBuf, exclude: Option<Vec<String>>) -> Self {
        let mut folder = Self { modified: modified(&path), names: Vec::new(), path, exclude };
        folder.names = folder.now();
        folder
    }

    fn now(&self) -> Vec<String> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let Some(name) = entry.file_name().to_str().map(str::to_owned) else { continue };
            if name.ends_with(".asd") || name.starts_with(".cl-source-registry") {
                names.push(name);
            } else if let Some(exclude) = &self.exclude
                && !exclude.contains(&name)
                && entry.file_type().is_ok_and(|kind| !kind.is_file())
                && entry.path().is_dir()
            {
                names.push(format!("{name}/"));
            }
        }
        names.sort();
        names
    }

    fn holds(&self) -> bool {
        let now = modified(&self.path);
        now == self.modified || now.is_some() && self.modified.is_some() && self.now() == self.names
    }
}

fn modified(path: &Path) -> Option<(i64, i64)> {
    let metadata = std::fs::metadata(path).ok()?;
    Some((metadata.mtime(), metadata.mtime_nsec()))
}

fn written(metadata: &Metadata) -> i128 {
    i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec())
}

/// The differences between an image's inputs and their current state.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChangedInputs {
    /// Files that still exist, with other contents or another date.
    pub(super) files: Vec<PathBuf>,
    /// Another difference, as a sentence fragment.
    pub(super) other: Option<String>,
}

/// Inputs, and the result of their last comparison.
#[derive(Debug)]
pub(super) struct ComparedInputs {
    pub(super) inputs: Inputs,
    pub(super) changes: ChangedInputs,
}

impl ChangedInputs {
    /// Returns whether there are no differences.
    pub(super) fn is_none(&self) -> bool {
        self.files.is_empty() && self.other.is_none()
    }

    /// Describes `other`, or else the number of changed files, as a sentence fragment; `None` if
    /// there are no differences.
    pub(super) fn describe(&self) -> Option<String> {
        let files = || counted(self.files.len(), "file has changed", "files have changed");
        self.other.clone().or_else(|| (!self.files.is_empty()).then(files))
    }
}

impl Inputs {
    /// Records the state of the inputs that Lisp reported. Skips files in `cache`, because they are
    /// not the user's files. Fails if a file cannot be read, if ASDF searches too many folders, or
    /// if a file was written after `before` (nanoseconds since 1970): the image may contain an
    /// older version of such a file.
    pub(super) fn gather(told: InputsReport, cache: &Path, before: i128) -> Result<Self, String> {
        let mut inputs = Self::default();
        let listed = told.files.into_iter().chain(told.configuration).chain(told.libraries);
        let paths: BTreeSet<PathBuf> = listed.collect();
        let real = std::fs::canonicalize(cache).unwrap_or_else(|_| cache.to_owned());
        let caches = [cache, &real];
        for path in paths {
            // Skip bare library names, which the dynamic linker resolves, and files that each load
            // writes to the cache.
            if !path.is_absolute() || caches.iter().any(|cache| path.starts_with(cache)) {
                continue;
            }
            let stamp = match std::fs::metadata(&path) {
                Err(_) => None,
                Ok(metadata) if metadata.is_file() && written(&metadata) >= before => {
                    return Err(format!("{} was written while the snapshot was created", path.display()));
                }
                Ok(metadata) => Some(
                    InputStamp::of(&path, &metadata)
                        .map_err(|error| format!("{} cannot be read: {error}", path.display()))?,
                ),
            };
            inputs.files.push((path, stamp));
        }
        let mut seen = BTreeSet::new();
        for registered in told.registry {
            let exclude = registered.recurse.then_some(registered.exclude);
            let mut open = vec![registered.path];
            while let Some(path) = open.pop() {
                let real = std::fs::canonicalize(&path).unwrap_or_else(|_| path.clone());
                if !seen.insert((real, exclude.is_some())) {
                    continue;
                }
                if seen.len() > MAX_FOLDERS {
                    return Err(format!("ASDF looks for systems in more than {MAX_FOLDERS} folders"));
                }
                let mut exclude = exclude.clone();
                if let Some(exclude) = &mut exclude
                    && let Some(name) = cache.strip_prefix(&path).ok().and_then(|rest| rest.to_str())
                {
                    exclude.push(name.to_owned());
                }
                let folder = SearchedFolder::read(path, exclude);
                if folder.exclude.is_some() {
                    let below = folder.names.iter().filter_map(|name| name.strip_suffix('/'));
                    open.extend(below.map(|name| folder.path.join(name)));
                }
                inputs.folders.push(folder);
            }
        }
        inputs.variables = told.variables.into_iter().map(|name| (name.clone(), variable(&name))).collect();
        Ok(inputs)
    }

    /// Returns whether the inputs are unchanged.
    pub(crate) fn hold(&self) -> bool {
        self.changes(None).is_none()
    }

    /// Describes the first environment variable with another value, except those in `ignored`, as a
    /// sentence fragment.
    pub(super) fn changed_variable(&self, ignored: &[&str]) -> Option<String> {
        let is_other = |(name, value): &&(String, Option<String>)| {
            variable(name) != *value && !ignored.contains(&name.as_str())
        };
        self.variables
            .iter()
            .find(is_other)
            .map(|(name, _)| format!("the environment variable {name} has changed"))
    }

    /// Compares the inputs with their current state; stops at the first changed variable or
    /// searched folder. Reuses the results in `compared` for inputs that were recorded in the same
    /// state there.
    pub(super) fn changes(&self, compared: Option<&ComparedInputs>) -> ChangedInputs {
        let mut changes = ChangedInputs { other: self.changed_variable(&[]), ..ChangedInputs::default() };
        if changes.other.is_some() {
            return changes;
        }
        // If `other` is set, that comparison may have ended early, so do not reuse it.
        let compared = compared.filter(|compared| compared.changes.other.is_none());
        for (number, folder) in self.folders.iter().enumerate() {
            let is_known = compared.is_some_and(|known| known.inputs.folders.get(number) == Some(folder));
            if !is_known && !folder.holds() {
                changes.other = Some(format!("system definitions in {} have changed", folder.path.display()));
                return changes;
            }
        }
        // Both lists are sorted.
        let mut known = compared.into_iter().flat_map(|known| &known.inputs.files).peekable();
        let changed = compared.map(|known| known.changes.files.as_slice()).unwrap_or_default();
        for (path, stamp) in &self.files {
            while known.next_if(|(other, _)| other < path).is_some() {}
            if known.next_if(|(other, then)| other == path && then == stamp).is_some() {
                changes.files.extend(changed.binary_search(path).is_ok().then(|| path.clone()));
                continue;
            }
            match (stamp, std::fs::metadata(path)) {
                (None, Err(_)) => {}
                (Some(stamp), Ok(metadata)) if stamp.holds(path, &metadata) => {}
                (Some(InputStamp { sum: Some(_), .. }), Ok(_)) => changes.files.push(path.clone()),
                (Some(_), Ok(_)) => changes.other = Some(format!("{} has changed", path.display())),
                (None, Ok(_)) => changes.other = Some(format!("{} now exists", path.display())),
                (Some(_), Err(_)) => changes.other = Some(format!("{} no longer exists", path.display())),
            }
        }
        changes
    }

    /// Returns the number of files.
    pub(super) fn files(&self) -> usize {
        self.files.len()
    }
}

/// Returns the value of an environment variable. Variables that loaded code has read are inputs of
/// the image.
fn variable(name: &str) -> Option<String> {
    std::env::var_os(name).map(|value| value.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::time::{Duration, SystemTime};

    fn told(root: &Path) -> InputsReport {
        let files =
            ["a.lisp", "b.lisp", "absent.conf", "cache/made.lisp"].map(|name| root.join(name)).to_vec();
        InputsReport {
            files,
            configuration: Vec::new(),
            registry: vec![Registered {
                path: root.to_owned(),
                recurse: true,
                exclude: vec![".git".to_owned()],
            }],
            variables: vec!["STEELBANK_NO_SUCH_VARIABLE".to_owned()],
            libraries: vec!["libm.so.6".into()],
        }
    }

    fn edit(path: &Path, text: &str, seconds: u64) {
        fs::write(path, text).unwrap();
        let date = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000 + seconds);
        fs::File::options().write(true).open(path).unwrap().set_modified(date).unwrap();
    }

    #[test]
    fn only_relevant_changes_of_inputs_are_detected() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("sub")).unwrap();
        fs::create_dir_all(root.join(".git")).unwrap();
        edit(&root.join("a.lisp"), "one", 0);
        edit(&root.join("b.lisp"), "two", 0);
        edit(&root.join("sub/s.asd"), "", 0);
        fs::create_dir_all(root.join("cache")).unwrap();
        // Each load writes this file in the cache again.
        edit(&root.join("cache/made.lisp"), "made", 9);
        let before = 1_700_000_001_000_000_000;
        let inputs = Inputs::gather(told(&root), &root.join("cache"), before).unwrap();
        let changed = || inputs.changes(None);
        assert_eq!(changed(), ChangedInputs::default());
        assert!(
            Inputs::gather(told(&root), &root.join("cache"), 1_600_000_000_000_000_000)
                .unwrap_err()
                .contains("was written while")
        );

        // These changes do not matter: the same text written again with the same date, an unrelated
        // file, an excluded folder.
        edit(&root.join("a.lisp"), "one", 0);
        edit(&root.join("sub/note.txt"), "", 9);
        edit(&root.join(".git/x.asd"), "", 9);
        fs::create_dir_all(root.join("cache/snapshots")).unwrap();
        assert_eq!(changed(), ChangedInputs::default());

        // Change the text but neither length nor date; then the date but not the text.
        let files = |changes: ChangedInputs| (changes.files, changes.other.is_some());
        edit(&root.join("a.lisp"), "eno", 0);
        assert_eq!(files(changed()), (vec![root.join("a.lisp")], false));
        edit(&root.join("a.lisp"), "one", 1);
        assert_eq!(files(changed()), (vec![root.join("a.lisp")], false));
        edit(&root.join("a.lisp"), "one", 0);

        let other = |what: &str| {
            let said = changed().other.unwrap_or_default();
            assert!(said.contains(what), "{said:?}");
        };
        edit(&root.join("sub/t.asd"), "", 0);
        other("system definitions in");
        fs::remove_file(root.join("sub/t.asd")).unwrap();
        fs::create_dir_all(root.join("new")).unwrap();
        other("system definitions in");
        fs::remove_dir(root.join("new")).unwrap();
        edit(&root.join("absent.conf"), "", 0);
        other("now exists");
        fs::remove_file(root.join("absent.conf")).unwrap();
        fs::remove_file(root.join("b.lisp")).unwrap();
        other("no longer exists");
        edit(&root.join("b.lisp"), "two", 0);
        assert_eq!(changed(), ChangedInputs::default());
    }

    #[test]
    fn compared_inputs_are_not_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["a.lisp", "b.lisp"] {
            edit(&root.join(name), "one", 0);
        }
        let gather = || Inputs::gather(told(&root), &root.join("cache"), 1_700_000_001_000_000_000).unwrap();
        let (whole, mut part) = (gather(), gather());
        part.files.remove(0);
        edit(&root.join("b.lisp"), "two!", 0);
        let changes = whole.changes(None);
        let compared = ComparedInputs { inputs: whole, changes };
        let changed = || part.changes(Some(&compared)).files;
        assert_eq!(changed(), [root.join("b.lisp")]);
        // Restore the file: only a new comparison would notice.
        edit(&root.join("b.lisp"), "one", 0);
        assert_eq!(changed(), [root.join("b.lisp")]);
        assert!(part.changes(None).is_none());
        // An input with another recorded state is compared again.
        edit(&root.join("b.lisp"), "three", 0);
        let other = gather();
        assert!(other.changes(Some(&compared)).is_none());
    }
}
