//! Edits of the project's files: one at a time, all of an edit or nothing of it, and only of what the edit has
//! seen.
//!
//! How files are written (docs/internals/edits.md has the reasons): under a lock of the project, a journal with the
//! old and the new texts is written to the disk; each new text goes to a temporary file, which changes places
//! with its file; what came out is compared with the old text; the temporary files are removed; the journal is
//! marked as whole. What fails, or is cut before that mark, is taken back: at once, or by the next that takes
//! the lock.

use crate::workspace::NoProject;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use schemars::JsonSchema;
use serde::Serialize;

use crate::workspace::Project;
use crate::workspace::journal::{EditPurpose, EditRecord, EditRecords, sync_folder};
use crate::workspace::replacement::{Replacement, TakenBack};

/// How long an edit waits for others of the project.
const LOCK_WAIT: Duration = Duration::from_secs(30);
/// How long it waits for others with another cache. What else locks the root's folder is nothing to wait for.
const ROOT_LOCK_WAIT: Duration = Duration::from_secs(3);

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
    /// There is no project.
    #[error(transparent)]
    NoProject(#[from] NoProject),
    /// A sentence.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for UndoError {
    fn from(why: String) -> Self {
        Self::Refused(why)
    }
}

/// An edit that was cut: its program ended before it was whole.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct UnfinishedEdit {
    /// Its number.
    pub edit: String,
    /// What it was, in words.
    pub what: String,
    /// Whether no file has any of it any more. If not, some may have the new text and others the old one.
    pub taken_back: bool,
    /// The files that got their old texts back, relative to the project's root.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub restored: Vec<String>,
    /// What is to be known or done, a sentence each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
}

impl std::fmt::Display for UnfinishedEdit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Edit {} ({}) was cut, as its program ended. ", self.edit, self.what)?;
        match (self.taken_back, self.restored.as_slice()) {
            (true, []) => write!(f, "It was undone: all files have their old text.")?,
            (true, files) => {
                write!(f, "It was undone: {} have their old text again.", files.join(", "))?;
            }
            (false, _) => write!(f, "Some of its files may have the new text, and others the old one.")?,
        }
        self.notes.iter().try_for_each(|note| write!(f, " {note}"))
    }
}

/// The cut edits that a session knows of.
#[derive(Debug, Default)]
pub(super) struct CutEdits {
    /// Those that it has taken back, or tried to.
    found: Vec<UnfinishedEdit>,
    /// How many of them it has told of.
    told: usize,
    /// Those that nobody has taken back, when this was last looked at.
    lying: Vec<UnfinishedEdit>,
    looked: Option<Instant>,
    told_lying: bool,
}

impl CutEdits {
    /// Looks for cut edits of others, at most once a second: `status` is asked often.
    fn look(&mut self, project: &Project) {
        if self.looked.is_none_or(|at| at.elapsed() > Duration::from_secs(1)) {
            self.lying = project.lying_edits();
            self.looked = Some(Instant::now());
        }
    }
}

/// The right to edit the files of a project. One thread of one process has it at a time.
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
    /// The sentence that describes the edit.
    pub(crate) what: String,
    /// The files that have their old texts again.
    pub(crate) files: Vec<PathBuf>,
}

