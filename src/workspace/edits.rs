//! Edits the project's files atomically: all files of an edit are changed or none, and only files
//! that still have the text for which the edit was made. One process edits a project at a time.
//!
//! An edit takes these steps (docs/internals/edits.md has the reasons). Under a lock of the
//! project, it writes a journal with the old and the new texts to disk. It writes each new text to
//! a temporary file, and exchanges the temporary file with the target. Then the temporary file must
//! have the old text. (Some files are overwritten in place instead, see
//! [`replacement`](super::replacement).) The edit removes the temporary files, and marks the
//! journal as complete. If it fails before that mark, it is rolled back at once. An interrupted
//! edit is rolled back by the next process that takes the lock.

use crate::workspace::{NoProject, Project};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Serialize;

use crate::workspace::journal::{EditPurpose, EditRecord, EditRecords, sync_folder};
use crate::workspace::replacement::{Replacement, RollbackOutcome};

/// The maximum time that an edit waits for other edits of the project.
const LOCK_WAIT: Duration = Duration::from_secs(30);
/// The maximum time that an edit waits for processes with another cache. It is short, because other
/// programs may lock the root folder.
const ROOT_LOCK_WAIT: Duration = Duration::from_secs(3);

/// The reason why an edit was not undone. No file was changed, except for files that the error's
/// sentence lists because they could not be restored.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum UndoError {
    /// The project has no record of this edit.
    #[error("Edit {edit} not found")]
    Missing {
        /// The name as given.
        edit: String,
        /// The names of the recorded edits, newest first.
        kept: Vec<String>,
    },
    /// There is no project.
    #[error(transparent)]
    NoProject(#[from] NoProject),
    /// The edit cannot be undone, for the reason in this sentence.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for UndoError {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// An edit that was interrupted: its process ended before the edit was complete.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct UnfinishedEdit {
    /// The edit's number.
    pub edit: String,
    /// A description of the edit.
    pub what: String,
    /// Whether all its changes were rolled back. If not, some files may have the new text and
    /// others the old text.
    pub taken_back: bool,
    /// The restored files, relative to the project's root.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<String>,
    /// Further remarks and advice, one sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl std::fmt::Display for UnfinishedEdit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Edit {} ({}) was interrupted when its process ended. ", self.edit, self.what)?;
        match (self.taken_back, self.restored.as_slice()) {
            (true, []) => write!(f, "It was rolled back: no file had to be restored.")?,
            (true, files) => {
                write!(f, "It was rolled back: {} have their old text again.", files.join(", "))?;
            }
            (false, _) => write!(f, "Some of its files may have the new text and others the old one.")?,
        }
        self.notes.iter().try_for_each(|note| write!(f, " {note}"))
    }
}

/// The interrupted edits that a session has found.
#[derive(Debug, Default)]
pub(super) struct InterruptedEdits {
    /// The edits that this session has rolled back or tried to roll back.
    found: Vec<UnfinishedEdit>,
    /// The number of these edits that were reported.
    reported: usize,
    /// The edits that no process had rolled back at the last check.
    pending: Vec<UnfinishedEdit>,
    checked: Option<Instant>,
    pending_reported: bool,
}

impl InterruptedEdits {
    /// Checks for interrupted edits of other processes, at most once a second, because `status` is
    /// called often.
    fn check(&mut self, project: &Project) {
        if self.checked.is_none_or(|at| at.elapsed() > Duration::from_secs(1)) {
            self.pending = project.pending_edits();
            self.checked = Some(Instant::now());
        }
    }
}

/// The lock for editing the files of a project. One thread of one process holds it at a time.
pub(crate) struct Edits<'a> {
    project: &'a Project,
    records: EditRecords,
    _locks: [Option<FileLock>; 2],
}

/// An edit that was undone.
#[derive(Debug)]
pub(crate) struct UndoneEdit {
    /// The name of the edit.
    pub(crate) id: String,
    /// A description of the edit.
    pub(crate) what: String,
    /// The restored files.
    pub(crate) files: Vec<PathBuf>,
}

