//! Deadlines and cancellation of questions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::{Interrupt, LispError, Ticket};

/// The default time limit of a question about a symbol.
pub const ALLOWED: Duration = Duration::from_secs(30);

/// A cancellation token. Clones cancel the same question.
#[derive(Clone, Default)]
pub struct Cancellation {
    inner: Arc<CancellationState>,
}

#[derive(Default)]
struct CancellationState {
    cancelled: AtomicBool,
    running: Mutex<Option<Interrupt>>,
}

impl fmt::Debug for Cancellation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancellation").field("cancelled", &self.is_cancelled()).finish_non_exhaustive()
    }
}

impl Cancellation {
    /// Cancels the question: interrupts its call in Lisp, and its asker gets [`LispError::Cancelled`].
    pub fn cancel(&self) {
        self.inner.cancelled.store(true, Ordering::SeqCst);
        if let Some(interrupt) = self.inner.running.lock().take() {
            interrupt.stop();
        }
    }

    /// Whether the question was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancelled.load(Ordering::SeqCst)
    }
}

/// A guard that cancels its question when dropped, unless that has ended; see [`Control::cancel_on_drop`].
#[derive(Debug)]
pub struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The deadline and the cancellation token of a question.
#[derive(Clone, Debug)]
pub struct Control {
    allowed: Duration,
    cancellation: Cancellation,
}

impl Default for Control {
    fn default() -> Self {
        Self::new(ALLOWED)
    }
}

impl Control {
    /// Allows a question to take `allowed`.
    pub fn new(allowed: Duration) -> Self {
        Self { allowed, cancellation: Cancellation::default() }
    }

    /// Sets the token that cancels the question.
    #[must_use]
    pub fn with_cancellation(mut self, cancellation: Cancellation) -> Self {
        self.cancellation = cancellation;
        self
    }

    /// Limits the question's time to what is left until `deadline`.
    pub(crate) fn until(&self, deadline: Instant) -> Self {
        let allowed = deadline.saturating_duration_since(Instant::now());
        Self { allowed, cancellation: self.cancellation() }
    }

    /// Makes a guard that cancels the question when dropped: for a caller that may go away, such as an
    /// aborted task.
    pub fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.cancellation())
    }

    /// The time allowed.
    pub fn allowed(&self) -> Duration {
        self.allowed
    }

    /// The token that cancels the question.
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// Returns the error of a cancelled question: for loops in Rust, which no interrupt reaches.
    pub(crate) fn check(&self) -> Result<(), LispError> {
        if self.cancellation.is_cancelled() { Err(LispError::Cancelled) } else { Ok(()) }
    }

    /// Waits for a job of the question, and stops it if the question is cancelled.
    pub(crate) fn wait<T: Send + 'static>(&self, ticket: Ticket<T>) -> Result<T, LispError> {
        let interrupt = ticket.interrupt();
        *self.cancellation.inner.running.lock() = Some(interrupt.clone());
        if self.cancellation.is_cancelled() {
            interrupt.stop();
        }
        let outcome = ticket.wait();
        self.cancellation.inner.running.lock().take();
        outcome
    }
}
