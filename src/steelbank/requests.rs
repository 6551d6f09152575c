//! Requests with options, for loading and evaluating.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde::de::DeserializeOwned;

use super::{LoadListener, Steelbank};
use crate::engine::Lane;
use crate::query::Error;
use crate::query::control::Control;
use crate::query::evaluate::{EvaluateAnswer, EvaluateRequest};
use crate::query::load_system::{LoadAnswer, LoadNews};

/// A load with its options: `LoadRequest::system("demo").force().listener(|news| ..)`.
#[derive(Clone)]
pub struct LoadRequest {
    what: RequestedLoad,
    force: bool,
    listener: Option<LoadListener>,
}

#[derive(Debug, Clone)]
enum RequestedLoad {
    System(String),
    File(PathBuf),
}

impl LoadRequest {
    /// Loads the ASDF system called `name`, and what it depends on.
    pub fn system(name: impl Into<String>) -> Self {
        Self { what: RequestedLoad::System(name.into()), force: false, listener: None }
    }

    /// Compiles and loads one file.
    pub fn file(path: impl AsRef<Path>) -> Self {
        Self { what: RequestedLoad::File(path.as_ref().to_owned()), force: false, listener: None }
    }

    /// Compiles the system's own files anew. A single file always is.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.force = true;
        self
    }

    /// Reports each file that is compiled or loaded to `listener`. It is called on a Lisp thread and must not
    /// block, least of all on another question to Lisp.
    #[must_use]
    pub fn listener(mut self, listener: impl Fn(LoadNews) + Send + Sync + 'static) -> Self {
        self.listener = Some(Arc::new(listener));
        self
    }
}

impl fmt::Debug for LoadRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoadRequest")
            .field("what", &self.what)
            .field("force", &self.force)
            .field("listener", &self.listener.is_some())
            .finish()
    }
}

impl Steelbank {
    /// Loads a system or a file. This runs its code, and before the first load the user's init file if the
    /// project's settings name one. Questions are answered meanwhile; [`Control::cancellation`] cancels the
    /// load.
    ///
    /// # Errors
    /// It was cancelled, or Lisp is gone. A failed load is an answer.
    pub fn load(&self, request: &LoadRequest, control: &Control) -> Result<LoadAnswer, Error> {
        let listener = request.listener.clone();
        match &request.what {
            RequestedLoad::System(system) => self.load_system(system, request.force, control, listener),
            RequestedLoad::File(path) => self.load_file(&path.to_string_lossy(), control, listener),
        }
    }

    /// Evaluates forms, and brings the index up to date. This runs the code; [`Control::cancellation`]
    /// cancels it.
    ///
    /// # Errors
    /// The code failed, did not end in time or was cancelled, or Lisp is gone.
    pub fn evaluate_request(
        &self,
        request: &EvaluateRequest,
        control: &Control,
    ) -> Result<EvaluateAnswer, Error> {
        self.refreshing(|| request.run(self.lisp(), Lane::Work, control))
    }

    /// Evaluates forms, and reads the first value of the last one as a `T`, by way of JSON: NIL is null and T is true,
    /// characters and symbols are strings, lists and vectors are arrays, hash tables are objects, and so is what
    /// `(steelbank:object "key" value ...)` makes. This runs the code.
    ///
    /// ```
    /// use steelbank::query::control::Control;
    /// use steelbank::query::evaluate::EvaluateRequest;
    /// # fn main() -> Result<(), steelbank::query::Error> {
    /// # let bank = steelbank::Steelbank::get_or_start(steelbank::Steelbank::builder())?;
    /// let request = EvaluateRequest::new("(loop for n below 4 collect (* n n))");
    /// let squares: Vec<u32> = bank.evaluate_json(&request, &Control::default())?;
    /// assert_eq!(squares, [0, 1, 4, 9]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As for [`Steelbank::evaluate_request`], and that the value cannot be JSON, or is no `T`.
    pub fn evaluate_json<T: DeserializeOwned>(
        &self,
        request: &EvaluateRequest,
        control: &Control,
    ) -> Result<T, Error> {
        self.refreshing(|| request.json(self.lisp(), control))
    }

    /// Runs `question`, which may define something before it fails, and brings the index up to date.
    pub(super) fn refreshing<T>(&self, question: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let outcome = question();
        let refreshed = self.refresh();
        let answer = outcome?;
        refreshed?;
        Ok(answer)
    }
}
