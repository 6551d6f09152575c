//! Tracks a client's calls in progress, so that they can be cancelled. Calls that may wait run on
//! the pools of threads that this module also provides.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rmcp::model::ErrorData;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::message::{self, Id};
use crate::engine::control::Cancellation;

/// The maximum number of threads in a pool. Further calls queue.
const THREADS: usize = 64;
/// The time after which an idle thread ends.
const IDLE: Duration = Duration::from_secs(10);

/// A client's calls that have not ended.
#[derive(Default)]
pub(super) struct Calls {
    table: Mutex<CallTable>,
    emptied: Condvar,
    /// The number of lines that reader threads are processing.
    lines: AtomicUsize,
}

#[derive(Default)]
struct CallTable {
    next: u64,
    running: Vec<UnansweredCall>,
}

/// A call that has not ended. The code that takes it from [`Calls`] must respond to it, unless the
/// client has cancelled the call.
pub(super) struct UnansweredCall {
    serial: u64,
    id: Id,
    pub(super) cancellation: Cancellation,
    /// The pool that runs the call. `None` until a thread of a pool starts the call.
    on: Option<Arc<Pool>>,
    /// Whether the response exists and is being written.
    answered: bool,
    /// The request line, if the call may be repeated.
    pub(super) line: Option<Vec<u8>>,
    /// Whether the call need not wait for long work, because it needs no Lisp or runs on Lisp's
    /// thread for short work.
    brief: bool,
    /// The response to a deferred call that is not repeated.
    deferred: Option<Vec<u8>>,
}

impl UnansweredCall {
    /// Returns the response to a call that is not repeated after Lisp's death or restart.
    pub(super) fn error(&self) -> Vec<u8> {
        let why = "Lisp restarted during this call, and its work is lost. Retry.";
        self.deferred.clone().unwrap_or_else(|| {
            let mut line = Vec::new();
            let passing = serde_json::json!({ "passing": true });
            message::write_error(&mut line, Some(&self.id), &ErrorData::internal_error(why, Some(passing)));
            line
        })
    }
}

impl Calls {
    /// Adds a call that starts or queues, and returns its serial number. `line` is the call's
    /// request if it may be repeated. A `brief` call need not wait for long work.
    pub(super) fn add(&self, id: Id, cancellation: Cancellation, line: Option<Vec<u8>>, brief: bool) -> u64 {
        let mut table = self.table.lock();
        table.next += 1;
        let serial = table.next;
        let call = UnansweredCall {
            serial,
            id,
            cancellation,
            on: None,
            answered: false,
            line,
            brief,
            deferred: None,
        };
        table.running.push(call);
        serial
    }

    /// Defers a call until a restart. The restarted program repeats it if it is repeatable. If it
    /// is not, or the program does not restart, `response` is sent.
    pub(super) fn defer(&self, serial: u64, response: &[u8]) {
        let mut table = self.table.lock();
        if let Some(call) = table.running.iter_mut().find(|call| call.serial == serial) {
            call.deferred = Some(response.to_vec());
        }
        self.emptied.notify_all();
    }

    /// Removes and returns the deferred calls. The caller must respond to them.
    pub(super) fn take_deferred(&self) -> Vec<UnansweredCall> {
        self.take_if(|call| call.deferred.is_some())
    }

    /// Counts a line that a reader thread starts to process.
    pub(super) fn begin_line(&self) {
        self.lines.fetch_add(1, Ordering::SeqCst);
    }

    /// Counts a line as processed.
    pub(super) fn end_line(&self) {
        self.lines.fetch_sub(1, Ordering::SeqCst);
    }

    /// Records that a thread of `pool` runs the call. Returns `false` if the call has been removed,
    /// for example because it was cancelled.
    pub(super) fn begin(&self, serial: u64, pool: &Arc<Pool>) -> bool {
        let mut table = self.table.lock();
        let call = table.running.iter_mut().find(|call| call.serial == serial);
        call.map(|call| call.on = Some(Arc::clone(pool))).is_some()
    }

    /// Marks the call as answered. Returns `false` if it has been removed, for example because it
    /// was cancelled; then no response may be sent.
    pub(super) fn answer(&self, serial: u64) -> bool {
        let mut table = self.table.lock();
        let call = table.running.iter_mut().find(|call| call.serial == serial);
        call.map(|call| call.answered = true).is_some()
    }

    /// Removes a call after its response.
    pub(super) fn end(&self, serial: u64) {
        let mut table = self.table.lock();
        table.running.retain(|call| call.serial != serial);
        self.emptied.notify_all();
    }

    /// Cancels all unanswered calls with this id, because clients may use one id for several calls.
    pub(super) fn cancel(&self, id: &Id) {
        self.cancel_if(|call| call.id == *id);
    }

    /// Removes and returns the calls without a response. The caller must respond to them.
    pub(super) fn take_unanswered(&self) -> Vec<UnansweredCall> {
        self.take_if(|call| !call.answered)
    }

    fn take_if(&self, wanted: impl Fn(&UnansweredCall) -> bool) -> Vec<UnansweredCall> {
        let mut table = self.table.lock();
        let (taken, others): (Vec<_>, Vec<_>) =
            std::mem::take(&mut table.running).into_iter().partition(wanted);
        table.running = others;
        if table.running.is_empty() {
            self.emptied.notify_all();
        }
        taken
    }

    /// Cancels all unanswered calls.
    pub(super) fn cancel_all(&self) {
        self.cancel_if(|_| true);
    }

