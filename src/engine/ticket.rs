//! A single job: the [`Ticket`] with which its caller waits for the outcome, and the [`Interrupt`]
//! that stops it.
//!
//! The outcome goes into a slot that is filled once, by whichever comes first: the Lisp thread, the
//! watch, a caller that cancels the job, or code that finds Lisp dead.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use super::answers::{CallError, Expired, Lane, LispError};
use super::lisp::OnLisp;
use super::queue::JobQueue;
use super::sync::{Condvar, Mutex};

/// A progress callback: receives each update of a running job as JSON. It runs on the Lisp thread,
/// so it must be quick.
pub type ProgressListener = Arc<dyn Fn(&str) + Send + Sync>;

type JobResult<T> = Result<T, LispError>;

/// The call that follows when a slot is filled: it passes the outcome to a listener, or wakes a
/// task. Empty if nothing needs a call. The code that fills the slot chooses the thread for the
/// call.
#[must_use]
pub(super) struct Wakeup(Option<Box<dyn FnOnce() + Send>>);

impl Wakeup {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Makes the call on this thread, if there is one. A panic of the listener is caught; the panic
    /// hook has reported it.
    pub(super) fn deliver(self) {
        if let Some(listener) = self.0 {
            guarded(listener);
        }
    }
}

/// Calls `body` and catches its panic.
pub(super) fn guarded(body: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(body)) {
        // Forget the payload, because dropping it may panic.
        std::mem::forget(payload);
    }
}

/// Returns the instant `allowed` from now, limited to 100 years ahead.
pub fn deadline_after(allowed: Duration) -> Instant {
    const CENTURY: Duration = Duration::from_secs(100 * 365 * 24 * 3600);
    let now = Instant::now();
    now.checked_add(allowed.min(CENTURY)).unwrap_or(now)
}

/// Holds a job's outcome. Only the first outcome is stored.
struct Slot<T> {
    state: Mutex<SlotState<T>>,
    filled: Condvar,
}

enum SlotState<T> {
    Empty,
    /// The listener will be called with the outcome.
    Listening(Box<dyn FnOnce(JobResult<T>) + Send>),
    /// The task will be woken, and takes the outcome.
    Polled(Waker),
    Full(JobResult<T>),
    Taken,
}

impl<T: Send + 'static> Slot<T> {
    fn fill(&self, outcome: JobResult<T>) -> Wakeup {
        let mut state = self.state.lock();
        match std::mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Empty => {
                *state = SlotState::Full(outcome);
                self.filled.notify_all();
                Wakeup(None)
            }
            SlotState::Polled(waker) => {
                *state = SlotState::Full(outcome);
                Wakeup(Some(Box::new(move || waker.wake())))
            }
            SlotState::Listening(listener) => Wakeup(Some(Box::new(move || listener(outcome)))),
            decided @ (SlotState::Full(_) | SlotState::Taken) => {
                *state = decided;
                Wakeup(None)
            }
        }
    }

    fn is_decided(&self) -> bool {
        matches!(&*self.state.lock(), SlotState::Full(_) | SlotState::Taken)
    }
}

/// The part of a job that the queue and the watch use.
pub(super) struct JobState {
    pub(super) lane: Lane,
    allowed: Duration,
    state: Mutex<JobTimes>,
    fail: Box<dyn Fn(LispError) -> Wakeup + Send + Sync>,
}

struct JobTimes {
    deadline: Instant,
    cancelled: bool,
    /// Whether the job has entered Lisp.
    begun: bool,
    /// Whether the thread has finished the job, except for setting the outcome.
    ended: bool,
}

impl JobState {
    pub(super) fn deadline(&self) -> Instant {
        self.state.lock().deadline
    }

    /// Returns `limit`, or an eighth of the job's time if that is less. Its caller waits little
    /// longer than it asked for, even if the job cannot be stopped.
    pub(super) fn grace(&self, limit: Duration) -> Duration {
        limit.min(self.allowed / 8)
    }

    /// Extends the deadline, unless the job was cancelled.
    pub(super) fn grant(&self, more: Duration) {
        let mut state = self.state.lock();
        if !state.cancelled {
            state.deadline = state.deadline.checked_add(more).unwrap_or(state.deadline);
        }
    }

    fn cancel(&self) {
        let mut state = self.state.lock();
        state.cancelled = true;
        state.deadline = Instant::now();
    }

    pub(super) fn begin(&self) {
        self.state.lock().begun = true;
    }

    pub(super) fn end(&self) {
        self.state.lock().ended = true;
    }

    pub(super) fn has_ended(&self) -> bool {
        self.state.lock().ended
    }

    /// Returns the reason why the job ended without an answer.
    pub(super) fn stop_reason(&self) -> LispError {
        let state = self.state.lock();
        match (state.cancelled, state.begun) {
            (true, _) => LispError::Cancelled,
            (false, true) => self.expired(Expired::Stopped),
            (false, false) => self.expired(Expired::NeverBegan),
        }
    }

    pub(super) fn expired(&self, work: Expired) -> LispError {
        let milliseconds = u64::try_from(self.allowed.as_millis()).unwrap_or(u64::MAX);
        LispError::DeadlinePassed { milliseconds, work }
    }

    /// Sets the job's outcome to `error`, unless it already has one.
    pub(super) fn fail(&self, error: LispError) -> Wakeup {
        (self.fail)(error)
    }
}

thread_local! {
    static CLIENT: Cell<u64> = const { Cell::new(0) };
}

