//! Queues jobs for Lisp's threads. A lane is a queue with one thread that runs its jobs.
//!
//! Each lane has a single lock for the jobs that wait and the job that runs. Code that closes a
//! lane or abandons its thread therefore misses no job.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::answers::{CallError, Lane, LispError};
use super::sync::{Condvar, Mutex};
use super::ticket::{Job, JobState};
use super::watch::{Alarm, Orders, StallTimer, SupervisorOrder};

/// All lanes: the jobs that wait for Lisp, and the jobs that run.
pub(super) struct JobQueue {
    lanes: [LaneQueue; 2],
    calls: AtomicU64,
    completed: AtomicU64,
    abandoned: AtomicU64,
    pub(super) alarm: Alarm,
    pub(super) orders: Orders,
}

/// A lane: jobs in order of arrival, and a thread that serves the clients in turn.
pub(super) struct LaneQueue {
    state: Mutex<LaneState>,
    arrived: Condvar,
}

#[derive(Default)]
pub(super) struct LaneState {
    pub(super) jobs: VecDeque<Job>,
    pub(super) running: Option<RunningJob>,
    /// The number of jobs taken so far.
    taken: u64,
    /// The value of `taken` at each client's last job.
    served: HashMap<u64, u64>,
    /// Incremented when the lane's thread is abandoned. A thread serves the lane only while the
    /// number equals its value at the thread's start.
    pub(super) generation: u64,
    pub(super) thread: LaneThread,
    /// The thread's ID in the operating system.
    pub(super) system_thread: i32,
    /// The number of threads abandoned since a thread of the lane last finished a job.
    pub(super) given_up: u32,
    /// The error for every job, once Lisp is dead.
    closed: Option<LispError>,
    /// Whether the thread must exit so that the core can be saved.
    ending: bool,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum LaneThread {
    /// Not needed yet.
    #[default]
    None,
    /// Lisp was ordered to start the thread.
    Ordered,
    Serving,
}

/// The job that a lane's thread is running.
pub(super) struct RunningJob {
    pub(super) job_state: Arc<JobState>,
    /// The number of the current call into Lisp, or 0 between calls.
    pub(super) call: u64,
    pub(super) call_deadline: Option<Instant>,
    /// When a check first found the job late (see [`super::watch`]), and how long its thread had
    /// waited for a processor by then.
    pub(super) stopping: Option<(Instant, Duration)>,
    pub(super) last_order: Option<Instant>,
    /// How long Lisp has taken no orders since the time in `stopping`.
    pub(super) held: Duration,
}

impl LaneQueue {
    fn new(thread: LaneThread) -> Self {
        let state = LaneState { thread, ..LaneState::default() };
        Self { state: Mutex::new(state), arrived: Condvar::default() }
    }

    /// Locks the lane and calls `body` with its state.
    pub(super) fn with<R>(&self, body: impl FnOnce(&mut LaneState) -> R) -> R {
        body(&mut self.state.lock())
    }
}

impl JobQueue {
    pub(super) fn new() -> Self {
        Self {
            // Lisp's main thread serves the first lane without an order.
            lanes: [LaneQueue::new(LaneThread::Ordered), LaneQueue::new(LaneThread::None)],
            calls: AtomicU64::new(0),
            completed: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            alarm: Alarm::new(),
            orders: Orders::default(),
        }
    }

    pub(super) fn lane(&self, lane: Lane) -> &LaneQueue {
        &self.lanes[lane as usize]
    }

    /// Adds a job. If Lisp is dead, the job fails with the error that reports the death.
    pub(super) fn push(&self, job: Job) {
        let (lane, deadline) = (job.job_state.lane, job.job_state.deadline());
        let state = self.lane(lane);
        let refused = state.with(|state| {
            if let Some(error) = &state.closed {
                return Some((job, error.clone()));
            }
            state.jobs.push_back(job);
            if state.thread == LaneThread::None {
                state.thread = LaneThread::Ordered;
                self.orders.give(SupervisorOrder::StartThread(lane));
                // Let the watch check that the thread starts.
                self.alarm.wake_by(StallTimer::next(Instant::now()));
            }
            None
        });
        if let Some((job, error)) = refused {
            job.job_state.fail(error).deliver();
            return;
        }
        state.arrived.notify_one();
        self.alarm.wake_by(deadline);
    }

    /// Removes the job if it is waiting. Wakes the watch, which interrupts the job if it is running
    /// and cancelled.
    pub(super) fn remove(&self, job_state: &Arc<JobState>) {
        self.lane(job_state.lane)
            .with(|state| state.jobs.retain(|job| !Arc::ptr_eq(&job.job_state, job_state)));
        self.alarm.wake_by(Instant::now());
    }

    /// Starts to serve the lane on this thread. Returns the lane's generation, for
    /// [`JobQueue::next`].
    pub(super) fn enter(&self, lane: Lane) -> u64 {
        self.lane(lane).with(|state| {
            state.thread = LaneThread::Serving;
            state.system_thread = rustix::thread::gettid().as_raw_nonzero().get();
            state.generation
        })
    }

