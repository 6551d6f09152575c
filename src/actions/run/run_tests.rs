//! run-tests: the tests of a system, each in a call of its own, so that one that fails or hangs stops no
//! other.

mod places;
mod text;
pub(crate) mod tool;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::places::{TestForm, TestPlaces, place_assertions};
use super::trial;
use super::trial::{ToldFailure, TrialFailure, TrialFailureKind};
use crate::answer::location::{Location, as_text};
use crate::answer::name::canonical;
use crate::answer::words::words;
use crate::answer::{LispName, nearest};
use crate::engine::control::Control;
use crate::engine::{CallError, FaultKind, Lane, LispError};
use crate::handle::Error;
use crate::handle::context::QueryContext;

/// A request to run tests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RunTestsRequest {
    /// The system to test; none for all systems that are loaded.
    pub system: Option<String>,
    /// The names of the tests to run, with or without package, in any case; empty for all.
    pub tests: Vec<String>,
    /// Only tests in whose forms one of these lines stands, if given: `file:line`, as answers show them.
    pub lines: Option<Vec<(String, u32)>>,
    /// How long one test may take.
    pub each: Duration,
}

impl RunTestsRequest {
    /// Makes a request to run all tests of the systems that are loaded, each for a minute at most.
    pub fn new() -> Self {
        Self { system: None, tests: Vec::new(), lines: None, each: Duration::from_secs(60) }
    }

    /// Runs the tests of `system`, which is loaded first.
    #[must_use]
    pub fn system(mut self, system: impl Into<String>) -> Self {
        self.system = Some(system.into());
        self
    }

    /// Runs only the test `name`, and others that are named so.
    #[must_use]
    pub fn test(mut self, name: impl Into<String>) -> Self {
        self.tests.push(name.into());
        self
    }
}

impl Default for RunTestsRequest {
    fn default() -> Self {
        Self::new()
    }
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestRun {
    /// The systems that were looked at.
    pub systems: Vec<String>,
    /// How many tests ended how: `passed`, `failed`, `error`, `skipped`, `timed-out`, `died`, `not-run`.
    #[schemars(with = "BTreeMap<String, usize>")]
    pub counts: BTreeMap<TestStatus, usize>,
    /// The assertions of all, as the frameworks' own reports count them.
    #[serde(default, skip_serializing_if = "Checks::is_none")]
    pub checks: Checks,
    /// The tests; those that did not pass come first.
    pub tests: Vec<TestResult>,
    /// Why the systems are not loaded, so that no test ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_loaded: Option<String>,
    /// Why no test ran, if all is loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The system, if it does not load for there is none of that name.
    #[serde(skip)]
    pub unknown_system: Option<String>,
    /// The first test that was asked for by name and is none, and those that may be meant.
    #[serde(skip)]
    pub unknown_test: Option<(String, Vec<String>)>,
    /// How long all took, in milliseconds.
    pub duration_ms: u64,
}

words! {
    /// How a test ended. In alphabetical order.
    #[derive(Default, PartialOrd, Ord)]
    TestStatus {
        /// Lisp died while it ran.
        Died = "died",
        /// A test-op returned, and made no assertions that are known.
        Done = "done",
        /// It signalled a condition that nobody handled.
        Error = "error",
        /// An assertion failed.
        Failed = "failed",
        /// It was not run.
        #[default]
        NotRun = "not-run",
        /// All assertions passed.
        Passed = "passed",
        /// It says itself that it is not to be run.
        Skipped = "skipped",
        /// Its time was over.
        TimedOut = "timed-out",
    }
}

/// How many assertions ended how.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Checks {
    /// What they assert holds.
    pub passed: u64,
    /// It does not.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub failed: u64,
    /// A condition was signalled.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub error: u64,
    /// They were left out.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub skipped: u64,
}

impl Checks {
    fn is_none(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, other: &Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.error += other.error;
        self.skipped += other.skipped;
    }
}

impl TestStatus {
    /// Whether nothing is wrong as far as is known.
    pub fn is_good(self) -> bool {
        matches!(self, TestStatus::Passed | TestStatus::Skipped | TestStatus::Done)
    }
}

/// How an assertion ended that did not pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AssertionStatus {
    /// What it asserts does not hold.
    #[default]
    Failed,
    /// A condition was signalled.
    Error,
    /// It was left out.
    Skipped,
}