impl Project {
    /// Waits for the lock, and rolls back interrupted edits.
    ///
    /// # Errors
    /// Returns a sentence if there is no project, if edit records cannot be written, or if others
    /// hold the lock for too long.
    pub(crate) fn edits(&self) -> Result<Edits<'_>, String> {
        let (records, root) = self.records().ok_or(NoProject)?;
        let failed = |error: io::Error| {
            format!(
                "Cannot write edit records in {} ({error}). Nothing was changed.",
                records.folder.display()
            )
        };
        records.make_folder().map_err(failed)?;
        let lock = FileLock::take(open_lock(&records.folder).map_err(failed)?, LOCK_WAIT).map_err(failed)?;
        if lock.is_none() {
            let seconds = LOCK_WAIT.as_secs();
            return Err(format!(
                "Another steelbank process has been editing this project for {seconds} s. Nothing was changed; try again."
            ));
        }
        // Also lock the root folder, for processes with another cache or another path to the root.
        // Continue without this lock if it cannot be taken.
        let elsewhere = File::open(root).and_then(|root| FileLock::take(root, ROOT_LOCK_WAIT));
        let edits = Edits { project: self, records, _locks: [lock, elsewhere.ok().flatten()] };
        edits.roll_back_unfinished();
        Ok(edits)
    }

    /// Rolls back interrupted edits, if there are any.
    ///
    /// # Errors
    /// As for [`Project::edits`].
    pub(crate) fn roll_back_interrupted_edits(&self) -> Result<(), String> {
        match self.records().is_some_and(|(records, _)| !records.unfinished().is_empty()) {
            true => self.edits().map(drop),
            false => Ok(()),
        }
    }

    /// Lists the interrupted edits: edits that this session has rolled back or tried to roll back,
    /// and edits that no process has rolled back yet.
    pub(crate) fn unfinished_edits(&self) -> Vec<UnfinishedEdit> {
        let mut cut = self.interrupted_edits.lock();
        cut.check(self);
        cut.found.iter().chain(&cut.pending).cloned().collect()
    }

    /// Lists the interrupted edits that earlier calls have not returned. Edits that no process has
    /// rolled back are listed only by the first call.
    pub(crate) fn unreported_edits(&self) -> Vec<UnfinishedEdit> {
        let mut cut = self.interrupted_edits.lock();
        let mut edits = cut.found[cut.reported..].to_vec();
        cut.reported = cut.found.len();
        if !std::mem::replace(&mut cut.pending_reported, true) {
            cut.check(self);
            edits.extend(cut.pending.iter().cloned());
        }
        edits
    }

    /// Lists the interrupted edits that are not rolled back yet and have a readable record. Lists
    /// no edits while another process holds the lock.
    fn pending_edits(&self) -> Vec<UnfinishedEdit> {
        let Some((records, root)) = self.records() else { return Vec::new() };
        if records.unfinished().is_empty() {
            return Vec::new();
        }
        // Skip an edit in progress: its process holds the lock.
        let lock = open_lock(&records.folder).and_then(|file| FileLock::take(file, Duration::ZERO));
        if !matches!(lock, Ok(Some(_))) {
            return Vec::new();
        }
        let edits = records.unfinished().into_iter().filter_map(|at| records.read_at(at).ok());
        edits
            .map(|record| {
                let undone = match record.purpose {
                    EditPurpose::Undo(number) => number,
                    _ => record.number,
                };
                let note = format!(
                    "To roll it back: `steelbank --project {} rename --undo {undone}`.",
                    root.display()
                );
                UnfinishedEdit {
                    edit: record.number.to_string(),
                    what: record.what,
                    taken_back: false,
                    restored: Vec::new(),
                    notes: vec![note],
                }
            })
            .collect()
    }

    fn records(&self) -> Option<(EditRecords, &Path)> {
        let (settings, root) = (self.settings()?, self.root()?);
        Some((EditRecords::new(&settings.cache, root), root))
    }
}

