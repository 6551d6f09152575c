//! What all questions about the image have in common.

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
    /// What it gets. What does not exist is an answer wherever the answer's type can say so.
    type Answer;

    /// Whether asking twice is as good as asking once: it runs nobody's code.
    const REPEATABLE: bool = false;

    /// The answer. Waits for Lisp no longer than `control` allows; many answers need no Lisp.
    ///
    /// # Errors
    /// What is asked for cannot be read, Lisp cannot answer, or the question was called off.
    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<Self::Answer, Error>;
}
