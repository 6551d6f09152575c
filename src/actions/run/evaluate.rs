//! Implements evaluate, which runs the forms of a text in order. The answer to an
//! [`EvaluateRequest`] has values, output, warnings, failure, stack frames and positions.
//! [`ValuesRequest`] returns only printed values and output, and [`JsonRequest`] only the first
//! value, as a Rust type. Both turn a failure of the code into an error.

pub(crate) mod tool;

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::trial;
use super::trial::{Code, FailureReport, FrameReport, PrintedValue, TrialFailure};
use crate::Steelbank;
use crate::answer::LispName;
use crate::answer::location::{Location, as_text};
use crate::answer::lookup::{DEFAULT_PACKAGE, find_package};
use crate::engine::control::Control;
use crate::engine::{CallError, Lane, Lisp, OnLisp, deadline_after, read_json};
use crate::handle::Error;
use crate::handle::context::{DefinitionPlaces, QueryContext};
use crate::handle::loaded::Severity;
use crate::handle::question::Action;

/// A request to evaluate the forms of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluateRequest {
    /// The forms, as text.
    pub source: String,
    /// The package for reading forms and printing values.
    pub package: String,
}

/// The answer to a [`ValuesRequest`]: the values and the output of code that finished.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct EvaluateAnswer {
    /// The values of the last form, printed within limits.
    #[serde(default)]
    pub values: Vec<String>,
    /// Output of the forms to the standard streams.
    #[serde(default)]
    pub output: String,
    /// Number of output characters dropped because of the limit.
    #[serde(default)]
    pub output_dropped: u64,
}

/// How an evaluation ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EvaluationStatus {
    /// All forms were evaluated.
    #[default]
    Finished,
    /// A form failed or could not be read.
    Failed,
    /// The deadline passed, or the call was cancelled.
    Stopped,
    /// The package does not exist; nothing was evaluated.
    NoPackage,
}

/// The full answer to evaluate.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evaluation {
    /// How it ended.
    pub status: EvaluationStatus,
    /// The requested package, as given.
    #[serde(skip)]
    pub package: String,
    /// The values of the last form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<PrintedValue>,
    /// Number of values, if `values` does not list all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_count: Option<usize>,
    /// Output to the standard streams.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// Number of output characters dropped because of the limit.
    #[serde(default, skip_serializing_if = "crate::answer::is_zero")]
    pub output_dropped: u64,
    /// Warnings of the compiler and of the code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warned>,
    /// Number of warnings, if `warnings` does not list all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning_count: Option<usize>,
    /// Position at which reading the code failed: `code:line:column`.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub unread_at: Option<Location>,
    /// Why evaluation did not finish.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<TrialFailure>,
    /// Run time of the code, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
}

/// A warning of the compiler or of the code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warned {
    /// `error`, `warning` or `style-warning`.
    pub severity: Severity,
    /// Position: `code:line:column` in the given code, or `file:line:column`.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// The warning's message.
    pub message: String,
}

#[derive(Default, Deserialize)]
pub(crate) struct EvaluationReport {
    status: EvaluationStatus,
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    value_count: usize,
    failure: Option<FailureReport>,
    unread_at: Option<u64>,
    #[serde(default)]
    starts: Vec<u64>,
    #[serde(default)]
    warnings: Vec<WarningReport>,
    #[serde(default)]
    warning_count: usize,
    #[serde(skip)]
    printed: Vec<PrintedValue>,
    #[serde(skip)]
    output: (String, u64),
    #[serde(skip)]
    duration: Duration,
}

#[derive(Deserialize)]
struct WarningReport {
    severity: Severity,
    message: String,
    form: Option<u32>,
    number: Option<u32>,
    frame: Option<FrameReport>,
}

/// Limits of printed values, in characters. The values share the first limit equally, but each
/// value gets at least the second.
const VALUES: (usize, usize) = (12_000, 200);

