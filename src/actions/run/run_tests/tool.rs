//! Implements the tool run-tests.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::Steelbank;
use crate::actions::missing::{LookupReply, NotFoundReply, systems};
use crate::actions::run::run_tests::{RunTestsRequest, TestRun, text};
use crate::actions::run::trial::tool::in_scratch;
use crate::actions::uses::impact::ImpactRequest;
use crate::answer::Advice;
use crate::engine::control::Control;
use crate::tools::arguments::Timeout;
use crate::tools::{About, Call, CallOutcome, Effect, Failure, Session, Starts, Tool, ToolAnswer};

#[derive(Debug, Deserialize, JsonSchema)]
struct Arguments {
    /// The system to test; it is loaded first. Default: all loaded systems.
    #[serde(default)]
    system: Option<String>,
    /// Names of tests to run; default: all.
    #[serde(default)]
    tests: Vec<String>,
    /// `diff`: only tests that reach a change since the last git commit.
    #[serde(default)]
    #[schemars(with = "String", extend("enum" = ["diff"]))]
    only_affected_by: Option<TestChange>,
    /// Run in a throwaway copy of the image.
    #[serde(default)]
    scratch: bool,
    /// Time limit for each test, in seconds.
    #[serde(default = "one_minute")]
    #[schemars(range(min = 1, max = 86_400))]
    test_timeout_seconds: u64,
    #[serde(flatten)]
    timeout: Timeout,
}

/// A set of changes that selects tests.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
enum TestChange {
    /// The changes in the working tree.
    Diff,
}

fn one_minute() -> u64 {
    60
}

pub(crate) fn tool() -> Tool {
    let about = About {
        name: "run-tests",
        title: "Run tests",
        description: "Loads a system with its tests and runs each test separately. Recognizes FiveAM, Rove, Parachute, \
            prove, Fiasco, lisp-unit2, RT, ptester and 1AM; otherwise it performs the system's test-op. \
            Reports the result, duration and position, and for failed assertions the form, the expected and \
            the actual value. A test that hangs, exits or fills the heap fails without affecting the others.",
        effect: Effect::Runs,
    };
    Tool::new::<Arguments, LookupReply<TestRun>>(about, run).starts(Starts::Copy).of_image().joins_loads()
}

fn run(session: &Session, given: Arguments, call: &Call) -> Result<ToolAnswer, Failure> {
    let bank = session.bank()?;
    let control = call.control(Duration::from_secs(given.timeout.timeout_seconds));
    if given.system.is_none() && bank.loaded_systems().is_empty() {
        return Err(Failure::arguments("No system is loaded.").advised(Some(Advice::SpecifySystem)));
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
        // Load the tests without running any, so that the index has the tests' cross references.
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

/// Lists file and line of the definitions that the working tree changes, and of the definitions and
/// tests that use them, directly or indirectly.
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
        let missing = NotFoundReply::other(text::unknown(test), near.clone(), note);
        return missing.with_partial(run);
    }
    if only_affected && run.note.is_some() {
        run.note = Some(format!(
            "No tests were run: no test of {} reaches a definition changed since the last commit.",
            run.systems.join(", ")
        ));
    }
    let all_passed = run.not_loaded.is_none() && run.tests.iter().all(|test| test.status.is_good());
    let outcome = if all_passed { CallOutcome::Answered } else { CallOutcome::Failed };
    ToolAnswer::new(run.to_string(), &LookupReply::yes(run), outcome)
}