impl Project {
    /// Waits for the right to edit the project's files. Takes back edits that were cut.
    ///
    /// # Errors
    /// There is no project, or others have the right for long: a sentence.
    pub(crate) fn edits(&self) -> Result<Edits<'_>, String> {
        let (records, root) = self.records().ok_or(NoProject)?;
        let failed = |error: io::Error| {
            format!(
                "What is needed to edit files cannot be kept in {} ({error}). Nothing was changed.",
                records.folder.display()
            )
        };
        records.make_folder().map_err(failed)?;
        let lock = FileLock::take(open_lock(&records.folder).map_err(failed)?, LOCK_WAIT).map_err(failed)?;
        if lock.is_none() {
            let seconds = LOCK_WAIT.as_secs();
            return Err(format!(
                "Another steelbank has been editing this project for {seconds} s. Nothing was changed; try again."
            ));
        }
        // Lock the root too, for those who have it under another name or with another cache. Go on without
        // where that is impossible.
        let elsewhere = File::open(root).and_then(|root| FileLock::take(root, ROOT_LOCK_WAIT));
        let edits = Edits { project: self, records, _locks: [lock, elsewhere.ok().flatten()] };
        edits.take_back_unfinished();
        Ok(edits)
    }

    /// Takes back the edits that were cut, if there are any.
    ///
    /// # Errors
    /// As [`Project::edits`].
    pub(crate) fn take_back_cut_edits(&self) -> Result<(), String> {
        match self.records().is_some_and(|(records, _)| !records.unfinished().is_empty()) {
            true => self.edits().map(drop),
            false => Ok(()),
        }
    }

    /// Lists the edits that were cut: those that this session has taken back, and those that nobody has yet.
    pub(crate) fn unfinished_edits(&self) -> Vec<UnfinishedEdit> {
        let mut cut = self.cut_edits.lock();
        cut.look(self);
        cut.found.iter().chain(&cut.lying).cloned().collect()
    }

    /// Lists the edits that were cut and that this was not asked for yet.
    pub(crate) fn untold_edits(&self) -> Vec<UnfinishedEdit> {
        let mut cut = self.cut_edits.lock();
        let mut edits = cut.found[cut.told..].to_vec();
        cut.told = cut.found.len();
        if !std::mem::replace(&mut cut.told_lying, true) {
            cut.look(self);
            edits.extend(cut.lying.iter().cloned());
        }
        edits
    }

    /// Lists the edits that were cut and not taken back.
    fn lying_edits(&self) -> Vec<UnfinishedEdit> {
        let Some((records, root)) = self.records() else { return Vec::new() };
        if records.unfinished().is_empty() {
            return Vec::new();
        }
        // Leave out an edit that is going on: its program has the lock.
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
                let note =
                    format!("`steelbank --project {} rename --undo {undone}` takes it back.", root.display());
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
    /// Replaces the texts of all `files`, which must still hold the old ones, or of none. Returns the edit's
    /// name.
    ///
    /// # Errors
    /// One of them has changed, or cannot be written: a sentence. All of them keep their old texts, except for
    /// those that the sentence names because they could not be restored.
    pub(crate) fn replace_all(
        &self,
        what: &str,
        purpose: EditPurpose,
        files: &[Replacement],
    ) -> Result<String, String> {
        let record = self.records.begin(what, purpose, files).map_err(|error| {
            format!(
                "What is needed to undo it cannot be kept in {} ({error}). Nothing was changed.",
                self.records.folder.display()
            )
        })?;
        let Err(why) = write_all(&record) else {
            self.records.sweep();
            return Ok(record.number.to_string());
        };
        let (_, left) = take_back(&record);
        if left.is_empty() {
            record.forget();
            return Err(format!("{why} Nothing was changed."));
        }
        Err(format!(
            "{why} What was written before could not all be put back: {} Edit {} has the old texts.",
            left.join(" "),
            record.number
        ))
    }

    /// Gives the files of the edit called `id` (`last`: the last one) their old texts again.
    ///
    /// # Errors
    /// There is no such edit, or a file has not the text that the edit gave it. Nothing was changed.
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
            format!("What is kept of edit {number} cannot be read: {error}. Nothing was put back.")
        })?;
        let mut files = Vec::new();
        for file in &record.files {
            let shown = self.project.shown(&file.path);
            let now = steelbank_tree::read_source(&file.path)
                .map_err(|error| format!("{shown} cannot be read: {error}."))?;
            if now == file.new && now != file.old {
                files.push(Replacement { path: file.path.clone(), old: now, new: file.old.clone() });
            } else if now != file.old {
                let why = "Nothing was put back: undo it by hand.";
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

    /// Takes back the edits that were cut, the newest first, and removes their temporary files.
    fn take_back_unfinished(&self) {
        self.project.cut_edits.lock().looked = None;
        let unfinished = self.records.unfinished();
        for (number, path) in unfinished.into_iter().rev() {
            let edit = match self.records.read_at((number, path.clone())) {
                Ok(record) => self.take_back_cut(&record),
                Err(error) => {
                    // Tell once: nothing can be made of it.
                    let _ = std::fs::remove_file(path);
                    UnfinishedEdit {
                        edit: number.to_string(),
                        what: format!("what is kept of it cannot be read: {error}"),
                        taken_back: false,
                        restored: Vec::new(),
                        notes: vec!["Look at the project's files.".to_owned()],
                    }
                }
            };
            let mut cut = self.project.cut_edits.lock();
            // Tell of one that cannot be taken back once, and not at each edit.
            if edit.taken_back || !cut.found.contains(&edit) {
                cut.found.push(edit);
            }
        }
    }

    fn take_back_cut(&self, record: &EditRecord) -> UnfinishedEdit {
        let (outcomes, mut notes) = take_back(record);
        let of = |wanted: TakenBack| {
            let found = outcomes.iter().filter(move |(_, outcome)| *outcome == wanted);
            found.map(|(path, _)| self.project.shown(path)).collect::<Vec<String>>()
        };
        let mut taken_back = notes.is_empty();
        // Keep the record, as somebody may undo the edit by its number; but not that of an undo.
        if taken_back && let Err(error) = record.finish(!matches!(record.purpose, EditPurpose::Undo(_))) {
            taken_back = false;
            notes.push(format!("Its journal cannot be closed: {error}."));
        }
        let others = of(TakenBack::Others);
        if !others.is_empty() {
            notes.push(format!(
                "Changed since by somebody else, and left as they are: {}.",
                others.join(", ")
            ));
        }
        UnfinishedEdit {
            edit: record.number.to_string(),
            what: record.what.clone(),
            taken_back,
            restored: of(TakenBack::Restored),
            notes,
        }
    }
}

/// Carries out the edit up to the mark that it is whole. What fails may leave some of it.
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
    marked.map_err(|error| format!("The journal of the edit cannot be closed: {error}."))
}

