//! Runs questions and actions: [`Steelbank::ask`] and [`Steelbank::run`].

use std::time::Duration;

use crate::engine::control::Control;
use crate::engine::{FaultKind, LispError, deadline_after};
use crate::handle::context::QueryContext;
use crate::handle::question::{Action, Question};
use crate::handle::{Error, Steelbank};

/// The maximum number of retries of a question that failed because the heap was full.
const RETRIES: usize = 2;
/// The pause before a retry, to let the work that fills the heap end.
const RETRY_PAUSE: Duration = Duration::from_millis(200);

impl Steelbank {
    /// Returns the context for a question, with the current index.
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

    /// Answers a question about the image and the project. Waits for Lisp at most as long as
    /// `control` allows. Loads and evaluations continue meanwhile.
    ///
    /// # Errors
    /// The request is malformed, Lisp cannot answer in time, files cannot be read, or the question
    /// was cancelled.
    pub fn ask<Q: Question>(&self, question: &Q, control: &Control) -> Result<Q::Answer, Error> {
        // Retry if the heap is full: usually other work has filled it, and that work fails when it
        // next allocates memory.
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

    /// Runs an action, which loads code, evaluates code or writes files, for at most as long as
    /// `control` allows. Questions are answered meanwhile.
    ///
    /// # Errors
    /// The request is malformed, was cancelled or timed out, files cannot be read or written, or
    /// Lisp has died. If the user's code fails, the answer reports this; it is not an error.
    pub fn run<A: Action>(&self, action: &A, control: &Control) -> Result<A::Answer, Error> {
        action.run(self, control)
    }

    /// Runs `work` and then refreshes the index, even if `work` fails, because failed work may have
    /// defined something.
    pub(crate) fn refreshing<T>(
        &self,
        control: &Control,
        work: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        let deadline = deadline_after(control.allowed().saturating_mul(5) / 4);
        let outcome = work();
        let refreshed = self.refresh_until(deadline);
        let answer = outcome?;
        refreshed?;
        Ok(answer)
    }
}
