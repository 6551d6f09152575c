//! Implements run-tests, which runs the tests of a system. Each test runs in a separate call to
//! Lisp, so that a test that fails or hangs does not affect other tests.

mod places;
mod text;
pub(crate) mod tool;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::places::{TestForm, TestPlaces};
use super::trial;
use super::trial::{FailureReport, TrialFailure, TrialFailureKind};
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
    /// The system to test; `None` for all loaded systems.
    pub system: Option<String>,
    /// The names of the tests to run, with or without package, in any case; empty for all.
    pub tests: Vec<String>,
    /// Lines as path and line number, with paths as answers show them. If given, only tests with
    /// one of these lines in their definition are run.
    pub lines: Option<Vec<(String, u32)>>,
    /// Time limit for each test.
    pub each: Duration,
}

impl RunTestsRequest {
    /// Creates a request to run all tests of the loaded systems, each for at most a minute.
    pub fn new() -> Self {
        Self { system: None, tests: Vec::new(), lines: None, each: Duration::from_secs(60) }
    }

    /// Runs the tests of `system`, loading it first.
    #[must_use]
    pub fn system(self, system: impl Into<String>) -> Self {
        Self { system: Some(system.into()), ..self }
    }

    /// Restricts the run to tests with this name; can be called repeatedly.
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

/// The answer to run-tests.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestRun {
    /// The systems that were searched for tests.
    pub systems: Vec<String>,
    /// Number of tests by status: `passed`, `failed`, `error`, `skipped`, `empty`, `timed-out`,
    /// `died`, `not-run`, `done`.
    #[schemars(with = "BTreeMap<String, usize>")]
    pub counts: BTreeMap<TestStatus, usize>,
    /// Number of assertions by outcome, as the frameworks count them.
    #[serde(default, skip_serializing_if = "Checks::is_none")]
    pub checks: Checks,
    /// The tests; tests that did not pass come first.
    pub tests: Vec<TestResult>,
    /// Why tests were not run, if a system failed to load.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_loaded: Option<String>,
    /// Why no test ran, if all systems are loaded.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
    /// The requested system, if no system of that name exists.
    #[serde(skip)]
    pub unknown_system: Option<String>,
    /// The first requested test that does not exist, with similar names.
    #[serde(skip)]
    pub unknown_test: Option<(String, Vec<String>)>,
    /// Total run time, in milliseconds.
    pub duration_ms: u64,
}

words! {
    /// How a test ended. The order is alphabetical.
    #[derive(Default, PartialOrd, Ord)]
    TestStatus {
        /// Lisp died while the test ran.
        Died = "died",
        /// A test-op returned without any recognized assertions.
        Done = "done",
        /// The test made no assertion, and the framework reports it as empty.
        Empty = "empty",
        /// The test or an assertion signalled a condition that was not handled.
        Error = "error",
        /// An assertion failed.
        Failed = "failed",
        /// The test was not run.
        #[default]
        NotRun = "not-run",
        /// No assertion failed, and not all were skipped.
        Passed = "passed",
        /// All assertions were skipped, or the framework reports the test as skipped.
        Skipped = "skipped",
        /// The time limit was reached.
        TimedOut = "timed-out",
    }
}

/// Number of assertions by outcome.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct Checks {
    /// Assertions that passed.
    pub passed: u64,
    /// Assertions that failed.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub failed: u64,
    /// Assertions that signalled a condition.
    #[serde(skip_serializing_if = "crate::answer::is_zero")]
    pub error: u64,
    /// Assertions that were skipped.
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
    /// Returns whether the test passed, was skipped or empty, or is a test-op that returned
    /// normally.
    pub fn is_good(self) -> bool {
        matches!(self, TestStatus::Passed | TestStatus::Skipped | TestStatus::Empty | TestStatus::Done)
    }
}

/// The outcome of an assertion that did not pass.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum AssertionStatus {
    /// The assertion failed.
    #[default]
    Failed,
    /// The assertion signalled a condition.
    Error,
    /// The assertion was skipped.
    Skipped,
}

/// The result of a test.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TestResult {
    /// The test's name; `test-op of SYSTEM` for a test-op.
    pub name: LispName,
    /// The framework; `asdf` for a test-op.
    pub framework: String,
    /// `passed`, `failed`, `error`, `skipped`, `empty` (the framework saw no assertion),
    /// `timed-out`, `died` or `not-run`. `done` for a test-op that returned without any recognized
    /// assertions; check its output.
    pub status: TestStatus,
    /// Run time, in milliseconds.
    #[serde(default)]
    pub ms: u64,
    /// `file:line:column` of its definition.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// Number of assertions that passed.
    #[serde(default, skip_serializing_if = "crate::answer::is_zero")]
    pub passed: u64,
    /// Number of assertions by outcome.
    #[serde(skip)]
    pub checks: Checks,
    /// The assertions that did not pass; at most 50.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub assertions: Vec<AssertionResult>,
    /// The error or interruption that ended the test early.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<TrialFailure>,
    /// The test's output, truncated. Omitted for tests that passed, except test-ops.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub output: String,
}