/// Takes back what was done of the edit. Returns what became of each file, the last first, and a sentence for
/// each that could not be restored.
fn take_back(record: &EditRecord) -> (Vec<(&Path, TakenBack)>, Vec<String>) {
    let (mut outcomes, mut left) = (Vec::new(), Vec::new());
    for (file, temporary) in record.with_temporaries().rev() {
        match file.take_back(&temporary) {
            Ok(outcome) => outcomes.push((file.path.as_path(), outcome)),
            Err(why) => left.push(why),
        }
    }
    (outcomes, left)
}

/// A lock that other processes see, until it is dropped.
struct FileLock(File);

impl FileLock {
    /// Waits for the lock. None if others have it for as long as that.
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
        // Unlock, as closing does not where a forked child has the descriptor too.
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

    /// A project in a folder, with its cache in another.
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

        /// Writes files, each with an old text, and returns their replacements.
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

        /// Begins an edit, and leaves it as a program does that ends there.
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
    fn all_files_get_their_new_text_or_none() {
        let world = World::new();
        let all = world.files(&GIVEN);
        fs::set_permissions(&all[1].path, fs::Permissions::from_mode(0o640)).unwrap();
        world.apply(&all).unwrap();
        assert_eq!(world.held(), expected(|of| of.2));
        assert_eq!(fs::metadata(&all[1].path).unwrap().permissions().mode() & 0o777, 0o640);

        // Try a changed file, a deleted one, a link, and one that is read-only: the others keep their texts.
        for wrong in 0..GIVEN.len() {
            let all = world.files(&GIVEN);
            fs::write(&all[wrong].path, "other").unwrap();
            let why = world.apply(&all).unwrap_err();
            assert!(why.contains("changed meanwhile") && why.contains("Nothing was changed"), "{why}");
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
        assert!(world.apply(&all).unwrap_err().contains("changed meanwhile"));
        assert!(fs::symlink_metadata(&all[2].path).unwrap().is_symlink());
        assert_eq!(world.records().undoable(), [1], "what failed is not kept");
    }

    #[test]
    fn what_was_written_is_put_back_when_a_later_file_fails() {
        let world = World::new();
        let mut all = world.files(&GIVEN);
        // Name a file twice: at its second turn it counts as changed by somebody else.
        all.push(Replacement { new: b"7".to_vec(), ..all[0].clone() });
        let why = world.apply(&all).unwrap_err();
        assert!(why.contains("changed meanwhile") && why.contains("Nothing was changed"), "{why}");
        assert_eq!(world.held(), expected(|of| of.1));
    }

    #[test]
    fn a_cut_edit_is_taken_back_wherever_it_was_cut() {
        let world = World::new();
        let links = tempfile::tempdir().unwrap();
        // Cut it before each step: 3 files staged, 3 put, 3 temporary files removed, the mark.
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
            let untold = world.project.untold_edits().len();
            assert_eq!(untold, usize::from(steps == 0), "{steps}: it is told once at the start");
            let lying = world.project.lying_edits();
            assert!(!lying[0].taken_back && lying[0].notes[0].contains("rename --undo"), "{lying:?}");
            drop(world.project.edits().unwrap());
            assert_eq!(world.held(), expected(|of| of.1), "{steps}");
            assert_eq!(fs::read_to_string(link).unwrap(), "3", "{steps}");
            let told = world.project.untold_edits();
            assert!(told.len() == 1 && told[0].taken_back, "{steps}: {told:?}");
            assert_eq!(told[0].restored.len(), steps.saturating_sub(3).min(3), "{steps}: {told:?}");
            assert_eq!(world.project.lying_edits(), []);
            assert!(world.undo("last").unwrap().is_empty(), "{steps}");
        }
    }

