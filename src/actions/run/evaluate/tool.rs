//! The tool evaluate: evaluates forms, and tells values, output, warnings and failure.

use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::actions::missing::{LookupReply, NotFoundReply};
use crate::actions::run::evaluate::{EvaluateRequest, Evaluation, EvaluationStatus};
use crate::actions::run::trial::tool::{failure_text, in_scratch, take_lists};
use crate::actions::run::trial::{Restart, StackFrame};
use crate::tools::arguments::{Timeout, default_package};
use crate::tools::{
    About, Call, CallOutcome, Effect, Failure, Permission, Session, Starts, Tool, ToolAnswer,
};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The forms; any number.
    code: String,
    /// The package to read and print them in.
    #[serde(default = "default_package")]
    package: String,
    /// Evaluate in a copy of the image that is thrown away.
    #[serde(default)]
    scratch: bool,
    #[serde(flatten)]
    timeout: Timeout,
}

/// The answer's schema: the lists of the failure stand in the answer itself, where they can be cut.
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
        description: "Evaluates Lisp forms in the image, in order. Answers all values of the last, output, and warnings with \
            places; of an error the condition, its report, restarts, and a backtrace of the user's frames with places and \
            local variables. Values have handles for inspect. Needs a server started with --allow-eval.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<EvaluationSchema>>(about, evaluate)
        .needs(Permission::Eval)
        .starts(Starts::Copy)
        .of_image()
}

/// The most characters of output in an answer with a budget.
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
    let mut answer =
        ToolAnswer::new(text(&evaluation, call.names_handles()), &LookupReply::yes(evaluation), outcome)?;
    take_lists(&mut answer.structured);
    Ok(answer)
}

fn text(evaluation: &Evaluation, names_handles: bool) -> String {
    let mut text = match (&evaluation.failure, &evaluation.unread_at) {
        (Some(failure), Some(place)) => format!("{place}: {}", failure_text(failure)),
        (Some(failure), None) => failure_text(failure),
        (None, _) if evaluation.values.is_empty() => "; No values".to_owned(),
        (None, _) => {
            let values: Vec<&str> = evaluation.values.iter().map(|value| value.text.as_str()).collect();
            values.join("\n")
        }
    };
    for value in &evaluation.values {
        let handle = value.handle.as_deref().filter(|_| names_handles);
        let said: Vec<&str> = handle.into_iter().chain(value.cut.then_some("cut")).collect();
        if !said.is_empty() {
            // Writing to a string cannot fail.
            let _ = write!(text, "\n  ({})", said.join(", "));
        }
    }
    if !evaluation.warnings.is_empty() {
        text.push_str("\n\nWarnings:");
        for warning in &evaluation.warnings {
            let place = warning.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
            let message = warning.message.replace('\n', "\n    ");
            let _ = write!(text, "\n  {place}{}: {message}", warning.severity);
        }
    }
    if !evaluation.output.is_empty() {
        let _ = write!(text, "\n\nOutput:\n{}", evaluation.output.trim_end());
        if evaluation.output_dropped > 0 {
            let _ = write!(text, "\n... {} more characters", evaluation.output_dropped);
        }
    }
    text
}
