//! Deadlines, cancellation and progress of questions to Lisp and of actions.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::{Interrupt, LispError, OnProgress, Progress, Ticket};

/// The default time limit of a question or an action.
pub const ALLOWED: Duration = Duration::from_secs(30);

/// A token that cancels a question or an action, and all later ones that use it. Clones share their
/// state.
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
    /// Cancels the question. Its job in Lisp is interrupted if there is one, and its caller gets
    /// [`LispError::Cancelled`].
    pub fn cancel(&self) {
        self.inner.cancelled.store(true, Ordering::SeqCst);
        if let Some(interrupt) = self.inner.running.lock().take() {
            interrupt.stop();
        }
    }

    /// Returns whether the question was cancelled.
    pub fn is_cancelled(&self) -> bool {
        self.inner.cancelled.load(Ordering::SeqCst)
    }
}

/// A guard that cancels the token of its question when dropped. The answer of a question that has
/// ended stays valid. See [`Control::cancel_on_drop`].
#[derive(Debug)]
pub struct CancelOnDrop(Cancellation);

impl Drop for CancelOnDrop {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// The time limit, cancellation token and progress listener of a question or an action.
#[derive(Clone)]
pub struct Control {
    allowed: Duration,
    cancellation: Cancellation,
    progress: Option<OnProgress>,
}

debug_fields!(Control, allowed, cancellation);

impl Default for Control {
    fn default() -> Self {
        Self::new(ALLOWED)
    }
}

impl Control {
    /// Returns a control with the time limit `allowed`.
    pub fn new(allowed: Duration) -> Self {
        Self { allowed, cancellation: Cancellation::default(), progress: None }
    }

    /// Sets the token that cancels the question.
    #[must_use]
    pub fn with_cancellation(self, cancellation: Cancellation) -> Self {
        Self { cancellation, ..self }
    }

    /// Returns a copy with the time from now until `deadline` as its time limit.
    pub(crate) fn until(&self, deadline: Instant) -> Self {
        Self { allowed: deadline.saturating_duration_since(Instant::now()), ..self.clone() }
    }

    /// Sets the progress listener.
    #[must_use]
    pub fn on_progress(self, listener: impl Fn(Progress) + Send + Sync + 'static) -> Self {
        Self { progress: Some(Arc::new(listener)), ..self }
    }

    /// Returns a copy with `listener` as its progress listener.
    pub(crate) fn reporting_to(&self, listener: OnProgress) -> Self {
        Self { progress: Some(listener), ..self.clone() }
    }

    /// Returns the progress listener.
    pub(crate) fn progress(&self) -> Option<&OnProgress> {
        self.progress.as_ref()
    }

    /// Passes `progress` to the listener, if there is one.
    pub(crate) fn report(&self, progress: Progress) {
        if let Some(listener) = &self.progress {
            listener(progress);
        }
    }

    /// Returns a guard that cancels the question when dropped. Use it for a caller that may
    /// disappear, such as an aborted task.
    pub fn cancel_on_drop(&self) -> CancelOnDrop {
        CancelOnDrop(self.cancellation())
    }

    /// Returns the time limit.
    pub fn allowed(&self) -> Duration {
        self.allowed
    }

    /// Returns the token that cancels the question.
    pub fn cancellation(&self) -> Cancellation {
        self.cancellation.clone()
    }

    /// Returns an error if the question was cancelled. Loops in Rust must call this, because
    /// interrupts do not reach them.
    pub(crate) fn check(&self) -> Result<(), LispError> {
        if self.cancellation.is_cancelled() { Err(LispError::Cancelled) } else { Ok(()) }
    }

    /// Returns `items`, which end early if the question is cancelled. The result is then
    /// incomplete, so the caller must check again before it stores the result.
    pub(crate) fn until_cancelled<T: IntoIterator>(&self, items: T) -> impl Iterator<Item = T::Item> {
        items.into_iter().take_while(|_| !self.cancellation.is_cancelled())
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
