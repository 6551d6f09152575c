//! The traits of requests: [`Question`] for requests that only read, [`Action`] for requests that
//! change something.

use crate::engine::control::Control;
use crate::handle::context::QueryContext;
use crate::handle::{Error, Steelbank};

/// A request that reads the image and the project and changes neither. [`Steelbank::ask`] runs it.
///
/// ```
/// use steelbank::{AproposRequest, Control, Error, Question, Steelbank};
///
/// fn count(question: &AproposRequest, bank: &Steelbank) -> Result<usize, Error> {
///     Ok(bank.ask(question, &Control::default())?.total)
/// }
/// ```
pub trait Question {
    /// The type of the answer. If possible, a missing subject is an answer, not an error.
    type Answer;

    /// Whether [`Steelbank::ask`] retries the question if Lisp's heap was full. Set it only for
    /// questions that run no user code except methods on `documentation` and `print-object`.
    const REPEATABLE: bool = false;

    /// Answers the question. Waits for Lisp no longer than `control` allows; many answers need no
    /// Lisp.
    ///
    /// # Errors
    /// The name or the request is invalid, Lisp cannot answer in time, files cannot be read, or the
    /// question was cancelled.
    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<Self::Answer, Error>;
}

/// A request that loads, runs or writes something. [`Steelbank::run`] runs it.
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
    /// The type of the answer. If possible, a failure of the user's code is an answer, not an
    /// error.
    type Answer;

    /// Runs the action, for at most as long as `control` allows.
    ///
    /// # Errors
    /// The request is invalid, was cancelled or timed out, files cannot be read or written, or Lisp
    /// has died.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<Self::Answer, Error>;
}
