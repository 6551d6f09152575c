//! What the handles, the Lisp threads and the watch share.
//!
//! Three kinds of threads meet here. *Callers* submit jobs and wait on tickets. *Lisp threads*, one a lane, run the
//! jobs in order of arrival. The *watch* thread keeps the deadlines; it gives the orders that only a Lisp
//! thread can carry out to Lisp's supervisor, and it never waits for Lisp itself.

use std::cell::Cell;
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use steelbank_sys::ffi;

use super::answers::{CallError, Lane, LispError, State, Status};
use super::host;
use super::lisp::OnLisp;
use super::start::{Settings, StartError};
use super::ticket::{Job, Ledger, milliseconds};

/// How long an interrupted job may take to unwind before its caller is answered without it.
const GRACE: Duration = Duration::from_millis(250);
/// How long after its deadline a job that does not stop has its lane taken over by another thread.
const TAKEOVER: Duration = Duration::from_secs(1);
/// How often a job that does not stop is interrupted again: its clean-up forms may loop as well.
const REPEAT: Duration = Duration::from_millis(100);
/// How many sentences of trouble in other threads are kept.
const REPORTS: usize = 100;

/// What Lisp's supervisor thread is to do.
pub(super) enum Order {
    Interrupt(u64),
    StartThread(u64),
}

#[derive(Default)]
struct Running {
    ledger: Option<Arc<Ledger>>,
    /// The call in Lisp, or 0 between calls.
    call: u64,
    call_deadline: Option<Instant>,
    last_order: Option<Instant>,
}

struct LaneState {
    jobs: Mutex<VecDeque<Job>>,
    arrived: Condvar,
    running: Mutex<Running>,
    /// Raised when the lane's thread is given up; a thread serves while it is what it was when it came.
    generation: AtomicU64,
    started: AtomicBool,
}

impl LaneState {
    fn new(started: bool) -> Self {
        Self {
            jobs: Mutex::default(),
            arrived: Condvar::new(),
            running: Mutex::default(),
            generation: AtomicU64::new(0),
            started: AtomicBool::new(started),
        }
    }
}

thread_local! {
    /// The lane that this Lisp thread serves, and the lane's generation when it came.
    static SERVING: Cell<Option<(usize, u64)>> = const { Cell::new(None) };
}

const STARTING: u8 = 1;
const READY: u8 = 2;
const DEAD: u8 = 3;

/// One in a process, never freed.
pub(super) struct Shared {
    phase: AtomicU8,
    phase_lock: Mutex<()>,
    phase_changed: Condvar,
    death: Mutex<Option<String>>,
    /// The Lisp half's interface version, if it is another than ours.
    other_interface: Mutex<Option<u32>>,
    lanes: [LaneState; 2],
    calls: AtomicU64,
    orders: Mutex<VecDeque<Order>>,
    ordered: Condvar,
    /// When the watch looks next.
    watch: Mutex<Instant>,
    watch_woken: Condvar,
    completed: AtomicU64,
    abandoned: AtomicU64,
    reports: Mutex<VecDeque<String>>,
    started_at: Instant,
    ready_after: Mutex<Option<Duration>>,
    settings: Settings,
}

