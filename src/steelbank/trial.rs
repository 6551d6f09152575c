//! Questions that run code, here or in a scratch image.

use std::collections::BTreeSet;
use std::time::Instant;

use serde_json::{Value, json};

use super::load::LoadListener;
use super::scratch::{ScratchAnswer, ScratchError, ScratchNews};
use crate::Steelbank;
use crate::engine::deadline_after;
use crate::query::Error;
use crate::query::control::Control;
use crate::query::evaluate::{EvaluateRequest, Evaluation};
use crate::query::inspect::{InspectRequest, Inspected, Inspection};
use crate::query::load_system::{LoadFailure, LoadStatus};
use crate::query::question::Question;
use crate::query::run_tests::{RunTestsRequest, TestRun, TestStatus, TestSystems, run_test_op, unknown_test};

impl Steelbank {
    /// Evaluates forms, reports values or the failure, and brings the index up to date. This runs the code.
    ///
    /// # Errors
    /// It never began, or Lisp is gone. A failure or timeout of the code is an answer.
    pub fn evaluation(&self, request: &EvaluateRequest, control: &Control) -> Result<Evaluation, Error> {
        self.refreshing(|| request.answer(&self.context(), control))
    }

    /// Inspects an object: the value of an expression, which is evaluated, or the object of a handle from an
    /// earlier answer.
    ///
    /// # Errors
    /// It never began, or Lisp is gone. A failed expression or a handle that is gone is an answer.
    pub fn inspect(&self, request: &InspectRequest, control: &Control) -> Result<Inspection, Error> {
        match request.subject {
            Inspected::Expression(_) => self.refreshing(|| request.answer(&self.context(), control)),
            Inspected::Handle(_) => request.answer(&self.context(), control),
        }
    }

    /// Loads the systems that testing needs and runs the tests one by one: those of the frameworks that are
    /// recognised, or else the system's test-op. Reports each test to `news` before it runs. This runs the
    /// project's code.
    ///
    /// # Errors
    /// It was cancelled, or no system is named and none is loaded. A test's failure is its result.
    pub fn run_tests(
        &self,
        request: &RunTestsRequest,
        control: &Control,
        listener: Option<LoadListener>,
        mut news: impl FnMut(&str, usize, usize),
    ) -> Result<TestRun, Error> {
        let begun = Instant::now();
        let deadline = deadline_after(control.allowed());
        let left = || deadline.saturating_duration_since(Instant::now());
        let names = match &request.system {
            Some(system) => vec![system.clone()],
            None => self.loaded_systems(),
        };
        let mut run = TestRun::default();
        let mut known = Vec::new();
        for name in &names {
            let found = self.load_tests(name, control, deadline, listener.as_ref(), &mut run)?;
            let Some(found) = found else { return Ok(run.finished(begun.elapsed())) };
            let mut tests = found.tests(&self.context(), &control.until(deadline))?;
            // Run the test-op of a system that was asked for by name and has no tests that are recognised.
            if tests.is_empty() && request.tests.is_empty() && request.lines.is_none() {
                for tested in found.operations(&self.context(), &control.until(deadline))? {
                    let allowed = left();
                    news(&tested, 0, 0);
                    run.tests.push(run_test_op(&self.context(), &tested, allowed, control)?);
                }
            }
            run.systems.extend(found.systems.into_iter().map(|system| system.name));
            known.append(&mut tests);
        }
        let mut seen = BTreeSet::new();
        run.systems.retain(|system| seen.insert(system.clone()));
        run.unknown_test = unknown_test(request, &known);
        known.retain(|test| test.is_wanted(request));
        known.dedup_by(|one, other| one.not_run() == other.not_run());
        let total = known.len();
        let mut died = false;
        for (number, test) in known.iter().enumerate() {
            let allowed = request.each.min(left());
            if died || allowed.is_zero() {
                run.tests.push(test.not_run());
                continue;
            }
            let result = test.not_run();
            news(&result.name, number, total);
            let result = test.run(&self.context(), allowed, control)?;
            died = result.status == TestStatus::Died;
            run.tests.push(result);
        }
        if !died {
            self.refresh()?;
        }
        Ok(run.finished(begun.elapsed()))
    }

    /// Loads `name` and the systems that its tests are in. None if one does not load, which is noted in
    /// `run`.
    fn load_tests(
        &self,
        name: &str,
        control: &Control,
        deadline: Instant,
        listener: Option<&LoadListener>,
        run: &mut TestRun,
    ) -> Result<Option<TestSystems>, Error> {
        let mut load = |system: &str| -> Result<bool, Error> {
            let answer = self.load_system(system, false, &control.until(deadline), listener.cloned())?;
            if answer.status == LoadStatus::Loaded {
                return Ok(true);
            }
            let unknown = |failure: &LoadFailure| system == name && failure.is_of_unknown(system);
            run.unknown_system = answer.failure.as_ref().is_some_and(unknown).then(|| system.to_owned());
            let why = answer.failure.map(|failure| failure.message).unwrap_or_default();
            let folder = self.project().root().map(|root| format!("{}/", root.display()));
            let why = folder.map_or_else(|| why.clone(), |folder| why.replace(&folder, ""));
            run.not_loaded = Some(format!("The system {system} does not load: {why}"));
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

    /// Calls `tool` with `arguments` in a scratch image that has the systems of this one loaded, and is
    /// thrown away afterwards: the call cannot touch this image. Sets the argument `timeout_seconds` to the
    /// rest of `control`'s time.
    ///
    /// # Errors
    /// There is no scratch image, it ended, a system does not load in it, or the tool cannot answer.
    pub fn call_in_scratch(
        &self,
        tool: &str,
        mut arguments: Value,
        control: &Control,
        mut news: impl FnMut(ScratchNews),
    ) -> Result<ScratchAnswer, ScratchError> {
        let begun = Instant::now();
        let left = || {
            let left = control.allowed().saturating_sub(begun.elapsed());
            (Control::new(left).with_cancellation(control.cancellation()), left.as_secs().max(1))
        };
        let mut scratch = self.scratch(Vec::new(), control)?;
        for system in self.loaded_systems() {
            let (control, seconds) = left();
            let load = json!({ "system": system, "timeout_seconds": seconds });
            let answer = scratch.call("load-system", load, &control, &mut news)?;
            if answer.structured.get("status") != Some(&json!("loaded")) {
                return Err(ScratchError::Call(format!(
                    "The system {system} does not load in a scratch image: {}",
                    answer.text
                )));
            }
        }
        let (control, seconds) = left();
        arguments["timeout_seconds"] = seconds.into();
        scratch.call(tool, arguments, &control, news)
    }
}
