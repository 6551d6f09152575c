//! The texts of files from before edits, kept in the cache for undoing them.
//!
//! `undo/PROJECT/ID/` has a manifest, and each old text under the number of its file in the manifest. PROJECT
//! is the hash of the project's root.

use std::fs;
use std::io::Write as _;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::write::Replacement;
use crate::source::tap::sidecar::fnv_1a;

/// The most edits of a project that are kept.
const MOST: usize = 20;
/// The most bytes of a project's old texts. The newest edit is kept whatever its size.
const MOST_BYTES: u64 = 64 << 20;
const MANIFEST: &str = "undo-1.json";

#[derive(Debug, Serialize, Deserialize)]
struct UndoManifest {
    root: PathBuf,
    what: String,
    files: Vec<KeptFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct KeptFile {
    path: PathBuf,
    old: Version,
    new: Version,
}

/// The size and hash by which a text is recognised.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Version {
    size: u64,
    hash: u64,
}

impl Version {
    fn of(text: &[u8]) -> Self {
        Self { size: text.len() as u64, hash: fnv_1a(text) }
    }
}

/// The kept edits of a project.
pub(crate) struct Undo {
    folder: PathBuf,
    root: PathBuf,
}

/// Why an edit was not taken back. Nothing was changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// No edit of that name is kept for this project.
    #[error("Edit {edit} not found")]
    Missing {
        /// The name as it was given.
        edit: String,
        /// The names of those that are kept, the newest first.
        kept: Vec<String>,
    },
    /// A sentence.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for UndoError {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// A kept edit with the replacements that undo it.
#[derive(Debug)]
pub(crate) struct KeptEdit {
    /// The name of the edit.
    pub(crate) id: String,
    /// The sentence that describes the edit.
    pub(crate) what: String,
    /// The replacements that undo it. Files that have their old text already are left out.
    pub(crate) files: Vec<Replacement>,
}

impl Undo {
    /// Opens the edits of the project in `root`, kept in `cache`.
    pub(crate) fn new(cache: &Path, root: &Path) -> Self {
        let name = format!("{:016x}", fnv_1a(root.as_os_str().as_bytes()));
        Self { folder: cache.join("undo").join(name), root: root.to_owned() }
    }

    /// Keeps the texts of `files` before they are edited. Returns the edit's name.
    ///
    /// # Errors
    /// They cannot be written: a sentence.
    pub(crate) fn keep(&self, what: &str, files: &[Replacement]) -> Result<String, String> {
        let failed = |error: std::io::Error| {
            format!(
                "What is needed to undo it cannot be kept in {} ({error}). Nothing was changed.",
                self.folder.display()
            )
        };
        let id = self.reserve().map_err(failed)?;
        let folder = self.folder.join(&id);
        let manifest = UndoManifest {
            root: self.root.clone(),
            what: what.to_owned(),
            files: files
                .iter()
                .map(|file| KeptFile {
                    path: file.path.clone(),
                    old: Version::of(&file.old),
                    new: Version::of(&file.new),
                })
                .collect(),
        };
        let write = |name: &str, text: &[u8]| {
            let mut file = fs::File::create_new(folder.join(name))?;
            file.write_all(text)?;
            file.sync_all()
        };
        let keep = || -> std::io::Result<()> {
            for (number, file) in files.iter().enumerate() {
                write(&number.to_string(), &file.old)?;
            }
            write(MANIFEST, &serde_json::to_vec(&manifest)?)
        };
        if let Err(error) = keep() {
            self.forget(&id);
            return Err(failed(error));
        }
        self.sweep(&id);
        Ok(id)
    }

    /// Makes the folder of the next edit; its name is a number, one higher than the last.
    fn reserve(&self) -> std::io::Result<String> {
        fs::create_dir_all(&self.folder)?;
        let mut number = self.numbers().last().copied().unwrap_or(0);
        loop {
            number += 1;
            match fs::create_dir(self.folder.join(number.to_string())) {
                // Try the next number: another process was first.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => return made.map(|()| number.to_string()),
            }
        }
    }

