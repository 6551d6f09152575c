//! Short forms for tests that ask an image questions and run code in it. Unexpected errors panic.
#![allow(dead_code)]

use std::fmt::Debug;
use std::time::Duration;

use steelbank::actions::run::evaluate::EvaluateAnswer;
use steelbank::engine::Lane;
use steelbank::{Action, Control, Error, EvaluateRequest, Question, Steelbank};

/// The deadline of a test's code.
const ANSWER_TIME: Duration = Duration::from_secs(100);

pub(crate) trait Asks {
    /// Returns the answer to `question`.
    fn answer<Q: Question>(&self, question: &Q) -> Q::Answer;

    /// Returns the error of `question`.
    fn refusal<Q: Question<Answer: Debug>>(&self, question: &Q) -> Error;

    /// Runs `action`.
    fn done<A: Action>(&self, action: &A) -> A::Answer;

    /// Evaluates `source`, and returns the printed values of its last form.
    fn values(&self, source: impl Into<String>) -> Vec<String>;

    /// Evaluates `source` on one lane with a deadline.
    fn tried(
        &self,
        lane: Lane,
        source: impl Into<String>,
        allowed: Duration,
    ) -> Result<EvaluateAnswer, Error>;

    /// Evaluates `source`, and returns the printed values of its last form, joined by spaces.
    fn value(&self, source: impl Into<String>) -> String {
        self.values(source).join(" ")
    }
}

impl Asks for Steelbank {
    #[track_caller]
    fn answer<Q: Question>(&self, question: &Q) -> Q::Answer {
        self.ask(question, &Control::default()).unwrap()
    }

    #[track_caller]
    fn refusal<Q: Question<Answer: Debug>>(&self, question: &Q) -> Error {
        self.ask(question, &Control::default()).unwrap_err()
    }

    #[track_caller]
    fn done<A: Action>(&self, action: &A) -> A::Answer {
        self.run(action, &Control::new(ANSWER_TIME)).unwrap()
    }

    fn tried(
        &self,
        lane: Lane,
        source: impl Into<String>,
        allowed: Duration,
    ) -> Result<EvaluateAnswer, Error> {
        EvaluateRequest::new(source).values().on(self.lisp(), lane, &Control::new(allowed))
    }

    #[track_caller]
    fn values(&self, source: impl Into<String>) -> Vec<String> {
        let source = source.into();
        let done = self.run(&EvaluateRequest::new(source.as_str()).values(), &Control::new(ANSWER_TIME));
        done.unwrap_or_else(|error| panic!("{source}: {error}")).values
    }
}
