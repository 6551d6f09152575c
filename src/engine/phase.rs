//! The phase of Lisp's life (starting, ready, dead), its reports, and the trouble that callers wait
//! for.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant, SystemTime};

use super::answers::EngineTrouble;
use super::sync::{Condvar, Mutex};

/// The maximum number of stored reports.
const REPORTS: usize = 100;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Stage {
    Starting,
    Ready,
    /// The Lisp half's interface version differs from this program's.
    OtherInterface(u32),
    Dead(Arc<str>),
}

/// Lisp's current stage, the times of its start and death, its reports, and the trouble so far.
pub(super) struct Phase {
    stage: Mutex<Stage>,
    changed: Condvar,
    dead: AtomicBool,
    died_at: OnceLock<SystemTime>,
    reports: Mutex<VecDeque<String>>,
    trouble: Mutex<EngineTrouble>,
    troubled: Condvar,
    started_at: Instant,
    ready_after: Mutex<Option<Duration>>,
}

impl Phase {
    pub(super) fn new() -> Self {
        Self {
            stage: Mutex::new(Stage::Starting),
            changed: Condvar::default(),
            dead: AtomicBool::new(false),
            died_at: OnceLock::new(),
            reports: Mutex::default(),
            trouble: Mutex::default(),
            troubled: Condvar::default(),
            started_at: Instant::now(),
            ready_after: Mutex::default(),
        }
    }

    pub(super) fn stage(&self) -> Stage {
        self.stage.lock().clone()
    }

    /// Enters the ready stage, unless Lisp has left the starting stage already.
    pub(super) fn become_ready(&self) {
        let mut stage = self.stage.lock();
        if *stage == Stage::Starting {
            *stage = Stage::Ready;
            *self.ready_after.lock() = Some(self.started_at.elapsed());
            self.changed.notify_all();
        }
    }

    /// Enters `stage`, which is [`Stage::Dead`] or [`Stage::OtherInterface`], unless Lisp is
    /// already in one of these. Returns the reason of the first death, as a sentence fragment.
    pub(super) fn die(&self, stage: Stage) -> Arc<str> {
        let _ = self.died_at.set(SystemTime::now());
        self.dead.store(true, Ordering::SeqCst);
        let mut now = self.stage.lock();
        if matches!(*now, Stage::Starting | Stage::Ready) {
            *now = stage;
            self.changed.notify_all();
        }
        let reason = match &*now {
            Stage::Dead(reason) => Arc::clone(reason),
            _ => "the core has another interface version".into(),
        };
        drop(now);
        self.note_trouble(|trouble| trouble.death = Some(reason.to_string()));
        reason
    }

    pub(super) fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Returns when Lisp died, or `None` if it is alive.
    pub(super) fn died_at(&self) -> Option<SystemTime> {
        self.died_at.get().copied()
    }

    /// Waits while `holds` returns `true` for the stage, at most until `until` if that is given.
    /// Returns the stage.
    fn wait_while(&self, until: Option<Instant>, holds: impl Fn(&Stage) -> bool) -> Stage {
        let mut stage = self.stage.lock();
        let mut timed_out = false;
        while holds(&stage) && !timed_out {
            (stage, timed_out) = match until {
                Some(until) => self.changed.wait_until(stage, until),
                None => (self.changed.wait(stage), false),
            };
        }
        stage.clone()
    }

    /// Waits until Lisp is no longer starting, for at most `allowed` after the start began.
    pub(super) fn wait(&self, allowed: Duration) -> Stage {
        self.wait_while(self.started_at.checked_add(allowed), |stage| *stage == Stage::Starting)
    }

    /// Waits until Lisp is dead, and returns the reason. Returns `None` if it is alive at `until`.
    pub(super) fn wait_for_death(&self, until: Instant) -> Option<Arc<str>> {
        match self.wait_while(Some(until), |stage| !matches!(stage, Stage::Dead(_))) {
            Stage::Dead(reason) => Some(reason),
            _ => None,
        }
    }

    /// Changes the recorded trouble, and wakes the threads that wait for it.
    pub(super) fn note_trouble(&self, change: impl FnOnce(&mut EngineTrouble)) {
        change(&mut self.trouble.lock());
        self.troubled.notify_all();
    }

    /// Waits until the trouble differs from `seen`, and returns it.
    pub(super) fn wait_for_trouble(&self, seen: &EngineTrouble) -> EngineTrouble {
        let mut trouble = self.trouble.lock();
        while *trouble == *seen {
            trouble = self.troubled.wait(trouble);
        }
        trouble.clone()
    }

    /// Returns the time since the start began.
    pub(super) fn age(&self) -> Duration {
        self.started_at.elapsed()
    }

    pub(super) fn ready_after(&self) -> Option<Duration> {
        *self.ready_after.lock()
    }

    pub(super) fn report(&self, sentence: String) {
        let mut reports = self.reports.lock();
        if reports.len() == REPORTS {
            reports.pop_front();
        }
        reports.push_back(sentence);
    }

    pub(super) fn reports(&self) -> Vec<String> {
        self.reports.lock().iter().cloned().collect()
    }
}