/// Makes this thread submit its jobs for client number `client`. Lanes serve all clients in turn.
pub fn submit_for_client(client: u64) {
    CLIENT.set(client);
}

pub(super) struct Job {
    pub(super) client: u64,
    pub(super) job_state: Arc<JobState>,
    pub(super) progress: Option<ProgressListener>,
    pub(super) run: Box<dyn FnOnce(&OnLisp<'_>) -> Wakeup + Send>,
}

/// The outcome of a submitted job. It can be waited for, passed to a listener, or awaited. Dropping
/// it does not stop the job; [`Ticket::interrupt`] does.
pub struct Ticket<T> {
    slot: Arc<Slot<T>>,
    interrupt: Interrupt,
}

impl<T> std::fmt::Debug for Ticket<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ticket").field("lane", &self.interrupt.job_state.lane).finish_non_exhaustive()
    }
}

impl<T: Send + 'static> Ticket<T> {
    /// Blocks until the outcome is available. The watch sets the outcome before one and a half
    /// times the job's time have passed, even if the job cannot be stopped.
    ///
    /// # Errors
    /// [`LispError`]: the code failed, was stopped, or Lisp is dead. If this thread serves the
    /// job's lane and the outcome is not available yet, stops the job and returns
    /// [`LispError::WouldDeadlock`] at once.
    pub fn wait(self) -> JobResult<T> {
        let lane = self.interrupt.job_state.lane;
        if super::shared::serving() == Some(lane) && !self.slot.is_decided() {
            self.interrupt.stop();
            return Err(LispError::WouldDeadlock { lane });
        }
        let mut state = self.slot.state.lock();
        loop {
            match std::mem::replace(&mut *state, SlotState::Taken) {
                SlotState::Full(outcome) => return outcome,
                SlotState::Taken => return Err(LispError::Cancelled),
                undecided => {
                    *state = undecided;
                    state = self.slot.filled.wait(state);
                }
            }
        }
    }

    /// Calls `listener` with the outcome: at once if it is available, otherwise on the thread that
    /// delivers it. The listener must not block that thread. Its panics are caught.
    pub fn when_done(self, listener: impl FnOnce(JobResult<T>) + Send + 'static) {
        let mut state = self.slot.state.lock();
        match std::mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Full(outcome) => {
                drop(state);
                guarded(|| listener(outcome));
            }
            SlotState::Taken => {}
            _ => *state = SlotState::Listening(Box::new(listener)),
        }
    }

    /// Returns a handle that can stop this job only.
    pub fn interrupt(&self) -> Interrupt {
        self.interrupt.clone()
    }
}

impl<T: Send + 'static> Future for Ticket<T> {
    type Output = JobResult<T>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<JobResult<T>> {
        let mut state = self.slot.state.lock();
        match std::mem::replace(&mut *state, SlotState::Taken) {
            SlotState::Full(outcome) => Poll::Ready(outcome),
            SlotState::Taken => Poll::Ready(Err(LispError::Cancelled)),
            _ => {
                *state = SlotState::Polled(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Stops one job. Needs no lock that the job's thread holds while it runs code, so it works
/// whatever that thread is doing.
#[derive(Clone)]
pub struct Interrupt {
    job_state: Arc<JobState>,
    queue: &'static JobQueue,
}

debug_fields!(Interrupt);

impl Interrupt {
    /// Stops the job: removes it from the queue, or interrupts it. The waiting caller gets
    /// [`LispError::Cancelled`]. Has no effect on a job that has ended.
    pub fn stop(&self) {
        self.job_state.cancel();
        // Fill the slot before interrupting the job, so that the job's result cannot arrive first.
        let wakeup = self.job_state.fail(LispError::Cancelled);
        self.queue.remove(&self.job_state);
        wakeup.deliver();
    }
}

/// Creates a job that runs `body`, and the ticket for its outcome.
pub(super) fn job<T: Send + 'static>(
    queue: &'static JobQueue,
    lane: Lane,
    allowed: Duration,
    progress: Option<ProgressListener>,
    body: impl FnOnce(&OnLisp<'_>) -> Result<T, CallError> + Send + 'static,
) -> (Job, Ticket<T>) {
    let slot = Arc::new(Slot { state: Mutex::new(SlotState::Empty), filled: Condvar::default() });
    let failing = Arc::clone(&slot);
    let job_state = Arc::new(JobState {
        lane,
        allowed,
        state: Mutex::new(JobTimes {
            deadline: deadline_after(allowed),
            cancelled: false,
            begun: false,
            ended: false,
        }),
        fail: Box::new(move |error| failing.fill(Err(error))),
    });
    let running = Arc::clone(&job_state);
    let filling = Arc::clone(&slot);
    let run = Box::new(move |on_lisp: &OnLisp<'_>| {
        let outcome = match catch_unwind(AssertUnwindSafe(|| body(on_lisp))) {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(CallError::Fault(fault))) => Err(LispError::Fault(fault)),
            Ok(Err(CallError::Interrupted)) => Err(queue.end(&running)),
            Err(payload) => {
                let text = panic_text(&*payload);
                std::mem::forget(payload);
                Err(LispError::Panicked(text))
            }
        };
        running.end();
        filling.fill(outcome)
    });
    let interrupt = Interrupt { job_state: Arc::clone(&job_state), queue };
    (Job { client: CLIENT.get(), job_state, progress, run }, Ticket { slot, interrupt })
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text =
        panic.downcast_ref::<&str>().copied().or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    text.unwrap_or("no message").to_owned()
}
