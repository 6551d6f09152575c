//! The traits of requests: [`Question`] for those that only read, [`Action`] for those that change
//! something.

use crate::engine::control::Control;
use crate::handle::context::QueryContext;
use crate::handle::{Error, Steelbank};

/// A question about the image and the project: a request that gets an answer and changes nothing.
/// [`Steelbank::ask`] asks any of them.
///
/// ```
/// use steelbank::{AproposRequest, Control, Error, Question, Steelbank};
///
/// fn count(question: &AproposRequest, bank: &Steelbank) -> Result<usize, Error> {
///     Ok(bank.ask(question, &Control::default())?.total)
/// }
/// ```
pub trait Question {
    /// The type of the answer. Where possible, it represents a missing subject itself.
    type Answer;

    /// Whether the question may be retried after a failure, because it runs no user code.
    const REPEATABLE: bool = false;

    /// Answers the question. Waits for Lisp no longer than `control` allows; many answers need no Lisp.
    ///
    /// # Errors
    /// The name or the request cannot be read, Lisp cannot answer, or the question was cancelled.
    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<Self::Answer, Error>;
}

/// A request that loads, runs or writes something. [`Steelbank::run`] carries out any of them.
///
/// ```
/// use steelbank::{Control, EvaluateRequest, Steelbank};
/// # fn main() -> Result<(), steelbank::Error> {
/// # let bank = Steelbank::get_or_start(Steelbank::builder())?;
/// let request = EvaluateRequest::new("(* 6 7)").values();
/// assert_eq!(bank.run(&request, &Control::default())?.values, ["42"]);
/// # Ok(())
/// # }
/// ```
pub trait Action {
    /// The type of the answer. Where possible, it represents failing code itself.
    type Answer;

    /// Runs the action, for at most as long as `control` allows.
    ///
    /// # Errors
    /// The request is invalid, it was cancelled, or Lisp has died.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<Self::Answer, Error>;
}
