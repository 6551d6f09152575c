//! Runs the requests about the project's text. For files that are loaded, answers name the image's
//! symbols.

use std::collections::HashMap;
use std::path::Path;

use steelbank_reader::lines::LineColumn;
use steelbank_text::{IndexControl, Pattern, TextError, TextIndex};

use crate::actions::text::find_references::{FindReferencesRequest, References, find_references};
use crate::actions::text::index_project::{
    IndexProjectRequest, IndexStatus, IndexStatusRequest, Indexed, check_index_status, index_project,
};
use crate::answer::LispName;
use crate::answer::name::canonical;
use crate::engine::control::Control;
use crate::handle::context::QueryContext;
use crate::handle::question::{Action, Question};
use crate::handle::{Error, Steelbank};

impl Question for FindReferencesRequest {
    type Answer = References;

    /// Finds the definitions and uses of a name in the project's text, in any language. In Lisp
    /// files that were loaded and have not changed since, the answer also has the symbols that Lisp
    /// read.
    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<References, Error> {
        context.bank.on_text(control, |index, control| {
            let resolver = context.bank.symbol_resolver(index, &self.pattern);
            find_references(index, self, Some(&resolver), control)
        })
    }
}

impl Action for IndexProjectRequest {
    type Answer = Indexed;

    /// Builds or updates the text index.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<Indexed, Error> {
        bank.on_text(control, |index, control| index_project(index, self, control))
    }
}

impl Question for IndexStatusRequest {
    type Answer = IndexStatus;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<IndexStatus, Error> {
        context.bank.on_text(control, check_index_status)
    }
}

impl Steelbank {
    /// Returns the text index, which is opened at the first call. It is stored in the project's
    /// cache, and each query updates it.
    ///
    /// # Errors
    /// Fails if there is no project, or its folder cannot be read.
    pub(crate) fn text_index(&self) -> Result<&TextIndex, Error> {
        Ok(self.project().text_index(self.project().project_root()?)?)
    }

    /// Runs `work` on the text index until the request is cancelled or its deadline passes.
    fn on_text<T, E>(
        &self,
        control: &Control,
        work: impl FnOnce(&TextIndex, &IndexControl<'_>) -> Result<T, E>,
    ) -> Result<T, Error>
    where
        Error: From<E>,
    {
        let (cancellation, allowed) = (control.cancellation(), control.allowed());
        let deadline = crate::engine::deadline_after(allowed);
        let cancelled = || cancellation.is_cancelled() || std::time::Instant::now() >= deadline;
        let control = IndexControl { cancelled: &cancelled, progress: &|_| {} };
        work(self.text_index()?, &control).map_err(|error| match Error::from(error) {
            Error::Text(TextError::Cancelled) if !cancellation.is_cancelled() => {
                Error::TextDeadlinePassed { milliseconds: allowed.as_millis() as u64 }
            }
            error => error,
        })
    }

    /// Returns a resolver that maps a position of `pattern` to a symbol, for files that have not
    /// changed after they were loaded.
    pub(crate) fn symbol_resolver<'a>(
        &'a self,
        index: &'a TextIndex,
        pattern: &str,
    ) -> impl Fn(&Path, u32, u32) -> Option<LispName> + use<'a> {
        let name = Pattern::new(pattern).and_then(|pattern| pattern.common_lisp_name());
        let loaded: HashMap<_, _> = match name {
            Some(_) => self.project().loaded().into_iter().collect(),
            None => HashMap::new(),
        };
        let image = self.index();
        move |path, line, column| {
            let path = index.root().join(path);
            let file = self.project().positions(&path, *loaded.get(&path)?).ok()?;
            let symbol = file
                .is_fresh()
                .then(|| file.symbol_at(name.as_deref()?, LineColumn { line, column }))
                .flatten()?;
            Some(LispName::new(&image, canonical(&symbol.package, &symbol.name)))
        }
    }
}