    fn cancel_if(&self, wanted: impl Fn(&UnansweredCall) -> bool) {
        let mut table = self.table.lock();
        let (off, on): (Vec<_>, Vec<_>) =
            std::mem::take(&mut table.running).into_iter().partition(|call| !call.answered && wanted(call));
        table.running = on;
        if table.running.is_empty() {
            self.emptied.notify_all();
        }
        drop(table);
        for call in off {
            // Replace the thread before cancelling, because the call may take a while to stop.
            if let Some(pool) = &call.on {
                pool.replace_thread();
            }
            call.cancellation.cancel();
        }
    }

    /// Waits until all lines are processed and all calls have ended. Gives up at `end`, or when
    /// `meanwhile` returns `false`.
    pub(super) fn wait_until_none(&self, end: Option<Instant>, meanwhile: impl Fn() -> bool) {
        self.wait_while(end, meanwhile, |_| true);
    }

    /// Waits until all lines are processed and all calls have ended, except deferred calls and,
    /// with `brief`, calls that may wait for long work. Gives up at `end`, or when `meanwhile`
    /// returns `false`.
    pub(super) fn wait_for_answers(&self, brief: bool, end: Instant, meanwhile: impl Fn() -> bool) {
        self.wait_while(Some(end), meanwhile, |call| call.deferred.is_none() && (call.brief || !brief));
    }

    /// Waits until all lines are processed and all existing responses are written. Gives up at
    /// `end`, or when `meanwhile` returns `false`.
    pub(super) fn wait_until_written(&self, end: Option<Instant>, meanwhile: impl Fn() -> bool) {
        self.wait_while(end, meanwhile, |call| call.answered);
    }

    fn wait_while(
        &self,
        end: Option<Instant>,
        meanwhile: impl Fn() -> bool,
        counts: impl Fn(&UnansweredCall) -> bool,
    ) {
        const CHECK_INTERVAL: Duration = Duration::from_millis(5);
        let mut table = self.table.lock();
        let busy =
            |table: &CallTable| table.running.iter().any(&counts) || self.lines.load(Ordering::SeqCst) > 0;
        while busy(&table) && meanwhile() {
            let now = Instant::now();
            if end.is_some_and(|end| now >= end) {
                return;
            }
            let look = end.map_or(CHECK_INTERVAL, |end| CHECK_INTERVAL.min(end - now));
            self.emptied.wait_for(&mut table, look);
        }
    }
}

/// Parses a cancellation and returns the id of the request to cancel.
pub(super) fn cancelled(params: Option<&RawValue>) -> Option<Id> {
    // Preserve the id's spelling, which rmcp's `CancelledNotificationParam` does not.
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Cancelled<'a> {
        #[serde(borrow)]
        request_id: &'a RawValue,
    }
    let cancelled = params.and_then(|params| serde_json::from_str::<Cancelled<'_>>(params.get()).ok())?;
    Id::new(cancelled.request_id)
}

/// A task for a pool's thread. Returns `false` if the thread has been replaced meanwhile and must
/// end.
pub(super) type PoolTask = Box<dyn FnOnce() -> bool + Send>;

/// A pool of threads for calls that may wait. Threads start on demand and end when idle.
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

    /// Runs `job` on a thread of the pool.
    ///
    /// # Errors
    /// The pool has no thread, and none can be started.
    pub(super) fn submit(self: &Arc<Self>, job: PoolTask) -> std::io::Result<()> {
        let mut state = self.state.lock();
        state.queue.push_back(job);
        if state.idle >= state.queue.len() {
            self.changed.notify_one();
            return Ok(());
        }
        let outcome = self.add_thread(&mut state);
        // Fail only if there is no thread at all; otherwise an existing thread will run the job.
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

    /// Stops counting a thread with a cancelled call, so that another thread can take the next job.
    fn replace_thread(self: &Arc<Self>) {
        let mut state = self.state.lock();
        state.threads = state.threads.saturating_sub(1);
        if state.queue.len() > state.idle {
            // Ignore the error: the queued jobs then wait for the existing threads.
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
    fn cancelled_call_frees_its_thread_immediately() {
        let (calls, pool) = (Arc::new(Calls::default()), Pool::new());
        let (release, wait) = mpsc::channel::<()>();
        let (begins, begun) = mpsc::channel();
        let wait = Arc::new(Mutex::new(wait));
        let id = Id::string("stuck");
        for _ in 0..THREADS {
            let (calls, running) = (Arc::clone(&calls), Arc::clone(&pool));
            let (serial, wait) =
                (calls.add(id.clone(), Cancellation::default(), None, false), Arc::clone(&wait));
            let begins = begins.clone();
            pool.submit(Box::new(move || {
                assert!(calls.begin(serial, &running));
                begins.send(()).unwrap();
                // Block until the test ends.
                let _ = wait.lock().recv();
                calls.answer(serial)
            }))
            .unwrap();
        }
        (0..THREADS).for_each(|_| begun.recv().unwrap());
        let (said, heard) = mpsc::channel();
        pool.submit(Box::new(move || said.send(()).is_ok())).unwrap();
        assert!(heard.try_recv().is_err(), "all threads are busy");
        calls.cancel(&id);
        heard.recv().unwrap();
        drop(release);
    }

    #[test]
    fn cancel_affects_all_calls_with_one_id() {
        let calls = Calls::default();
        let cancellations = [Cancellation::default(), Cancellation::default(), Cancellation::default()];
        for (id, cancellation) in ["a", "b", "a"].into_iter().zip(&cancellations) {
            calls.add(Id::string(id), cancellation.clone(), None, false);
        }
        calls.cancel(&Id::string("a"));
        assert_eq!(cancellations.map(|cancellation| cancellation.is_cancelled()), [true, false, true]);
    }
}
