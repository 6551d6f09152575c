//! evaluate: runs the forms of a text, one after the other. The answer has values, output, warnings, failure, frames
//! and places; [`ValuesRequest`] and [`JsonRequest`] want the values alone.

pub(crate) mod tool;

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::trial;
use super::trial::{Code, PrintedValue, ToldFailure, ToldFrame, TrialFailure};
use crate::Steelbank;
use crate::answer::LispName;
use crate::answer::location::{Location, as_text};
use crate::answer::lookup::{DEFAULT_PACKAGE, find_package};
use crate::engine::control::Control;
use crate::engine::read_json;
use crate::engine::{CallError, Lane, Lisp, OnLisp, deadline_after};
use crate::handle::Error;
use crate::handle::context::{DefinitionPlaces, QueryContext};
use crate::handle::loaded::Severity;
use crate::handle::question::Action;

/// A request to run the forms of a text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EvaluateRequest {
    /// The forms, as text.
    pub source: String,
    /// The package to read and print them in.
    pub package: String,
}

/// The values of code that came to its end.
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

/// How an evaluation ended.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum EvaluationStatus {
    /// All forms were evaluated.
    #[default]
    Finished,
    /// A form failed, or could not be read.
    Failed,
    /// Its time was over, or it was called off.
    Stopped,
    /// There is no such package; nothing was evaluated.
    NoPackage,
}

/// The answer with all that happened.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Evaluation {
    /// How it ended.
    pub status: EvaluationStatus,
    /// The package that the forms were to be read in, as it was given.
    #[serde(skip)]
    pub package: String,
    /// The values of the last form.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<PrintedValue>,
    /// How many values there are, if not all are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value_count: Option<usize>,
    /// What was written to the standard streams.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
    /// Characters of output after the limit.
    #[serde(default, skip_serializing_if = "crate::answer::is_zero")]
    pub output_dropped: u64,
    /// What the compiler and the code warned of.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<Warned>,
    /// How many warnings there were, if not all are told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warning_count: Option<usize>,
    /// Where reading the code failed: `code:line:column`.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub unread_at: Option<Location>,
    /// Why it did not come to its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<TrialFailure>,
    /// How long the code ran, in milliseconds.
    #[serde(default)]
    pub duration_ms: u64,
}

/// A warning.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warned {
    /// `error`, `warning` or `style-warning`.
    pub severity: Severity,
    /// `code:line:column`, or where in a file.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// What it says.
    pub message: String,
}

#[derive(Default, Deserialize)]
pub(crate) struct EvaluationReport {
    status: EvaluationStatus,
    #[serde(default)]
    values: Vec<String>,
    #[serde(default)]
    value_count: usize,
    failure: Option<ToldFailure>,
    unread_at: Option<u64>,
    #[serde(default)]
    starts: Vec<u64>,
    #[serde(default)]
    warnings: Vec<ToldWarning>,
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
struct ToldWarning {
    severity: Severity,
    message: String,
    form: Option<u32>,
    number: Option<u32>,
    frame: Option<ToldFrame>,
}

/// How many characters all values may have together, and how many each may have in any case.
const VALUES: (usize, usize) = (12_000, 200);

impl EvaluateRequest {
    /// Makes a request to run the forms of `source` in CL-USER.
    pub fn new(source: impl Into<String>) -> Self {
        Self { source: source.into(), package: DEFAULT_PACKAGE.to_owned() }
    }

    /// Reads and prints the forms in `package` instead.
    #[must_use]
    pub fn package(mut self, package: impl Into<String>) -> Self {
        self.package = package.into();
        self
    }

    /// Resolves the package to the name that Lisp has for it.
    pub(crate) fn package_in(&self, context: &QueryContext<'_>) -> String {
        match find_package(&context.index, &self.package) {
            Some(package) => context.index.package_name(package).into_owned(),
            None => self.package.to_uppercase(),
        }
    }

