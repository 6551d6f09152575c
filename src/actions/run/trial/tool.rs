//! Helpers for tools that run code: the text of a failure, and calls in a scratch image.

use std::fmt;

use serde_json::{Map, Value};

use crate::actions::run::trial::{LocalVariable, Restart, StackFrame, TrialFailure};
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::scratch::ScratchOutcome;
use crate::tools::{CallOutcome, Failure, Session, ToolAnswer};

/// Calls `tool` in a scratch image. Removes handles from the structured answer, because their
/// objects are discarded with the image.
pub(crate) fn in_scratch(
    session: &Session,
    tool: &str,
    arguments: Value,
    control: &Control,
) -> Result<ToolAnswer, Failure> {
    let answer = session.bank()?.call_in_scratch(tool, arguments, control);
    let mut answer = answer.map_err(Error::from)?;
    remove_handles(&mut answer.structured);
    let outcome = match answer.outcome {
        ScratchOutcome::Answered => CallOutcome::Answered,
        ScratchOutcome::NotFound => CallOutcome::NotFound,
        ScratchOutcome::Failed => CallOutcome::Failed,
    };
    ToolAnswer::new(answer.text, &answer.structured, outcome)
}

/// Removes all handles from `value`.
fn remove_handles(value: &mut Value) {
    match value {
        Value::Object(object) => {
            object.remove("handle");
            object.values_mut().for_each(remove_handles);
        }
        Value::Array(array) => array.iter_mut().for_each(remove_handles),
        _ => (),
    }
}

/// Moves a failure's lists to the top level of the answer, where lists can be paged.
pub(crate) fn lift_lists(structured: &mut Value) {
    let Value::Object(answer) = structured else { return };
    let Some(Value::Object(failure)) = answer.get_mut("failure") else { return };
    let lists: Map<String, Value> = ["backtrace", "restarts"]
        .into_iter()
        .filter_map(|name| Some((name.to_owned(), failure.remove(name)?)))
        .collect();
    answer.extend(lists);
}

/// Prints the condition's report and type, the restarts and the backtrace.
impl fmt::Display for TrialFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.report)?;
        self.condition.iter().try_for_each(|condition| write!(f, "\n  [{condition}]"))?;
        for Restart { name, report } in &self.restarts {
            let name = if name.is_empty() { "(no name)" } else { name };
            write!(f, "\n  restart {name}: {report}")?;
        }
        if self.backtrace.is_empty() {
            return Ok(());
        }
        f.write_str("\n\nBacktrace:")?;
        self.backtrace.iter().try_for_each(|frame| write!(f, "\n  {frame}"))?;
        match self.frames_left_out {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl fmt::Display for StackFrame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.place.iter().try_for_each(|place| write!(f, "{place}: "))?;
        write!(f, "{}", self.function)?;
        if self.times > 0 {
            write!(f, " ({} times)", self.times)?;
        }
        self.locals.iter().try_for_each(|LocalVariable { name, value, .. }| {
            write!(f, "\n      {name} = {}", value.replace('\n', "\n        "))
        })
    }
}
