//! Records edits of the project's files. A record is a journal while the edit is written, so that
//! an interrupted edit can be rolled back. After that, the record serves for undo. It is removed if
//! the edit's [`EditPurpose`] does not permit undo.
//!
//! The folder `undo/PROJECT/` in the cache has one record for each edit: `N.journal-3` until the
//! edit is complete, and `N.edit-3` afterwards. PROJECT is the hash of the project's root. The
//! payload of a record is the old and the new text of each edited file. Only the newest complete
//! records stay, within [`MOST_EDITS`] and [`MOST_BYTES`].

use std::ffi::OsString;
use std::fs;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::io::{self, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use steelbank_cache::RecordKind;

use crate::source::tap::sidecar::fnv_1a;
use crate::workspace::replacement::Replacement;

/// The maximum number of undo records of a project.
const MOST_EDITS: usize = 20;
/// The maximum total size of a project's undo records, in bytes. The newest record stays whatever
/// its size.
const MOST_BYTES: u64 = 64 << 20;

const RECORD: RecordKind = RecordKind("edit", 3);
/// The extension of current records, and the extension of an earlier version's records, which have
/// no header line.
type Extensions = [&'static str; 2];
const JOURNAL: Extensions = ["journal-3", "journal-2"];
const EDIT: Extensions = ["edit-3", "edit-2"];
/// A record that was not completely written. No file was changed yet.
const PARTIAL: Extensions = ["part-3", "part-2"];

/// The purpose of an edit. It determines whether the record stays after the edit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum EditPurpose {
    /// The record stays, so that the edit can be undone.
    Undoable,
    /// The record is deleted after the edit.
    Plain,
    /// The edit undoes the edit with this number. The record is deleted afterwards.
    Undo(u64),
}

#[derive(Debug, Serialize, Deserialize)]
struct EditManifest {
    root: OsString,
    what: String,
    purpose: EditPurpose,
    /// A random number that makes the names of this edit's temporary files unique.
    token: u64,
    files: Vec<RecordedFile>,
}

#[derive(Debug, Serialize, Deserialize)]
struct RecordedFile {
    path: OsString,
    old: TextVersion,
    new: TextVersion,
}

/// The size and hash of a text, to detect damage.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct TextVersion {
    size: usize,
    hash: u64,
}

impl TextVersion {
    fn of(text: &[u8]) -> Self {
        Self { size: text.len(), hash: fnv_1a(text) }
    }
}

/// The record of one edit.
#[derive(Debug)]
pub(super) struct EditRecord {
    path: PathBuf,
    token: u64,
    pub(super) number: u64,
    /// A description of the edit.
    pub(super) what: String,
    pub(super) purpose: EditPurpose,
    pub(super) files: Vec<Replacement>,
}

/// The records of a project's edits.
#[derive(Debug, Clone)]
pub(super) struct EditRecords {
    pub(super) folder: PathBuf,
    root: PathBuf,
}

impl EditRecords {
    /// Opens the records of the project in `root`, in the cache folder `cache`.
    pub(super) fn new(cache: &Path, root: &Path) -> Self {
        let name = format!("{:016x}", fnv_1a(root.as_os_str().as_bytes()));
        Self { folder: cache.join("undo").join(name), root: root.to_owned() }
    }

    /// Creates the folder of the records, which only the user can read.
    pub(super) fn make_folder(&self) -> io::Result<()> {
        if !self.folder.is_dir() {
            steelbank_cache::create_folder(&self.folder)?;
            self.folder.ancestors().skip(1).take(2).for_each(sync_folder);
        }
        Ok(())
    }

