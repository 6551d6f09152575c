//! Runs [`EditRequest`], and reads the project's files without Lisp.

use std::path::Path;

use crate::Steelbank;
use crate::actions::change::edit_definition::{EditAnswer, EditError, EditRequest, edit_definition};
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::question::Action;
use crate::workspace::write;
use crate::workspace::write::FileError;

impl Action for EditRequest {
    type Answer = EditAnswer;

    /// Edits one definition in a project file. Compiles and loads nothing. If the edit is refused,
    /// no file has changed, and [`Error::request`] returns the [`EditError`] unless the cause is
    /// that there is no project.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<EditAnswer, Error> {
        Ok(edit_definition(&bank.context(), self, control)?)
    }
}

impl From<EditError> for Error {
    fn from(error: EditError) -> Self {
        match error {
            EditError::NoProject(error) => error.into(),
            error => Self::of_request(error, None),
        }
    }
}

impl Steelbank {
    /// Reads a file of the project. Also returns the file's path as answers show it.
    pub(crate) fn project_text(&self, path: &str) -> Result<(Vec<u8>, String), FileError> {
        let file = write::project_file(self.project().project_root()?, Path::new(path))?;
        let shown = self.project().shown(&file);
        let text = steelbank_tree::read_source(&file).map_err(|error| FileError::new(&shown, &error))?;
        Ok((text, shown))
    }
}