impl Edits<'_> {
    /// Replaces the texts of all `files`, or of none if one does not have its old text. Returns the
    /// edit's name.
    ///
    /// # Errors
    /// Returns a sentence if the journal cannot be written, or if a file has changed or cannot be
    /// read or written. All files keep their old texts, except for files that the sentence lists
    /// because they could not be restored.
    pub(crate) fn replace_all(
        &self,
        what: &str,
        purpose: EditPurpose,
        files: &[Replacement],
    ) -> Result<String, String> {
        let record = self.records.begin(what, purpose, files).map_err(|error| {
            format!(
                "Cannot write the undo record in {} ({error}). Nothing was changed.",
                self.records.folder.display()
            )
        })?;
        let Err(why) = write_all(&record) else {
            self.records.sweep();
            return Ok(record.number.to_string());
        };
        let (_, left) = roll_back(&record);
        if left.is_empty() {
            record.forget();
            return Err(format!("{why} Nothing was changed."));
        }
        Err(format!(
            "{why} Some files could not be restored: {} The record of edit {} has their old texts.",
            left.join(" "),
            record.number
        ))
    }

    /// Restores the old texts of the files of edit `id`, or of the last edit if `id` is `last`.
    ///
    /// # Errors
    /// Fails if there is no such edit, if its record or one of its files cannot be read, if a file
    /// has neither the text that the edit wrote nor its old text, or for the reasons of
    /// [`Edits::replace_all`]. No file is changed, with the exception given there.
    pub(crate) fn undo(&self, id: &str) -> Result<UndoneEdit, UndoError> {
        let numbers = self.records.undoable();
        let number = match id {
            "last" => numbers.last().copied(),
            id => id.parse().ok().filter(|number| numbers.contains(number)),
        };
        let number = number.ok_or_else(|| UndoError::Missing {
            edit: id.to_owned(),
            kept: numbers.iter().rev().map(u64::to_string).collect(),
        })?;
        let record = self.records.read(number).map_err(|error| {
            format!("The record of edit {number} cannot be read: {error}. Nothing was restored.")
        })?;
        let mut files = Vec::new();
        for file in &record.files {
            let shown = self.project.shown(&file.path);
            let now = steelbank_tree::read_source(&file.path)
                .map_err(|error| format!("{shown} cannot be read: {error}."))?;
            if now == file.new && now != file.old {
                files.push(Replacement { path: file.path.clone(), old: now, new: file.old.clone() });
            } else if now != file.old {
                let why = "Nothing was restored; undo the edit by hand.";
                return Err(format!("{shown} was changed after the edit {number}. {why}").into());
            }
        }
        if !files.is_empty() {
            let what = format!("edit {number} was undone: {}", record.what);
            self.replace_all(&what, EditPurpose::Undo(number), &files)?;
        }
        record.forget();
        let files = files.into_iter().map(|file| file.path).collect();
        Ok(UndoneEdit { id: number.to_string(), what: record.what, files })
    }

    /// Rolls back the interrupted edits, newest first, and removes their temporary files.
    fn roll_back_unfinished(&self) {
        self.project.interrupted_edits.lock().checked = None;
        let unfinished = self.records.unfinished();
        for (number, path) in unfinished.into_iter().rev() {
            let edit = match self.records.read_at((number, path.clone())) {
                Ok(record) => self.roll_back_interrupted(&record),
                Err(error) => {
                    // Remove a damaged record, so that it is reported only once.
                    let _ = std::fs::remove_file(path);
                    UnfinishedEdit {
                        edit: number.to_string(),
                        what: format!("its record cannot be read: {error}"),
                        taken_back: false,
                        restored: Vec::new(),
                        notes: vec!["Check the project's files.".to_owned()],
                    }
                }
            };
            let mut cut = self.project.interrupted_edits.lock();
            // If an edit cannot be rolled back, report it only once, not again at each later edit.
            if edit.taken_back || !cut.found.contains(&edit) {
                cut.found.push(edit);
            }
        }
    }

    fn roll_back_interrupted(&self, record: &EditRecord) -> UnfinishedEdit {
        let (outcomes, mut notes) = roll_back(record);
        let of = |wanted: RollbackOutcome| {
            let found = outcomes.iter().filter(move |(_, outcome)| *outcome == wanted);
            found.map(|(path, _)| self.project.shown(path)).collect::<Vec<String>>()
        };
        let mut taken_back = notes.is_empty();
        // Keep the record, so that the edit can be undone by its number. Remove the record of an
        // undo.
        if taken_back && let Err(error) = record.finish(!matches!(record.purpose, EditPurpose::Undo(_))) {
            taken_back = false;
            notes.push(format!("Its journal cannot be marked as complete: {error}."));
        }
        let others = of(RollbackOutcome::Foreign);
        if !others.is_empty() {
            notes.push(format!(
                "Other programs have changed these files, which were not restored: {}.",
                others.join(", ")
            ));
        }
        UnfinishedEdit {
            edit: record.number.to_string(),
            what: record.what.clone(),
            taken_back,
            restored: of(RollbackOutcome::Restored),
            notes,
        }
    }
}

