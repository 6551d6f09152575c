//! Runs [`CheckRequest`]: loads systems and files in a scratch image, from the files on disk and
//! from texts that are not written yet.

use std::sync::Arc;
use std::time::Instant;
use steelbank_tree::defines_systems;

use parking_lot::Mutex;
use serde_json::json;

use crate::Steelbank;
use crate::actions::change::check::{CheckAnswer, CheckRequest};
use crate::engine::control::Control;
use crate::engine::deadline_after;
use crate::handle::Error;
use crate::handle::loaded::{FailureKind, LoadAnswer, LoadTarget};
use crate::handle::question::Action;
use crate::handle::scratch::{Scratch, ScratchError, ScratchRequest};

impl Action for CheckRequest {
    type Answer = CheckAnswer;

    /// Loads systems and files in a scratch image. The main image does not change. Files on disk
    /// change only if the loaded code writes to them and the image is not confined. A failed load
    /// is an answer, not an error.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<CheckAnswer, Error> {
        let begun = Instant::now();
        let deadline = deadline_after(control.allowed());
        let systems = match &self.system {
            Some(system) => vec![system.clone()],
            None => bank.loaded_systems(),
        };
        if systems.is_empty() && self.paths.is_empty() && self.edits.is_empty() {
            return Err(ScratchError::Call(
                "Nothing to check: no system is loaded. Give a system in \"system\", or files in \"paths\" or \
                    \"edits\"."
                    .to_owned(),
            )
            .into());
        }
        let copy = ScratchRequest::new().overlays(self.edits.clone()).confined(self.confined);
        let mut scratch = bank.scratch(&copy, control)?;
        let mut answer = CheckAnswer {
            loads: true,
            systems: systems.clone(),
            confined: self.confined,
            ..CheckAnswer::default()
        };
        // Without a system to load, load the edited files directly.
        let edited = self.edits.iter().filter(|edit| systems.is_empty() && edit.text.is_some());
        let files = self.paths.iter().chain(edited.map(|edit| &edit.path));
        let files = files.map(|path| LoadTarget::File(bank.project().real(path).display().to_string()));
        for target in systems.iter().cloned().map(LoadTarget::System).chain(files) {
            if matches!(&target, LoadTarget::File(path) if answer.compiled.contains(path)) {
                continue;
            }
            let at = Arc::new(Mutex::new(match &target {
                LoadTarget::System(_) => None,
                LoadTarget::File(path) => Some(path.clone()),
            }));
            let (reached, parent) = (Arc::clone(&at), control.clone());
            let control = control.until(deadline).on_progress(move |progress| {
                if progress.path.is_some() {
                    reached.lock().clone_from(&progress.path);
                }
                parent.report(progress);
            });
            match load(&mut scratch, &target, &control) {
                Err(ScratchError::Ended(why)) => {
                    let at = at.lock().clone();
                    let place = at.as_ref().map_or_else(String::new, |path| format!(", at {path}"));
                    let message = format!("Lisp died in the scratch image{place}: {why}.");
                    answer.add(LoadAnswer::stopped(target, FailureKind::Load, at, message).finished());
                    break;
                }
                loaded => answer.add(loaded?),
            }
        }
        answer.ended_processes = scratch.started_processes();
        if self.confined {
            // If the copy has died, it cannot report the refused writes, so the list stays empty.
            let refused = scratch.refused(&Control::default().with_cancellation(control.cancellation()));
            answer.refused = refused.unwrap_or_default();
        }
        let known =
            |path: &str| answer.cached.contains(path) || answer.compiled.iter().any(|other| other == path);
        let edited = self.edits.iter().filter(|edit| answer.loads && edit.text.is_some());
        answer.not_loaded = edited
            .map(|edit| bank.project().real(&edit.path))
            .filter(|path| !defines_systems(path) && !known(&path.to_string_lossy()))
            .map(|path| bank.project().shown(&path))
            .collect();
        answer.finish();
        answer.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(answer)
    }
}

fn load(scratch: &mut Scratch, target: &LoadTarget, control: &Control) -> Result<LoadAnswer, ScratchError> {
    let seconds = control.allowed().as_secs().clamp(1, 86_400);
    let (tool, mut arguments) = match target {
        LoadTarget::System(system) => ("load-system", json!({ "system": system, "keep_going": true })),
        LoadTarget::File(path) => ("load-file", json!({ "path": path })),
    };
    arguments["timeout_seconds"] = seconds.into();
    arguments["detail"] = true.into();
    let answer = scratch.call(tool, arguments, control)?;
    serde_json::from_value(answer.structured)
        .map_err(|error| ScratchError::Broken(format!("cannot parse its answer: {error}")))
}
