//! Types and helpers for running user code and reporting how it ended: failures, backtraces, local
//! variables and printed values.
//!
//! Lisp's reports refer to objects by handles. Printing runs the user's methods, so objects are
//! printed in separate calls that are interrupted if they do not return. This way, a value that
//! cannot be printed does not affect the rest of the answer.

mod run;
pub(crate) mod tool;

use crate::answer::location::{Range, as_text};
use crate::answer::{LispName, Location};
use crate::engine::{CallAnswer, CallError, FaultKind, OnLisp, read_json};
use std::path::Path;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::handle::DefinitionPlaces;
use crate::source::features;
use steelbank_reader::lines::LineIndex;
use steelbank_reader::{Dialect, LispText};
use steelbank_xref::Index;

/// Extra time after the deadline, in which the cleanup forms of interrupted code can run.
pub(crate) const STOP_TIME: Duration = Duration::from_millis(300);
/// Extra time after the deadline for printing.
pub(crate) const PRINTING_TIME: Duration = Duration::from_secs(8);
/// Time limits for printing. The first is for printing several values together, and for a
/// condition's report. If printing the values together fails, the second is for each attempt to
/// print one value.
const PRINTING: [Duration; 2] = [Duration::from_secs(2), Duration::from_millis(500)];
/// After this time, values are printed without the user's print methods.
const USER_METHODS: Duration = Duration::from_secs(6);

/// The maximum length of a local variable's printed value, in characters.
const LOCAL: usize = 120;

/// A printed value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrintedValue {
    /// The printed text.
    pub text: String,
    /// Whether the text was truncated.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Whether printing failed or did not finish.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unprintable: bool,
    /// A handle for `inspect`, unless the text shows the complete value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

/// The kind of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TrialFailureKind {
    /// Lisp died.
    Died,
    /// Lisp reported a fault of this kind.
    #[serde(untagged)]
    Fault(FaultKind),
}

impl Default for TrialFailureKind {
    fn default() -> Self {
        Self::Fault(FaultKind::Error)
    }
}

/// Why code did not finish.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialFailure {
    /// The kind of failure: `error`, `interrupted`, `exit-refused`, `stack-exhausted`,
    /// `heap-exhausted`, …
    #[schemars(with = "String")]
    pub kind: TrialFailureKind,
    /// The condition's type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<LispName>,
    /// The condition's report.
    pub report: String,
    /// A handle of the condition, for `inspect`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// The restarts that the code established, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<Restart>,
    /// The stack frames of the user's code, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backtrace: Vec<StackFrame>,
    /// Number of frames that are not listed.
    #[serde(default, skip_serializing_if = "crate::answer::is_zero")]
    pub frames_left_out: u64,
}

/// A restart that the code established.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restart {
    /// The restart's name; empty if it has none.
    #[serde(default)]
    pub name: String,
    /// A description of the restart.
    #[serde(default)]
    pub report: String,
}

/// A stack frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackFrame {
    /// The function.
    pub function: LispName,
    /// Position: `file:line:column`, or `code:line:column` in the given code.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// Number of consecutive calls at this position, if more than one.
    #[serde(default, skip_serializing_if = "crate::answer::is_zero")]
    pub times: u64,
    /// For the innermost frames: the local variables that have values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locals: Vec<LocalVariable>,
}

/// A local variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalVariable {
    /// The variable's name.
    pub name: String,
    /// The variable's printed value.
    pub value: String,
    /// A handle for `inspect`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

/// A failure as Lisp reports it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct FailureReport {
    kind: TrialFailureKind,
    condition: Option<String>,
    handle: Option<String>,
    #[serde(default)]
    frames: Vec<FrameReport>,
    #[serde(default)]
    frames_left_out: u64,
    #[serde(default)]
    restarts: Vec<Restart>,
    #[serde(default)]
    report: String,
}

/// A stack frame as Lisp reports it.
#[derive(Debug, Default, Clone, Deserialize)]
pub(crate) struct FrameReport {
    name: String,
    file: Option<String>,
    write_date: Option<u64>,
    #[serde(default)]
    code: bool,
    form: Option<u32>,
    number: Option<u32>,
    #[serde(default)]
    times: u64,
    #[serde(default)]
    locals: Vec<LocalReport>,
}

