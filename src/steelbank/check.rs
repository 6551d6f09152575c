//! Checks in a scratch image whether the project loads: from the files on disk, and from texts that are not
//! written yet.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::json;

use super::scratch::{Scratch, ScratchError, ScratchNews};
use crate::Steelbank;
use crate::query::check::{CheckAnswer, CheckRequest};
use crate::query::control::Control;
use crate::query::load_system::{FailureKind, LoadAnswer, LoadTarget};

impl Steelbank {
    /// Checks in a scratch image whether a system or files load. The main image stays as it is; files do, too,
    /// unless code that is not confined writes to them.
    ///
    /// # Errors
    /// There is no scratch image, or `control` ended the wait. A failed load is an answer.
    pub fn check(
        &self,
        request: &CheckRequest,
        control: &Control,
        mut news: impl FnMut(ScratchNews),
    ) -> Result<CheckAnswer, ScratchError> {
        let begun = Instant::now();
        let systems = match &request.system {
            Some(system) => vec![system.clone()],
            None => self.loaded_systems(),
        };
        if systems.is_empty() && request.paths.is_empty() && request.edits.is_empty() {
            return Err(ScratchError::Call(
                "There is nothing to check: no system is loaded. Name one with \"system\", or files with \"paths\" or \
                 \"edits\"."
                    .to_owned(),
            ));
        }
        let mut scratch = match request.confined {
            true => self.confined_scratch(request.edits.clone(), control)?,
            false => self.scratch(request.edits.clone(), control)?,
        };
        let mut answer = CheckAnswer {
            loads: true,
            systems: systems.clone(),
            compiled: Vec::new(),
            diagnostics: Vec::new(),
            diagnostics_total: None,
            failures: Vec::new(),
            not_loaded: Vec::new(),
            confined: request.confined,
            refused: Vec::new(),
            duration_ms: 0,
            cached: BTreeSet::new(),
        };
        // Compile the edited files themselves if no system loads them.
        let edited = request.edits.iter().filter(|edit| systems.is_empty() && edit.text.is_some());
        let files = request.paths.iter().chain(edited.map(|edit| &edit.path));
        let files = files.map(|path| LoadTarget::File(self.project().real(path).display().to_string()));
        for target in systems.iter().cloned().map(LoadTarget::System).chain(files) {
            if matches!(&target, LoadTarget::File(path) if answer.compiled.contains(path)) {
                continue;
            }
            let control = Control::new(control.allowed().saturating_sub(begun.elapsed()))
                .with_cancellation(control.cancellation());
            let mut at = match &target {
                LoadTarget::System(_) => None,
                LoadTarget::File(path) => Some(path.clone()),
            };
            let loaded = load(&mut scratch, &target, &control, |told| {
                if told.path.is_some() {
                    at.clone_from(&told.path);
                }
                news(told);
            });
            match loaded {
                Err(ScratchError::Ended(why)) => {
                    let place = at.as_ref().map_or_else(String::new, |path| format!(", at {path}"));
                    let message = format!("Lisp died in the copy{place}: {why}.");
                    answer.add(LoadAnswer::stopped(target, FailureKind::Load, at, message).finished());
                    break;
                }
                loaded => answer.add(loaded?),
            }
        }
        if request.confined {
            // A copy whose Lisp has died cannot tell.
            let refused = scratch.refused(&Control::default().with_cancellation(control.cancellation()));
            answer.refused = refused.unwrap_or_default();
        }
        let known =
            |path: &str| answer.cached.contains(path) || answer.compiled.iter().any(|other| other == path);
        let edited = request.edits.iter().filter(|edit| answer.loads && edit.text.is_some());
        answer.not_loaded = edited
            .map(|edit| self.project().real(&edit.path))
            .filter(|path| {
                path.extension().is_none_or(|kind| kind != "asd") && !known(&path.to_string_lossy())
            })
            .map(|path| self.project().shown(&path))
            .collect();
        answer.finish();
        answer.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Ok(answer)
    }
}

fn load(
    scratch: &mut Scratch,
    target: &LoadTarget,
    control: &Control,
    news: impl FnMut(ScratchNews),
) -> Result<LoadAnswer, ScratchError> {
    let seconds = control.allowed().as_secs().clamp(1, 86_400);
    let (tool, mut arguments) = match target {
        LoadTarget::System(system) => ("load-system", json!({ "system": system })),
        LoadTarget::File(path) => ("load-file", json!({ "path": path })),
    };
    arguments["timeout_seconds"] = seconds.into();
    arguments["detail"] = true.into();
    let answer = scratch.call(tool, arguments, control, news)?;
    serde_json::from_value(answer.structured)
        .map_err(|error| ScratchError::Broken(format!("its answer cannot be read: {error}")))
}
