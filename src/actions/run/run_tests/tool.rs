//! The tool run-tests: runs a system's tests one by one.

use std::fmt::Write as _;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Steelbank;
use crate::actions::missing::{LookupReply, NotFoundReply, systems};
use crate::actions::run::run_tests::{
    AssertionResult, AssertionStatus, RunTestsRequest, TestResult, TestRun,
};
use crate::actions::run::trial::tool::{failure_text, in_scratch};
use crate::actions::uses::impact::ImpactRequest;
use crate::answer::Advice;
use crate::engine::control::Control;
use crate::tools::arguments::Timeout;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Starts, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The system whose tests are meant. Left out: those that are loaded.
    #[serde(default)]
    system: Option<String>,
    /// The names of tests; all by default.
    #[serde(default)]
    tests: Vec<String>,
    /// `diff`: only tests that reach what `git diff HEAD` says has changed.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["diff"]))]
    only_affected_by: Option<TestChange>,
    /// Run them in a copy of the image that is thrown away.
    #[serde(default)]
    scratch: bool,
    /// The most seconds for one test.
    #[serde(default = "one_minute")]
    #[schemars(range(min = 1, max = 86_400))]
    test_timeout_seconds: u64,
    #[serde(flatten)]
    timeout: Timeout,
}

/// What may have changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TestChange {
    /// The working tree.
    Diff,
}

fn one_minute() -> u64 {
    60
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "run-tests",
        title: "Run tests",
        description: "Loads a system with its tests and runs them, each by itself: FiveAM, Rove, Parachute, prove, Fiasco, \
            lisp-unit2, RT, ptester, 1AM; else the system's test-op. Answers each test's result, time and place, and of \
            failed assertions form, expected and actual value. A test that hangs, exits or fills the heap costs that test.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<TestRun>>(about, run).starts(Starts::Copy).of_image()
}

fn run(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let control = call.control(Duration::from_secs(given.timeout.timeout_seconds));
    if given.system.is_none() && bank.loaded_systems().is_empty() {
        return Err(Failure::arguments("No system is loaded.").advised(Some(Advice::NameSystem)));
    }
    if given.scratch {
        let arguments = json!({
            "system": given.system, "tests": given.tests, "only_affected_by": given.only_affected_by,
            "test_timeout_seconds": given.test_timeout_seconds,
        });
        return in_scratch(session, "run-tests", arguments, &control);
    }
    let mut request = RunTestsRequest {
        system: given.system,
        tests: given.tests,
        each: Duration::from_secs(given.test_timeout_seconds),
        ..RunTestsRequest::new()
    };
    if given.only_affected_by.is_some() {
        // Load the tests first, without running any: then the index knows what they use.
        let none = RunTestsRequest { lines: Some(Vec::new()), ..request.clone() };
        let loaded = bank.run(&none, &control)?;
        if loaded.not_loaded.is_some() {
            return answer(bank, loaded, true);
        }
        request.lines = Some(affected(session, &control)?);
    }
    let run = bank.run(&request, &control)?;
    answer(bank, run, given.only_affected_by.is_some())
}

/// Lists the definitions and tests that the working tree's changes reach, by file and line.
fn affected(session: &Session, control: &Control) -> Result<Vec<(String, u32)>, Failure> {
    let request = ImpactRequest { diff: true, depth: 20, ..ImpactRequest::default() };
    let impact = session.bank()?.ask(&request, control)?;
    let used = [&impact.tests, &impact.users, &impact.made_by_macros];
    let places = used.into_iter().flatten().filter_map(|affected| affected.place.as_ref());
    let changed = impact.changed.iter().filter_map(|touched| touched.place.as_ref());
    Ok(places.chain(changed).filter_map(|place| Some((place.file.clone(), place.line?))).collect())
}

fn answer(bank: &Steelbank, mut run: TestRun, only_affected: bool) -> Result<ToolAnswer, Failure> {
    if let Some(system) = &run.unknown_system {
        return NotFoundReply::system(&systems(bank), system).with_partial(run);
    }
    if let Some((test, near)) = &run.unknown_test {
        let note = (!run.tests.is_empty()).then(|| "The other tests were run.".to_owned());
        let missing = NotFoundReply::other(format!("Test {test} not found"), near.clone(), note);
        return missing.with_partial(run);
    }
    if run.tests.is_empty() && run.not_loaded.is_none() {
        run.note = Some(no_tests(&run.systems.join(", "), only_affected));
    }
    let all_passed = run.not_loaded.is_none() && run.tests.iter().all(|test| test.status.is_good());
    let outcome = if all_passed { CallOutcome::Answered } else { CallOutcome::Failed };
    ToolAnswer::new(text(&run), &LookupReply::yes(run), outcome)
}

/// Says why no test of `systems` ran.
fn no_tests(systems: &str, only_affected: bool) -> String {
    if only_affected {
        return format!(
            "No tests were run: none of {systems} reaches what has changed since the last commit."
        );
    }
    format!(
        "No tests were run: {systems} has none of a framework that is recognised, and no test-op that does anything."
    )
}

fn text(run: &TestRun) -> String {
    if let Some(why) = run.not_loaded.as_ref().or(run.note.as_ref()) {
        return why.clone();
    }
    let counts: Vec<String> = run.counts.iter().map(|(status, count)| format!("{count} {status}")).collect();
    let checks = [
        (run.checks.passed, "passed"),
        (run.checks.failed, "failed"),
        (run.checks.error, "raised an error"),
        (run.checks.skipped, "skipped"),
    ];
    let checks: Vec<String> =
        checks.iter().filter(|(count, _)| *count > 0).map(|(count, how)| format!("{count} {how}")).collect();
    let checks =
        if checks.is_empty() { String::new() } else { format!("; assertions: {}", checks.join(", ")) };
    let mut text = format!("{}{checks} ({} ms)\n", counts.join(", "), run.duration_ms);
    for test in &run.tests {
        text.push_str(&test_text(test));
    }
    text
}

fn assertion_text(assertion: &AssertionResult) -> String {
    let mut lines = Vec::new();
    if !assertion.within.is_empty() {
        lines.push(format!("in {}", assertion.within.join(", ")));
    }
    if let Some(form) = &assertion.form {
        let place = assertion.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
        lines.push(format!("{place}{form}"));
    }
    lines.extend(assertion.expected.iter().map(|value| format!("expected {value}")));
    lines.extend(assertion.actual.iter().map(|value| format!("actual {value}")));
    lines.extend(assertion.values.iter().map(|part| format!("{} => {}", part.form, part.value)));
    if assertion.actual.is_none() && assertion.values.is_empty() {
        let left_out = if assertion.status == AssertionStatus::Skipped { "skipped: " } else { "" };
        lines.extend(assertion.message.iter().map(|message| format!("{left_out}{message}")));
    }
    lines.iter().map(|line| format!("\n      {}", line.replace('\n', "\n        "))).collect()
}

fn test_text(test: &TestResult) -> String {
    let place = test.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
    let passed = if test.passed > 0 { format!(", {} assertions passed", test.passed) } else { String::new() };
    let mut text = format!("\n  {place}{} {} ({} ms{passed})", test.name, test.status, test.ms);
    for assertion in &test.assertions {
        text.push_str(&assertion_text(assertion));
    }
    if let Some(failure) = &test.failure {
        let _ = write!(text, "\n      {}", failure_text(failure).replace('\n', "\n      "));
    }
    if !test.output.is_empty() {
        let _ =
            write!(text, "\n      Output:\n        {}", test.output.trim_end().replace('\n', "\n        "));
    }
    text
}
