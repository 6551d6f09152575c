//! run-tests: the tests of a system, each in a call of its own, so that one that fails or hangs stops no
//! other.

pub(crate) mod tool;

use crate::answer::location::{Location, Range, as_text};
use crate::engine::FaultKind;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::lines::LineIndex;
use steelbank_reader::{Datum, Dialect, Features, LispText};

use super::trial;
use super::trial::{ToldFailure, TrialFailure, TrialFailureKind};
use crate::actions::uses::graph::{Target, UserFinder};
use crate::answer::lookup::find_package;
use crate::answer::nearest;
use crate::answer::words::words;
use crate::engine::control::Control;
use crate::engine::{CallError, Lane, LispError};
use crate::handle::Error;
use crate::handle::context::QueryContext;
use steelbank_text::DefinitionKind;

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
    pub name: String,
    /// The framework; `asdf` for a test-op.
    pub framework: String,
    /// `passed`, `failed`, `error`, `skipped`, `timed-out`, `died` or `not-run`; `done` of a test-op that returned and made
    /// no assertions that are known: its output says how it went.
    #[schemars(with = "String")]
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
    /// The assertions that did not pass.
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
    /// The form that was asserted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub form: Option<String>,
    /// The value that was expected, if the framework tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// The value that came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actual: Option<String>,
    /// What the framework says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// A test as Lisp lists it.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct KnownTest {
    framework: String,
    test: String,
    name: String,
    package: Option<String>,
    #[serde(skip)]
    place: Option<TestForm>,
}

/// The form that defines a test, and its last line.
type TestForm = (Location, u32);

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
    passed: u64,
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
    /// Finishes the run, which took `duration`: counts the results, and puts first what did not pass.
    pub(crate) fn finished(mut self, duration: Duration) -> Self {
        self.tests.sort_by_key(|test| test.status == TestStatus::Passed);
        for test in &self.tests {
            *self.counts.entry(test.status).or_default() += 1;
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
        let mut packages = BTreeSet::new();
        let mut places: BTreeMap<(String, String), TestForm> = BTreeMap::new();
        for path in self.systems.iter().flat_map(|system| &system.files) {
            read_file(context, path, &mut packages, &mut places);
        }
        let expanded = MacroForms::of(context, &self.systems);
        let own = |test: &KnownTest| test.package.as_ref().is_none_or(|package| packages.contains(package));
        let mut tests: Vec<KnownTest> = all.into_iter().filter(own).collect();
        for test in &mut tests {
            let name = test.name.to_uppercase();
            test.place = match &test.package {
                Some(package) => places.get(&(package.clone(), name.clone())).cloned(),
                None => places.iter().find(|((_, other), _)| *other == name).map(|(_, place)| place.clone()),
            };
            if test.place.is_none() {
                test.place = expanded.of_test(&test.framework, &name);
            }
        }
        // Drops tests without a package, as Parachute and RT name them, that no file of the systems defines.
        tests.retain(|test| test.package.is_some() || test.place.is_some());
        Ok(tests)
    }
}

/// The operators that define tests of frameworks that keep no function of a test, or none that has a place.
const DEFINERS: [(&str, &str, &[&str]); 8] = [
    ("fiveam", "IT.BESE.FIVEAM", &["TEST", "DEF-TEST"]),
    ("rt", "REGRESSION-TEST", &["DEFTEST"]),
    ("sb-rt", "SB-RT", &["DEFTEST"]),
    ("fiasco", "FIASCO", &["DEFTEST"]),
    ("1am", "1AM", &["TEST"]),
    ("rove", "ROVE/CORE/TEST", &["DEFTEST"]),
    ("parachute", "ORG.SHIRAKUMO.PARACHUTE", &["DEFINE-TEST", "DEFINE-TEST+RUN"]),
    ("lisp-unit2", "LISP-UNIT2", &["DEFINE-TEST"]),
];