#[derive(Debug, Clone, Deserialize)]
struct LocalReport {
    name: String,
    handle: String,
    #[serde(skip)]
    value: Option<PrintedValue>,
}

/// Calls the Lisp function `name` from a job that already runs on a Lisp thread, and parses the
/// answer.
pub(crate) fn ask<T: DeserializeOwned>(
    on_lisp: &OnLisp<'_>,
    within: Duration,
    name: &str,
    arguments: &[&str],
) -> Result<(T, CallAnswer), CallError> {
    let answer = on_lisp.call_within(within, name, arguments)?;
    let report = read_json(&answer.bytes).map_err(|error| {
        CallError::Fault(crate::engine::Fault {
            kind: crate::engine::FaultKind::Misuse,
            message: error.to_string(),
            condition: None,
            output: String::new(),
        })
    })?;
    Ok((report, answer))
}

/// Prints the objects of `handles` in `package`, at most `limit` characters each. A value that
/// cannot be printed gets a placeholder.
pub(crate) fn print(
    on_lisp: &OnLisp<'_>,
    package: &str,
    limit: usize,
    handles: &[String],
) -> Vec<PrintedValue> {
    if handles.is_empty() {
        return Vec::new();
    }
    let begun = Instant::now();
    let limit = limit.to_string();
    let print = |within: Duration, plainly: &str, handles: &[String]| {
        let all: Vec<&str> =
            [package, &limit, plainly].into_iter().chain(handles.iter().map(String::as_str)).collect();
        ask::<Vec<PrintedValue>>(on_lisp, within, "print-values", &all)
            .ok()
            .filter(|(report, _)| report.len() == handles.len())
    };
    if let Some((report, _)) = print(PRINTING[0], "", handles) {
        return report;
    }
    let mut report = Vec::new();
    for handle in handles {
        let one = std::slice::from_ref(handle);
        let found = (begun.elapsed() < USER_METHODS).then(|| print(PRINTING[1], "", one)).flatten();
        let found = found.or_else(|| print(PRINTING[1], "plainly", one));
        report.extend(found.map_or_else(
            || {
                vec![PrintedValue {
                    text: "#<not printed>".to_owned(),
                    unprintable: true,
                    handle: Some(handle.clone()),
                    cut: false,
                }]
            },
            |(report, _)| report,
        ));
    }
    report
}

#[derive(Deserialize)]
struct ConditionReport {
    report: String,
}

impl FailureReport {
    /// Converts the error of a call into a failure. Used when the call itself failed, so Lisp
    /// reported nothing.
    pub(crate) fn of_call(error: CallError) -> Self {
        match error {
            CallError::Fault(fault) => Self {
                kind: TrialFailureKind::Fault(fault.kind),
                condition: fault.condition,
                report: fault.message,
                ..Self::default()
            },
            CallError::Interrupted => Self {
                kind: TrialFailureKind::Fault(FaultKind::Interrupted),
                report: "The code was interrupted; no backtrace is available.".to_owned(),
                ..Self::default()
            },
        }
    }

    /// Has Lisp print the condition's report and the local variables.
    pub(crate) fn complete(&mut self, on_lisp: &OnLisp<'_>, package: &str) {
        if let Some(handle) = &self.handle {
            self.report = match ask::<ConditionReport>(on_lisp, PRINTING[0], "report-condition", &[handle]) {
                Ok((report, _)) => report.report,
                Err(_) => "Printing the condition's report failed or timed out.".to_owned(),
            };
        } else if self.kind == TrialFailureKind::Fault(FaultKind::Interrupted) && self.report.is_empty() {
            self.report = "The deadline passed; the code was interrupted.".to_owned();
        }
        let mut locals: Vec<&mut LocalReport> =
            self.frames.iter_mut().flat_map(|frame| &mut frame.locals).collect();
        let handles: Vec<String> = locals.iter().map(|local| local.handle.clone()).collect();
        for (local, value) in locals.iter_mut().zip(print(on_lisp, package, LOCAL, &handles)) {
            local.value = Some(value);
        }
    }

    /// Resolves the positions of the failure. `code` is the text that was evaluated, if any.
    pub(crate) fn placed(
        self,
        index: &Index,
        places: &mut DefinitionPlaces<'_>,
        code: Option<&Code<'_>>,
    ) -> TrialFailure {
        TrialFailure {
            kind: self.kind,
            condition: self.condition.map(|condition| LispName::new(index, condition)),
            report: self.report,
            handle: self.handle,
            restarts: self.restarts,
            backtrace: self.frames.into_iter().map(|frame| frame.placed(index, places, code)).collect(),
            frames_left_out: self.frames_left_out,
        }
    }
}

