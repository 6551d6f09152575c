//! Checks one file in a copy of the image as it is loaded: nothing else is compiled.

use std::path::Path;

use super::run::load;
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::loaded::{LoadAnswer, LoadTarget};
use crate::handle::question::Action;
use crate::handle::scratch::{Overlay, Scratch, ScratchError, ScratchRequest};
use crate::{StartedFrom, Steelbank};

/// The order to lay one text over a file, in a copy that is there already.
pub(crate) const OVERLAY: &str = "lay-over";

/// A request for a confined copy that starts from the snapshot of what this image has loaded, also if files have changed
/// since. It can be started ahead, and checks one text: compiling leaves packages, structures and `eval-when` behind, with
/// which a second check would lie.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpareCopyRequest;

/// A copy that has compiled nothing.
#[derive(Debug)]
pub struct SpareCopy(Scratch);

impl Action for SpareCopyRequest {
    type Answer = SpareCopy;

    fn run(&self, bank: &Steelbank, control: &Control) -> Result<SpareCopy, Error> {
        if !bank.snapshot_key().is_some_and(|key| key.is_made_after(bank.changed_at())) {
            return Err(ScratchError::Broken("there is no snapshot of what is loaded".to_owned()).into());
        }
        Ok(SpareCopy(bank.scratch(&ScratchRequest::new().confined(true).of_loaded(), control)?))
    }
}

impl SpareCopy {
    /// Compiles and loads the file at `path` as if it had `text`.
    ///
    /// # Errors
    /// There was no snapshot to start from, so that nothing is loaded in the copy; it ended; `control` ended the wait.
    pub fn check(mut self, path: &Path, text: &str, control: &Control) -> Result<LoadAnswer, Error> {
        let overlay = Overlay { path: path.to_owned(), text: Some(text.to_owned()) };
        self.0.order::<()>(OVERLAY, &overlay, control)?;
        Ok(load(&mut self.0, &LoadTarget::File(path.display().to_string()), control)?)
    }
}

/// Carries out the order, in the copy `bank`.
pub(crate) fn lay_over(bank: &Steelbank, overlay: Overlay) -> Result<(), Error> {
    if let StartedFrom::Core { why } | StartedFrom::PartOfSnapshot { why } = bank.started_from() {
        let why = why.unwrap_or_default();
        return Err(ScratchError::Broken(format!("it has not started from a snapshot: {why}")).into());
    }
    let project = bank.project();
    let cache = &project.settings().ok_or(ScratchError::NoCache)?.cache;
    let text = match overlay.text {
        None => None,
        Some(text) => {
            let file = cache.join("overlays/laid-over.lisp");
            steelbank_cache::write(&file, text.as_bytes()).map_err(ScratchError::System)?;
            Some(file)
        }
    };
    bank.become_scratch(cache, &[(overlay.path, text)])
}
