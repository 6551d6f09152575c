//! Requests about a planned rename: format it as a diff, write its edits, undo the rename, and
//! recover from an interruption.

use std::path::Path;

use crate::Steelbank;
use crate::actions::change::rename::{
    Applied, EditPlan, RenameDiff, RenameError, UndoError, Undone, UnfinishedEdit, diff,
};
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::context::QueryContext;
use crate::handle::question::{Action, Question};
use crate::workspace::journal::EditPurpose;
use crate::workspace::replacement::Replacement;
use crate::workspace::write;

/// A request for a plan's edits as a unified diff.
#[derive(Debug, Clone, Copy)]
pub struct RenameDiffRequest<'a>(&'a dyn EditPlan);

impl<'a> RenameDiffRequest<'a> {
    /// Creates the request.
    pub fn new(plan: &'a dyn EditPlan) -> Self {
        Self(plan)
    }
}

impl Question for RenameDiffRequest<'_> {
    type Answer = RenameDiff;

    /// Fails if a file has changed since the rename was planned.
    fn answer(&self, context: &QueryContext<'_>, _: &Control) -> Result<RenameDiff, Error> {
        let files = context.bank.replacements(self.0)?;
        let hunks = self.0.files().iter().zip(&files).map(|(planned, file)| {
            diff::hunks(&planned.path, &file.old, &planned.edits, |text| write::encoded(text, &file.old))
        });
        let hunks = hunks.collect::<Result<Vec<_>, _>>().map_err(RenameError)?;
        Ok(RenameDiff { hunks: hunks.concat() })
    }
}

/// A request to write a plan's edits to all files or to none. It fails if a file has changed since
/// the rename was planned. The old texts stay in the cache for [`UndoRequest`]. Files keep their
/// modes, line ends and encodings. The image does not change: use [`crate::ReloadRequest`] to
/// update it.
#[derive(Debug, Clone, Copy)]
pub struct RenameApplyRequest<'a>(&'a dyn EditPlan);

impl<'a> RenameApplyRequest<'a> {
    /// Creates the request.
    pub fn new(plan: &'a dyn EditPlan) -> Self {
        Self(plan)
    }
}

impl Action for RenameApplyRequest<'_> {
    type Answer = Applied;

    /// Fails, and changes nothing, if the plan has conflicts or no edits, or if a file has changed
    /// or cannot be written.
    fn run(&self, bank: &Steelbank, _: &Control) -> Result<Applied, Error> {
        let Self(plan) = self;
        if let Some(conflict) = plan.conflict() {
            return Err(RenameError(format!("{conflict} Nothing was changed.")).into());
        }
        let edits = bank.project().edits().map_err(RenameError)?;
        let files = bank.replacements(*plan)?;
        if files.is_empty() {
            return Err(RenameError("The plan has no edits.".to_owned()).into());
        }
        let id = edits.replace_all(&plan.purpose(), EditPurpose::Undoable, &files).map_err(RenameError)?;
        Ok(Applied { undo: id, files: plan.files().iter().map(|file| file.path.clone()).collect() })
    }
}

/// A request to restore all files of an applied rename or none. It fails if a file no longer has
/// the text that the rename wrote.
#[derive(Debug, Clone)]
pub struct UndoRequest(String);

impl UndoRequest {
    /// Creates a request to undo the edit called `id`, or the last edit if `id` is `last`.
    pub fn new(id: impl Into<String>) -> Self {
        Self(id.into())
    }
}

impl Action for UndoRequest {
    type Answer = Undone;

    /// Fails, and changes nothing, if there is no such edit or a file was changed after it:
    /// [`Error::request`] returns the [`UndoError`]. Also fails if there is no project.
    fn run(&self, bank: &Steelbank, _: &Control) -> Result<Undone, Error> {
        bank.project().project_root()?;
        let undone = bank.project().edits().map_err(UndoError::from)?.undo(&self.0)?;
        let files = undone.files.iter().map(|path| bank.project().shown(path)).collect();
        Ok(Undone { undo: undone.id, what: undone.what, files })
    }
}

/// A request to roll back incomplete edits of the project's files after the process that made the
/// edits has ended. Files that were changed since are left unchanged. Each new edit first rolls
/// back incomplete edits.
#[derive(Debug, Clone, Copy, Default)]
pub struct RecoverEditsRequest;

impl RecoverEditsRequest {
    /// Creates the request.
    pub fn new() -> Self {
        Self
    }
}

impl Action for RecoverEditsRequest {
    type Answer = Vec<UnfinishedEdit>;

    /// Lists the interrupted edits, including those that this process rolled back earlier. Fails if
    /// there is no project, or if another process holds the edit lock for too long.
    fn run(&self, bank: &Steelbank, _: &Control) -> Result<Vec<UnfinishedEdit>, Error> {
        bank.project().roll_back_interrupted_edits().map_err(RenameError)?;
        Ok(bank.project().unfinished_edits())
    }
}

impl From<RenameError> for Error {
    fn from(error: RenameError) -> Self {
        Self::of_request(error, None)
    }
}

impl From<UndoError> for Error {
    fn from(error: UndoError) -> Self {
        match error {
            UndoError::NoProject(error) => error.into(),
            error => Self::of_request(error, None),
        }
    }
}

impl Steelbank {
    /// Returns a sentence for each interrupted edit that was not reported yet.
    pub(crate) fn unreported_edits(&self) -> Vec<String> {
        self.project().unreported_edits().iter().map(UnfinishedEdit::to_string).collect()
    }

    /// Reads the files of a plan, and computes their new texts.
    pub(crate) fn replacements(&self, plan: &dyn EditPlan) -> Result<Vec<Replacement>, RenameError> {
        let root = self.project().project_root().map_err(|error| RenameError(error.into()))?;
        plan.files()
            .iter()
            .map(|file| {
                let path = write::project_file(root, Path::new(&file.path))?;
                let shown = &file.path;
                let old = steelbank_tree::read_source(&path)
                    .map_err(|error| format!("{shown} cannot be read: {error}."))?;
                if !file.is_for(&old) {
                    return Err(format!(
                        "{shown} has changed since the edit was planned. Nothing was changed; plan it again."
                    ));
                }
                let new = diff::edited(&old, &file.edits, |text| write::encoded(text, &old))
                    .map_err(|why| format!("{shown}: {why} Nothing was changed."))?;
                Ok(Replacement { path, old, new })
            })
            .collect::<Result<_, String>>()
            .map_err(RenameError)
    }
}