/// An assertion that did not pass.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AssertionResult {
    /// `failed`, `error` or `skipped`.
    #[schemars(with = "String")]
    pub status: AssertionStatus,
    /// `file:line:column` of the form, if the test contains it exactly once.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// Names of the enclosing sections of the test, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub within: Vec<String>,
    /// The package and the name of the test that contains the form, if the test called another.
    #[serde(default, skip_serializing)]
    #[schemars(skip)]
    pub(crate) called: Option<(String, String)>,
    /// The form that was asserted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The expected value: as the framework reports it, or the constant in a comparison.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The actual value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// The compared values, if it is unclear which one was expected.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub values: Vec<ComparedValue>,
    /// The framework's message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A part of an asserted form, and its value.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ComparedValue {
    /// The part.
    pub form: String,
    /// The part's value.
    pub value: String,
}

/// A test as Lisp lists it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct FrameworkTest {
    framework: String,
    test: String,
    name: String,
    package: Option<String>,
    /// The file that created the test, or else the file of its function.
    file: Option<PathBuf>,
    /// Whether the file was loaded again without creating the test.
    #[serde(default)]
    outdated: bool,
    #[serde(skip)]
    shown: LispName,
    #[serde(skip)]
    place: Option<TestForm>,
    #[serde(skip)]
    places: Arc<TestPlaces>,
}

/// Whether ASDF finds a system.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum SystemStatus {
    Found,
    #[serde(other)]
    Unknown,
}

/// The systems to load in order to test one system.
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
struct TestReport {
    status: TestStatus,
    #[serde(default)]
    microseconds: u64,
    #[serde(default)]
    checks: Checks,
    message: Option<String>,
    #[serde(default)]
    assertions: Vec<AssertionResult>,
    failure: Option<FailureReport>,
    #[serde(skip)]
    output: String,
}

/// The maximum number of characters of a test's output in an answer.
const OUTPUT: usize = 2_000;

impl TestResult {
    /// Tests whether this is the result of a test-op.
    pub(crate) fn is_operation(&self) -> bool {
        self.framework == "asdf"
    }
}

impl TestRun {
    /// Completes the run: counts results, moves tests that did not pass to the front, and sets the
    /// note if no test ran.
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
    /// Finds the systems that contain the tests of `name`. Returns `None` if ASDF does not find the
    /// system `name`.
    pub(crate) fn find(
        context: &QueryContext<'_>,
        name: &str,
        control: &Control,
    ) -> Result<Option<Self>, Error> {
        let (report, _): (Self, _) =
            context.ask_on(Lane::Work, "test-systems", vec![name.to_owned()], control)?;
        Ok((report.status == SystemStatus::Found).then_some(report))
    }

    /// Lists the systems to perform test-op on. If the first system's test-op does more than load
    /// systems, the first system is the only one. Otherwise, lists the other systems with such a
    /// test-op.
    pub(crate) fn operations(
        &self,
        context: &QueryContext<'_>,
        control: &Control,
    ) -> Result<Vec<String>, Error> {
        let names = self.systems.iter().map(|system| system.name.clone()).collect();
        Ok(context.ask_on(Lane::Work, "test-operations", names, control)?.0)
    }

    /// Lists the tests of recognized frameworks that belong to these systems. Removes tests that
    /// were deleted from their files.
    pub(crate) fn tests(
        &self,
        context: &QueryContext<'_>,
        control: &Control,
    ) -> Result<Vec<FrameworkTest>, Error> {
        let (deleted, tests) = self.listed(context, Lane::Work, control)?;
        if !deleted.is_empty() {
            // Other tests may depend on them, and a test-op may run them.
            let names = deleted.into_iter().flat_map(|test| [test.framework, test.test]).collect();
            let _: (usize, _) = context.ask_on(Lane::Work, "remove-tests", names, control)?;
        }
        Ok(tests)
    }

    /// Lists the tests of the project's loaded systems.
    pub(crate) fn of_project(
        context: &QueryContext<'_>,
        control: &Control,
    ) -> Result<Vec<FrameworkTest>, Error> {
        let systems = context.project.image_systems().into_iter();
        let systems = systems.filter(|(_, system)| system.loaded && context.project.contains(&system.asd));
        let systems = systems
            .map(|(name, system)| TestSystem { name, files: system.files.unwrap_or_default() })
            .collect();
        Ok(Self { status: SystemStatus::Found, systems }.listed(context, Lane::Query, control)?.1)
    }

    /// Lists the tests that were deleted from their files, and the other tests.
    fn listed(
        &self,
        context: &QueryContext<'_>,
        lane: Lane,
        control: &Control,
    ) -> Result<(Vec<FrameworkTest>, Vec<FrameworkTest>), Error> {
        let (mut tests, _): (Vec<FrameworkTest>, _) =
            context.ask_on(lane, "list-tests", Vec::new(), control)?;
        if tests.is_empty() {
            return Ok(Default::default());
        }
        let places = Arc::new(TestPlaces::of(context, &self.systems, control));
        for test in &mut tests {
            test.place = places.of_test(test);
            test.places = Arc::clone(&places);
            // A test named by a string has no symbol.
            let symbol = test.package.as_ref().map(|package| canonical(package, &test.name));
            test.shown = match symbol {
                Some(symbol) if symbol == test.test => LispName::new(&context.index, symbol),
                _ => LispName::of_text(&*test.test),
            };
        }
        tests.retain(|test| places.belongs(test));
        Ok(tests.into_iter().partition(|test| test.is_deleted(&places)))
    }
}

