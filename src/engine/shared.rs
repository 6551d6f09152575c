//! [`Shared`], the state of the one Lisp in the process: its queue, its watch and its phase.
//!
//! Several threads use the state. *Callers* submit jobs and wait on tickets. *Lisp threads*, one
//! per lane, run the jobs in order of arrival. The *watch* thread enforces the deadlines. Lisp's
//! *supervisor* thread takes the watch's orders. The *exit monitor* thread records Lisp's death.
//! When the watch or the exit monitor ends a job, a separate thread calls the job's listener, so
//! that a slow listener delays no deadline.

use std::cell::Cell;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant, UNIX_EPOCH};

use rustix::process::{Resource, getrlimit};
use steelbank_sys::ffi;

use super::answers::{CallError, EngineState, EngineStatus, Lane, LispError};
use super::lisp::{EntryPoints, OnLisp};
use super::phase::{Phase, Stage};
use super::queue::{JobQueue, LaneThread};
use super::start::{Settings, StartError};
use super::ticket::{Wakeup, deadline_after, guarded};
use super::watch::{StallTimer, SupervisorOrder, enforce_deadlines, waited_for_processor};
use super::{host, signals};

thread_local! {
    /// The lane that this Lisp thread serves, and the lane's generation when the thread began to
    /// serve it.
    static SERVING: Cell<Option<(Lane, u64)>> = const { Cell::new(None) };
}

/// Returns the lane that this thread serves, if it is a Lisp thread.
pub(super) fn serving() -> Option<Lane> {
    SERVING.get().map(|(lane, _)| lane)
}

/// The engine's state. There is one in a process, and it is never freed.
pub(super) struct Shared {
    pub(super) phase: Phase,
    pub(super) queue: JobQueue,
    wakeups: Sender<Wakeup>,
    saving: AtomicBool,
    /// The exit status that the shim reported instead of ending the process. It is 0 until then,
    /// and if the engine itself declared Lisp dead.
    death_status: AtomicI32,
    settings: Settings,
    sbcl_version: String,
}