/// Writes all files of the edit, and marks its journal as complete. A failure may leave some files
/// written.
fn write_all(record: &EditRecord) -> Result<(), String> {
    let mut staged = Vec::new();
    for (file, temporary) in record.with_temporaries() {
        staged.push(file.stage(&temporary)?);
    }
    for ((file, temporary), staged) in record.with_temporaries().zip(&staged) {
        file.put(staged, &temporary)?;
    }
    for (file, temporary) in record.with_temporaries() {
        file.remove(&temporary)?;
    }
    let folders: BTreeSet<&Path> = record.files.iter().filter_map(|file| file.path.parent()).collect();
    folders.into_iter().for_each(sync_folder);
    let marked = record.finish(record.purpose == EditPurpose::Undoable);
    marked.map_err(|error| format!("The edit's journal cannot be marked as complete: {error}."))
}

/// Rolls back the files of the edit, the last first. Returns the outcomes of the rollbacks that
/// succeeded, and a sentence for each rollback that failed.
fn roll_back(record: &EditRecord) -> (Vec<(&Path, RollbackOutcome)>, Vec<String>) {
    let (mut outcomes, mut left) = (Vec::new(), Vec::new());
    for (file, temporary) in record.with_temporaries().rev() {
        match file.roll_back(&temporary) {
            Ok(outcome) => outcomes.push((file.path.as_path(), outcome)),
            Err(why) => left.push(why),
        }
    }
    (outcomes, left)
}

/// A lock between processes, held until it is dropped.
struct FileLock(File);

impl FileLock {
    /// Waits for the lock. Returns `None` if others hold it for `patience`.
    fn take(file: File, patience: Duration) -> io::Result<Option<Self>> {
        let end = Instant::now() + patience;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(Some(Self(file))),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < end => {
                    std::thread::sleep(Duration::from_millis(1));
                }
                Err(Errno::WOULDBLOCK) => return Ok(None),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // Unlock explicitly: closing does not unlock if a forked child has the descriptor too.
        let _ = flock(&self.0, FlockOperation::Unlock);
    }
}

