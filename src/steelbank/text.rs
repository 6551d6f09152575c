//! Questions about the project's text, loaded or not. Where the text is loaded, answers name the image's
//! symbols.

use std::collections::HashMap;
use std::path::Path;

use steelbank_reader::lines::LineColumn;
use steelbank_text::{Freshness, IndexControl, Pattern, TextError, TextIndex};

use super::Steelbank;
use crate::query::Error;
use crate::query::control::Control;
use crate::query::find_references::{self, References, find_references};
use crate::query::index_project::{self, IndexStatus, Indexed, check_index_status, index_project};

impl Steelbank {
    /// Returns the index of the project's text, opened at the first call. It is kept in the project's cache,
    /// and each question brings it up to date.
    ///
    /// # Errors
    /// There is no project, or its folder cannot be read.
    pub fn text_index(&self) -> Result<&TextIndex, Error> {
        if let Some(index) = self.inner.text.get() {
            return Ok(index);
        }
        let settings = self.project().settings();
        let root = self.project().own_root()?;
        let cache = settings.map(|settings| settings.cache.clone()).unwrap_or_default();
        let index = TextIndex::open(root, &cache, Freshness::Automatic)?;
        Ok(self.inner.text.get_or_init(|| index))
    }

    /// Finds the definitions and uses of a name in the project's text, in any language. In loaded Lisp files
    /// the answer says which symbol each name is.
    ///
    /// # Errors
    /// The request is wrong or too broad, there is no project, or the question was cancelled.
    pub fn find_references(
        &self,
        request: &find_references::FindReferencesRequest,
        control: &Control,
    ) -> Result<References, Error> {
        self.on_text(control, |index, control| {
            let resolver = self.symbol_resolver(index, &request.pattern);
            find_references(index, request, Some(&resolver), control)
        })
    }

    /// Builds the index of the project's text, or brings it up to date.
    ///
    /// # Errors
    /// There is no project, the index cannot be written, or the question was cancelled.
    pub fn index_project(
        &self,
        request: &index_project::IndexProjectRequest,
        control: &Control,
    ) -> Result<Indexed, Error> {
        self.on_text(control, |index, control| index_project(index, request, control))
    }

    /// Tells whether the index of the project's text covers the files as they are. Changes nothing.
    ///
    /// # Errors
    /// There is no project, its folder is gone, or the question was cancelled.
    pub fn index_status(&self, control: &Control) -> Result<IndexStatus, Error> {
        self.on_text(control, check_index_status)
    }

    /// Runs `work` on the text, until the question is cancelled or its time is over.
    fn on_text<T, E>(
        &self,
        control: &Control,
        work: impl FnOnce(&TextIndex, &IndexControl<'_>) -> Result<T, E>,
    ) -> Result<T, Error>
    where
        Error: From<E>,
    {
        let cancellation = control.cancellation();
        let deadline = crate::engine::deadline_after(control.allowed());
        let cancelled = || cancellation.is_cancelled() || std::time::Instant::now() >= deadline;
        let control = IndexControl { cancelled: &cancelled, progress: &|_| {} };
        Ok(work(self.text_index()?, &control)?)
    }

    /// Makes a resolver for `pattern`: it tells which symbol stands at a place of a file that is loaded as it
    /// is.
    pub(crate) fn symbol_resolver<'a>(
        &'a self,
        index: &'a TextIndex,
        pattern: &str,
    ) -> impl Fn(&Path, u32, u32) -> Option<String> + use<'a> {
        let name = Pattern::new(pattern).and_then(|pattern| pattern.common_lisp_name());
        let loaded: HashMap<_, _> = match name {
            Some(_) => self.project().loaded().into_iter().collect(),
            None => HashMap::new(),
        };
        move |path, line, column| {
            let path = index.root().join(path);
            let file = self.project().positions(&path, *loaded.get(&path)?).ok()?;
            let (package, name) = file
                .is_fresh()
                .then(|| file.symbol_at(name.as_deref()?, LineColumn { line, column }))
                .flatten()?;
            Some(format!("{package}::{name}"))
        }
    }
}

impl From<TextError> for Error {
    fn from(error: TextError) -> Self {
        Self::IndexProject(error.into())
    }
}
