//! The watch: when it looks, how it enforces a lane's deadlines, and the orders that it gives to Lisp.
//!
//! The watch never waits for Lisp. What only a Lisp thread can do, it has Lisp's supervisor do.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use super::answers::{Expired, Lane, LispError};
use super::queue::{LaneState, LaneThread, RunningJob};
use super::sync::{Condvar, Mutex};
use super::ticket::JobState;

/// How long an interrupted job may take to unwind before its caller is answered without it.
pub(super) const UNWINDING: Duration = Duration::from_millis(250);
/// How long after the first interrupt a job that does not stop has its lane taken over by another thread.
pub(super) const TAKEOVER_AFTER: Duration = Duration::from_secs(1);
/// The most that is added to that for the time in which Lisp took no order, as while it collects garbage.
pub(super) const COLLECTING: Duration = Duration::from_secs(5);
/// The most that is added for the time in which the thread could run, and the system's scheduler ran others.
pub(super) const STARVED: Duration = Duration::from_secs(30);
/// How long after the limit of its own a call that does not stop has its job count as late: the rest of the job's time is for what
/// comes after the call.
pub(super) const LATE_AFTER: Duration = Duration::from_secs(2);
/// How often a job that does not stop is interrupted again: its clean-up forms may loop as well.
pub(super) const INTERRUPT_EVERY: Duration = Duration::from_millis(100);
/// After this many threads of a lane were given up in a row, another would not fare better: Lisp counts as dead.
const DEADLOCKED_AFTER: u32 = 2;
/// How long Lisp may leave an order undone before it counts as dead: its collector or its supervisor hangs.
const STALLED_AFTER: Duration = Duration::from_secs(20);
/// The most time that counts between two looks: a process that was stopped has not waited.
const LONGEST_STEP: Duration = Duration::from_secs(1);

/// When the watch looks next.
pub(super) struct Alarm {
    next: Mutex<Instant>,
    woken: Condvar,
}

impl Alarm {
    pub(super) fn new() -> Self {
        Self { next: Mutex::new(Instant::now()), woken: Condvar::default() }
    }

    /// Makes the watch look at `time` or sooner.
    pub(super) fn look_by(&self, time: Instant) {
        let mut next = self.next.lock();
        if time < *next {
            *next = time;
            self.woken.notify_one();
        }
    }

    /// Waits until it is time to look.
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
    /// The order to stop supervising: the core is to be saved.
    End,
}

/// The orders that the supervisor has not taken.
#[derive(Default)]
pub(super) struct Orders {
    waiting: Mutex<VecDeque<SupervisorOrder>>,
    given: Condvar,
}

impl Orders {
    /// Adds an order, unless it waits already.
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

/// The decisions of one look at a lane.
#[derive(Default)]
pub(super) struct LaneActions {
    /// Jobs that end without an answer, and why.
    pub(super) ended: Vec<(Arc<JobState>, LispError)>,
    /// The call to interrupt.
    pub(super) interrupt: Option<u64>,
    /// The lane's thread was given up: it needs another.
    pub(super) taken_over: bool,
    /// The thread before it was given up too, and this one ended no job: both wait for something that the first one
    /// holds.
    pub(super) deadlocked: bool,
    /// When to look again.
    pub(super) next: Option<Instant>,
}

/// Returns for how long the thread of this process with that number has been ready to run, and others ran: the second number of
/// /proc's `schedstat`, in nanoseconds. None where the kernel does not tell.
pub(super) fn waited_for_processor(thread: i32) -> Duration {
    let told = std::fs::read_to_string(format!("/proc/self/task/{thread}/schedstat")).unwrap_or_default();
    Duration::from_nanos(told.split(' ').nth(1).and_then(|waited| waited.parse().ok()).unwrap_or(0))
}

/// Looks at a lane at the time `now`. Lisp `reacts` unless it has left an order undone; `waited` tells what
/// [`waited_for_processor`] does of the lane's thread.
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
        let why = job.job_state.stopped_because();
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

/// Interrupts the running job if its time is over, answers its caller if it does not stop, and gives its thread up if
/// it still does not. Returns when to look again.
fn enforce_on_running(
    running: &mut RunningJob,
    now: Instant,
    reacts: bool,
    waited: impl Fn() -> Duration,
    actions: &mut LaneActions,
) -> Instant {
    let deadline = running.job_state.deadline();
    let call_over = running.call_deadline.is_some_and(|deadline| deadline <= now);
    if now < deadline && !call_over {
        return running.call_deadline.map_or(deadline, |call_deadline| call_deadline.min(deadline));
    }
    if running.call != 0 && running.last_order.is_none_or(|last| now >= last + INTERRUPT_EVERY) {
        running.last_order = Some(now);
        actions.interrupt = Some(running.call);
    }
    if now < deadline && running.call_deadline.is_none_or(|call_deadline| now < call_deadline + LATE_AFTER) {
        return now + INTERRUPT_EVERY;
    }
    // The job's own time counts from when it was first told to stop: the watch may come late.
    let waited = waited();
    let (since, waited_before) = *running.stopping.get_or_insert((now, waited));
    let starved = STARVED.min(waited.saturating_sub(waited_before));
    if now >= since + UNWINDING + starved {
        actions
            .ended
            .push((Arc::clone(&running.job_state), running.job_state.expired(Expired::StillRunning)));
    }
    if !reacts {
        running.held = COLLECTING.min(running.held + INTERRUPT_EVERY);
    }
    actions.taken_over = now >= since + TAKEOVER_AFTER + running.held + starved;
    now + INTERRUPT_EVERY
}

/// Measures for how long Lisp has left something undone.
pub(super) struct StallTimer {
    looked: Instant,
    waited: Duration,
}

impl StallTimer {
    pub(super) fn new() -> Self {
        Self { looked: Instant::now(), waited: Duration::ZERO }
    }

    /// Looks whether something is `undone` at the time `now`. True once it has been so for too long.
    pub(super) fn is_over(&mut self, undone: bool, now: Instant) -> bool {
        let passed = now.saturating_duration_since(self.looked).min(LONGEST_STEP);
        self.looked = now;
        self.waited = if undone { self.waited + passed } else { Duration::ZERO };
        self.waited > STALLED_AFTER
    }

    /// When to look again while something is undone.
    pub(super) fn next(now: Instant) -> Instant {
        now + LONGEST_STEP
    }
}
