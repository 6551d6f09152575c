//! Checks a single file in a copy of the loaded image. No other file is compiled.

use std::path::Path;

use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::loaded::LoadAnswer;
use crate::handle::question::Action;
use crate::handle::scratch::{Overlay, Scratch, ScratchError, ScratchRequest};
use crate::{LoadRequest, StartedFrom, Steelbank};

/// The name of the order that makes a scratch image compile and load one file, with a given text in
/// place of the file's text on disk.
pub(crate) const CHECK: &str = "check-alone";

/// A request for a confined copy of the image. The copy starts from the snapshot of the loaded
/// systems, even if files have changed since. The request fails if there is no snapshot, or if the
/// snapshot is older than the image's last change. The copy can be started before the text to check
/// is known. Each copy checks only one text: compilation leaves packages, structures and the
/// effects of `eval-when` behind, which would falsify a second check.
#[derive(Debug, Clone, Copy, Default)]
pub struct SpareCopyRequest;

/// A copy that has compiled nothing yet.
#[derive(Debug)]
pub struct SpareCopy(Scratch);

impl Action for SpareCopyRequest {
    type Answer = SpareCopy;

    fn run(&self, bank: &Steelbank, control: &Control) -> Result<SpareCopy, Error> {
        if !bank.snapshot_key().is_some_and(|key| key.is_made_after(bank.changed_at())) {
            return Err(ScratchError::Broken("there is no up-to-date snapshot".to_owned()).into());
        }
        Ok(SpareCopy(bank.scratch(&ScratchRequest::new().confined(true).of_loaded(), control)?))
    }
}

impl SpareCopy {
    /// Compiles and loads the file at `path` as if it had `text`.
    ///
    /// # Errors
    ///
    /// Fails if there was no snapshot to start from, the copy died, the call was cancelled, or its
    /// deadline passed.
    pub fn check(mut self, path: &Path, text: &str, control: &Control) -> Result<LoadAnswer, Error> {
        let overlay = Overlay { path: path.to_owned(), text: Some(text.to_owned()) };
        Ok(self.0.order(CHECK, &overlay, control)?)
    }
}

/// Runs the order [`CHECK`] in the copy. `bank` is the copy's image.
pub(crate) fn check(bank: &Steelbank, overlay: Overlay, control: &Control) -> Result<LoadAnswer, Error> {
    if let StartedFrom::Core { why } | StartedFrom::PartOfSnapshot { why } = bank.started_from() {
        let why = why.unwrap_or_default();
        return Err(ScratchError::Broken(format!("it did not start from a snapshot: {why}")).into());
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
    let path = overlay.path.clone();
    bank.become_scratch(cache, &[(overlay.path, text)])?;
    bank.run(&LoadRequest::file(path).temporary().failure_as_answer(), control)
}