    /// Converts Lisp's report into an answer with places.
    pub(crate) fn placed(&self, told: EvaluationReport, context: &QueryContext<'_>) -> Evaluation {
        let code = Code::new(&self.source, &told.starts);
        let mut places: DefinitionPlaces<'_> = context.places();
        let warnings = told.warnings.into_iter().map(|warning| {
            let frame = warning.frame.unwrap_or_else(|| ToldFrame::in_code(warning.form, warning.number));
            Warned {
                severity: warning.severity,
                place: frame.place(&mut places, Some(&code)),
                message: warning.message,
            }
        });
        let warnings: Vec<Warned> = warnings.collect();
        Evaluation {
            status: told.status,
            package: self.package.clone(),
            value_count: (told.value_count > told.printed.len()).then_some(told.value_count),
            values: told.printed,
            output: told.output.0,
            output_dropped: told.output.1,
            warning_count: (told.warning_count > warnings.len()).then_some(told.warning_count),
            warnings,
            unread_at: told.unread_at.map(|index| code.at(&self.source, index)),
            failure: told.failure.map(|failure| {
                let mut failure = failure.placed(&context.index, &mut places, Some(&code));
                let condition = failure.condition.as_ref().map(LispName::canonical);
                if told.unread_at.is_some() && condition == Some("COMMON-LISP::END-OF-FILE") {
                    failure.report =
                        "The code ends inside a form: a closing parenthesis, quote or bar is missing."
                            .to_owned();
                }
                failure
            }),
            duration_ms: u64::try_from(told.duration.as_millis()).unwrap_or(u64::MAX),
        }
    }

    /// Wants the values alone: code that fails is an error.
    pub fn values(self) -> ValuesRequest {
        ValuesRequest(self)
    }

    /// Wants the first value of the last form as a `T`, by way of JSON: NIL is null and T is true, characters and
    /// symbols are strings, lists and vectors are arrays, hash tables are objects, and so is what
    /// `(steelbank:object "key" value ...)` makes. Code that fails, and a value that is no `T`, are errors.
    ///
    /// ```
    /// use steelbank::{Control, EvaluateRequest};
    /// # fn main() -> Result<(), steelbank::Error> {
    /// # let bank = steelbank::Steelbank::get_or_start(steelbank::Steelbank::builder())?;
    /// let request = EvaluateRequest::new("(loop for n below 4 collect (* n n))").json::<Vec<u32>>();
    /// assert_eq!(bank.run(&request, &Control::default())?, [0, 1, 4, 9]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn json<T: DeserializeOwned>(self) -> JsonRequest<T> {
        JsonRequest { request: self, value: PhantomData }
    }
}

/// [`EvaluateRequest::values`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ValuesRequest(EvaluateRequest);

impl ValuesRequest {
    /// Evaluates on `lane` of an engine alone: no index is brought up to date.
    ///
    /// # Errors
    /// The code failed, did not end in time, or Lisp is gone.
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
        bank.refreshing(|| self.on(bank.lisp(), Lane::Work, control))
    }
}

/// [`EvaluateRequest::json`].
#[derive(Debug, Clone)]
pub struct JsonRequest<T> {
    request: EvaluateRequest,
    value: PhantomData<fn() -> T>,
}

impl<T: DeserializeOwned> Action for JsonRequest<T> {
    type Answer = T;

    fn run(&self, bank: &Steelbank, control: &Control) -> Result<T, Error> {
        let EvaluateRequest { source, package } = self.request.clone();
        bank.refreshing(|| {
            let ticket = bank.lisp().submit(Lane::Work, control.allowed(), None, move |on_lisp| {
                on_lisp.call("values", &(package, source, true))
            });
            Ok(read_json(&control.wait(ticket)?.bytes)?)
        })
    }
}

impl Action for EvaluateRequest {
    type Answer = Evaluation;

    /// Evaluates the forms, and brings the index up to date. A failure or timeout of the code is an answer.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<Evaluation, Error> {
        bank.refreshing(|| {
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
    /// The handle of the first value.
    pub(crate) fn first(&self) -> Option<&str> {
        self.values.first().map(String::as_str)
    }

    /// Whether all forms were evaluated.
    pub(crate) fn finished(&self) -> bool {
        self.status == EvaluationStatus::Finished
    }
}

/// Evaluates `code` in `package` by `deadline`, and has the values printed.
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
    let mut told = match asked {
        Ok((told, answer)) => EvaluationReport { output: (answer.output, answer.output_dropped), ..told },
        Err(error) => {
            let (status, output) = match &error {
                CallError::Fault(fault) => (EvaluationStatus::Failed, fault.output.clone()),
                CallError::Interrupted => (EvaluationStatus::Stopped, String::new()),
            };
            let failure = Some(ToldFailure::of_call(error));
            EvaluationReport { status, failure, output: (output, 0), ..EvaluationReport::default() }
        }
    };
    told.duration = duration;
    let each = (VALUES.0 / told.values.len().max(1)).max(VALUES.1);
    told.printed = trial::print(on_lisp, package, each, &told.values);
    if let Some(failure) = &mut told.failure {
        failure.complete(on_lisp, package);
    }
    told
}