    #[test]
    fn what_others_wrote_is_not_taken_back() {
        let world = World::new();
        let all = world.files(&GIVEN);
        let record = world.cut(&all);
        let parts: Vec<_> = record.with_temporaries().collect();
        let staged: Vec<_> = parts.iter().map(|(file, temporary)| file.stage(temporary).unwrap()).collect();
        parts[0].0.put(&staged[0], &parts[0].1).unwrap();
        parts[1].0.put(&staged[1], &parts[1].1).unwrap();
        // The first was edited after it was cut. Of the second, the exchange has brought out another text.
        fs::write(&all[0].path, "mine").unwrap();
        fs::write(&parts[1].1, "theirs").unwrap();
        drop(world.project.edits().unwrap());
        let text = |name: &str, text: &str| (name.to_owned(), text.to_owned());
        assert_eq!(world.held(), [text("a", "mine"), text("b", "theirs"), text("c", "5")]);
        let told = world.project.untold_edits();
        assert!(told[0].taken_back && told[0].notes[0].contains("as they are: a."), "{told:?}");
    }

    #[test]
    fn what_is_torn_is_put_back() {
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
    fn a_file_keeps_what_it_is() {
        let world = World::new();
        let long = "x".repeat(255);
        let names = ["plain", "linked", &long];
        let all = world.files(&names.map(|name| (name, "old", "a longer text")));
        let elsewhere = tempfile::tempdir().unwrap();
        fs::hard_link(&all[1].path, elsewhere.path().join("name")).unwrap();
        let attribute =
            rustix::fs::setxattr(&all[0].path, "user.test", b"1", rustix::fs::XattrFlags::empty());
        for file in &all {
            // Give it to somebody else where this may: only then is that to be kept.
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
    fn nobody_else_reads_what_is_kept_or_not_yet_whole() {
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
    fn old_texts_come_back_only_over_what_was_written() {
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
        // Find no edits of another project.
        let other = open(world.cache.path(), world.cache.path());
        assert_eq!(other.edits().unwrap().undo("1").unwrap_err(), missing("1", &[]));
    }

    #[test]
    fn the_oldest_go_first_and_the_newest_stays() {
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
    fn what_is_damaged_is_not_put_back() {
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
        // A journal that cannot be read is told of, and edits go on.
        fs::rename(&path, path.with_extension("journal-3")).unwrap();
        drop(world.project.edits().unwrap());
        assert!(world.project.untold_edits()[0].what.contains("damaged"));
        world.apply(&world.files(&GIVEN)).unwrap();
    }

    #[test]
    fn what_a_program_before_has_written_is_undone_and_taken_back() {
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
                assert!(world.project.untold_edits()[0].taken_back);
            }
            assert!(world.held().iter().all(|(_, text)| text == "(old)"), "{extension}");
        }
    }

    #[test]
    fn one_edits_at_a_time_whatever_the_cache() {
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
