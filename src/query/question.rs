//! The trait of all questions about the image.

use super::Error;
use super::context::QueryContext;
use super::control::Control;

/// A question about the image: a request that gets an answer. [`crate::Steelbank::ask`] asks any of them.
///
/// ```
/// use steelbank::query::apropos::AproposRequest;
/// use steelbank::query::control::Control;
/// use steelbank::query::question::Question;
///
/// fn count(question: &AproposRequest, bank: &steelbank::Steelbank) -> Result<usize, steelbank::Error> {
///     Ok(bank.ask(question, &Control::default())?.total)
/// }
/// ```
pub trait Question {
    /// The type of the answer, which says itself that something does not exist wherever it can.
    type Answer;

    /// Whether the question may be asked again after it failed: it runs no code of the user's.
    const REPEATABLE: bool = false;

    /// Answers the question. Waits for Lisp no longer than `control` allows; many answers need no Lisp.
    ///
    /// # Errors
    /// The name or the request cannot be read, Lisp cannot answer, or the question was cancelled.
    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<Self::Answer, Error>;
}
