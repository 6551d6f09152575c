//! One job: how its caller waits for it and stops it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::answers::{CallError, LispError};
use super::lisp::OnLisp;
use super::shared::Shared;

/// Hears a running job's news, each a JSON text. Called on the Lisp thread: it must be quick.
pub type Progress = Arc<dyn Fn(&str) + Send + Sync>;

type Outcome<T> = Result<T, LispError>;
type Listener<T> = Box<dyn FnOnce(Outcome<T>) + Send>;

/// Where a job's outcome is put, once: the first to arrive counts.
struct Slot<T> {
    inner: Mutex<SlotState<T>>,
    filled: Condvar,
}

enum SlotState<T> {
    Empty(Option<Listener<T>>),
    Full(Outcome<T>),
    Taken,
}

impl<T> Slot<T> {
    fn fill(&self, outcome: Outcome<T>) {
        let mut inner = self.inner.lock();
        let SlotState::Empty(listener) = &mut *inner else { return };
        match listener.take() {
            Some(listener) => {
                *inner = SlotState::Taken;
                drop(inner);
                listener(outcome);
            }
            None => {
                *inner = SlotState::Full(outcome);
                self.filled.notify_all();
            }
        }
    }
}

/// A job's identity and its state as the watch sees it.
pub(super) struct Ledger {
    pub(super) deadline: Mutex<Instant>,
    pub(super) allowed: Duration,
    pub(super) cancelled: AtomicBool,
    pub(super) fail: Box<dyn Fn(LispError) + Send + Sync>,
}

impl Ledger {
    pub(super) fn stopped_because(&self) -> LispError {
        if self.cancelled.load(Ordering::SeqCst) {
            LispError::Cancelled
        } else {
            LispError::DeadlinePassed { milliseconds: milliseconds(self.allowed), stopped: true }
        }
    }
}

pub(super) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

pub(super) struct Job {
    pub(super) ledger: Arc<Ledger>,
    pub(super) progress: Option<Progress>,
    pub(super) run: Box<dyn FnOnce(&OnLisp<'_>) + Send>,
}

/// The outcome of a submitted job. Dropping it does not stop the job; [`Ticket::interrupt`] does.
pub struct Ticket<T> {
    slot: Arc<Slot<T>>,
    interrupt: Interrupt,
}

impl<T: Send + 'static> Ticket<T> {
    /// Waits for the outcome. Never much longer than the job's deadline: a job that cannot be stopped is left behind.
    ///
    /// # Errors
    /// [`LispError`]: the code failed, was stopped, or Lisp is gone.
    pub fn wait(self) -> Outcome<T> {
        let mut inner = self.slot.inner.lock();
        loop {
            match std::mem::replace(&mut *inner, SlotState::Taken) {
                SlotState::Full(outcome) => return outcome,
                SlotState::Taken => return Err(LispError::Cancelled),
                empty @ SlotState::Empty(_) => {
                    *inner = empty;
                    self.slot.filled.wait(&mut inner);
                }
            }
        }
    }

    /// Has `listener` called with the outcome: at once if it is there, else on the thread that brings it.
    pub fn when_done(self, listener: impl FnOnce(Outcome<T>) + Send + 'static) {
        let mut inner = self.slot.inner.lock();
        match std::mem::replace(&mut *inner, SlotState::Taken) {
            SlotState::Full(outcome) => {
                drop(inner);
                listener(outcome);
            }
            SlotState::Taken => {}
            SlotState::Empty(_) => *inner = SlotState::Empty(Some(Box::new(listener))),
        }
    }

    /// A handle that can stop this job and nothing else.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }
}

/// Stops one job. It has a lock of its own, so it works whatever the job's thread is doing.
#[derive(Clone)]
pub struct Interrupt {
    ledger: Arc<Ledger>,
    shared: &'static Shared,
}

impl Interrupt {
    /// Stops the job: takes it out of the queue, or interrupts it where it runs. The waiting caller gets
    /// [`LispError::Cancelled`]. A job that has ended is left alone.
    pub fn stop(&self) {
        self.ledger.cancelled.store(true, Ordering::SeqCst);
        *self.ledger.deadline.lock() = Instant::now();
        // First, so that a job that makes something of its interruption comes too late with it.
        (self.ledger.fail)(LispError::Cancelled);
        self.shared.stop(&self.ledger);
    }
}

/// Makes a job of `body`, and the ticket that its outcome goes to.
pub(super) fn job<T: Send + 'static>(
    shared: &'static Shared,
    allowed: Duration,
    progress: Option<Progress>,
    body: impl FnOnce(&OnLisp<'_>) -> Result<T, CallError> + Send + 'static,
) -> (Job, Ticket<T>) {
    let slot = Arc::new(Slot { inner: Mutex::new(SlotState::Empty(None)), filled: Condvar::new() });
    let failing = Arc::clone(&slot);
    let ledger = Arc::new(Ledger {
        deadline: Mutex::new(Instant::now() + allowed),
        allowed,
        cancelled: AtomicBool::new(false),
        fail: Box::new(move |error| failing.fill(Err(error))),
    });
    let running = Arc::clone(&ledger);
    let filling = Arc::clone(&slot);
    let run = Box::new(move |on_lisp: &OnLisp<'_>| {
        filling.fill(match catch_unwind(AssertUnwindSafe(|| body(on_lisp))) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(CallError::Fault(fault))) => Err(LispError::Fault(fault)),
            Ok(Err(CallError::Interrupted)) => Err(running.stopped_because()),
            Err(panic) => Err(LispError::Panicked(panic_text(&*panic))),
        });
    });
    let interrupt = Interrupt { ledger: Arc::clone(&ledger), shared };
    (Job { ledger, progress, run }, Ticket { slot, interrupt })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