impl Shared {
    pub(super) fn new(settings: &Settings) -> std::io::Result<&'static Self> {
        let shared: &'static Self = Box::leak(Box::new(Self {
            phase: AtomicU8::new(STARTING),
            phase_lock: Mutex::default(),
            phase_changed: Condvar::new(),
            death: Mutex::default(),
            other_interface: Mutex::default(),
            lanes: [LaneState::new(true), LaneState::new(false)],
            calls: AtomicU64::new(0),
            orders: Mutex::default(),
            ordered: Condvar::new(),
            watch: Mutex::new(Instant::now()),
            watch_woken: Condvar::new(),
            completed: AtomicU64::new(0),
            abandoned: AtomicU64::new(0),
            reports: Mutex::default(),
            started_at: Instant::now(),
            ready_after: Mutex::default(),
            settings: settings.clone(),
        }));
        std::thread::Builder::new().name("sbcl-watch".into()).spawn(move || shared.watch())?;
        Ok(shared)
    }

    // For callers.

    pub(super) fn enqueue(&'static self, lane: Lane, job: Job) {
        if self.is_dead() {
            (job.ledger.fail)(self.death_error());
            return;
        }
        let number = lane as usize;
        let deadline = *job.ledger.deadline.lock();
        let state = &self.lanes[number];
        state.jobs.lock().push_back(job);
        state.arrived.notify_one();
        if !state.started.swap(true, Ordering::SeqCst) {
            self.order(Order::StartThread(number as u64));
        }
        self.look_by(deadline);
        if self.is_dead() {
            // Death may have emptied the queue just before the job came.
            self.fail_all();
        }
    }

    /// Takes the job out of its queue, or interrupts it where it runs.
    pub(super) fn stop(&self, ledger: &Arc<Ledger>) {
        for lane in &self.lanes {
            lane.jobs.lock().retain(|job| !Arc::ptr_eq(&job.ledger, ledger));
        }
        self.look_by(Instant::now());
    }

    pub(super) fn wait_until_ready(&self) -> Result<(), StartError> {
        let until = self.started_at + self.settings.start_timeout;
        let mut guard = self.phase_lock.lock();
        loop {
            match self.phase.load(Ordering::SeqCst) {
                READY => return Ok(()),
                DEAD => {
                    if let Some(core) = *self.other_interface.lock() {
                        return Err(StartError::OtherInterface { core, host: ffi::STEELBANK_ABI });
                    }
                    return Err(StartError::Died {
                        reason: self.death.lock().clone().unwrap_or_default(),
                        megabytes: self.settings.dynamic_space_size >> 20,
                    });
                }
                _ if self.phase_changed.wait_until(&mut guard, until).timed_out() => {
                    return Err(StartError::TimedOut { seconds: self.settings.start_timeout.as_secs() });
                }
                _ => {}
            }
        }
    }

    pub(super) fn state(&self) -> State {
        match self.phase.load(Ordering::SeqCst) {
            STARTING => State::Starting,
            READY if self.lanes.iter().any(|lane| lane.running.lock().ledger.is_some()) => State::Busy,
            READY => State::Ready,
            _ => State::Dead { reason: self.death.lock().clone().unwrap_or_default() },
        }
    }

    pub(super) fn status(&self) -> Status {
        Status {
            state: self.state(),
            queued: self.lanes.iter().map(|lane| lane.jobs.lock().len()).sum(),
            completed: self.completed.load(Ordering::Relaxed),
            abandoned_threads: self.abandoned.load(Ordering::Relaxed),
            start_microseconds: self
                .ready_after
                .lock()
                .map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
            reports: self.reports.lock().iter().cloned().collect(),
        }
    }

    pub(super) fn report(&self, sentence: String) {
        let mut reports = self.reports.lock();
        if reports.len() == REPORTS {
            reports.pop_front();
        }
        reports.push_back(sentence);
    }

    pub(super) fn contribs_folder(&self) -> Option<PathBuf> {
        match self.settings.image.contribs.folder() {
            Ok(folder) => folder,
            Err(error) => {
                self.report(format!("The contrib modules could not be unpacked: {error}"));
                None
            }
        }
    }

    // For Lisp threads.

    /// Runs the lane's jobs on this thread until another thread takes the lane over or Lisp is dead.
    pub(super) fn serve(&'static self, lane: u64, on_lisp: &OnLisp<'_>) {
        let Some((number, lane)) = usize::try_from(lane).ok().and_then(|n| Some((n, self.lanes.get(n)?)))
        else {
            return;
        };
        let generation = lane.generation.load(Ordering::SeqCst);
        SERVING.set(Some((number, generation)));
        if on_lisp.interface() != ffi::STEELBANK_ABI {
            *self.other_interface.lock() = Some(on_lisp.interface());
            self.die(0, "the core is of another version");
            return;
        }
        self.become_ready();
        while let Some(job) = self.next_job(lane, generation) {
            let deadline = *job.ledger.deadline.lock();
            *lane.running.lock() = Running { ledger: Some(Arc::clone(&job.ledger)), ..Running::default() };
            self.look_by(deadline);
            host::set_progress(job.progress);
            (job.run)(on_lisp);
            host::set_progress(None);
            let mut running = lane.running.lock();
            if lane.generation.load(Ordering::SeqCst) == generation {
                *running = Running::default();
            }
            self.completed.fetch_add(1, Ordering::Relaxed);
        }
    }

    fn become_ready(&self) {
        if self.phase.compare_exchange(STARTING, READY, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            *self.ready_after.lock() = Some(self.started_at.elapsed());
            let _guard = self.phase_lock.lock();
            self.phase_changed.notify_all();
        }
    }

    fn next_job(&self, lane: &LaneState, generation: u64) -> Option<Job> {
        let mut jobs = lane.jobs.lock();
        loop {
            if self.is_dead() || lane.generation.load(Ordering::SeqCst) != generation {
                return None;
            }
            if let Some(job) = jobs.pop_front() {
                return Some(job);
            }
            lane.arrived.wait(&mut jobs);
        }
    }

    /// Moves the deadline of the job on this Lisp thread, unless it was called off.
    pub(super) fn grant(&self, more: Duration) {
        let Some((number, _)) = SERVING.get() else { return };
        let running = self.lanes[number].running.lock();
        let Some(ledger) = &running.ledger else { return };
        let mut deadline = ledger.deadline.lock();
        if !ledger.cancelled.load(Ordering::SeqCst) {
            *deadline += more;
        }
    }

    /// Registers that this Lisp thread is about to enter Lisp. Returns the call's number.
    pub(super) fn begin_call(&self, until: Option<Instant>) -> Result<u64, CallError> {
        let Some((number, generation)) = SERVING.get() else { return Err(CallError::Interrupted) };
        let lane = &self.lanes[number];
        let mut running = lane.running.lock();
        if self.is_dead() || lane.generation.load(Ordering::SeqCst) != generation {
            return Err(CallError::Interrupted);
        }
        if running.ledger.as_ref().is_some_and(|ledger| *ledger.deadline.lock() <= Instant::now()) {
            return Err(CallError::Interrupted);
        }
        running.call = self.calls.fetch_add(1, Ordering::Relaxed) + 1;
        running.call_deadline = until;
        running.last_order = None;
        let call = running.call;
        drop(running);
        if let Some(until) = until {
            self.look_by(until);
        }
        Ok(call)
    }

    /// Registers that the call has returned.
    pub(super) fn end_call(&self, call: u64) {
        let Some((number, _)) = SERVING.get() else { return };
        let mut running = self.lanes[number].running.lock();
        if running.call == call {
            running.call = 0;
            running.call_deadline = None;
        }
    }

    /// Blocks Lisp's supervisor thread until there is something to do; for good, once Lisp is dead.
    pub(super) fn next_order(&self) -> Order {
        let mut orders = self.orders.lock();
        loop {
            if !self.is_dead()
                && let Some(order) = orders.pop_front()
            {
                return order;
            }
            self.ordered.wait(&mut orders);
        }
    }

    fn order(&self, order: Order) {
        self.orders.lock().push_back(order);
        self.ordered.notify_one();
    }

    // The watch.

    /// Makes the watch look at the deadlines at `time` or sooner.
    fn look_by(&self, time: Instant) {
        let mut next = self.watch.lock();
        if time < *next {
            *next = time;
            self.watch_woken.notify_one();
        }
    }

    fn watch(&'static self) {
        loop {
            {
                let mut next = self.watch.lock();
                while Instant::now() < *next {
                    let until = *next;
                    self.watch_woken.wait_until(&mut next, until);
                }
                *next = Instant::now() + Duration::from_secs(3600);
            }
            let now = Instant::now();
            for (number, lane) in self.lanes.iter().enumerate() {
                if let Some(next) = self.expire_queued(lane, now) {
                    self.look_by(next);
                }
                if let Some(next) = self.expire_running(number, lane, now) {
                    self.look_by(next);
                }
            }
        }
    }

    /// Answers the jobs whose time was over before they came to run. Returns the next deadline.
    fn expire_queued(&self, lane: &LaneState, now: Instant) -> Option<Instant> {
        let (expired, next) = {
            let mut jobs = lane.jobs.lock();
            let (expired, waiting): (Vec<Job>, Vec<Job>) =
                jobs.drain(..).partition(|job| *job.ledger.deadline.lock() <= now);
            let next = waiting.iter().map(|job| *job.ledger.deadline.lock()).min();
            jobs.extend(waiting);
            (expired, next)
        };
        for job in expired {
            (job.ledger.fail)(job.ledger.stopped_because());
        }
        next
    }

    /// Interrupts the running job if its time is over, answers its caller if it does not stop, and gives up its thread
    /// if it still does not. Returns when to look again.
    fn expire_running(&self, number: usize, lane: &LaneState, now: Instant) -> Option<Instant> {
        let mut running = lane.running.lock();
        let ledger = Arc::clone(running.ledger.as_ref()?);
        let deadline = *ledger.deadline.lock();
        let call_over = running.call_deadline.is_some_and(|call_deadline| call_deadline <= now);
        if now < deadline && !call_over {
            return Some(running.call_deadline.map_or(deadline, |call_deadline| call_deadline.min(deadline)));
        }
        if running.call != 0 && running.last_order.is_none_or(|last| now >= last + REPEAT) {
            running.last_order = Some(now);
            self.order(Order::Interrupt(running.call));
        }
        if now >= deadline + TAKEOVER {
            lane.generation.fetch_add(1, Ordering::SeqCst);
            *running = Running::default();
            drop(running);
            self.abandoned.fetch_add(1, Ordering::Relaxed);
            self.report(format!(
                "Lane {number} got a new thread: the job on the old one did not stop. The old thread runs on."
            ));
            self.order(Order::StartThread(number as u64));
            return None;
        }
        drop(running);
        if now >= deadline + GRACE {
            (ledger.fail)(LispError::DeadlinePassed {
                milliseconds: milliseconds(ledger.allowed),
                stopped: false,
            });
        }
        Some(now + REPEAT)
    }

    // Death.

    pub(super) fn is_dead(&self) -> bool {
        self.phase.load(Ordering::SeqCst) == DEAD
    }

    fn death_error(&self) -> LispError {
        LispError::Dead { reason: self.death.lock().clone().unwrap_or_default() }
    }

    /// Lisp is gone: answers everybody who waits, and everybody who comes.
    pub(super) fn die(&self, status: i32, reason: &str) {
        self.death.lock().get_or_insert_with(|| match status {
            0 => reason.to_owned(),
            _ => format!("{reason} (exit status {status})"),
        });
        self.phase.store(DEAD, Ordering::SeqCst);
        {
            let _guard = self.phase_lock.lock();
            self.phase_changed.notify_all();
        }
        self.fail_all();
    }

    fn fail_all(&self) {
        for lane in &self.lanes {
            let jobs = std::mem::take(&mut *lane.jobs.lock());
            let running = std::mem::take(&mut *lane.running.lock()).ledger;
            for ledger in jobs.into_iter().map(|job| job.ledger).chain(running) {
                (ledger.fail)(self.death_error());
            }
        }
    }
}
