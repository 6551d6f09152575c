//! Formats run-tests' answer as text.

use std::fmt::{Display, Formatter, Result};

use super::{AssertionResult, AssertionStatus, TestResult, TestRun, TestStatus};

/// The message for a test that does not exist.
pub(super) fn unknown(test: &str) -> String {
    format!("Test {test} not found")
}

/// Explains why no test of `systems` ran. `some` is true if the request selected tests by line.
pub(super) fn no_tests(systems: &[String], some: bool) -> String {
    let systems = systems.join(", ");
    match some {
        true => format!("No tests were run: no test of {systems} is on a requested line."),
        false => format!(
            "No tests were run: {systems} has no tests of a recognized framework and no test-op that does anything."
        ),
    }
}

/// Prints the counts, followed by each test, or the reason why no test ran.
impl Display for TestRun {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        if let Some((test, _)) = &self.unknown_test {
            f.write_str(&unknown(test))?;
            if self.tests.is_empty() {
                return Ok(());
            }
            f.write_str("\n\n")?;
        }
        if let Some(why) = self.not_loaded.as_ref().or(self.note.as_ref()) {
            return f.write_str(why);
        }
        let counts = self.counts.iter().map(|(status, count)| format!("{count} {status}"));
        let checks = [
            (self.checks.passed, "passed"),
            (self.checks.failed, "failed"),
            (self.checks.error, "signalled an error"),
            (self.checks.skipped, "skipped"),
        ];
        let checks = checks.iter().filter(|(count, _)| *count > 0);
        let checks: Vec<String> = checks.map(|(count, how)| format!("{count} {how}")).collect();
        f.write_str(&counts.collect::<Vec<_>>().join(", "))?;
        if !checks.is_empty() {
            write!(f, "; assertions: {}", checks.join(", "))?;
        }
        write!(f, " ({} ms)", self.duration_ms)?;
        // Passed tests are counted above. Print one only if it was requested, or for its output.
        let is_shown = |test: &&TestResult| {
            test.status != TestStatus::Passed || !test.output.is_empty() || self.tests.len() == 1
        };
        let mut shown = self.tests.iter().filter(is_shown).peekable();
        if shown.peek().is_some() {
            writeln!(f)?;
        }
        shown.try_for_each(|test| write!(f, "\n  {test}"))
    }
}

impl Display for TestResult {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        self.place.iter().try_for_each(|place| write!(f, "{place}: "))?;
        write!(f, "{} {} ({} ms", self.name, self.status, self.ms)?;
        if self.passed > 0 {
            write!(f, ", {} assertions passed", self.passed)?;
        }
        f.write_str(")")?;
        self.assertions.iter().try_for_each(|assertion| write!(f, "{assertion}"))?;
        if let Some(failure) = &self.failure {
            write!(f, "\n      {}", failure.to_string().replace('\n', "\n      "))?;
        }
        if !self.output.is_empty() {
            let output = self.output.trim_end().replace('\n', "\n        ");
            write!(f, "\n      Output:\n        {output}")?;
        }
        Ok(())
    }
}

/// Prints the assertion as indented lines below the test's line.
impl Display for AssertionResult {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        let mut line = |line: String| write!(f, "\n      {}", line.replace('\n', "\n        "));
        if !self.within.is_empty() {
            line(format!("in {}", self.within.join(", ")))?;
        }
        if let Some(form) = &self.form {
            let place = self.place.as_ref().map(|place| format!("{place}: ")).unwrap_or_default();
            line(format!("{place}{form}"))?;
        }
        self.expected.iter().try_for_each(|value| line(format!("expected {value}")))?;
        self.actual.iter().try_for_each(|value| line(format!("actual {value}")))?;
        self.values.iter().try_for_each(|part| line(format!("{} => {}", part.form, part.value)))?;
        if self.actual.is_none() && self.values.is_empty() {
            let left_out = if self.status == AssertionStatus::Skipped { "skipped: " } else { "" };
            self.message.iter().try_for_each(|message| line(format!("{left_out}{message}")))?;
        }
        Ok(())
    }
}
