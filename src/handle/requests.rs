//! The load requests, which the handle runs itself.

use std::path::{Path, PathBuf};

use crate::engine::control::Control;
use crate::handle::loaded::{LoadAnswer, LoadFailure, LoadStatus};
use crate::handle::question::Action;
use crate::handle::{Error, Steelbank};

/// A request to load a system, the project or a file, with options:
/// `LoadRequest::system("demo").force()`. Loading runs the code of the loaded files. The first load
/// also runs the user's init file if the project's settings name one. A load that fails is
/// [`Error::Load`].
#[derive(Debug, Clone)]
pub struct LoadRequest {
    what: RequestedLoad,
    options: LoadOptions,
    answers_failure: bool,
}

/// The options of a load.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LoadOptions {
    /// Recompile all files of the system, but not of its dependencies.
    pub(crate) force: bool,
    /// Continue after files that do not compile. The load still counts as failed.
    pub(crate) keep_going: bool,
    /// The load only refreshes a loaded system, so the system does not count as loaded on request.
    pub(crate) again: bool,
    /// The image will be discarded, so its index is not refreshed.
    pub(crate) temporary: bool,
    /// The image will be saved, so its index is exported once at the end instead of after each
    /// load.
    pub(crate) saved: bool,
}

#[derive(Debug, Clone)]
enum RequestedLoad {
    System(String),
    Project,
    File(PathBuf),
}

impl LoadRequest {
    fn new(what: RequestedLoad) -> Self {
        Self { what, options: LoadOptions::default(), answers_failure: false }
    }

    /// Loads the ASDF system called `name` and its dependencies. If a load of the same system is in
    /// progress, waits for that load first and shares its progress reports, unless this request has
    /// the option `force` or `keep_going`.
    pub fn system(name: impl Into<String>) -> Self {
        Self::new(RequestedLoad::System(name.into()))
    }

    /// Loads all systems that the project's `.asd` files define, including tests, one after the
    /// other.
    pub fn project() -> Self {
        Self::new(RequestedLoad::Project)
    }

    /// Compiles and loads one file. A relative path refers to the project's root, or to the current
    /// folder if the file exists only there or there is no project.
    pub fn file(path: impl AsRef<Path>) -> Self {
        Self::new(RequestedLoad::File(path.as_ref().to_owned()))
    }

    /// Recompiles all files of the system, but not of its dependencies. A single file is always
    /// recompiled.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.options.force = true;
        self
    }

    /// Returns a load that fails as an answer, with its status and failure.
    #[must_use]
    pub fn failure_as_answer(mut self) -> Self {
        self.answers_failure = true;
        self
    }

    /// Leaves the index unchanged, for an image that will be discarded.
    #[must_use]
    pub(crate) fn temporary(mut self) -> Self {
        self.options.temporary = true;
        self
    }

    /// Continues after files that do not compile, so that the answer has the diagnostics of all
    /// files. The definitions that did compile are loaded. Without this option, a load ends at the
    /// first such file.
    #[must_use]
    pub fn keep_going(mut self) -> Self {
        self.options.keep_going = true;
        self
    }
}

impl Action for LoadRequest {
    type Answer = LoadAnswer;

    fn run(&self, bank: &Steelbank, control: &Control) -> Result<LoadAnswer, Error> {
        let mut answer = match &self.what {
            RequestedLoad::System(system) => bank.load_system(system, self.options, control),
            RequestedLoad::Project => bank.load_project(self.options, control),
            RequestedLoad::File(path) => bank.load_file(&path.to_string_lossy(), self.options, control),
        }?;
        if self.answers_failure {
            return Ok(answer);
        }
        if matches!(self.what, RequestedLoad::Project) && answer.systems.is_empty() {
            answer.status = LoadStatus::Failed;
            answer.failure = answer.failure.or_else(|| Some(LoadFailure::no_system("none")));
        }
        if answer.status == LoadStatus::Loaded { Ok(answer) } else { Err(Error::Load(Box::new(answer))) }
    }
}