    /// Writes the journal of an edit of `files`, and syncs it to disk.
    pub(super) fn begin(
        &self,
        what: &str,
        purpose: EditPurpose,
        files: &[Replacement],
    ) -> io::Result<EditRecord> {
        let number = self.list(&[JOURNAL, EDIT]).last().map_or(1, |(number, _)| number + 1);
        let token = RandomState::new().build_hasher().finish();
        let kept = |file: &Replacement| RecordedFile {
            path: file.path.clone().into(),
            old: TextVersion::of(&file.old),
            new: TextVersion::of(&file.new),
        };
        let manifest = EditManifest {
            root: self.root.clone().into(),
            what: what.to_owned(),
            purpose,
            token,
            files: files.iter().map(kept).collect(),
        };
        let texts: Vec<&[u8]> = files.iter().flat_map(|file| [file.old.as_slice(), &file.new]).collect();
        let bytes = RECORD.write(&manifest, &texts.concat())?;
        let part = self.folder.join(format!("{number}.{}", PARTIAL[0]));
        let path = part.with_extension(JOURNAL[0]);
        let write = || {
            let mut file = steelbank_cache::create_file(&part)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&part, &path)
        };
        if let Err(error) = write() {
            // Ignore an error: the next edit removes the file.
            let _ = fs::remove_file(&part);
            return Err(error);
        }
        sync_folder(&self.folder);
        Ok(EditRecord { path, token, number, what: what.to_owned(), purpose, files: files.to_vec() })
    }

    /// Lists the records of these kinds, oldest first.
    fn list(&self, kinds: &[Extensions]) -> Vec<(u64, PathBuf)> {
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        let mut found: Vec<(u64, PathBuf)> = entries
            .filter_map(|entry| {
                let path = entry.path();
                let kind = path.extension()?.to_str()?;
                let number = path.file_stem()?.to_str()?.parse().ok()?;
                kinds.as_flattened().contains(&kind).then_some((number, path))
            })
            .collect();
        found.sort_unstable();
        found
    }

    /// Lists the numbers of the edits that can be undone, oldest first.
    pub(super) fn undoable(&self) -> Vec<u64> {
        self.list(&[JOURNAL, EDIT]).into_iter().map(|(number, _)| number).collect()
    }

    /// Lists the journals of incomplete edits, oldest first.
    pub(super) fn unfinished(&self) -> Vec<(u64, PathBuf)> {
        self.list(&[JOURNAL])
    }

    /// Reads the record of edit `number`.
    pub(super) fn read(&self, number: u64) -> io::Result<EditRecord> {
        let found = self.list(&[JOURNAL, EDIT]).into_iter().find(|(other, _)| *other == number);
        EditRecord::read(&self.root, found.ok_or(io::ErrorKind::NotFound)?)
    }

    /// Reads the record at `at`.
    pub(super) fn read_at(&self, at: (u64, PathBuf)) -> io::Result<EditRecord> {
        EditRecord::read(&self.root, at)
    }

    /// Removes the records of the oldest edits beyond the limits, partly written records, and
    /// record folders of an earlier version.
    pub(super) fn sweep(&self) {
        // Ignore errors: a later sweep tries again.
        for (_, path) in self.list(&[PARTIAL]) {
            let _ = fs::remove_file(path);
        }
        let entries = fs::read_dir(&self.folder).into_iter().flatten().flatten();
        for folder in entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())) {
            let _ = fs::remove_dir_all(folder.path());
        }
        let mut bytes = 0;
        for (at, (_, path)) in self.list(&[EDIT]).into_iter().rev().enumerate() {
            bytes += fs::metadata(&path).map_or(0, |file| file.len());
            if at > 0 && (at >= MOST_EDITS || bytes > MOST_BYTES) {
                let _ = fs::remove_file(path);
            }
        }
    }
}

impl EditRecord {
    fn read(root: &Path, (number, path): (u64, PathBuf)) -> io::Result<Self> {
        let (manifest, files) = parse(steelbank_cache::read(&path)?)?;
        if manifest.root != root.as_os_str() {
            return Err(io::Error::other(format!(
                "it belongs to another project, {}",
                manifest.root.display()
            )));
        }
        Ok(Self {
            path,
            token: manifest.token,
            number,
            what: manifest.what,
            purpose: manifest.purpose,
            files,
        })
    }

    /// Returns the edited files, each with the path of its temporary file.
    pub(super) fn with_temporaries(&self) -> impl DoubleEndedIterator<Item = (&Replacement, PathBuf)> {
        // Do not use the file's name: it may already have the maximum length.
        self.files.iter().enumerate().map(|(number, file)| {
            (file, file.path.with_file_name(format!(".steelbank-{:016x}-{number}", self.token)))
        })
    }

    /// Marks the edit as complete, so that it is no longer rolled back. If `keep` is true, keeps
    /// the record for undo; otherwise, removes it.
    pub(super) fn finish(&self, keep: bool) -> io::Result<()> {
        match keep {
            true => fs::rename(&self.path, self.path.with_extension(EDIT[0]))?,
            false => fs::remove_file(&self.path)?,
        }
        self.path.parent().into_iter().for_each(sync_folder);
        Ok(())
    }

    /// Removes the record, whether it is a journal or not.
    pub(super) fn forget(&self) {
        // Ignore errors: the next edit rolls back a remaining journal, and `sweep` removes old
        // records.
        let _ = fs::remove_file(&self.path);
    }
}

/// Parses a record.
fn parse(mut bytes: Vec<u8>) -> io::Result<(EditManifest, Vec<Replacement>)> {
    if bytes.starts_with(b"{") {
        bytes = RECORD.seal(&bytes);
    }
    let (manifest, mut rest): (EditManifest, _) = RECORD.read(&bytes)?;
    let mut text = |version: TextVersion| {
        let (text, others) = rest.split_at_checked(version.size).ok_or(io::ErrorKind::UnexpectedEof)?;
        rest = others;
        match TextVersion::of(text) == version {
            true => Ok(text.to_vec()),
            false => Err(io::Error::other("it is damaged")),
        }
    };
    let files = manifest.files.iter().map(|file| {
        Ok(Replacement { path: file.path.clone().into(), old: text(file.old)?, new: text(file.new)? })
    });
    let files = files.collect::<io::Result<_>>()?;
    Ok((manifest, files))
}

/// Returns whether `body` parses as the record of an edit. For fuzzing.
#[cfg(feature = "server")]
pub(crate) fn reads(body: &[u8]) -> bool {
    parse(RECORD.seal(body)).is_ok()
}

/// Syncs a folder, so that names in it survive a power loss. Ignores errors.
pub(super) fn sync_folder(folder: &Path) {
    let _ = fs::File::open(folder).and_then(|folder| folder.sync_all());
}
