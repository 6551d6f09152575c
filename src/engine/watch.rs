//! The logic of the watch thread: when it checks the lanes, how it enforces the deadlines of their
//! jobs, and which orders it gives to Lisp.
//!
//! The watch never waits for Lisp. Actions that need a Lisp thread are orders to Lisp's supervisor
//! thread.
//!
//! A running job is *late* if its deadline has passed (cancelling it moves the deadline to the
//! present), or if its current call into Lisp has exceeded the call's limit by [`LATE_AFTER`].

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::answers::{Expired, Lane, LispError};
use super::queue::{LaneState, LaneThread, RunningJob};
use super::sync::{Condvar, Mutex};
use super::ticket::JobState;

/// The time from the check that first finds a job late until its caller is answered, if the job
/// does not stop before.
pub(super) const UNWINDING: Duration = Duration::from_millis(250);
/// The time from the check that first finds a job late until its lane gets a new thread, if the job
/// does not stop before.
pub(super) const TAKEOVER_AFTER: Duration = Duration::from_secs(1);
/// The maximum extension of [`TAKEOVER_AFTER`] while Lisp takes no orders, as during a garbage
/// collection.
pub(super) const COLLECTING: Duration = Duration::from_secs(5);
/// The maximum extension of [`TAKEOVER_AFTER`] for time in which the thread was ready to run but
/// had no processor. [`UNWINDING`] is extended by at most an eighth of the job's time.
pub(super) const STARVED: Duration = Duration::from_secs(30);
/// How long a call may exceed its limit before its job counts as late, even if the job's deadline
/// has not passed, or an eighth of the job's time if that is less. The rest of the job's time is
/// meant for the work after the call.
pub(super) const LATE_AFTER: Duration = Duration::from_secs(2);
/// The time after which a job that does not stop is interrupted again, because its cleanup forms
/// may loop as well.
pub(super) const INTERRUPT_EVERY: Duration = Duration::from_millis(100);
/// Lisp counts as dead after this number of abandoned threads of the query lane in a row, because
/// the next thread would block as well.
const DEADLOCKED_AFTER: u32 = 2;
/// How long Lisp may leave an order or a thread start undone before it counts as dead, because its
/// collector or its supervisor hangs.
const STALLED_AFTER: Duration = Duration::from_secs(20);
/// The maximum time counted between two checks, so that a suspension of the process does not count.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// The time of the watch's next check.
pub(super) struct Alarm {
    next: Mutex<Instant>,
    woken: Condvar,
}

impl Alarm {
    pub(super) fn new() -> Self {
        Self { next: Mutex::new(Instant::now()), woken: Condvar::default() }
    }

    /// Makes the watch check at `time` or earlier.
    pub(super) fn wake_by(&self, time: Instant) {
        let mut next = self.next.lock();
        if time < *next {
            *next = time;
            self.woken.notify_one();
        }
    }

    /// Waits until the next check is due.
    pub(super) fn wait(&self) {
        let mut next = self.next.lock();
        loop {
            let now = Instant::now();
            if *next <= now {
                *next = now + Duration::from_secs(3600);
                return;
            }
            let until = *next;
            (next, _) = self.woken.wait_until(next, until);
        }
    }
}

/// An order to Lisp's supervisor thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SupervisorOrder {
    Interrupt(u64),
    StartThread(Lane),
    /// Stop supervising, because the core will be saved.
    End,
}

/// The orders that the supervisor has not taken yet.
#[derive(Default)]
pub(super) struct Orders {
    waiting: Mutex<VecDeque<SupervisorOrder>>,
    given: Condvar,
}

impl Orders {
    /// Adds an order, unless an equal order is already waiting.
    pub(super) fn give(&self, order: SupervisorOrder) {
        let mut waiting = self.waiting.lock();
        if !waiting.contains(&order) {
            waiting.push_back(order);
            self.given.notify_one();
        }
    }

