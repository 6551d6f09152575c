//! The calls that run: which of them a cancellation means, and the threads of those that may wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use serde::Deserialize;
use serde_json::value::RawValue;

use super::message::Id;
use crate::query::control::Cancellation;

/// How many calls wait for Lisp at once; more queue.
const THREADS: usize = 64;
/// How long a thread without a call stays.
const IDLE: Duration = Duration::from_secs(10);

/// The calls that are not answered yet.
#[derive(Default)]
pub(super) struct Calls {
    table: Mutex<CallTable>,
    emptied: Condvar,
    /// Lines that are being carried out where they were read.
    lines: AtomicUsize,
}

#[derive(Default)]
struct CallTable {
    next: u64,
    running: Vec<RunningCall>,
}

struct RunningCall {
    serial: u64,
    id: Id,
    cancellation: Cancellation,
    /// The pool whose thread carries it out, once it does.
    on: Option<Arc<Pool>>,
    /// It has its answer, which is being written.
    answered: bool,
    /// The line that asked for it, if it may be asked for again.
    line: Option<Vec<u8>>,
    /// It ends soon, whatever else runs.
    brief: bool,
    /// Lisp died over it: what to answer if nobody asks again.
    failed: Option<Vec<u8>>,
}

/// A call that nobody answers any more but who has taken it.
pub(super) struct Unanswered {
    pub(super) id: Id,
    pub(super) cancellation: Cancellation,
    /// The line that asked for it, if it may be asked for again.
    pub(super) line: Option<Vec<u8>>,
    /// The error to answer, if it failed.
    pub(super) failed: Option<Vec<u8>>,
}

impl From<RunningCall> for Unanswered {
    fn from(call: RunningCall) -> Self {
        Self { id: call.id, cancellation: call.cancellation, line: call.line, failed: call.failed }
    }
}

impl Calls {
    /// Notes a call that begins, or queues. `line` asked for it, if it may be asked for again; it is `brief` if it ends soon,
    /// whatever else runs.
    pub(super) fn note(&self, id: Id, cancellation: Cancellation, line: Option<Vec<u8>>, brief: bool) -> u64 {
        let mut table = self.table.lock();
        table.next += 1;
        let serial = table.next;
        let call =
            RunningCall { serial, id, cancellation, on: None, answered: false, line, brief, failed: None };
        table.running.push(call);
        serial
    }

    /// Leaves a call that may be asked for again without its answer, `failed`. False if it may not, or was called off.
    pub(super) fn leave_unanswered(&self, serial: u64, failed: &[u8]) -> bool {
        let mut table = self.table.lock();
        let call = table.running.iter_mut().find(|call| call.serial == serial && call.line.is_some());
        let left = call.map(|call| call.failed = Some(failed.to_vec())).is_some();
        self.emptied.notify_all();
        left
    }

    /// Takes the calls that were left without an answer: nobody else answers them from here on.
    pub(super) fn take_left(&self) -> Vec<Unanswered> {
        self.take_if(|call| call.failed.is_some())
    }

    /// Notes that a line is carried out where it was read.
    pub(super) fn begin_line(&self) {
        self.lines.fetch_add(1, Ordering::SeqCst);
    }

    /// Notes that what a line asked for is on its way.
    pub(super) fn end_line(&self) {
        self.lines.fetch_sub(1, Ordering::SeqCst);
    }

    /// Notes that a thread of `pool` carries the call out. False if it was called off before.
    pub(super) fn begin(&self, serial: u64, pool: &Arc<Pool>) -> bool {
        let mut table = self.table.lock();
        let call = table.running.iter_mut().find(|call| call.serial == serial);
        call.map(|call| call.on = Some(Arc::clone(pool))).is_some()
    }

    /// Notes that a call has its answer. False if it was called off: then nobody waits for it.
    pub(super) fn answer(&self, serial: u64) -> bool {
        let mut table = self.table.lock();
        let call = table.running.iter_mut().find(|call| call.serial == serial);
        call.map(|call| call.answered = true).is_some()
    }

    /// Forgets a call, whose answer is on its way.
    pub(super) fn end(&self, serial: u64) {
        let mut table = self.table.lock();
        table.running.retain(|call| call.serial != serial);
        self.emptied.notify_all();
    }

    /// Calls off those that are called `id`: several, if a client gives one id to several.
    pub(super) fn cancel(&self, id: &Id) {
        self.cancel_if(|call| call.id == *id);
    }

    /// Takes the calls that have no answer yet: nobody else answers them from here on.
    pub(super) fn take_unanswered(&self) -> Vec<Unanswered> {
        self.take_if(|call| !call.answered)
    }

    fn take_if(&self, wanted: impl Fn(&RunningCall) -> bool) -> Vec<Unanswered> {
        let mut table = self.table.lock();
        let (taken, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut table.running).into_iter().partition(wanted);
        table.running = others;
        if table.running.is_empty() {
            self.emptied.notify_all();
        }
        taken.into_iter().map(Unanswered::from).collect()
    }

    /// Calls all off.
    pub(super) fn cancel_all(&self) {
        self.cancel_if(|_| true);
    }

    fn cancel_if(&self, wanted: impl Fn(&RunningCall) -> bool) {
        let mut table = self.table.lock();
        let (off, on): (Vec<_>, Vec<_>) =
            std::mem::take(&mut table.running).into_iter().partition(|call| !call.answered && wanted(call));
        table.running = on;
        if table.running.is_empty() {
            self.emptied.notify_all();
        }
        drop(table);
        for call in off {
            // First its thread is another's: what runs on it may take its time to stop.
            if let Some(pool) = &call.on {
                pool.replace_thread();
            }
            call.cancellation.cancel();
        }
    }

