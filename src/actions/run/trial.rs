//! Code that is run to see what it does: how it ended, where it was then, and its values, printed within limits.
//!
//! Lisp keeps objects by handles. Printing runs the user's methods, so it is done in calls of its own, which
//! are stopped if they do not end: a value that cannot be printed costs the answer nothing else.

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

/// Extra time after the deadline for code to unwind by its own clean-up.
pub(crate) const STOP_TIME: Duration = Duration::from_millis(300);
/// Extra time for printing.
pub(crate) const PRINTING_TIME: Duration = Duration::from_secs(8);
/// Time limits for printing: for all values of an answer together and, if that fails, for each alone.
const PRINTING: [Duration; 2] = [Duration::from_secs(2), Duration::from_millis(500)];
/// The time after which no print methods of the user's are tried any more.
const ENOUGH: Duration = Duration::from_secs(6);

/// The most characters of a local variable's value.
const LOCAL: usize = 120;

/// A value as it is told.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PrintedValue {
    /// As it is printed.
    pub text: String,
    /// Whether it was too long to be printed whole.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub cut: bool,
    /// Whether its printing failed or did not end.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub unprintable: bool,
    /// What `inspect` takes, unless the text says all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

/// The class of a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TrialFailureKind {
    /// Lisp died of it.
    Died,
    /// The call ended in a fault.
    #[serde(untagged)]
    Fault(FaultKind),
}

impl Default for TrialFailureKind {
    fn default() -> Self {
        Self::Fault(FaultKind::Error)
    }
}

/// Why code did not come to its end.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TrialFailure {
    /// The class of it: `error`, `interrupted`, `exit-refused`, `stack-exhausted`, `heap-exhausted`, …
    #[schemars(with = "String")]
    pub kind: TrialFailureKind,
    /// The condition's type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<LispName>,
    /// The condition's report.
    pub report: String,
    /// What `inspect` takes, for the condition.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
    /// The restarts that the code had established, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<Restart>,
    /// The frames of the user's code, innermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backtrace: Vec<StackFrame>,
    /// How many more frames there were.
    #[serde(default, skip_serializing_if = "crate::answer::is_zero")]
    pub frames_left_out: u64,
}

/// A way to go on that the code offered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Restart {
    /// Its name; empty if it has none.
    #[serde(default)]
    pub name: String,
    /// What it would do.
    #[serde(default)]
    pub report: String,
}

/// A call that had not returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StackFrame {
    /// The function.
    pub function: LispName,
    /// `file:line:column`, or `code:line:column` in the code that was given.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// How many calls of this place stood one upon the other, if more than one.
    #[serde(default, skip_serializing_if = "crate::answer::is_zero")]
    pub times: u64,
    /// Its variables that had values.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub locals: Vec<LocalVariable>,
}

/// A local variable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LocalVariable {
    /// Its name.
    pub name: String,
    /// Its value.
    pub value: String,
    /// What `inspect` takes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handle: Option<String>,
}

/// A failure as Lisp reports it.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ToldFailure {
    kind: TrialFailureKind,
    condition: Option<String>,
    handle: Option<String>,
    #[serde(default)]
    frames: Vec<ToldFrame>,
    #[serde(default)]
    frames_left_out: u64,
    #[serde(default)]
    restarts: Vec<Restart>,
    #[serde(default)]
    report: String,
}

/// A frame as Lisp reports it.
#[derive(Debug, Default, Clone, Deserialize)]
pub(crate) struct ToldFrame {
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
    locals: Vec<ToldLocal>,
}

#[derive(Debug, Clone, Deserialize)]
struct ToldLocal {
    name: String,
    handle: String,
    #[serde(skip)]
    value: Option<PrintedValue>,
}