    /// Waits for an order, and takes it.
    pub(super) fn take(&self) -> SupervisorOrder {
        let mut waiting = self.waiting.lock();
        loop {
            if let Some(order) = waiting.pop_front() {
                return order;
            }
            waiting = self.given.wait(waiting);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.lock().is_empty()
    }

    pub(super) fn clear(&self) {
        self.waiting.lock().clear();
    }
}

/// The results of one check of a lane, for the caller to carry out.
#[derive(Default)]
pub(super) struct LaneActions {
    /// Jobs that end without an answer, and the reasons.
    pub(super) ended: Vec<(Arc<JobState>, LispError)>,
    /// The call to interrupt.
    pub(super) interrupt: Option<u64>,
    /// Whether the lane's thread was abandoned, so that the lane needs another.
    pub(super) taken_over: bool,
    /// Whether two or more threads in a row were abandoned before they finished a job: they
    /// probably wait for the same lock, which is never released.
    pub(super) deadlocked: bool,
    /// The time of the next check; `None` if the lane has no jobs.
    pub(super) next: Option<Instant>,
}

/// Returns how long the thread with this ID has waited for a processor while it was ready to run.
/// This is the second number of /proc's `schedstat`, in nanoseconds. Returns zero if the kernel
/// does not report it.
pub(super) fn waited_for_processor(thread: i32) -> Duration {
    let text = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap_or_default();
    Duration::from_nanos(text.split(' ').nth(1).and_then(|waited| waited.parse().ok()).unwrap_or(0))
}

/// Checks a lane at the time `now`. `reacts` is `false` if the supervisor has not taken all orders.
/// `waited` returns a thread's time without a processor, as [`waited_for_processor`] does.
pub(super) fn enforce_deadlines(
    state: &mut LaneState,
    now: Instant,
    reacts: bool,
    waited: impl Fn(i32) -> Duration,
) -> LaneActions {
    let mut actions = LaneActions::default();
    let (expired, waiting): (VecDeque<_>, VecDeque<_>) =
        state.jobs.drain(..).partition(|job| job.job_state.deadline() <= now);
    actions.next = waiting.iter().map(|job| job.job_state.deadline()).min();
    state.jobs = waiting;
    actions.ended.extend(expired.into_iter().map(|job| {
        let why = job.job_state.stop_reason();
        (job.job_state, why)
    }));

    if let Some(running) = &mut state.running {
        let again = enforce_on_running(running, now, reacts, || waited(state.system_thread), &mut actions);
        actions.next = Some(actions.next.map_or(again, |next| next.min(again)));
        if actions.taken_over {
            state.generation += 1;
            state.given_up += 1;
            actions.deadlocked = state.given_up >= DEADLOCKED_AFTER;
            state.running = None;
            state.thread = LaneThread::Ordered;
        }
    }
    actions
}

/// If the deadline of the running job or the limit of its call has passed, interrupts the call into
/// Lisp, if there is one. If the job is late and does not stop, answers its caller, and later
/// abandons its thread. Returns the time of the next check.
fn enforce_on_running(
    running: &mut RunningJob,
    now: Instant,
    reacts: bool,
    waited: impl Fn() -> Duration,
    actions: &mut LaneActions,
) -> Instant {
    let deadline = running.job_state.deadline();
    let call_expired = running.call_deadline.is_some_and(|deadline| deadline <= now);
    if now < deadline && !call_expired {
        return running.call_deadline.map_or(deadline, |call_deadline| call_deadline.min(deadline));
    }
    if running.call != 0 && running.last_order.is_none_or(|last| now >= last + INTERRUPT_EVERY) {
        running.last_order = Some(now);
        actions.interrupt = Some(running.call);
    }
    let job = &running.job_state;
    let late_after = job.grace(LATE_AFTER);
    if now < deadline && running.call_deadline.is_none_or(|call_deadline| now < call_deadline + late_after) {
        return now + INTERRUPT_EVERY;
    }
    // The grace periods start when a check first finds the job late, not at the deadline, because
    // the watch may run late.
    let waited = waited();
    let (since, waited_before) = *running.stopping.get_or_insert((now, waited));
    let starved = STARVED.min(waited.saturating_sub(waited_before));
    if now >= since + UNWINDING + job.grace(starved) {
        actions.ended.push((Arc::clone(job), job.expired(Expired::StillRunning)));
    }
    if !reacts {
        running.held = COLLECTING.min(running.held + INTERRUPT_EVERY);
    }
    actions.taken_over = now >= since + TAKEOVER_AFTER + running.held + starved;
    now + INTERRUPT_EVERY
}

/// Measures how long Lisp has left an order or a thread start undone.
pub(super) struct StallTimer {
    last_check: Instant,
    waited: Duration,
}

impl StallTimer {
    pub(super) fn new() -> Self {
        Self { last_check: Instant::now(), waited: Duration::ZERO }
    }

    /// Records whether an order or a thread start is `undone` at the time `now`. Returns `true`
    /// once it has been undone for too long.
    pub(super) fn is_over(&mut self, undone: bool, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.last_check).min(LONGEST_STEP);
        self.last_check = now;
        self.waited = if undone { self.waited + passed } else { Duration::ZERO };
        self.waited > STALLED_AFTER
    }

    /// Returns the time of the next check while something is undone.
    pub(super) fn next(now: Instant) -> Instant {
        now + LONGEST_STEP
    }
}
