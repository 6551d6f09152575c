//! What [`Steelbank`] plans: renames.

use crate::Steelbank;
use crate::query::Error;
use crate::query::control::Control;
use crate::query::rename::{Answer, Names, Request, Sources, rename_plan};

impl Steelbank {
    /// Plans a rename: all edits, and what must be known before they are made. Nothing is written.
    ///
    /// # Errors
    /// There is no such symbol or no project, the new name cannot be read, or Lisp cannot answer.
    pub fn rename_plan(&self, request: &Request, control: &Control) -> Result<Answer, Error> {
        self.rename_plan_among(&Names::new(&self.index()), request, control)
    }

    /// The same for one of many renames: `names` are those of the index as it is now.
    ///
    /// # Errors
    /// As there.
    pub fn rename_plan_among(
        &self,
        names: &Names,
        request: &Request,
        control: &Control,
    ) -> Result<Answer, Error> {
        let index = self.index();
        let definitions = |name: &str, home: &str| self.image_definitions(name, home, control);
        let sources = Sources {
            index: &index,
            project: self.project(),
            sbcl: self.sources(),
            names,
            definitions: &definitions,
        };
        rename_plan(&sources, request)
    }
}
