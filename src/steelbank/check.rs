//! Checks in a scratch image whether the project loads: from the files on disk, and from texts that are not
//! written yet.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};

use super::scratch::{Scratch, ScratchError, ScratchNews};
use crate::Steelbank;
use crate::query::check::{CheckAnswer, CheckRequest};
use crate::query::control::Control;
use crate::query::load_system::LoadAnswer;

impl Steelbank {
    /// Checks in a scratch image whether a system or files load. The main image, the project and the cache
    /// stay as they are.
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
        let mut scratch = self.scratch(request.edits.clone(), control)?;
        let mut answer = CheckAnswer {
            loads: true,
            systems: systems.clone(),
            compiled: Vec::new(),
            diagnostics: Vec::new(),
            diagnostics_total: None,
            failures: Vec::new(),
            not_loaded: Vec::new(),
            duration_ms: 0,
            cached: BTreeSet::new(),
        };
        let left = |tool: &str| -> (String, Control) {
            let left = control.allowed().saturating_sub(begun.elapsed());
            (tool.to_owned(), Control::new(left).with_cancellation(control.cancellation()))
        };
        for system in &systems {
            let (tool, control) = left("load-system");
            let arguments = json!({ "system": system, "timeout_seconds": seconds(&control), "detail": true });
            answer.add(load(&mut scratch, &tool, arguments, &control, &mut news)?);
        }
        // Compile the edited files themselves if no system loads them.
        let edited = request.edits.iter().filter(|edit| systems.is_empty() && edit.text.is_some());
        for path in request.paths.iter().chain(edited.map(|edit| &edit.path)) {
            let path = self.project().real(path).display().to_string();
            if answer.compiled.contains(&path) {
                continue;
            }
            let (tool, control) = left("load-file");
            let arguments = json!({ "path": path, "timeout_seconds": seconds(&control), "detail": true });
            answer.add(load(&mut scratch, &tool, arguments, &control, &mut news)?);
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

fn seconds(control: &Control) -> u64 {
    control.allowed().as_secs().clamp(1, 86_400)
}

fn load(
    scratch: &mut Scratch,
    tool: &str,
    arguments: Value,
    control: &Control,
    news: &mut impl FnMut(ScratchNews),
) -> Result<LoadAnswer, ScratchError> {
    let answer = scratch.call(tool, arguments, control, news)?;
    serde_json::from_value(answer.structured)
        .map_err(|error| ScratchError::Broken(format!("its answer cannot be read: {error}")))
}