/// Returns the first requested test that is not among `known`, with similar names.
pub(crate) fn unknown_test(
    request: &RunTestsRequest,
    known: &[FrameworkTest],
) -> Option<(String, Vec<String>)> {
    let unknown = request.tests.iter().find(|wanted| !known.iter().any(|test| test.answers(wanted)))?;
    let bare = unknown.rsplit(':').next().unwrap_or(unknown);
    let near = nearest::among(bare, known.iter().map(|test| test.name.as_str()));
    Some((unknown.clone(), near))
}

impl FrameworkTest {
    /// Tests whether the test was deleted from its file. Such a test is still in the framework's
    /// table.
    fn is_deleted(&self, places: &TestPlaces) -> bool {
        self.outdated && !places.is_written(self)
    }

    /// Returns the test's name as answers show it.
    pub(crate) fn name(&self) -> &LispName {
        &self.shown
    }

    /// Returns the file that defines the test, as answers show it, if it is known.
    pub(crate) fn file(&self) -> Option<&str> {
        self.place.as_ref().map(|form| form.place.file.as_str())
    }

    /// Tests whether the form that defines the test contains `line` of its file.
    pub(crate) fn has_line(&self, line: u32) -> bool {
        self.place.as_ref().is_some_and(|form| form.has_line(line))
    }

    /// Tests whether the request selects this test.
    pub(crate) fn is_wanted(&self, request: &RunTestsRequest) -> bool {
        let named = request.tests.is_empty() || request.tests.iter().any(|wanted| self.answers(wanted));
        let touched = request.lines.as_ref().is_none_or(|lines| {
            lines.iter().any(|(path, line)| self.file() == Some(path) && self.has_line(*line))
        });
        named && touched
    }

    /// Tests whether `wanted`, with or without a package, names this test.
    fn answers(&self, wanted: &str) -> bool {
        let bare = wanted.rsplit(':').next().unwrap_or(wanted).trim_matches('|');
        let whole = !wanted.contains(':')
            || self.test.replace("::", ":").eq_ignore_ascii_case(&wanted.replace("::", ":"))
            || self.package.as_deref().is_some_and(|package| {
                wanted.split(':').next().is_some_and(|prefix| prefix.eq_ignore_ascii_case(package))
            });
        self.shown == wanted || (whole && self.name.eq_ignore_ascii_case(bare))
    }

    /// Returns a result with the status `not-run`.
    pub(crate) fn not_run(&self) -> TestResult {
        TestResult {
            name: self.shown.clone(),
            framework: self.framework.clone(),
            status: TestStatus::NotRun,
            place: self.place.as_ref().map(|form| form.place.clone()),
            ..TestResult::default()
        }
    }

    /// Runs the test for at most `allowed`. Failures such as a timeout or the death of Lisp are
    /// results, not errors.
    ///
    /// # Errors
    /// Fails if the call was cancelled.
    pub(crate) fn run(
        &self,
        context: &QueryContext<'_>,
        allowed: Duration,
        control: &Control,
    ) -> Result<TestResult, Error> {
        let arguments = vec!["run-test".to_owned(), self.framework.clone(), self.test.clone()];
        run(context, self.not_run(), Some(self), arguments, allowed, control)
    }
}

/// Performs `system`'s test-op for at most `allowed`. Tests of frameworks that are not recognized
/// run only this way.
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
    test: Option<&FrameworkTest>,
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
        let (mut report, answer) = trial::ask::<TestReport>(on_lisp, allowed, question, &arguments)?;
        report.output = answer.output;
        if let Some(failure) = &mut report.failure {
            failure.complete(on_lisp, "COMMON-LISP-USER");
        }
        Ok(report)
    });
    let report = match control.wait(ticket) {
        Ok(report) => report,
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
    result.ms = report.microseconds / 1000;
    result.checks = report.checks;
    result.passed = report.checks.passed;
    result.assertions = report.assertions;
    if let Some(test) = test {
        test.places.place_assertions(context, test.place.as_ref(), &mut result.assertions);
    }
    let mut places = context.places();
    result.failure = report.failure.map(|failure| failure.placed(&context.index, &mut places, None));
    if let (None, Some(report)) = (&result.failure, report.message) {
        let kind = TrialFailureKind::Fault(FaultKind::Error);
        result.failure = Some(TrialFailure { kind, report, ..TrialFailure::default() });
    }
    result.output = match report.status {
        TestStatus::Passed if !is_op => String::new(),
        _ => report.output.chars().take(OUTPUT).collect(),
    };
    let silent = is_op && report.status == TestStatus::Passed && report.checks.is_none();
    result.status = if silent { TestStatus::Done } else { report.status };
    Ok(result)
}