/// Asks the Lisp half a question, from a job that already runs on a Lisp thread.
pub(crate) fn ask<T: DeserializeOwned>(
    on_lisp: &OnLisp<'_>,
    within: Duration,
    name: &str,
    arguments: &[&str],
) -> Result<(T, CallAnswer), CallError> {
    let answer = on_lisp.call_within(within, name, arguments)?;
    let told = read_json(&answer.bytes).map_err(|error| {
        CallError::Fault(crate::engine::Fault {
            kind: crate::engine::FaultKind::Misuse,
            message: error.to_string(),
            condition: None,
            output: String::new(),
        })
    })?;
    Ok((told, answer))
}

/// Prints the objects of `handles` in `package`, at most `limit` characters of each. A value that cannot be
/// printed says so.
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
            .filter(|(told, _)| told.len() == handles.len())
    };
    if let Some((told, _)) = print(PRINTING[0], "", handles) {
        return told;
    }
    let mut told = Vec::new();
    for handle in handles {
        let one = std::slice::from_ref(handle);
        let found = (begun.elapsed() < ENOUGH).then(|| print(PRINTING[1], "", one)).flatten();
        let found = found.or_else(|| print(PRINTING[1], "plainly", one));
        told.extend(found.map_or_else(
            || {
                vec![PrintedValue {
                    text: "#<not printed>".to_owned(),
                    unprintable: true,
                    handle: Some(handle.clone()),
                    cut: false,
                }]
            },
            |(told, _)| told,
        ));
    }
    told
}

#[derive(Deserialize)]
struct Reported {
    report: String,
}

impl ToldFailure {
    /// Makes a failure of the error of a call, after which Lisp could report nothing.
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
                report: "It was stopped, and could not tell where it was.".to_owned(),
                ..Self::default()
            },
        }
    }

    /// Has Lisp print the report and the local variables.
    pub(crate) fn complete(&mut self, on_lisp: &OnLisp<'_>, package: &str) {
        if let Some(handle) = &self.handle {
            self.report = match ask::<Reported>(on_lisp, PRINTING[0], "report-condition", &[handle]) {
                Ok((told, _)) => told.report,
                Err(_) => "The condition's report did not come to its end.".to_owned(),
            };
        } else if self.kind == TrialFailureKind::Fault(FaultKind::Interrupted) && self.report.is_empty() {
            self.report = "Its time was over; it was stopped.".to_owned();
        }
        let mut locals: Vec<&mut ToldLocal> =
            self.frames.iter_mut().flat_map(|frame| &mut frame.locals).collect();
        let handles: Vec<String> = locals.iter().map(|local| local.handle.clone()).collect();
        for (local, value) in locals.iter_mut().zip(print(on_lisp, package, LOCAL, &handles)) {
            local.value = Some(value);
        }
    }

    /// Finds the places of the failure. `code` is the code that was given, if any was.
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

impl ToldFrame {
    /// Makes a frame at a form of the code that was given.
    pub(crate) fn in_code(form: Option<u32>, number: Option<u32>) -> Self {
        Self { code: true, form, number, ..Self::default() }
    }

    /// The name of the function.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Finds the place, as far as it is known.
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

/// The text of code that was given, in which forms have places.
pub(crate) struct Code<'a> {
    bytes: &'a [u8],
    text: LispText,
    lines: LineIndex,
    /// Where each top-level form, or the white space before it, begins: in bytes.
    starts: Vec<u32>,
}

impl<'a> Code<'a> {
    /// Reads `source`, whose top-level forms begin at `starts`, in characters.
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

    /// Finds the place of the sub-form `number` of the top-level form `form`.
    fn place(&self, form: u32, number: u32) -> Option<Location> {
        let start = *self.starts.get(form as usize)?;
        let top = self.text.toplevel().iter().find(|top| top.span.start >= start)?;
        let span = self.text.numbered(top, number).map_or(top.span, |form| form.span);
        Some(self.located(span))
    }

    /// Finds the place of the character `index`.
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
    fn forms_of_code_have_lines_and_columns() {
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
