//! What runs code to see what it does, here or in a scratch image.

use std::time::Instant;

use serde_json::{Value, json};

use super::scratch::{ScratchAnswer, ScratchError, ScratchNews};
use crate::Steelbank;
use crate::query::Error;
use crate::query::control::Control;
use crate::query::evaluation::{Evaluation, EvaluationRequest};
use crate::query::inspect::{InspectRequest, Inspection, Subject};
use crate::query::question::Question;

impl Steelbank {
    /// Evaluates forms, tells how that went, and brings the index up to date. This runs the code.
    ///
    /// # Errors
    /// It never began, or Lisp is gone. That the code fails, or does not end in time, is an answer.
    pub fn evaluation(&self, request: &EvaluationRequest, control: &Control) -> Result<Evaluation, Error> {
        self.refreshing(|| request.answer(&self.context(), control))
    }

    /// What an object is made of: the value of an expression, which is evaluated, or what was told by its handle.
    ///
    /// # Errors
    /// It never began, or Lisp is gone. That the expression fails, or that the handle is gone, is an answer.
    pub fn inspect(&self, request: &InspectRequest, control: &Control) -> Result<Inspection, Error> {
        match request.subject {
            Subject::Expression(_) => self.refreshing(|| request.answer(&self.context(), control)),
            Subject::Handle(_) => request.answer(&self.context(), control),
        }
    }

    /// Calls `tool` with `arguments` in a scratch image in which the systems are loaded that are loaded here. The image is
    /// thrown away: nothing that the call does touches this one. The argument `timeout_seconds` is set to what is left of
    /// `control`'s time.
    ///
    /// # Errors
    /// There is no scratch image, it ended, a system does not load in it, or the tool cannot answer.
    pub fn call_in_scratch(
        &self,
        tool: &str,
        mut arguments: Value,
        control: &Control,
        mut news: impl FnMut(ScratchNews),
    ) -> Result<ScratchAnswer, ScratchError> {
        let begun = Instant::now();
        let left = || {
            let left = control.allowed().saturating_sub(begun.elapsed());
            (Control::new(left).called_off_by(control.cancellation()), left.as_secs().max(1))
        };
        let mut scratch = self.scratch(Vec::new(), control)?;
        for system in self.loaded_systems() {
            let (control, seconds) = left();
            let load = json!({ "system": system, "timeout_seconds": seconds });
            let answer = scratch.call("load-system", load, &control, &mut news)?;
            if answer.structured.get("status") != Some(&json!("loaded")) {
                return Err(ScratchError::Call(format!(
                    "The system {system} does not load in a scratch image: {}",
                    answer.text
                )));
            }
        }
        let (control, seconds) = left();
        arguments["timeout_seconds"] = seconds.into();
        scratch.call(tool, arguments, &control, news)
    }
}