fn open_lock(folder: &Path) -> io::Result<File> {
    steelbank_cache::create_file(&folder.join("lock"))
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};

    use super::*;
    use crate::workspace::ProjectSettings;

    /// A project in one folder, with its cache in another.
    struct World {
        folder: tempfile::TempDir,
        cache: tempfile::TempDir,
        project: Project,
    }

    impl World {
        fn new() -> Self {
            let (folder, cache) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
            let project = open(folder.path(), cache.path());
            Self { folder, cache, project }
        }

        /// Writes files with their old texts, and returns their replacements.
        fn files(&self, texts: &[(&str, &str, &str)]) -> Vec<Replacement> {
            let made = texts.iter().map(|(name, old, new)| {
                let path = self.folder.path().canonicalize().unwrap().join(name);
                fs::write(&path, old).unwrap();
                Replacement { path, old: old.as_bytes().to_vec(), new: new.as_bytes().to_vec() }
            });
            made.collect()
        }

        fn held(&self) -> Vec<(String, String)> {
            let entries = fs::read_dir(self.folder.path()).unwrap().flatten();
            let mut held: Vec<_> = entries
                .map(|entry| {
                    let text = fs::read_to_string(entry.path()).unwrap_or_default();
                    (entry.file_name().to_string_lossy().into_owned(), text)
                })
                .collect();
            held.sort();
            held
        }

        fn apply(&self, files: &[Replacement]) -> Result<String, String> {
            self.project.edits().unwrap().replace_all("a rename", EditPurpose::Undoable, files)
        }

        fn undo(&self, id: &str) -> Result<Vec<PathBuf>, UndoError> {
            self.project.edits().unwrap().undo(id).map(|undone| undone.files)
        }

        fn records(&self) -> EditRecords {
            self.project.records().unwrap().0
        }

        /// Begins an edit without finishing it, as if the process ended after writing the journal.
        fn cut(&self, files: &[Replacement]) -> EditRecord {
            self.records().make_folder().unwrap();
            self.records().begin("a rename", EditPurpose::Undoable, files).unwrap()
        }
    }

    fn open(folder: &Path, cache: &Path) -> Project {
        Project::new(Some(ProjectSettings::in_folder(folder).cache(cache)))
    }

    const GIVEN: [(&str, &str, &str); 3] = [("a", "1", "2"), ("b", "3", "4\r\n"), ("c", "5", "6")];

    fn expected(
        pick: fn(&(&'static str, &'static str, &'static str)) -> &'static str,
    ) -> Vec<(String, String)> {
        GIVEN.iter().map(|of| (of.0.to_owned(), pick(of).to_owned())).collect()
    }

    #[test]
    fn edit_changes_all_files_or_none() {
        let world = World::new();
        let all = world.files(&GIVEN);
        fs::set_permissions(&all[1].path, fs::Permissions::from_mode(0o640)).unwrap();
        world.apply(&all).unwrap();
        assert_eq!(world.held(), expected(|of| of.2));
        assert_eq!(fs::metadata(&all[1].path).unwrap().permissions().mode() & 0o777, 0o640);

        // Try a changed file, a link and a read-only file: the other files keep their texts.
        for wrong in 0..GIVEN.len() {
            let all = world.files(&GIVEN);
            fs::write(&all[wrong].path, "other").unwrap();
            let why = world.apply(&all).unwrap_err();
            assert!(why.contains("changed during the edit") && why.contains("Nothing was changed"), "{why}");
            let mut before = expected(|of| of.1);
            before[wrong].1 = "other".to_owned();
            assert_eq!(world.held(), before);
        }
        let all = world.files(&GIVEN);
        fs::set_permissions(&all[2].path, fs::Permissions::from_mode(0o440)).unwrap();
        assert!(world.apply(&all).unwrap_err().contains("read-only"));
        assert_eq!(world.held(), expected(|of| of.1));
        fs::remove_file(&all[2].path).unwrap();
        symlink(&all[1].path, &all[2].path).unwrap();
        assert!(world.apply(&all).unwrap_err().contains("changed during the edit"));
        assert!(fs::symlink_metadata(&all[2].path).unwrap().is_symlink());
        assert_eq!(world.records().undoable(), [1], "failed edits are not recorded");
    }

    #[test]
    fn failed_edit_restores_earlier_files() {
        let world = World::new();
        let mut all = world.files(&GIVEN);
        // Give a file twice: the second time, its text is no longer the expected text.
        all.push(Replacement { new: b"7".to_vec(), ..all[0].clone() });
        let why = world.apply(&all).unwrap_err();
        assert!(why.contains("changed during the edit") && why.contains("Nothing was changed"), "{why}");
        assert_eq!(world.held(), expected(|of| of.1));
    }

    #[test]
    fn edit_interrupted_at_any_step_is_rolled_back() {
        let world = World::new();
        let links = tempfile::tempdir().unwrap();
        // Interrupt the edit before each step: stage 3 files, exchange 3, remove 3 temporary files,
        // mark the journal.
        for steps in 0..=9 {
            let all = world.files(&GIVEN);
            let link = links.path().join(steps.to_string());
            fs::hard_link(&all[1].path, &link).unwrap();
            let record = world.cut(&all);
            let mut staged = Vec::new();
            for step in 0..steps {
                let (file, temporary) = record.with_temporaries().nth(step % 3).unwrap();
                match step / 3 {
                    0 => staged.push(file.stage(&temporary).unwrap()),
                    1 => file.put(&staged[step % 3], &temporary).unwrap(),
                    _ => file.remove(&temporary).unwrap(),
                }
            }
            if steps == 2 {
                // One temporary file is half written.
                let temporary = record.with_temporaries().nth(2).unwrap().1;
                fs::write(temporary, "").unwrap();
            }
            let untold = world.project.unreported_edits().len();
            assert_eq!(untold, usize::from(steps == 0), "{steps}: it is reported once at the start");
            let pending = world.project.pending_edits();
            assert!(!pending[0].taken_back && pending[0].notes[0].contains("rename --undo"), "{pending:?}");
            drop(world.project.edits().unwrap());
            assert_eq!(world.held(), expected(|of| of.1), "{steps}");
            assert_eq!(fs::read_to_string(link).unwrap(), "3", "{steps}");
            let reported = world.project.unreported_edits();
            assert!(reported.len() == 1 && reported[0].taken_back, "{steps}: {reported:?}");
            assert_eq!(reported[0].restored.len(), steps.saturating_sub(3).min(3), "{steps}: {reported:?}");
            assert_eq!(world.project.pending_edits(), []);
            assert!(world.undo("last").unwrap().is_empty(), "{steps}");
        }
    }

    #[test]
    fn rollback_keeps_texts_of_other_programs() {
        let world = World::new();
        let all = world.files(&GIVEN);
        let record = world.cut(&all);
        let parts: Vec<_> = record.with_temporaries().collect();
        let staged: Vec<_> = parts.iter().map(|(file, temporary)| file.stage(temporary).unwrap()).collect();
        parts[0].0.put(&staged[0], &parts[0].1).unwrap();
        parts[1].0.put(&staged[1], &parts[1].1).unwrap();
        // The first file was edited after the interruption. For the second, the exchange has moved
        // out another text.
        fs::write(&all[0].path, "mine").unwrap();
        fs::write(&parts[1].1, "theirs").unwrap();
        drop(world.project.edits().unwrap());
        let text = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(world.held(), [text("a", "mine"), text("b", "theirs"), text("c", "5")]);
        let reported = world.project.unreported_edits();
        assert!(reported[0].taken_back && reported[0].notes[0].contains("not restored: a."), "{reported:?}");
    }

    #[test]
    fn partly_written_file_is_restored() {
        let world = World::new();
        for (old, new) in [("abcdef", "abXXXXXX"), ("abcdef", "ab"), ("abc", "xyz"), ("", "abc")] {
            for written in 0..=new.len() {
                let all = world.files(&[("a", old, new)]);
                let record = world.cut(&all);
                let mut torn = old.as_bytes().to_vec();
                torn.resize(torn.len().max(written), 0);
                torn[..written].copy_from_slice(&new.as_bytes()[..written]);
                fs::write(&all[0].path, torn).unwrap();
                drop(world.project.edits().unwrap());
                assert_eq!(fs::read_to_string(&all[0].path).unwrap(), old, "{old} {new} {written}");
                assert_eq!(record.files, all);
            }
        }
    }

    #[test]
    fn edit_preserves_attributes_and_hard_links() {
        let world = World::new();
        let long = "x".repeat(255);
        let names = ["plain", "linked", &long];
        let all = world.files(&names.map(|name| (name, "old", "a longer text")));
        let elsewhere = tempfile::tempdir().unwrap();
        fs::hard_link(&all[1].path, elsewhere.path().join("name")).unwrap();
        let attribute =
            rustix::fs::setxattr(&all[0].path, "user.test", b"1", rustix::fs::XattrFlags::empty());
        for file in &all {
            // Change the owner if permitted: only then does the test cover it.
            let _ = std::os::unix::fs::chown(&file.path, Some(1234), Some(4321));
            fs::set_permissions(&file.path, fs::Permissions::from_mode(0o4750)).unwrap();
        }
        let what = |file: &Replacement| {
            let found = fs::metadata(&file.path).unwrap();
            (found.mode(), found.uid(), found.gid(), found.nlink())
        };
        let before: Vec<_> = all.iter().map(what).collect();
        let inode = fs::metadata(&all[1].path).unwrap().ino();
        world.apply(&all).unwrap();
        assert_eq!(all.iter().map(what).collect::<Vec<_>>(), before);
        assert_eq!(fs::metadata(&all[1].path).unwrap().ino(), inode);
        assert_eq!(fs::read_to_string(elsewhere.path().join("name")).unwrap(), "a longer text");
        if attribute.is_ok() {
            let mut value = [0; 1];
            rustix::fs::getxattr(&all[0].path, "user.test", &mut value[..]).unwrap();
            assert_eq!(value, *b"1");
        }
        assert_eq!(world.undo("last").unwrap().len(), 3);
        assert_eq!(all.iter().map(what).collect::<Vec<_>>(), before);
        assert!(world.held().iter().all(|(_, text)| text == "old"));
    }

    #[test]
    fn records_and_temporary_files_are_private() {
        let world = World::new();
        let all = world.files(&GIVEN);
        fs::set_permissions(&all[0].path, fs::Permissions::from_mode(0o600)).unwrap();
        let record = world.cut(&all);
        let (file, temporary) = record.with_temporaries().next().unwrap();
        file.stage(&temporary).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&temporary), 0o600);
        world.apply(&all).unwrap();
        let folder = world.records().folder;
        assert_eq!(mode(&folder), 0o700);
        for entry in fs::read_dir(&folder).unwrap().flatten() {
            assert_eq!(mode(&entry.path()), 0o600, "{entry:?}");
        }
    }

    #[test]
    fn undo_requires_the_written_text() {
        let world = World::new();
        let missing = |edit: &str, kept: &[&str]| UndoError::Missing {
            edit: edit.to_owned(),
            kept: kept.iter().map(|&id| id.to_owned()).collect(),
        };
        assert_eq!(world.undo("last").unwrap_err(), missing("last", &[]));
        let files = world.files(&[("a.lisp", "(old)", "(new)")]);
        let id = world.apply(&files).unwrap();
        fs::write(&files[0].path, "(newer)").unwrap();
        assert!(world.undo(&id).unwrap_err().to_string().contains("was changed after"));
        fs::write(&files[0].path, "(new)").unwrap();
        assert_eq!(world.undo(&id).unwrap().len(), 1);
        assert_eq!(fs::read(&files[0].path).unwrap(), b"(old)");
        let second = world.apply(&files).unwrap();
        assert_eq!(world.undo("three").unwrap_err(), missing("three", &[&second]));
        // Edits of another project are not found.
        let other = open(world.cache.path(), world.cache.path());
        assert_eq!(other.edits().unwrap().undo("1").unwrap_err(), missing("1", &[]));
    }

    #[test]
    fn oldest_records_are_removed_first() {
        let world = World::new();
        for _ in 0..23 {
            world.apply(&world.files(&[("a", "(old)", "(new)")])).unwrap();
        }
        assert_eq!(world.records().undoable(), (4..=23).collect::<Vec<_>>());
        let long = "x".repeat((64 << 20) + 1);
        let newest = world.apply(&world.files(&[("a", &long, "")])).unwrap();
        assert_eq!(world.records().undoable(), [newest.parse::<u64>().unwrap()]);
    }

    #[test]
    fn damaged_record_is_not_restored() {
        let world = World::new();
        let id = world.apply(&world.files(&[("a", "(old)", "(new)")])).unwrap();
        let path = world.records().folder.join(format!("{id}.edit-3"));
        let bytes = fs::read(&path).unwrap();
        for at in 0..bytes.len() {
            let mut other = bytes.clone();
            other[at] ^= 1;
            for wrong in [&bytes[..at], &other] {
                fs::write(&path, wrong).unwrap();
                assert!(world.undo(&id).is_err(), "{at}");
            }
        }
        assert_eq!(world.held(), [("a".to_owned(), "(new)".to_owned())]);
        fs::write(&path, [&bytes[..bytes.len() - 1], b"x"].concat()).unwrap();
        assert!(world.undo(&id).unwrap_err().to_string().contains("damaged"));
        // A damaged journal is reported, and edits continue.
        fs::rename(&path, path.with_extension("journal-3")).unwrap();
        drop(world.project.edits().unwrap());
        assert!(world.project.unreported_edits()[0].what.contains("damaged"));
        world.apply(&world.files(&GIVEN)).unwrap();
    }

    #[test]
    fn records_of_earlier_version_are_undone() {
        for (extension, is_undone) in [("edit-2", true), ("journal-2", false)] {
            let world = World::new();
            let id = world.apply(&world.files(&[("a", "(old)", "(new)"), ("b", "(old)", "")])).unwrap();
            let path = world.records().folder.join(format!("{id}.edit-3"));
            let record = fs::read(&path).unwrap();
            let body = record.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            fs::write(path.with_extension(extension), &record[body..]).unwrap();
            fs::remove_file(&path).unwrap();
            if is_undone {
                world.undo(&id).unwrap();
            } else {
                drop(world.project.edits().unwrap());
                assert!(world.project.unreported_edits()[0].taken_back);
            }
            assert!(world.held().iter().all(|(_, text)| text == "(old)"), "{extension}");
        }
    }

    #[test]
    fn edits_with_different_caches_are_serialized() {
        let world = World::new();
        let path = world.files(&[("a", "0", "")]).remove(0).path;
        let other = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for cache in [world.cache.path(), other.path(), world.cache.path()] {
                let (folder, path) = (world.folder.path(), &path);
                scope.spawn(move || {
                    let project = open(folder, cache);
                    for _ in 0..40 {
                        let edits = project.edits().unwrap();
                        let old = fs::read(path).unwrap();
                        let number: u32 = String::from_utf8_lossy(&old).parse().unwrap();
                        let file =
                            Replacement { path: path.clone(), old, new: (number + 1).to_string().into() };
                        edits.replace_all("count", EditPurpose::Plain, &[file]).unwrap();
                    }
                });
            }
        });
        assert_eq!(world.held(), [("a".to_owned(), "120".to_owned())]);
        assert_eq!(world.records().undoable(), [0; 0]);
    }
}
