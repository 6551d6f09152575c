//! Evaluates forms in the image: the one question that runs the asker's code.

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::control::Control;
use super::{Error, read_json};
use crate::engine::{Lane, Lisp, Operation};

/// The question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluateRequest {
    /// The forms, as text.
    pub source: String,
    /// The package to read them in.
    pub package: String,
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EvaluateAnswer {
    /// The values of the last form, printed within limits.
    #[serde(default)]
    pub values: Vec<String>,
    /// What the forms wrote to the standard streams.
    #[serde(default)]
    pub output: String,
    /// Characters of output after the limit.
    #[serde(default)]
    pub output_dropped: u64,
}

impl EvaluateRequest {
    /// Evaluates `source` in CL-USER.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), package: super::lookup::DEFAULT_PACKAGE.to_owned() }
    }

    /// The package to read the forms in, in place of CL-USER.
    #[must_use]
    pub fn package(mut self, package: impl Into<String>) -> Self {
        self.package = package.into();
        self
    }

    /// Runs the forms on the work lane, and waits. The value of the last one comes as JSON.
    pub(crate) fn json<T: DeserializeOwned>(&self, lisp: Lisp, control: &Control) -> Result<T, Error> {
        let Self { source, package } = self.clone();
        let ticket = lisp.submit(Lane::Work, control.allowed(), None, move |on_lisp| {
            on_lisp.call(Operation::EvaluateJson, &[&package, &source])
        });
        Ok(read_json(&control.wait(ticket)?.bytes)?)
    }

    /// Runs the forms on the work lane, and waits.
    ///
    /// # Errors
    /// The code failed, did not end in time, or Lisp is gone.
    pub fn answer(&self, lisp: Lisp, lane: Lane, control: &Control) -> Result<EvaluateAnswer, Error> {
        let Self { source, package } = self.clone();
        let ticket = lisp.submit(lane, control.allowed(), None, move |on_lisp| {
            on_lisp.call(Operation::Evaluate, &[&package, &source])
        });
        let answer = control.wait(ticket)?;
        let values: EvaluateAnswer = read_json(&answer.bytes)?;
        Ok(EvaluateAnswer { output: answer.output, output_dropped: answer.output_dropped, ..values })
    }
}