    /// Waits for the next job and marks it as running. Returns `None` if this thread was abandoned
    /// or must exit for a save, or if Lisp is dead.
    pub(super) fn next(&self, lane: Lane, generation: u64) -> Option<Job> {
        let lane = self.lane(lane);
        let mut state = lane.state.lock();
        loop {
            if state.closed.is_some() || state.ending || state.generation != generation {
                return None;
            }
            // Take the first job of the client that was served least recently, so that a client
            // with many jobs does not delay the others.
            let turn = |(_, job): &(usize, &Job)| state.served.get(&job.client).copied();
            let first = state.jobs.iter().enumerate().min_by_key(turn).map(|(at, _)| at);
            if let Some(job) = first.and_then(|at| state.jobs.remove(at)) {
                state.running = Some(RunningJob {
                    job_state: Arc::clone(&job.job_state),
                    call: 0,
                    call_deadline: None,
                    stopping: None,
                    last_order: None,
                    held: Duration::ZERO,
                });
                state.taken += 1;
                let taken = state.taken;
                state.served.insert(job.client, taken);
                return Some(job);
            }
            state = lane.arrived.wait(state);
        }
    }

    /// Records that the job of the lane's thread has ended.
    pub(super) fn finish(&self, lane: Lane, generation: u64) {
        self.lane(lane).with(|state| {
            if state.generation == generation {
                state.running = None;
                state.given_up = 0;
            }
        });
        self.completed.fetch_add(1, Ordering::Relaxed);
    }

    /// Records that the lane's thread is about to enter Lisp, and returns the call's number.
    /// Returns an error if the thread may not enter Lisp or the job's deadline has passed.
    pub(super) fn begin_call(
        &self,
        lane: Lane,
        generation: u64,
        now: Instant,
        until: Option<Instant>,
    ) -> Result<u64, CallError> {
        let number = self.lane(lane).with(|state| {
            if state.closed.is_some() || state.generation != generation {
                return Err(CallError::Interrupted);
            }
            let Some(running) = &mut state.running else { return Err(CallError::Interrupted) };
            if running.job_state.deadline() <= now {
                return Err(CallError::Interrupted);
            }
            running.job_state.begin();
            running.call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
            running.call_deadline = until;
            (running.stopping, running.last_order, running.held) = (None, None, Duration::ZERO);
            Ok(running.call)
        })?;
        if let Some(until) = until {
            self.alarm.wake_by(until);
        }
        Ok(number)
    }

    /// Records that the call has returned.
    pub(super) fn end_call(&self, lane: Lane, call: u64) {
        self.lane(lane).with(|state| {
            if let Some(running) = state.running.as_mut().filter(|running| running.call == call) {
                running.call = 0;
                running.call_deadline = None;
            }
        });
    }

    /// Returns whether a thread of this generation may enter Lisp.
    pub(super) fn is_open(&self, lane: Lane, generation: u64) -> bool {
        self.lane(lane).with(|state| state.closed.is_none() && state.generation == generation)
    }

    /// Extends the deadline of the lane's running job.
    pub(super) fn grant(&self, lane: Lane, generation: u64, more: Duration) {
        self.lane(lane).with(|state| {
            if let Some(running) = state.running.as_ref().filter(|_| state.generation == generation) {
                running.job_state.grant(more);
            }
        });
    }

    /// Returns the reason why a job was stopped or not allowed to enter Lisp.
    pub(super) fn end(&self, job_state: &JobState) -> LispError {
        let closed = self.lane(job_state.lane).with(|state| state.closed.clone());
        closed.unwrap_or_else(|| job_state.stop_reason())
    }

    /// Closes the queue: further jobs fail with `error`. Removes and returns the waiting and
    /// running jobs.
    pub(super) fn close(&self, error: &LispError) -> Vec<Arc<JobState>> {
        let mut undecided = Vec::new();
        for lane in &self.lanes {
            lane.with(|state| {
                state.closed.get_or_insert_with(|| error.clone());
                undecided.extend(state.jobs.drain(..).map(|job| job.job_state));
                undecided.extend(state.running.take().map(|running| running.job_state));
            });
            lane.arrived.notify_all();
        }
        undecided
    }

    /// Makes the lanes' threads exit after their current jobs. Waiting jobs are not run.
    pub(super) fn end_threads(&self) {
        for lane in &self.lanes {
            lane.with(|state| state.ending = true);
            lane.arrived.notify_all();
        }
    }

    /// Returns the number of jobs that the lane has taken so far, or `None` while it runs a job.
    /// The lane counts as idle once the job's code has returned. A caller that has received what
    /// this code returned therefore sees the lane as idle.
    pub(super) fn taken_if_idle(&self, lane: Lane) -> Option<u64> {
        self.lane(lane).with(|state| {
            let is_idle = state.running.as_ref().is_none_or(|running| running.job_state.has_ended());
            is_idle.then_some(state.taken)
        })
    }

    pub(super) fn note_abandoned(&self) {
        self.abandoned.fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn is_busy(&self) -> bool {
        self.lanes.iter().any(|lane| lane.with(|state| state.running.is_some()))
    }

    pub(super) fn waiting(&self) -> usize {
        self.lanes.iter().map(|lane| lane.with(|state| state.jobs.len())).sum()
    }

    pub(super) fn completed(&self) -> u64 {
        self.completed.load(Ordering::Relaxed)
    }

    pub(super) fn abandoned(&self) -> u64 {
        self.abandoned.load(Ordering::Relaxed)
    }
}
