//! Runs tests in this image, and calls tools in a scratch image.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};

use crate::Steelbank;
use crate::actions::run::run_tests::{
    RunTestsRequest, TestResult, TestRun, TestStatus, TestSystems, run_test_op, unknown_test,
};
use crate::engine::control::Control;
use crate::engine::{Progress, Step, deadline_after};
use crate::handle::Error;
use crate::handle::loaded::{LoadFailure, LoadStatus};
use crate::handle::question::Action;
use crate::handle::requests::LoadOptions;
use crate::handle::scratch::{ScratchAnswer, ScratchError, ScratchRequest};

impl Action for RunTestsRequest {
    type Answer = TestRun;

    /// Loads the systems that contain the tests, then runs each test in a separate call. Runs the
    /// tests of recognized frameworks, or else the system's test-op. Reports progress before each
    /// test. Runs the project's code.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<TestRun, Error> {
        let begun = Instant::now();
        let deadline = deadline_after(control.allowed());
        let left = || deadline.saturating_duration_since(Instant::now());
        let names = match &self.system {
            Some(system) => vec![system.clone()],
            None => bank.loaded_systems(),
        };
        let report = |name: &str, done: usize, total: usize| {
            control.report(Progress {
                what: Step::Test(name.to_owned()),
                path: None,
                done: done as u64,
                total: (total > 0).then_some(total as u64),
            });
        };
        let mut run = TestRun::default();
        let mut known = Vec::new();
        // Several systems may be tested by the same test-op; perform it once.
        let mut performed = BTreeSet::new();
        for name in &names {
            let found = bank.load_tests(name, control, deadline, &mut run)?;
            let Some(found) = found else { return Ok(run.finished(self, begun.elapsed())) };
            let mut tests = found.tests(&bank.context(), &control.until(deadline))?;
            // If the system has no recognized tests, perform its test-op, unless the request
            // selects tests.
            if tests.is_empty() && self.tests.is_empty() && self.lines.is_none() {
                for tested in found.operations(&bank.context(), &control.until(deadline))? {
                    if !performed.insert(tested.clone()) {
                        continue;
                    }
                    let allowed = left();
                    report(&tested, 0, 0);
                    run.tests.push(run_test_op(&bank.context(), &tested, allowed, control)?);
                }
            }
            run.systems.extend(found.systems.into_iter().map(|system| system.name));
            known.append(&mut tests);
        }
        let mut seen = BTreeSet::new();
        run.systems.retain(|system| seen.insert(system.clone()));
        run.unknown_test = unknown_test(self, &known);
        known.retain(|test| test.is_wanted(self));
        let mut seen = BTreeSet::new();
        known.retain(|test| {
            let TestResult { name, framework, place, .. } = test.not_run();
            seen.insert((framework, name.as_str().to_owned(), place))
        });
        let total = known.len();
        let mut died = false;
        for (number, test) in known.iter().enumerate() {
            let allowed = self.each.min(left());
            if died || allowed.is_zero() {
                run.tests.push(test.not_run());
                continue;
            }
            let result = test.not_run();
            report(result.name.as_str(), number, total);
            let result = test.run(&bank.context(), allowed, control)?;
            died = result.status == TestStatus::Died;
            run.tests.push(result);
        }
        if !died {
            bank.refresh_until(deadline_after(control.allowed() / 4))?;
        }
        Ok(run.finished(self, begun.elapsed()))
    }
}

impl Steelbank {
    /// Loads `name` and the systems that contain its tests. Returns `None` if a system fails to
    /// load, and records the reason in `run`. Also returns `None` if ASDF does not find `name`.
    fn load_tests(
        &self,
        name: &str,
        control: &Control,
        deadline: Instant,
        run: &mut TestRun,
    ) -> Result<Option<TestSystems>, Error> {
        let mut load = |system: &str| -> Result<bool, Error> {
            let answer = self.load_system(system, LoadOptions::default(), &control.until(deadline))?;
            if answer.status == LoadStatus::Loaded {
                return Ok(true);
            }
            let unknown = |failure: &LoadFailure| system == name && failure.is_of_unknown(system);
            run.unknown_system = answer.failure.as_ref().is_some_and(unknown).then(|| system.to_owned());
            let why = answer.failure.map(|failure| failure.message).unwrap_or_default();
            let folder = self.project().root().map(|root| format!("{}/", root.display()));
            let why = folder.map_or_else(|| why.clone(), |folder| why.replace(&folder, ""));
            run.not_loaded = Some(format!("The system {system} failed to load: {why}"));
            Ok(false)
        };
        if !load(name)? {
            return Ok(None);
        }
        let Some(found) = TestSystems::find(&self.context(), name, &control.until(deadline))? else {
            return Ok(None);
        };
        for system in found.systems.iter().filter(|system| system.name != name) {
            if !load(&system.name)? {
                return Ok(None);
            }
        }
        Ok(Some(found))
    }

    /// Calls `tool` with `arguments` in a scratch image, so that the call cannot affect this image.
    /// The scratch image loads the same systems and is discarded afterwards. Sets the argument
    /// `timeout_seconds` to the time left in `control`.
    ///
    /// # Errors
    /// Fails if the scratch image cannot be started or dies, if a system fails to load in it, or if
    /// the tool fails.
    pub(crate) fn call_in_scratch(
        &self,
        tool: &str,
        mut arguments: Value,
        control: &Control,
    ) -> Result<ScratchAnswer, ScratchError> {
        let deadline = deadline_after(control.allowed());
        let left = || {
            let left = deadline.saturating_duration_since(Instant::now());
            (control.until(deadline), left.as_secs().max(1))
        };
        let mut scratch = self.scratch(&ScratchRequest::new(), control)?;
        for system in self.loaded_systems() {
            let (control, seconds) = left();
            let load = json!({ "system": system, "timeout_seconds": seconds });
            let answer = scratch.call("load-system", load, &control)?;
            if answer.structured.get("status") != Some(&json!("loaded")) {
                return Err(ScratchError::Call(format!(
                    "The system {system} failed to load in a scratch image: {}",
                    answer.text
                )));
            }
        }
        let (control, seconds) = left();
        arguments["timeout_seconds"] = seconds.into();
        scratch.call(tool, arguments, &control)
    }
}