/// What became of a test.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestResult {
    /// Its name; or `test-op` of a system whose tests have none.
    pub name: LispName,
    /// The framework; `asdf` for a test-op.
    pub framework: String,
    /// `passed`, `failed`, `error`, `skipped`, `timed-out`, `died` or `not-run`; `done` of a test-op that returned and made
    /// no assertions that are known: its output says how it went.
    pub status: TestStatus,
    /// How long it took, in milliseconds.
    #[serde(default)]
    pub ms: u64,
    /// `file:line:column` of its definition.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// How many assertions passed.
    #[serde(default, skip_serializing_if = "crate::answer::is_zero")]
    pub passed: u64,
    /// How many assertions ended how.
    #[serde(skip)]
    pub checks: Checks,
    /// The assertions that did not pass; 50 at most.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<AssertionResult>,
    /// What ended it before its end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<TrialFailure>,
    /// What it wrote, unless it passed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// An assertion that did not pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssertionResult {
    /// `failed`, `error` or `skipped`.
    #[schemars(with = "String")]
    pub status: AssertionStatus,
    /// `file:line:column` of the form, if it stands once in the test.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// The names of the parts of the test that it stands in, from the outermost.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<String>,
    /// The form that was asserted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The value that was expected, if the framework tells it, or a constant was compared with something else.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The value that came instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// What was compared, if nobody says which was expected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<ComparedValue>,
    /// What the framework says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A part of an asserted form, and its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedValue {
    /// The part.
    pub form: String,
    /// Its value.
    pub value: String,
}

/// A test as Lisp lists it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct KnownTest {
    framework: String,
    test: String,
    name: String,
    package: Option<String>,
    /// The file that its function was compiled from.
    file: Option<PathBuf>,
    #[serde(skip)]
    shown: LispName,
    #[serde(skip)]
    place: Option<TestForm>,
}

/// Whether ASDF knows a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SystemStatus {
    Found,
    #[serde(other)]
    Unknown,
}

/// The systems that take part in testing one system.
#[derive(Debug, Deserialize)]
pub(crate) struct TestSystems {
    status: SystemStatus,
    #[serde(default)]
    pub(crate) systems: Vec<TestSystem>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct TestSystem {
    pub(crate) name: String,
    #[serde(default)]
    files: Vec<PathBuf>,
}

#[derive(Deserialize)]
struct ToldTest {
    status: TestStatus,
    #[serde(default)]
    microseconds: u64,
    #[serde(default)]
    checks: Checks,
    message: Option<String>,
    #[serde(default)]
    assertions: Vec<AssertionResult>,
    failure: Option<ToldFailure>,
    #[serde(skip)]
    output: String,
}

/// The most characters of a test's output that are told.
const OUTPUT: usize = 2_000;

impl TestResult {
    /// Whether it is a system's test-op.
    pub(crate) fn is_operation(&self) -> bool {
        self.framework == "asdf"
    }
}

impl TestRun {
    /// Finishes the run, which took `duration`: counts the results, and puts first what did not pass; if
    /// `request` has none, notes why.
    pub(crate) fn finished(mut self, request: &RunTestsRequest, duration: Duration) -> Self {
        if self.tests.is_empty() && self.not_loaded.is_none() && self.unknown_test.is_none() {
            self.note = Some(text::no_tests(&self.systems, request.lines.is_some()));
        }
        self.tests.sort_by_key(|test| test.status == TestStatus::Passed);
        for test in &self.tests {
            *self.counts.entry(test.status).or_default() += 1;
            self.checks.add(&test.checks);
        }
        self.duration_ms = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        self
    }
}

impl TestSystems {
    /// Finds the systems that testing `name` needs; none if ASDF does not know it.
    pub(crate) fn find(
        context: &QueryContext<'_>,
        name: &str,
        control: &Control,
    ) -> Result<Option<Self>, Error> {
        let (told, _): (Self, _) =
            context.ask_on(Lane::Work, "test-systems", vec![name.to_owned()], control)?;
        Ok((told.status == SystemStatus::Found).then_some(told))
    }

    /// Lists the systems whose test-op is to be performed: the first, or else those of its tests. Those that do nothing
    /// are left out.
    pub(crate) fn operations(
        &self,
        context: &QueryContext<'_>,
        control: &Control,
    ) -> Result<Vec<String>, Error> {
        let names = self.systems.iter().map(|system| system.name.clone()).collect();
        Ok(context.ask_on(Lane::Work, "test-operations", names, control)?.0)
    }

    /// Lists the tests of recognised frameworks that belong to the systems: those named in packages of their
    /// files.
    pub(crate) fn tests(
        &self,
        context: &QueryContext<'_>,
        control: &Control,
    ) -> Result<Vec<KnownTest>, Error> {
        let (all, _): (Vec<KnownTest>, _) = context.ask_on(Lane::Work, "list-tests", Vec::new(), control)?;
        let places = TestPlaces::of(context, &self.systems);
        let mut tests = all;
        for test in &mut tests {
            test.place = places.of_test(test);
            // A test that is named by a string has no name in Lisp.
            let symbol = test.package.as_ref().map(|package| canonical(package, &test.name));
            test.shown = match symbol {
                Some(symbol) if symbol == test.test => LispName::new(&context.index, symbol),
                _ => LispName::of_text(&*test.test),
            };
        }
        tests.retain(|test| places.is_own(test));
        Ok(tests)
    }
}

/// Finds the first test in `request` that is none of `known`, and those that may be meant.
pub(crate) fn unknown_test(request: &RunTestsRequest, known: &[KnownTest]) -> Option<(String, Vec<String>)> {
    let unknown = request.tests.iter().find(|wanted| !known.iter().any(|test| test.answers(wanted)))?;
    let bare = unknown.rsplit(':').next().unwrap_or(unknown);
    let near = nearest::among(bare, known.iter().map(|test| test.name.as_str()));
    Some((unknown.clone(), near))
}

impl KnownTest {
    /// Whether the test is among those that the request names.
    pub(crate) fn is_wanted(&self, request: &RunTestsRequest) -> bool {
        let named = request.tests.is_empty() || request.tests.iter().any(|wanted| self.answers(wanted));
        let touched = request.lines.as_ref().is_none_or(|lines| {
            self.place.as_ref().is_some_and(|form| {
                lines.iter().any(|(path, line)| *path == form.place.file && form.has_line(*line))
            })
        });
        named && touched
    }

