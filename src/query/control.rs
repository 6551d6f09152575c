//! How long a question may take, and how it is called off.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::{Interrupt, LispError, Ticket};

/// The time that a question about a symbol is given unless its asker says otherwise.
pub const ALLOWED: Duration = Duration::from_secs(30);

/// Calls a question off. Clones belong to the same question.
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
    /// Calls the question off: what runs of it in Lisp is interrupted, and its asker gets [`LispError::Cancelled`].
    pub fn cancel(&self) {
        self.inner.cancelled.store(true, Ordering::SeqCst);
        if let Some(interrupt) = self.inner.running.lock().take() {
            interrupt.stop();
        }
    }

    /// Whether the question was called off.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancelled.load(Ordering::SeqCst)
    }
}

/// Calls a question off when it is dropped; see [`Control::cancel_on_drop`]. A question that has ended is left alone.
#[derive(Debug)]
pub struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// A question's time and its cancellation.
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
    /// A question that may take `allowed`.
    pub fn new(allowed: Duration) -> Self {
        Self { allowed, cancellation: Cancellation::default() }
    }

    /// The same question, called off by `cancellation`.
    #[must_use]
    pub fn with_cancellation(mut self, cancellation: Cancellation) -> Self {
        self.cancellation = cancellation;
        self
    }

    /// The same question, with the time until `deadline`.
    pub(crate) fn until(&self, deadline: Instant) -> Self {
        let allowed = deadline.saturating_duration_since(Instant::now());
        Self { allowed, cancellation: self.cancellation() }
    }

    /// What calls the question off when it is dropped: for an asker who may go away, such as a task that is aborted.
    pub fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.cancellation())
    }

    /// The time allowed.
    pub fn allowed(&self) -> Duration {
        self.allowed
    }

    /// What calls the question off.
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// Whether to go on: for work that no Lisp does.
    pub(crate) fn check(&self) -> Result<(), LispError> {
        if self.cancellation.is_cancelled() { Err(LispError::Cancelled) } else { Ok(()) }
    }

    /// Waits for a job of the question, so that calling the question off stops it.
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
