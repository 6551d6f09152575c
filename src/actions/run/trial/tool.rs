//! Helpers for tools that run code: the text of a failure, and calls in a scratch image.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::actions::run::trial::{StackFrame, TrialFailure};
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::scratch::ScratchOutcome;
use crate::tools::{CallOutcome, Failure, Session, ToolAnswer};

/// Calls `tool` in a scratch image, which is thrown away. Removes handles from the structured answer, as its text has none: their
/// objects are gone.
pub(crate) fn in_scratch(
    session: &Session,
    tool: &str,
    arguments: Value,
    control: &Control,
) -> Result<ToolAnswer, Failure> {
    let answer = session.bank()?.call_in_scratch(tool, arguments, control);
    let mut answer = answer.map_err(Error::from)?;
    forget_handles(&mut answer.structured);
    let outcome = match answer.outcome {
        ScratchOutcome::Answered => CallOutcome::Answered,
        ScratchOutcome::NotFound => CallOutcome::NotFound,
        ScratchOutcome::Failed => CallOutcome::Failed,
    };
    ToolAnswer::new(answer.text, &answer.structured, outcome)
}

/// Removes the handles from `value`.
fn forget_handles(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.remove("handle");
            object.values_mut().for_each(forget_handles);
        }
        Value::Array(array) => array.iter_mut().for_each(forget_handles),
        _ => (),
    }
}

/// Moves a failure's lists to the top of the answer, where they can be cut.
pub(crate) fn take_lists(structured: &mut Value) {
    let Value::Object(answer) = structured else { return };
    let Some(Value::Object(failure)) = answer.get_mut("failure") else { return };
    let lists: Map<String, Value> = ["backtrace", "restarts"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), failure.remove(name)?)))
        .collect();
    answer.extend(lists);
}

/// Renders `failure` for people.
pub(crate) fn failure_text(failure: &TrialFailure) -> String {
    let mut text = failure.report.clone();
    if let Some(condition) = &failure.condition {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n  [{condition}]");
    }
    for restart in &failure.restarts {
        let name = if restart.name.is_empty() { "(no name)" } else { &restart.name };
        let _ = write!(text, "\n  restart {name}: {}", restart.report);
    }
    if !failure.backtrace.is_empty() {
        text.push_str("\n\nBacktrace:");
        for frame in &failure.backtrace {
            text.push_str(&frame_text(frame));
        }
        if failure.frames_left_out > 0 {
            let _ = write!(text, "\n  and {} more", failure.frames_left_out);
        }
    }
    text
}

fn frame_text(frame: &StackFrame) -> String {
    let mut text = match &frame.place {
        Some(place) => format!("\n  {place}: {}", frame.function),
        None => format!("\n  {}", frame.function),
    };
    if frame.times > 0 {
        let _ = write!(text, " ({} times)", frame.times);
    }
    for local in &frame.locals {
        let _ = write!(text, "\n      {} = {}", local.name, local.value.replace('\n', "\n        "));
    }
    text
}
