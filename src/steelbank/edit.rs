//! The part of [`Steelbank`] that reads and edits a project's texts, without Lisp.

use std::path::Path;

use crate::Steelbank;
use crate::project::write::{self, FileError};
use crate::query::edit_definition::{EditAnswer, EditError, EditRequest, edit_definition};

impl Steelbank {
    /// Edits one definition of a file of the project. Compiles and loads nothing.
    ///
    /// # Errors
    /// Nothing was changed; the sentence says why.
    pub fn edit_definition(&self, request: &EditRequest) -> Result<EditAnswer, EditError> {
        edit_definition(&self.index(), self.project(), request)
    }

    /// Reads a file of the project. Returns also its path as answers show it.
    pub(crate) fn own_text(&self, path: &str) -> Result<(Vec<u8>, String), FileError> {
        let file = write::own_file(self.project().own_root()?, Path::new(path))?;
        let shown = self.project().shown(&file);
        let text = steelbank_tree::read_source(&file).map_err(|error| FileError::new(&shown, &error))?;
        Ok((text, shown))
    }
}