    /// Waits until all calls have ended, or until `end`.
    pub(super) fn wait_until_none(&self, end: Option<Instant>, meanwhile: impl Fn() -> bool) {
        self.wait_while(end, meanwhile, |_| true);
    }

    /// Waits until all calls have ended that will soon, or until `end`: not for those that were left without an answer, and,
    /// if `brief`, not for long work.
    pub(super) fn wait_for_answers(&self, brief: bool, end: Instant, meanwhile: impl Fn() -> bool) {
        self.wait_while(Some(end), meanwhile, |call| call.failed.is_none() && (call.brief || !brief));
    }

    fn wait_while(
        &self,
        end: Option<Instant>,
        meanwhile: impl Fn() -> bool,
        counts: impl Fn(&RunningCall) -> bool,
    ) {
        const LOOK: Duration = Duration::from_millis(5);
        let mut table = self.table.lock();
        let busy =
            |table: &CallTable| table.running.iter().any(&counts) || self.lines.load(Ordering::SeqCst) > 0;
        while busy(&table) && meanwhile() {
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                return;
            }
            let look = end.map_or(LOOK, |end| LOOK.min(end - now));
            self.emptied.wait_for(&mut table, look);
        }
    }
}

/// The request that a notification calls off.
pub(super) fn cancelled(params: Option<&RawValue>) -> Option<Id> {
    // The id as it was written, which rmcp's `CancelledNotificationParam` does not keep.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
    }
    let cancelled = params.and_then(|params| serde_json::from_str::<Cancelled<'_>>(params.get()).ok())?;
    Id::new(cancelled.request_id)
}

/// A task for a pool's thread. Returns false if the thread has been replaced meanwhile.
pub(super) type PoolTask = Box<dyn FnOnce() -> bool + Send>;

/// Threads for calls that may wait.
pub(super) struct Pool {
    state: Mutex<PoolState>,
    changed: Condvar,
}

#[derive(Default)]
struct PoolState {
    queue: VecDeque<PoolTask>,
    threads: usize,
    idle: usize,
}

impl Pool {
    pub(super) fn new() -> Arc<Self> {
        Arc::new(Self { state: Mutex::default(), changed: Condvar::new() })
    }

    /// Has a thread do `job`.
    ///
    /// # Errors
    /// There is no thread, and the system gives none.
    pub(super) fn submit(self: &Arc<Self>, job: PoolTask) -> std::io::Result<()> {
        let mut state = self.state.lock();
        state.queue.push_back(job);
        if state.idle >= state.queue.len() {
            self.changed.notify_one();
            return Ok(());
        }
        let outcome = self.add_thread(&mut state);
        // Those that there are will do it.
        if outcome.is_err() && state.threads == 0 {
            state.queue.pop_back();
            return outcome;
        }
        Ok(())
    }

    fn add_thread(self: &Arc<Self>, state: &mut PoolState) -> std::io::Result<()> {
        if state.threads >= THREADS {
            return Ok(());
        }
        let pool = Arc::clone(self);
        std::thread::Builder::new().name("mcp-call".into()).spawn(move || pool.work())?;
        state.threads += 1;
        Ok(())
    }

    /// A thread's call was called off: the thread does not count any more, and another may do what waits.
    fn replace_thread(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.threads = state.threads.saturating_sub(1);
        if state.queue.len() > state.idle {
            // Without one the queue waits for the threads that there are.
            let _ = self.add_thread(&mut state);
        }
    }

    fn work(&self) {
        let mut state = self.state.lock();
        loop {
            if let Some(job) = state.queue.pop_front() {
                drop(state);
                if !job() {
                    return;
                }
                state = self.state.lock();
                continue;
            }
            state.idle += 1;
            let waited = self.changed.wait_for(&mut state, IDLE);
            state.idle -= 1;
            if waited.timed_out() && state.queue.is_empty() {
                state.threads -= 1;
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn a_call_that_is_called_off_gives_its_thread_back_at_once() {
        let (calls, pool) = (Arc::new(Calls::default()), Pool::new());
        let (release, wait) = mpsc::channel::<()>();
        let (begins, begun) = mpsc::channel();
        let wait = Arc::new(Mutex::new(wait));
        let id = Id::string("stuck");
        for _ in 0..THREADS {
            let (calls, running) = (Arc::clone(&calls), Arc::clone(&pool));
            let (serial, wait) =
                (calls.note(id.clone(), Cancellation::default(), None, false), Arc::clone(&wait));
            let begins = begins.clone();
            pool.submit(Box::new(move || {
                assert!(calls.begin(serial, &running));
                begins.send(()).unwrap();
                // Until the test lets go.
                let _ = wait.lock().recv();
                calls.answer(serial)
            }))
            .unwrap();
        }
        (0..THREADS).for_each(|_| begun.recv().unwrap());
        let (said, heard) = mpsc::channel();
        pool.submit(Box::new(move || said.send(()).is_ok())).unwrap();
        assert!(heard.try_recv().is_err(), "all threads are taken");
        calls.cancel(&id);
        heard.recv().unwrap();
        drop(release);
    }

    #[test]
    fn calls_of_one_id_are_called_off_together() {
        let calls = Calls::default();
        let cancellations = [Cancellation::default(), Cancellation::default(), Cancellation::default()];
        for (id, cancellation) in ["a", "b", "a"].into_iter().zip(&cancellations) {
            calls.note(Id::string(id), cancellation.clone(), None, false);
        }
        calls.cancel(&Id::string("a"));
        assert_eq!(cancellations.map(|cancellation| cancellation.is_cancelled()), [true, false, true]);
    }
}