    /// Whether `wanted`, with or without a package, names the test.
    fn answers(&self, wanted: &str) -> bool {
        let bare = wanted.rsplit(':').next().unwrap_or(wanted).trim_matches('|');
        let whole = !wanted.contains(':')
            || self.test.replace("::", ":").eq_ignore_ascii_case(&wanted.replace("::", ":"))
            || self.package.as_deref().is_some_and(|package| {
                wanted.split(':').next().is_some_and(|prefix| prefix.eq_ignore_ascii_case(package))
            });
        self.shown == wanted || (whole && self.name.eq_ignore_ascii_case(bare))
    }

    /// Makes the result of a test that was not run.
    pub(crate) fn not_run(&self) -> TestResult {
        TestResult {
            name: self.shown.clone(),
            framework: self.framework.clone(),
            status: TestStatus::NotRun,
            place: self.place.as_ref().map(|form| form.place.clone()),
            ..TestResult::default()
        }
    }

    /// Runs the test, for at most `allowed`.
    ///
    /// # Errors
    /// The call was cancelled. A test that does not end, or that ends Lisp, is a result.
    pub(crate) fn run(
        &self,
        context: &QueryContext<'_>,
        allowed: Duration,
        control: &Control,
    ) -> Result<TestResult, Error> {
        let arguments = vec!["run-test".to_owned(), self.framework.clone(), self.test.clone()];
        run(context, self.not_run(), self.place.as_ref(), arguments, allowed, control)
    }
}

/// Performs `system`'s test-op, for at most `allowed`: for tests that are in no recognised framework.
pub(crate) fn run_test_op(
    context: &QueryContext<'_>,
    system: &str,
    allowed: Duration,
    control: &Control,
) -> Result<TestResult, Error> {
    let result = TestResult {
        name: LispName::of_text(format!("test-op of {system}")),
        framework: "asdf".to_owned(),
        ..TestResult::default()
    };
    run(context, result, None, vec!["run-test-op".to_owned(), system.to_owned()], allowed, control)
}

fn run(
    context: &QueryContext<'_>,
    mut result: TestResult,
    form: Option<&TestForm>,
    arguments: Vec<String>,
    allowed: Duration,
    control: &Control,
) -> Result<TestResult, Error> {
    let is_op = result.is_operation();
    let begun = Instant::now();
    let ticket = context.lisp.submit(Lane::Work, allowed, None, move |on_lisp| {
        on_lisp.grant(trial::STOP_TIME + trial::PRINTING_TIME);
        let (question, arguments) = arguments.split_first().ok_or(CallError::Interrupted)?;
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        let (mut told, answer) = trial::ask::<ToldTest>(on_lisp, allowed, question, &arguments)?;
        told.output = answer.output;
        if let Some(failure) = &mut told.failure {
            failure.complete(on_lisp, "COMMON-LISP-USER");
        }
        Ok(told)
    });
    let told = match control.wait(ticket) {
        Ok(told) => told,
        Err(LispError::Cancelled) => return Err(LispError::Cancelled.into()),
        Err(error) => {
            let report = error.to_string();
            let (status, kind) = match &error {
                LispError::Dead { .. } => (TestStatus::Died, TrialFailureKind::Died),
                LispError::DeadlinePassed { .. } => {
                    (TestStatus::TimedOut, TrialFailureKind::Fault(FaultKind::Interrupted))
                }
                _ => (TestStatus::Error, TrialFailureKind::Fault(FaultKind::Error)),
            };
            result.status = status;
            result.ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
            result.failure = Some(TrialFailure { kind, report, ..TrialFailure::default() });
            return Ok(result);
        }
    };
    result.ms = told.microseconds / 1000;
    result.checks = told.checks;
    result.passed = told.checks.passed;
    result.assertions = told.assertions;
    if let Some(form) = form {
        place_assertions(context, form, &mut result.assertions);
    }
    let mut places = context.places();
    result.failure = told.failure.map(|failure| failure.placed(&context.index, &mut places, None));
    if let (None, Some(report)) = (&result.failure, told.message) {
        let kind = TrialFailureKind::Fault(FaultKind::Error);
        result.failure = Some(TrialFailure { kind, report, ..TrialFailure::default() });
    }
    result.output = match told.status {
        TestStatus::Passed if !is_op => String::new(),
        _ => told.output.chars().take(OUTPUT).collect(),
    };
    let silent = is_op && told.status == TestStatus::Passed && told.checks.is_none();
    result.status = if silent { TestStatus::Done } else { told.status };
    Ok(result)
}
