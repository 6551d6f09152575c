//! What a [`Steelbank`] is for: it answers questions and carries out actions.

use std::time::Duration;

use crate::engine::control::Control;
use crate::engine::{FaultKind, LispError};
use crate::handle::Error;
use crate::handle::Steelbank;
use crate::handle::context::QueryContext;
use crate::handle::question::{Action, Question};

/// The most retries of a question that found the heap full.
const RETRIES: usize = 2;
/// The pause before a retry, in which the work that fills the heap can end.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

impl Steelbank {
    /// Returns the context of questions, with the index as it is now.
    pub(crate) fn context(&self) -> QueryContext<'_> {
        QueryContext {
            bank: self,
            lisp: self.lisp(),
            index: self.index(),
            project: self.project(),
            sbcl: self.sources(),
            memo: &self.inner.memo,
            text: None,
        }
    }

    /// Asks a question about the image and the project. It waits for Lisp no longer than `control` allows, while
    /// others load and evaluate.
    ///
    /// # Errors
    /// The request is malformed, Lisp cannot answer, or the question was cancelled.
    pub fn ask<Q: Question>(&self, question: &Q, control: &Control) -> Result<Q::Answer, Error> {
        // Retry a full heap: as a rule other work fills it, and ends with the same fault at its next
        // allocation.
        for _ in 0..(if Q::REPEATABLE { RETRIES } else { 0 }) {
            match question.answer(&self.context(), control) {
                Err(Error::Lisp(LispError::Fault(fault))) if fault.kind == FaultKind::HeapExhausted => {
                    control.check()?;
                    std::thread::sleep(RETRY_PAUSE);
                }
                outcome => return outcome,
            }
        }
        question.answer(&self.context(), control)
    }

    /// Carries out what loads, runs or writes something, as long as `control` allows. Questions are answered meanwhile.
    ///
    /// # Errors
    /// The request is malformed, it was cancelled, or Lisp is gone. Code that fails is an answer.
    pub fn run<A: Action>(&self, action: &A, control: &Control) -> Result<A::Answer, Error> {
        action.run(self, control)
    }

    /// Runs `work`, which may define something before it fails, and brings the index up to date.
    pub(crate) fn refreshing<T>(&self, work: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
        let outcome = work();
        let refreshed = self.refresh();
        let answer = outcome?;
        refreshed?;
        Ok(answer)
    }
}
