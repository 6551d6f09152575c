//! Renames: plans them, writes the files, and undoes what was written.

use std::path::Path;

use crate::Steelbank;
use crate::project::journal::EditPurpose;
use crate::project::replacement::Replacement;
use crate::project::write;
use crate::query::Error;
use crate::query::control::Control;
use crate::query::find_definition::ImageDefinitions;
use crate::query::rename::{
    Applied, Hunk, ProjectSymbols, RenameError, RenamePlan, RenameRequest, Sources, UndoError, Undone,
    UnfinishedEdit, diff, rename_plan,
};
use crate::source::positions::SearchTarget;
use crate::source::tap::sidecar::fnv_1a;

impl Steelbank {
    /// Plans a rename: all edits, with conflicts and cautions. Writes nothing.
    ///
    /// # Errors
    /// There is no such symbol or no project, the new name cannot be read, or Lisp cannot answer.
    pub fn rename_plan(&self, request: &RenameRequest, control: &Control) -> Result<RenamePlan, Error> {
        self.rename_plan_among(&ProjectSymbols::new(&self.index()), request, control)
    }

    /// Plans one of many renames, like [`Steelbank::rename_plan`]; `names` are those of the index as it is
    /// now.
    ///
    /// # Errors
    /// As for [`Steelbank::rename_plan`].
    pub fn rename_plan_among(
        &self,
        names: &ProjectSymbols,
        request: &RenameRequest,
        control: &Control,
    ) -> Result<RenamePlan, Error> {
        let index = self.index();
        let context = self.context();
        let definitions = |name: &str, home: &str| {
            let sought = SearchTarget { package: home.to_owned(), name: name.to_owned() };
            ImageDefinitions::ask(&context, &sought, control)
        };
        let sources = Sources {
            index: &index,
            project: self.project(),
            sbcl: self.sources(),
            names,
            definitions: &definitions,
        };
        rename_plan(&sources, request)
    }

    /// Renders a plan's edits as the hunks of a unified diff.
    ///
    /// # Errors
    /// A file has changed since the rename was planned.
    pub fn rename_diff(&self, plan: &RenamePlan) -> Result<Vec<Hunk>, RenameError> {
        let files = self.replacements(plan)?;
        let hunks = plan.files.iter().zip(&files).map(|(planned, file)| {
            diff::hunks(&planned.path, &file.old, &planned.edits, |text| write::encoded(text, &file.old))
        });
        Ok(hunks.collect::<Result<Vec<_>, _>>().map_err(RenameError)?.concat())
    }

    /// Applies a plan's edits: in all files or in none, and only where each file still has the bytes that the
    /// plan saw. Keeps the old texts in the cache for [`Steelbank::rename_undo`]. Files keep their modes,
    /// line ends and encodings. The image does not change: [`Steelbank::reload`] brings it up to date.
    ///
    /// # Errors
    /// The plan has conflicts or no edits, a file has changed, or one cannot be written. Nothing was changed.
    pub fn rename_apply(&self, plan: &RenamePlan) -> Result<Applied, RenameError> {
        if let Some(conflict) = plan.conflicts.first() {
            return Err(RenameError(format!("{} Nothing was changed.", conflict.message)));
        }
        let edits = self.project().edits().map_err(RenameError)?;
        let files = self.replacements(plan)?;
        if files.is_empty() {
            return Err(RenameError("The plan has no edits.".to_owned()));
        }
        let what = format!("{} became {}", plan.symbol, plan.new_name);
        let id = edits.replace_all(&what, EditPurpose::Undoable, &files).map_err(RenameError)?;
        Ok(Applied { undo: id, files: plan.files.iter().map(|file| file.path.clone()).collect() })
    }

    /// Restores the files from before the edit called `id` (`last`: the last one): all of them or none, and
    /// only where they hold what that edit wrote.
    ///
    /// # Errors
    /// There is no such edit, or a file was changed after it. Nothing was changed.
    pub fn rename_undo(&self, id: &str) -> Result<Undone, UndoError> {
        self.project().own_root()?;
        let undone = self.project().edits()?.undo(id)?;
        let files = undone.files.iter().map(|path| self.project().shown(path)).collect();
        Ok(Undone { undo: undone.id, what: undone.what, files })
    }

    /// Takes back the edits of the project's files that were cut because their program ended, in each file that
    /// nobody has changed since. Each edit does this first by itself.
    ///
    /// # Errors
    /// There is no project, or another process has been editing it for long: a sentence.
    pub fn take_back_cut_edits(&self) -> Result<(), RenameError> {
        self.project().take_back_cut_edits().map_err(RenameError)
    }

    /// Lists the edits that were cut because their program ended: those that this process has taken back, and
    /// those that nobody has yet.
    pub fn unfinished_edits(&self) -> Vec<UnfinishedEdit> {
        self.project().unfinished_edits()
    }

    /// Tells of the edits of [`Steelbank::unfinished_edits`] that this did not tell of yet, a sentence each.
    pub(crate) fn untold_edits(&self) -> Vec<String> {
        self.project().untold_edits().iter().map(UnfinishedEdit::to_string).collect()
    }

    /// Reads the files of a plan, and makes their new texts.
    pub(super) fn replacements(&self, plan: &RenamePlan) -> Result<Vec<Replacement>, RenameError> {
        let root = self.project().own_root().map_err(|error| RenameError(error.into()))?;
        plan.files
            .iter()
            .map(|file| {
                let path = write::own_file(root, Path::new(&file.path))?;
                let shown = &file.path;
                let old = steelbank_tree::read_source(&path).map_err(|error| format!("{shown} cannot be read: {error}."))?;
                if format!("{:016x}", fnv_1a(&old)) != file.hash {
                    return Err(format!(
                        "{shown} has changed since the rename was planned. Nothing was changed; plan it again."
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