    /// Lists the numbers of the kept edits, oldest first.
    fn numbers(&self) -> Vec<u64> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut numbers: Vec<u64> =
            entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        numbers.sort_unstable();
        numbers
    }

    /// Removes the oldest edits beyond the limits, but not `newest`.
    fn sweep(&self, newest: &str) {
        let (mut count, mut bytes) = (0, 0);
        for number in self.numbers().into_iter().rev() {
            let id = number.to_string();
            let files = fs::read_dir(self.folder.join(&id)).into_iter().flatten().flatten();
            bytes += files.filter_map(|file| Some(file.metadata().ok()?.len())).sum::<u64>();
            count += 1;
            if id != newest && (count > MOST || bytes > MOST_BYTES) {
                self.forget(&id);
            }
        }
    }

    /// Finds the replacements that undo the edit called `id`, or the last one.
    ///
    /// # Errors
    /// There is none, or a file has not the text that the edit gave it.
    pub(crate) fn find(&self, id: &str) -> Result<KeptEdit, UndoError> {
        let numbers = self.numbers();
        let number = match id {
            "last" => numbers.last().copied(),
            id => id.parse().ok().filter(|number| numbers.contains(number)),
        };
        let number = number.ok_or_else(|| UndoError::Missing {
            edit: id.to_owned(),
            kept: numbers.iter().rev().map(u64::to_string).collect(),
        })?;
        let id = number.to_string();
        let folder = self.folder.join(&id);
        let unreadable =
            |error: std::io::Error| format!("What is kept of edit {id} cannot be read: {error}.");
        let manifest = fs::read(folder.join(MANIFEST)).map_err(unreadable)?;
        let manifest: UndoManifest =
            serde_json::from_slice(&manifest).map_err(|error| unreadable(error.into()))?;
        if manifest.root != self.root {
            let why = format!("Edit {id} is of another project, {}.", manifest.root.display());
            return Err(why.into());
        }
        let mut files = Vec::new();
        for (number, file) in manifest.files.iter().enumerate() {
            let shown = file.path.strip_prefix(&self.root).unwrap_or(&file.path).display();
            let now = fs::read(&file.path).map_err(|error| format!("{shown} cannot be read: {error}."))?;
            match Version::of(&now) {
                now if now == file.old => continue,
                version if version == file.new => {}
                _ => {
                    let why = "Nothing was put back: undo it by hand.";
                    return Err(format!("{shown} was changed after the edit {id}. {why}").into());
                }
            }
            let old = fs::read(folder.join(number.to_string())).map_err(unreadable)?;
            if Version::of(&old) != file.old {
                return Err(format!("What is kept of {shown} is damaged. Nothing was put back.").into());
            }
            files.push(Replacement { path: file.path.clone(), old: now, new: old });
        }
        Ok(KeptEdit { id, what: manifest.what, files })
    }

    /// Removes a kept edit.
    pub(crate) fn forget(&self, id: &str) {
        // Ignore errors: the folder is removed once it is the oldest.
        let _ = fs::remove_dir_all(self.folder.join(id));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::project::write::replace_all;

    fn edit(folder: &Path, old: &str, new: &str) -> Replacement {
        let path = folder.join("a.lisp");
        fs::write(&path, old).unwrap();
        Replacement { path, old: old.as_bytes().to_vec(), new: new.as_bytes().to_vec() }
    }

    #[test]
    fn old_texts_come_back_only_over_what_was_written() {
        let (cache, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let undo = Undo::new(cache.path(), root.path());
        let missing = |edit: &str, kept: &[&str]| UndoError::Missing {
            edit: edit.to_owned(),
            kept: kept.iter().map(|&id| id.to_owned()).collect(),
        };
        assert_eq!(undo.find("last").unwrap_err(), missing("last", &[]));
        let files = [edit(root.path(), "(old)", "(new)")];
        let id = undo.keep("a rename", &files).unwrap();
        // Find nothing to restore: the edit was not written yet.
        assert_eq!(undo.find(&id).unwrap().files, []);
        replace_all(&files).unwrap();
        let kept = undo.find("last").unwrap();
        assert_eq!((kept.id.as_str(), kept.what.as_str()), (id.as_str(), "a rename"));
        fs::write(&files[0].path, "(newer)").unwrap();
        assert!(undo.find(&id).unwrap_err().to_string().contains("was changed after"));
        fs::write(&files[0].path, "(new)").unwrap();
        replace_all(&undo.find(&id).unwrap().files).unwrap();
        assert_eq!(fs::read(&files[0].path).unwrap(), b"(old)");
        let second = undo.keep("again", &files).unwrap();
        assert_eq!(undo.find("three").unwrap_err(), missing("three", &[&second, &id]));
        undo.forget(&id);
        assert_eq!(undo.find(&id).unwrap_err(), missing(&id, &[&second]));
        // Find no edits of another project.
        let other = Undo::new(cache.path(), cache.path());
        assert_eq!(other.find("1").unwrap_err(), missing("1", &[]));
    }

    #[test]
    fn the_oldest_go_first_and_the_newest_stays() {
        let (cache, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let undo = Undo::new(cache.path(), root.path());
        let files = [edit(root.path(), "(old)", "(new)")];
        for _ in 0..MOST + 3 {
            undo.keep("again", &files).unwrap();
        }
        assert_eq!(undo.numbers(), (4..=MOST as u64 + 3).collect::<Vec<_>>());
        let long = "x".repeat(MOST_BYTES as usize + 1);
        let newest = undo.keep("long", &[edit(root.path(), &long, "")]).unwrap();
        assert_eq!(undo.numbers(), [newest.parse::<u64>().unwrap()]);
    }

    #[test]
    fn what_is_damaged_is_not_put_back() {
        let (cache, root) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let undo = Undo::new(cache.path(), root.path());
        let files = [edit(root.path(), "(old)", "(new)")];
        let id = undo.keep("a rename", &files).unwrap();
        replace_all(&files).unwrap();
        fs::write(undo.folder.join(&id).join("0"), "(odd)").unwrap();
        assert!(undo.find(&id).unwrap_err().to_string().contains("damaged"));
    }
}