/// The top-level forms of the systems' files that expand to definitions of tests, by framework, each with the
/// names in it.
struct MacroForms(Vec<(&'static str, TestForm, BTreeSet<String>)>);

impl MacroForms {
    fn of(context: &QueryContext<'_>, systems: &[TestSystem]) -> Self {
        let shown: BTreeMap<String, &PathBuf> = systems
            .iter()
            .flat_map(|system| &system.files)
            .map(|path| (context.project.shown(path), path))
            .collect();
        let mut found: BTreeMap<String, BTreeSet<(&'static str, u32)>> = BTreeMap::new();
        let users = UserFinder::new(context);
        for (framework, package, operators) in DEFINERS {
            // The framework's operators, and the macros whose definitions contain them.
            let mut waiting: Vec<Target> =
                operators.iter().map(|operator| Target::any(package, *operator)).collect();
            let mut seen = BTreeSet::new();
            while let Some(target) = waiting.pop() {
                if !seen.insert(target.clone()) {
                    continue;
                }
                for used in users.of(&target) {
                    match (used.defined, used.user.target, used.line.place.line) {
                        (Some(DefinitionKind::Macro), Some(target), _) => waiting.push(target),
                        (_, _, Some(line)) if shown.contains_key(&used.line.place.file) => {
                            found.entry(used.line.place.file).or_default().insert((framework, line));
                        }
                        _ => (),
                    }
                }
            }
        }
        let mut forms = Vec::new();
        for (path, lines_used) in found {
            let Some(bytes) = shown.get(&path).and_then(|path| steelbank_tree::read_source(path).ok()) else {
                continue;
            };
            let text = LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl());
            let lines = LineIndex::new(&bytes);
            for top in text.toplevel() {
                let form = test_form(path.clone(), &lines, &bytes, top.span);
                let Some((framework, _)) = lines_used.iter().find(|(_, used)| has_line(&form, *used)) else {
                    continue;
                };
                let inside = text
                    .tokens()
                    .iter()
                    .filter(|token| top.span.start <= token.span.start && token.span.end <= top.span.end);
                let names = inside.map(|token| token.symbol(&bytes).name.trim_matches('"').to_uppercase());
                forms.push((*framework, form, names.collect()));
            }
        }
        Self(forms)
    }

    /// Finds the form that made the test called `name`: the one that contains the longest part of that name.
    fn of_test(&self, framework: &str, name: &str) -> Option<TestForm> {
        let forms = self.0.iter().filter(|(of, _, _)| *of == framework);
        let likeness = |names: &BTreeSet<String>| {
            let parts = names.iter().filter(|part| part.len() > 2 && name.contains(part.as_str()));
            parts.map(String::len).max().unwrap_or(0)
        };
        let best = forms.max_by_key(|(_, _, names)| likeness(names))?;
        (likeness(&best.2) > 0).then(|| best.1.clone())
    }
}

/// Notes the packages of the file at `path`, and its top-level forms that define tests, by package and name.
fn read_file(
    context: &QueryContext<'_>,
    path: &Path,
    packages: &mut BTreeSet<String>,
    places: &mut BTreeMap<(String, String), TestForm>,
) {
    let Ok(bytes) = steelbank_tree::read_source(path) else { return };
    let text = LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl());
    let lines = LineIndex::new(&bytes);
    let index = &context.index;
    for top in text.toplevel() {
        let Some(package) = top.package.as_deref().and_then(|name| find_package(index, name)) else {
            continue;
        };
        let package = index.package_name(package).into_owned();
        packages.insert(package.clone());
        let Some(form) = top.form else { continue };
        let mut elements = text.elements(form);
        let head = match elements.next() {
            Some(Datum::Token(head)) => text.tokens()[head].symbol(&bytes).name.to_uppercase(),
            _ => continue,
        };
        if !head.contains("TEST") {
            continue;
        }
        // (test name …) or (test (name :suite …) …)
        let named = match elements.next() {
            Some(Datum::Form(inner)) => text.elements(inner).next(),
            other => other,
        };
        let Some(Datum::Token(name)) = named else { continue };
        let name = text.tokens()[name].symbol(&bytes).name.trim_matches('"').to_uppercase();
        let form = test_form(context.project.shown(path), &lines, &bytes, top.span);
        places.entry((package, name)).or_insert(form);
    }
}

fn test_form(file: String, lines: &LineIndex, bytes: &[u8], span: Range) -> TestForm {
    (Location::in_text(file, lines, bytes, span), lines.line(span.end.saturating_sub(1)))
}

fn has_line((place, last): &TestForm, line: u32) -> bool {
    place.line.is_some_and(|first| (first..=*last).contains(&line))
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
                lines.iter().any(|(path, line)| *path == form.0.file && has_line(form, *line))
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
        whole && self.name.eq_ignore_ascii_case(bare)
    }

    /// Makes the result of a test that was not run.
    pub(crate) fn not_run(&self) -> TestResult {
        TestResult {
            name: self.test.clone(),
            framework: self.framework.clone(),
            status: TestStatus::NotRun,
            place: self.place.as_ref().map(|(place, _)| place.clone()),
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
        run(context, self.not_run(), arguments, allowed, control)
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
        name: format!("test-op of {system}"),
        framework: "asdf".to_owned(),
        ..TestResult::default()
    };
    run(context, result, vec!["run-test-op".to_owned(), system.to_owned()], allowed, control)
}

fn run(
    context: &QueryContext<'_>,
    mut result: TestResult,
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
    result.passed = told.passed;
    result.assertions = told.assertions;
    let mut places = context.places();
    result.failure = told.failure.map(|failure| failure.placed(&mut places, None));
    result.output = match told.status {
        TestStatus::Passed if !is_op => String::new(),
        _ => told.output.chars().take(OUTPUT).collect(),
    };
    let silent = is_op && told.status == TestStatus::Passed && told.passed == 0;
    result.status = if silent { TestStatus::Done } else { told.status };
    Ok(result)
}