impl EvaluateRequest {
    /// Creates a request to evaluate the forms of `source` in CL-USER.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), package: DEFAULT_PACKAGE.to_owned() }
    }

    /// Sets the package for reading forms and printing values.
    #[must_use]
    pub fn package(self, package: impl Into<String>) -> Self {
        Self { package: package.into(), ..self }
    }

    /// Resolves the package's name or nickname to its name in Lisp. If there is no such package,
    /// returns the requested name in upper case.
    pub(crate) fn package_in(&self, context: &QueryContext<'_>) -> String {
        match find_package(&context.index, &self.package) {
            Some(package) => context.index.package_name(package).into_owned(),
            None => self.package.to_uppercase(),
        }
    }

    /// Converts Lisp's report into an answer with source positions.
    pub(crate) fn placed(&self, report: EvaluationReport, context: &QueryContext<'_>) -> Evaluation {
        let code = Code::new(&self.source, &report.starts);
        let mut places: DefinitionPlaces<'_> = context.places();
        let warnings = report.warnings.into_iter().map(|warning| {
            let frame = warning.frame.unwrap_or_else(|| FrameReport::in_code(warning.form, warning.number));
            Warned {
                severity: warning.severity,
                place: frame.place(&mut places, Some(&code)),
                message: warning.message,
            }
        });
        let warnings: Vec<Warned> = warnings.collect();
        Evaluation {
            status: report.status,
            package: self.package.clone(),
            value_count: (report.value_count > report.printed.len()).then_some(report.value_count),
            values: report.printed,
            output: report.output.0,
            output_dropped: report.output.1,
            warning_count: (report.warning_count > warnings.len()).then_some(report.warning_count),
            warnings,
            unread_at: report.unread_at.map(|index| code.at(&self.source, index)),
            failure: report.failure.map(|failure| {
                let mut failure = failure.placed(&context.index, &mut places, Some(&code));
                let condition = failure.condition.as_ref().map(LispName::canonical);
                if report.unread_at.is_some() && condition == Some("COMMON-LISP::END-OF-FILE") {
                    failure.report =
                        "The code ends inside a form: a closing parenthesis, quote or bar is missing."
                            .to_owned();
                }
                failure
            }),
            duration_ms: u64::try_from(report.duration.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Requests only the printed values and the output. If the code fails, the request returns an
    /// error.
    pub fn values(self) -> ValuesRequest {
        ValuesRequest(self)
    }

    /// Requests the first value of the last form as a `T`, converted through JSON. NIL becomes null
    /// and T true. Characters and symbols become strings, lists and vectors arrays. Hash tables and
    /// the values of `(steelbank:object "key" value ...)` become objects. It is an error if the
    /// code fails or the value does not deserialize as `T`.
    ///
    /// ```
    /// use steelbank::{Control, EvaluateRequest};
    /// # fn main() -> Result<(), steelbank::Error> {
    /// # let bank = steelbank::Steelbank::get_or_start(steelbank::Steelbank::builder())?;
    /// let squares = "(loop for n below 4 collect (* n n))";
    /// let request = EvaluateRequest::new(squares).json::<Vec<u32>>();
    /// assert_eq!(bank.run(&request, &Control::default())?, [0, 1, 4, 9]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn json<T: DeserializeOwned>(self) -> JsonRequest<T> {
        JsonRequest { request: self, value: PhantomData }
    }
}

/// A request for only the values and the output; see [`EvaluateRequest::values`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValuesRequest(EvaluateRequest);

impl ValuesRequest {
    /// Evaluates directly on `lane` of an engine, without refreshing the index.
    ///
    /// # Errors
    /// Fails if the code fails, the deadline passes, the call is cancelled, or Lisp is dead.
    pub fn on(&self, lisp: Lisp, lane: Lane, control: &Control) -> Result<EvaluateAnswer, Error> {
        let EvaluateRequest { source, package } = self.0.clone();
        let ticket = lisp.submit(lane, control.allowed(), None, move |on_lisp| {
            on_lisp.call("values", &[&package, &source])
        });
        let answer = control.wait(ticket)?;
        let values: EvaluateAnswer = read_json(&answer.bytes)?;
        Ok(EvaluateAnswer { output: answer.output, output_dropped: answer.output_dropped, ..values })
    }
}

impl Action for ValuesRequest {
    type Answer = EvaluateAnswer;

    fn run(&self, bank: &Steelbank, control: &Control) -> Result<EvaluateAnswer, Error> {
        bank.refreshing(control, || self.on(bank.lisp(), Lane::Work, control))
    }
}

/// A request for a deserialized value; see [`EvaluateRequest::json`].
#[derive(Debug, Clone)]
pub struct JsonRequest<T> {
    request: EvaluateRequest,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Action for JsonRequest<T> {
    type Answer = T;

    fn run(&self, bank: &Steelbank, control: &Control) -> Result<T, Error> {
        let EvaluateRequest { source, package } = self.request.clone();
        bank.refreshing(control, || {
            let ticket = bank.lisp().submit(Lane::Work, control.allowed(), None, move |on_lisp| {
                on_lisp.call("values", &(package, source, true))
            });
            Ok(read_json(&control.wait(ticket)?.bytes)?)
        })
    }
}

impl Action for EvaluateRequest {
    type Answer = Evaluation;

    /// Evaluates the forms and refreshes the index. A failure or timeout of the code is part of the
    /// answer, not an error.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<Evaluation, Error> {
        bank.refreshing(control, || {
            let context = bank.context();
            let (package, code) = (self.package_in(&context), self.source.clone());
            let deadline = deadline_after(control.allowed());
            let ticket = context.lisp.submit(Lane::Work, control.allowed(), None, move |on_lisp| {
                Ok(evaluate(on_lisp, &package, &code, deadline))
            });
            Ok(self.placed(control.wait(ticket)?, &context))
        })
    }
}

impl EvaluationReport {
    /// Returns the handle of the first value.
    pub(crate) fn first(&self) -> Option<&str> {
        self.values.first().map(String::as_str)
    }

    /// Tests whether all forms were evaluated.
    pub(crate) fn finished(&self) -> bool {
        self.status == EvaluationStatus::Finished
    }
}

/// Evaluates `code` in `package` until `deadline`, then prints the values.
pub(crate) fn evaluate(
    on_lisp: &OnLisp<'_>,
    package: &str,
    code: &str,
    deadline: Instant,
) -> EvaluationReport {
    on_lisp.grant(trial::STOP_TIME + trial::PRINTING_TIME);
    let begun = Instant::now();
    let left = deadline.saturating_duration_since(begun);
    let asked = trial::ask::<EvaluationReport>(on_lisp, left, "evaluate", &[package, code]);
    let duration = begun.elapsed();
    let mut report = match asked {
        Ok((report, answer)) => EvaluationReport { output: (answer.output, answer.output_dropped), ..report },
        Err(error) => {
            let (status, output) = match &error {
                CallError::Fault(fault) => (EvaluationStatus::Failed, fault.output.clone()),
                CallError::Interrupted => (EvaluationStatus::Stopped, String::new()),
            };
            let failure = Some(FailureReport::of_call(error));
            EvaluationReport { status, failure, output: (output, 0), ..EvaluationReport::default() }
        }
    };
    report.duration = duration;
    let each = (VALUES.0 / report.values.len().max(1)).max(VALUES.1);
    report.printed = trial::print(on_lisp, package, each, &report.values);
    if let Some(failure) = &mut report.failure {
        failure.complete(on_lisp, package);
    }
    report
}