impl Shared {
    /// Creates the state, and starts the watch and the thread that calls listeners.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub(super) fn new(settings: &Settings, sbcl_version: String) -> std::io::Result<&'static Self> {
        let (wakeups, outcomes) = channel::<Wakeup>();
        signals::spawn("sbcl-listeners", move || outcomes.into_iter().for_each(Wakeup::deliver))?;
        let shared: &'static Self = Box::leak(Box::new(Self {
            phase: Phase::new(),
            queue: JobQueue::new(),
            wakeups,
            saving: AtomicBool::new(false),
            death_status: AtomicI32::new(0),
            settings: settings.clone(),
            sbcl_version,
        }));
        signals::spawn("sbcl-watch", move || shared.watch())?;
        Ok(shared)
    }

    // Called by callers.

    pub(super) fn sbcl_version(&self) -> &str {
        &self.sbcl_version
    }

    pub(super) fn wait_until_ready(&self) -> Result<(), StartError> {
        match self.phase.wait(self.settings.start_timeout) {
            Stage::Ready => Ok(()),
            Stage::Starting => Err(StartError::TimedOut { seconds: self.settings.start_timeout.as_secs() }),
            Stage::OtherInterface(core) => Err(StartError::OtherInterface { core, host: ffi::STEELBANK_ABI }),
            Stage::Dead(reason) => Err(StartError::Died {
                reason: reason.to_string(),
                megabytes: self.settings.dynamic_space_size >> 20,
                address_space: getrlimit(Resource::As).current.map(|bytes| bytes >> 20),
            }),
        }
    }

    pub(super) fn has_timed_out(&self) -> bool {
        self.phase.stage() == Stage::Starting && self.phase.age() >= self.settings.start_timeout
    }

    pub(super) fn state(&self) -> EngineState {
        match self.phase.stage() {
            Stage::Starting => EngineState::Starting,
            Stage::Ready if self.queue.is_busy() => EngineState::Busy,
            Stage::Ready => EngineState::Ready,
            Stage::OtherInterface(_) => {
                EngineState::Dead { reason: "the core has another interface version".to_owned() }
            }
            Stage::Dead(reason) => EngineState::Dead { reason: reason.to_string() },
        }
    }

    pub(super) fn died_at(&self) -> Option<u64> {
        Some(self.phase.died_at()?.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs()))
    }

    pub(super) fn status(&self) -> EngineStatus {
        EngineStatus {
            state: self.state(),
            queued: self.queue.waiting(),
            completed: self.queue.completed(),
            abandoned_threads: self.queue.abandoned(),
            start_microseconds: self
                .phase
                .ready_after()
                .map(|time| u64::try_from(time.as_micros()).unwrap_or(u64::MAX)),
            died_at: self.died_at(),
            reports: self.phase.reports(),
        }
    }

    /// Makes Lisp's threads end, and waits for the runtime's exit, which follows the save. Returns
    /// the exit status and the message, or `None` if the runtime did not exit in time.
    pub(super) fn save(&self, allowed: Duration) -> Option<(i32, String)> {
        self.saving.store(true, Ordering::SeqCst);
        self.queue.end_threads();
        self.queue.orders.give(SupervisorOrder::End);
        let reason = self.phase.wait_for_death(deadline_after(allowed))?;
        Some((self.death_status.load(Ordering::SeqCst), reason.to_string()))
    }

    /// Records that the heap was exhausted.
    pub(super) fn note_heap_exhausted(&self) {
        self.phase.note_trouble(|trouble| trouble.filled += 1);
    }

    // Called by jobs on Lisp threads.

    pub(super) fn grant(&self, more: Duration) {
        if let Some((lane, generation)) = SERVING.get() {
            self.queue.grant(lane, generation, more);
        }
    }

    pub(super) fn begin_call(&self, until: Option<Instant>) -> Result<u64, CallError> {
        let (lane, generation) = SERVING.get().ok_or(CallError::Interrupted)?;
        self.queue.begin_call(lane, generation, Instant::now(), until)
    }

    pub(super) fn end_call(&self, call: u64) {
        if let Some((lane, _)) = SERVING.get() {
            self.queue.end_call(lane, call);
        }
    }

    /// Returns whether this thread may enter Lisp.
    pub(super) fn may_enter(&self) -> bool {
        SERVING.get().is_some_and(|(lane, generation)| self.queue.is_open(lane, generation))
    }

    // Called by the watch.

    fn watch(&self) {
        let mut stall = StallTimer::new();
        loop {
            self.queue.alarm.wait();
            guarded(|| self.check(&mut stall));
        }
    }

    fn check(&self, stall: &mut StallTimer) {
        let now = Instant::now();
        let reacts = self.queue.orders.is_empty();
        let (mut undone, mut deadlocked) = (!reacts, false);
        for lane in Lane::ALL {
            let (actions, thread) = self
                .queue
                .lane(lane)
                .with(|state| (enforce_deadlines(state, now, reacts, waited_for_processor), state.thread));
            for (job_state, error) in actions.ended {
                self.deliver(job_state.fail(error));
            }
            if let Some(call) = actions.interrupt {
                self.queue.orders.give(SupervisorOrder::Interrupt(call));
            }
            if actions.taken_over {
                self.queue.note_abandoned();
                self.phase.note_trouble(|trouble| trouble.given_up += 1);
                self.phase.report(format!(
                    "The {lane} lane has a new thread, because the job on the old one did not stop. The old thread continues to run."
                ));
                self.queue.orders.give(SupervisorOrder::StartThread(lane));
            }
            // Ignore the work lane, where user code may hang. If two questions in a row cannot be
            // stopped, both probably wait for a lock that is never released.
            deadlocked |= actions.deadlocked && lane == Lane::Query;
            undone |= thread == LaneThread::Ordered;
            if let Some(next) = actions.next {
                self.queue.alarm.wake_by(next);
            }
        }
        // While Lisp starts, another time limit applies; see wait_until_ready.
        undone &= self.phase.stage() == Stage::Ready;
        if undone {
            self.queue.alarm.wake_by(StallTimer::next(now));
        }
        if stall.is_over(undone, now) {
            self.die(0, "it does not respond: its garbage collector or its supervisor thread hangs");
        }
        if deadlocked {
            self.die(
                0,
                "it does not respond: questions wait for a lock held by work that could not be stopped",
            );
        }
    }

    fn deliver(&self, wakeup: Wakeup) {
        // Sending cannot fail, because the thread that calls listeners lives as long as the
        // process.
        if !wakeup.is_empty()
            && let Err(undelivered) = self.wakeups.send(wakeup)
        {
            undelivered.0.deliver();
        }
    }

    /// Enters `stage`, and fails all current and future jobs with the reason of the death.
    fn close(&self, stage: Stage) {
        let reason = self.phase.die(stage).to_string();
        for job_state in self.queue.close(&LispError::Dead { reason: reason.clone() }) {
            self.deliver(job_state.fail(LispError::Dead { reason: reason.clone() }));
        }
        self.queue.orders.clear();
    }

    // Called by Lisp and the shim, through the host's functions.

    /// Runs the lane's jobs on this thread until another thread takes the lane over, Lisp is dead,
    /// or the core must be saved. If the core has another interface version, runs none and closes
    /// the queue.
    pub(super) fn serve(&'static self, lane: Lane, entry: EntryPoints<'_>) {
        let on_lisp = OnLisp::new(entry, self);
        let generation = self.queue.enter(lane);
        SERVING.set(Some((lane, generation)));
        if on_lisp.interface() != ffi::STEELBANK_ABI {
            self.close(Stage::OtherInterface(on_lisp.interface()));
            return;
        }
        self.phase.become_ready();
        while let Some(job) = self.queue.next(lane, generation) {
            host::set_progress(job.progress);
            let wakeup = (job.run)(&on_lisp);
            host::set_progress(None);
            self.queue.finish(lane, generation);
            wakeup.deliver();
        }
    }

    /// Blocks Lisp's supervisor thread until there is an order. Once Lisp is dead, blocks forever.
    pub(super) fn next_order(&self) -> SupervisorOrder {
        loop {
            let order = self.queue.orders.take();
            if !self.phase.is_dead() {
                return order;
            }
        }
    }

    /// Adds a sentence to the reports.
    pub(super) fn report(&self, sentence: String) {
        self.phase.report(sentence);
    }

    /// Returns the folder of the contrib modules. Returns `None` if there is none or if they cannot
    /// be unpacked; the error is then added to the reports.
    pub(super) fn contribs_folder(&self) -> Option<PathBuf> {
        match self.settings.image.contribs.folder() {
            Ok(folder) => folder,
            Err(error) => {
                self.phase.report(format!("The contrib modules could not be unpacked: {error}"));
                None
            }
        }
    }

    /// Records that the runtime has ended or hangs, and fails all jobs.
    pub(super) fn die(&self, status: i32, reason: &str) {
        self.death_status.store(status, Ordering::SeqCst);
        let reason = match status {
            0 => reason.to_owned(),
            _ => format!("{reason} (exit status {status})"),
        };
        self.close(Stage::Dead(reason.into()));
    }

    pub(super) fn is_dead(&self) -> bool {
        self.phase.is_dead()
    }

    /// Returns whether Lisp's threads must end so that its main thread can save the core.
    pub(super) fn is_saving(&self) -> bool {
        self.saving.load(Ordering::SeqCst)
    }
}
