//! Implements the tool evaluate.

use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::actions::missing::{LookupReply, NotFoundReply};
use crate::actions::run::evaluate::{EvaluateRequest, Evaluation, EvaluationStatus};
use crate::actions::run::trial::tool::{in_scratch, lift_lists};
use crate::actions::run::trial::{Restart, StackFrame};
use crate::answer::NotFound;
use crate::tools::arguments::{Timeout, default_package};
use crate::tools::{
    About, Call, CallOutcome, Effect, Failure, Permission, Session, Starts, Tool, ToolAnswer,
};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The forms to evaluate, in order.
    code: String,
    /// The package for reading forms and printing values.
    #[serde(default = "default_package")]
    package: String,
    /// Evaluate in a throwaway copy of the image.
    #[serde(default)]
    scratch: bool,
    #[serde(flatten)]
    timeout: Timeout,
}

/// The schema of the answer. The failure's lists are at the top level, so that the answer can be
/// paged.
#[derive(Debug, Serialize, JsonSchema)]
struct EvaluationSchema {
    #[serde(flatten)]
    evaluation: Evaluation,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    backtrace: Vec<StackFrame>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    restarts: Vec<Restart>,
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "evaluate",
        title: "Evaluate Lisp forms",
        description: "Evaluates Lisp forms in the image, in order. Returns all values of the last form, output, and \
            warnings with positions. For an error it returns the condition, its report, restarts, and a backtrace of \
            the user's frames with positions and local variables. Values have handles for inspect. Needs a server \
            started with --allow-eval.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<EvaluationSchema>>(about, evaluate)
        .needs(Permission::Eval)
        .starts(Starts::Copy)
        .of_image()
        .joins_loads()
}

/// The maximum number of output characters in an answer that has a size budget.
const OUTPUT: usize = 12_000;

fn evaluate(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let control = call.control(Duration::from_secs(given.timeout.timeout_seconds));
    if given.scratch {
        let arguments = json!({ "code": given.code, "package": given.package });
        return in_scratch(session, "evaluate", arguments, &control);
    }
    let request = EvaluateRequest::new(given.code).package(given.package.clone());
    let bank = session.bank()?;
    let mut evaluation = bank.run(&request, &control)?;
    if evaluation.status == EvaluationStatus::NoPackage {
        let note = Some("Nothing was evaluated.".to_owned());
        return NotFoundReply::package(bank, &given.package, note).with_partial(evaluation);
    }
    if call.budget() != usize::MAX
        && let Some((at, _)) = evaluation.output.char_indices().nth(OUTPUT)
    {
        evaluation.output_dropped += evaluation.output[at..].chars().count() as u64;
        evaluation.output.truncate(at);
    }
    let outcome = match evaluation.status {
        EvaluationStatus::Finished => CallOutcome::Answered,
        EvaluationStatus::Failed | EvaluationStatus::Stopped => CallOutcome::Failed,
        EvaluationStatus::NoPackage => CallOutcome::NotFound,
    };
    let text = if call.names_handles() { evaluation.to_string() } else { format!("{evaluation:#}") };
    let mut answer = ToolAnswer::new(text, &LookupReply::yes(evaluation), outcome)?;
    lift_lists(&mut answer.structured);
    Ok(answer)
}

/// Prints the values or the failure, followed by warnings and output. The alternate form `{:#}`
/// omits the values' handles.
impl fmt::Display for Evaluation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.failure, &self.unread_at) {
            _ if self.status == EvaluationStatus::NoPackage => {
                return write!(f, "{}", NotFound::Package(self.package.to_uppercase()));
            }
            (Some(failure), Some(place)) => write!(f, "{place}: {failure}"),
            (Some(failure), None) => write!(f, "{failure}"),
            (None, _) if self.values.is_empty() => f.write_str("; No values"),
            (None, _) => {
                let values: Vec<&str> = self.values.iter().map(|value| value.text.as_str()).collect();
                f.write_str(&values.join("\n"))
            }
        }?;
        for value in &self.values {
            let handle = value.handle.as_deref().filter(|_| !f.alternate());
            let texts: Vec<&str> = handle.into_iter().chain(value.cut.then_some("cut")).collect();
            if !texts.is_empty() {
                write!(f, "\n  ({})", texts.join(", "))?;
            }
        }
        if !self.warnings.is_empty() {
            f.write_str("\n\nWarnings:")?;
        }
        for warning in &self.warnings {
            let place = warning.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
            let message = warning.message.replace('\n', "\n    ");
            write!(f, "\n  {place}{}: {message}", warning.severity)?;
        }
        if !self.output.is_empty() {
            write!(f, "\n\nOutput:\n{}", self.output.trim_end())?;
            if self.output_dropped > 0 {
                write!(f, "\n... {} more characters", self.output_dropped)?;
            }
        }
        Ok(())
    }
}