impl FrameReport {
    /// Creates a frame at a form of the evaluated code.
    pub(crate) fn in_code(form: Option<u32>, number: Option<u32>) -> Self {
        Self { code: true, form, number, ..Self::default() }
    }

    /// Returns the function's name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Resolves the frame's position, if possible.
    pub(crate) fn place(
        &self,
        places: &mut DefinitionPlaces<'_>,
        code: Option<&Code<'_>>,
    ) -> Option<Location> {
        if self.code {
            return code.and_then(|code| code.place(self.form?, self.number?));
        }
        let file = self.file.as_deref()?;
        Some(places.of_form(Path::new(file), self.write_date, self.form, self.number))
    }

    fn placed(self, index: &Index, places: &mut DefinitionPlaces<'_>, code: Option<&Code<'_>>) -> StackFrame {
        StackFrame {
            place: self.place(places, code),
            function: LispName::new(index, self.name),
            times: self.times,
            locals: self
                .locals
                .into_iter()
                .map(|local| {
                    let value = local.value.unwrap_or_default();
                    LocalVariable { name: local.name.to_lowercase(), value: value.text, handle: value.handle }
                })
                .collect(),
        }
    }
}

/// The text that was evaluated, used to resolve the positions of its forms.
pub(crate) struct Code<'a> {
    bytes: &'a [u8],
    text: LispText,
    lines: LineIndex,
    /// Byte offset of each top-level form or of the white space before it.
    starts: Vec<u32>,
}

impl<'a> Code<'a> {
    /// Parses `source`. Its top-level forms begin at `starts`, in characters.
    pub(crate) fn new(source: &'a str, starts: &[u64]) -> Self {
        let bytes = source.as_bytes();
        let mut indices = source.char_indices().map(|(index, _)| index).chain([bytes.len()]).enumerate();
        let mut at = |wanted: u64| {
            let found = indices.find(|(character, _)| *character as u64 >= wanted);
            u32::try_from(found.map_or(bytes.len(), |(_, index)| index)).unwrap_or(u32::MAX)
        };
        let mut starts: Vec<u64> = starts.to_vec();
        starts.dedup();
        let starts = starts.into_iter().map(&mut at).collect();
        Self {
            bytes,
            text: LispText::read(bytes, Dialect::CommonLisp, &features()),
            lines: LineIndex::new(bytes),
            starts,
        }
    }

    /// Returns the position of sub-form `number` of the top-level form `form`, or of the top-level
    /// form if it has no such sub-form.
    fn place(&self, form: u32, number: u32) -> Option<Location> {
        let start = *self.starts.get(form as usize)?;
        let top = self.text.toplevel().iter().find(|top| top.span.start >= start)?;
        let span = self.text.numbered(top, number).map_or(top.span, |form| form.span);
        Some(self.located(span))
    }

    /// Returns the position of the character at `index`.
    pub(crate) fn at(&self, source: &str, index: u64) -> Location {
        let index = usize::try_from(index).unwrap_or(usize::MAX);
        let byte = source.char_indices().nth(index).map_or(self.bytes.len(), |(byte, _)| byte);
        self.located(Range::of(byte..byte))
    }

    fn located(&self, range: Range) -> Location {
        Location::in_text("code", &self.lines, self.bytes, range)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn evaluated_forms_have_lines_and_columns() {
        let source = "(list \"ä\")\n\n(defun f (x)\n  (car x))";
        let code = Code::new(source, &[0, 10, 34]);
        let shown = |place: Option<Location>| place.map(|place| place.to_string());
        assert_eq!(shown(code.place(0, 0)).as_deref(), Some("code:1:1"));
        assert_eq!(shown(code.place(1, 2)).as_deref(), Some("code:4:3"));
        assert_eq!(shown(code.place(1, 99)).as_deref(), Some("code:3:1"));
        assert_eq!(code.place(7, 0), None);
        assert_eq!(code.at(source, 12).to_string(), "code:3:1");
        assert_eq!(code.at(source, 999).to_string(), "code:4:11");
    }
}
