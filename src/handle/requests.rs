//! Requests that the handle itself carries out: loads.

use std::path::{Path, PathBuf};

use crate::engine::control::Control;
use crate::handle::loaded::LoadAnswer;
use crate::handle::question::Action;
use crate::handle::{Error, Steelbank};

/// A load with its options: `LoadRequest::system("demo").force()`. This runs the code that is loaded, and before the
/// first load the user's init file if the project's settings name one. A failed load is an answer.
#[derive(Debug, Clone)]
pub struct LoadRequest {
    what: RequestedLoad,
    options: LoadOptions,
}

/// How systems are loaded.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct LoadOptions {
    /// Whether the system's own files are compiled anew.
    pub(crate) force: bool,
    /// Whether the load goes on behind files that do not compile. It has failed all the same.
    pub(crate) keep_going: bool,
    /// Whether what is loaded is brought up to date: the system does not count as asked for.
    pub(crate) again: bool,
    /// Whether the image is thrown away afterwards: its index is left as it is.
    pub(crate) thrown_away: bool,
    /// Whether the image is saved afterwards: its index is exported whole then, and not after each load.
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
        Self { what, options: LoadOptions::default() }
    }

    /// Loads the ASDF system called `name`, and what it depends on. Joins a load of it that is under way.
    pub fn system(name: impl Into<String>) -> Self {
        Self::new(RequestedLoad::System(name.into()))
    }

    /// Loads all systems that the project's own `.asd` files define, tests included, one after the other.
    pub fn project() -> Self {
        Self::new(RequestedLoad::Project)
    }

    /// Compiles and loads one file; a relative path is the project's.
    pub fn file(path: impl AsRef<Path>) -> Self {
        Self::new(RequestedLoad::File(path.as_ref().to_owned()))
    }

    /// Compiles the system's own files anew. A single file always is.
    #[must_use]
    pub fn force(mut self) -> Self {
        self.options.force = true;
        self
    }

    /// Leaves the index as it is, for an image that is thrown away.
    #[must_use]
    pub(crate) fn thrown_away(mut self) -> Self {
        self.options.thrown_away = true;
        self
    }

    /// Goes on behind files that do not compile, so that the answer tells what is wrong with each; what came of them is
    /// loaded. Without it, a load ends at the first.
    #[must_use]
    pub fn keep_going(mut self) -> Self {
        self.options.keep_going = true;
        self
    }
}

impl Action for LoadRequest {
    type Answer = LoadAnswer;

    fn run(&self, bank: &Steelbank, control: &Control) -> Result<LoadAnswer, Error> {
        match &self.what {
            RequestedLoad::System(system) => bank.load_system(system, self.options, control),
            RequestedLoad::Project => bank.load_project(self.options, control),
            RequestedLoad::File(path) => bank.load_file(&path.to_string_lossy(), self.options, control),
        }
    }
}
