//! Helpers for tools that run code: the text of a failure, and calls in a scratch image.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use super::{Call, CallOutcome, Failure, Permission, Session, ToolAnswer, ToolProgress};
use crate::query::control::Control;
use crate::query::trial::{StackFrame, TrialFailure};
use crate::scratch::{ScratchError, ScratchOutcome};

/// Calls `tool` in a scratch image, which is thrown away. Removes handles from the answer: their objects are
/// gone.
pub(super) fn in_scratch(
    session: &Session,
    tool: &str,
    arguments: Value,
    control: &Control,
    call: &Call,
) -> Result<ToolAnswer, Failure> {
    let answer = session.bank()?.call_in_scratch(tool, arguments, control, |news| {
        call.report(ToolProgress { what: news.what, path: news.path, done: news.done, total: news.total });
    });
    let mut answer = answer.map_err(scratch_failure)?;
    forget_handles(&mut answer.structured);
    let outcome = match answer.outcome {
        ScratchOutcome::Answered => CallOutcome::Answered,
        ScratchOutcome::NotFound => CallOutcome::NotFound,
        ScratchOutcome::Failed => CallOutcome::Failed,
    };
    let names_handle = |line: &&str| {
        line.strip_prefix("  (h").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
    };
    let text: Vec<&str> = answer.text.lines().filter(|line| !names_handle(line)).collect();
    ToolAnswer::new(text.join("\n"), &answer.structured, outcome)
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

/// Converts a scratch image's error into a tool's.
pub(super) fn scratch_failure(error: ScratchError) -> Failure {
    match error {
        ScratchError::Overlay { .. } => Failure::arguments(format!("{error}.")),
        ScratchError::Call(message) => Failure::engine(message),
        ScratchError::Unconfined(_) => {
            let [eval, edits] = [Permission::Eval, Permission::Edits].map(Permission::option);
            Failure::engine(format!(
                "{}. Its user can allow it to run unconfined by starting the server with `steelbank serve {eval}` or \
                 `{edits}`.",
                super::words::sentence(&error.to_string()).trim_end_matches('.')
            ))
        }
        other => Failure::engine(super::words::sentence(&other.to_string())),
    }
}

/// Moves a failure's lists to the top of the answer, where they can be cut.
pub(super) fn take_lists(structured: &mut Value) {
    let Value::Object(answer) = structured else { return };
    let Some(Value::Object(failure)) = answer.get_mut("failure") else { return };
    let lists: Map<String, Value> = ["backtrace", "restarts"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), failure.remove(name)?)))
        .collect();
    answer.extend(lists);
}

/// Renders `failure` for people.
pub(super) fn failure_text(failure: &TrialFailure) -> String {
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
