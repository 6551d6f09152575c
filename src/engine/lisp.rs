//! [`Lisp`], the handle that callers hold, and [`OnLisp`], the token through which jobs call Lisp.

use std::marker::PhantomData;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::Serialize;
use steelbank_sys::ffi;

use super::answers::{
    CallAnswer, CallError, EngineState, EngineStatus, EngineTrouble, Fault, FaultKind, Lane, LispError,
};
use super::control::ALLOWED;
use super::host;
use super::image::{self, ImageError};
use super::shared::Shared;
use super::start::{self, Settings, StartError};
use super::ticket::{self, ProgressListener, Ticket};

/// The reason why an image was not saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The image has contents that cannot be saved; each sentence describes one of them. Lisp
    /// continues to run.
    #[error("{}", .0.join(" "))]
    Unsaveable(Vec<String>),
    /// Lisp could not check whether the image can be saved.
    #[error(transparent)]
    Lisp(#[from] LispError),
    /// The save failed or did not end in time. Lisp cannot be used any more.
    #[error("the image could not be saved: {0}")]
    Failed(String),
    /// The written file cannot be used as a core.
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// A handle to the process's Lisp. Clones are cheap and refer to the same Lisp.
#[derive(Clone, Copy)]
pub struct Lisp {
    shared: &'static Shared,
}

impl std::fmt::Debug for Lisp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Lisp").field("state", &self.state()).finish()
    }
}

impl Lisp {
    pub(super) fn new(shared: &'static Shared) -> Self {
        Self { shared }
    }

    /// Starts SBCL on a new thread, and returns at once. Jobs can be submitted immediately; they
    /// wait until the image is ready.
    pub fn start(settings: &Settings) -> Result<Self, StartError> {
        start::start(settings)
    }

    /// Returns the version of SBCL, such as `2.5.2`.
    pub fn sbcl_version(&self) -> &'static str {
        self.shared.sbcl_version()
    }

    /// Waits until the image is ready.
    ///
    /// # Errors
    /// [`StartError::Died`], [`StartError::OtherInterface`] or [`StartError::TimedOut`].
    pub fn wait_until_ready(&self) -> Result<(), StartError> {
        self.shared.wait_until_ready()
    }

    /// Returns whether the start timeout has passed and the image is still not ready.
    pub(crate) fn has_timed_out(&self) -> bool {
        self.shared.has_timed_out()
    }

    /// Queues `body` to run on the thread of `lane`. The time limit `allowed` begins now, so it
    /// includes the time in the queue.
    pub fn submit<T: Send + 'static>(
        &self,
        lane: Lane,
        allowed: Duration,
        progress: Option<ProgressListener>,
        body: impl FnOnce(&OnLisp<'_>) -> Result<T, CallError> + Send + 'static,
    ) -> Ticket<T> {
        let (job, ticket) = ticket::job(&self.shared.queue, lane, allowed, progress, body);
        self.shared.queue.push(job);
        ticket
    }

    /// Runs `body` on the query lane's thread and waits for its result. The time limit `allowed`
    /// begins now, so it includes the time in the queue.
    ///
    /// # Errors
    /// [`LispError`]: the code failed, was stopped, or Lisp is dead.
    pub fn run<T: Send + 'static>(
        &self,
        allowed: Duration,
        body: impl FnOnce(&OnLisp<'_>) -> Result<T, CallError> + Send + 'static,
    ) -> Result<T, LispError> {
        self.submit(Lane::Query, allowed, None, body).wait()
    }

    /// Saves the image as a core at `path`. This ends Lisp. If the image has contents that cannot
    /// be saved, returns an error before that, and Lisp continues to run.
    ///
    /// # Errors
    /// [`SaveError`]: the obstacles, or the reason why the save failed.
    pub fn save(&self, path: &Path, allowed: Duration) -> Result<(), SaveError> {
        let given = path.display().to_string();
        let answer = self.run(allowed, move |on_lisp| on_lisp.call("prepare-save", &[given]))?;
        let obstacles: Vec<String> = serde_json::from_slice(&answer.bytes)
            .map_err(|error| LispError::Unreadable(error.to_string()))?;
        if !obstacles.is_empty() {
            return Err(SaveError::Unsaveable(obstacles));
        }
        match self.shared.save(allowed) {
            // A save ends with a call of C's exit, which the shim reports like any other exit.
            Some((0, _)) => Ok(image::core_build(path).map(drop)?),
            Some((_, reason)) => {
                // Prefer Lisp's last report, because it is more specific than the runtime's
                // message.
                let report = self.status().reports.pop();
                Err(SaveError::Failed(report.unwrap_or(reason)))
            }
            None => Err(SaveError::Failed("the save did not end in time".to_owned())),
        }
    }

    /// Waits until the recorded trouble differs from `seen`, and returns all trouble so far. The
    /// trouble changes when Lisp dies, one of its threads is abandoned, or a job or a load exhausts
    /// the heap.
    pub fn wait_for_trouble(&self, seen: &EngineTrouble) -> EngineTrouble {
        self.shared.phase.wait_for_trouble(seen)
    }

    /// Records that a load exhausted the heap. The engine does not notice this itself, because a
    /// load returns its faults as part of its result.
    pub(crate) fn note_heap_exhausted(&self) {
        self.shared.note_heap_exhausted();
    }

    /// Collects all garbage, and returns whether the heap is still too full to use. Returns `false`
    /// if Lisp does not answer.
    pub fn is_full(&self) -> bool {
        let full = self.run(ALLOWED, |on_lisp| on_lisp.call("heap-is-full", &()));
        full.is_ok_and(|answer| answer.bytes == b"true")
    }

    /// Returns the current state of Lisp.
    pub fn state(&self) -> EngineState {
        self.shared.state()
    }

    /// Returns the number of jobs that the work lane has started so far, or `None` while it runs a
    /// job. If two results are the same number, no such job ran between them.
    pub(crate) fn long_jobs_started(&self) -> Option<u64> {
        self.shared.queue.taken_if_idle(Lane::Work)
    }

    /// Returns when the runtime ended, in seconds since 1970, or `None` while it is alive.
    pub fn died_at(&self) -> Option<u64> {
        self.shared.died_at()
    }

    /// Returns a snapshot of the engine's state, for display. Works in every state.
    pub fn status(&self) -> EngineStatus {
        self.shared.status()
    }
}

/// Proves that the current code runs on a Lisp thread. A job gets a reference that it cannot keep:
///
/// ```compile_fail
/// fn takes_away<T: Send>() {}
/// takes_away::<steelbank::engine::OnLisp<'static>>();
/// ```
///
/// ```compile_fail
/// # fn keep(lisp: steelbank::engine::Lisp) {
/// let allowed = std::time::Duration::from_secs(1);
/// let kept = lisp.run(allowed, |on_lisp| Ok(on_lisp)).unwrap();
/// # }
/// ```
pub struct OnLisp<'a> {
    entry: EntryPoints<'a>,
    shared: &'static Shared,
}

debug_fields!(OnLisp<'_>);

/// Lisp's entry points, on a thread that may call them. Cannot be sent to another thread.
#[derive(Clone, Copy)]
pub(super) struct EntryPoints<'a> {
    points: &'a ffi::steelbank_entry_points,
    not_send: PhantomData<*const ()>,
}

impl<'a> EntryPoints<'a> {
    /// # Safety
    /// The current thread must be one that Lisp called `serve` on, and the token must not outlive
    /// that call.
    pub(super) unsafe fn new(points: &'a ffi::steelbank_entry_points) -> Self {
        Self { points, not_send: PhantomData }
    }
}

impl<'a> OnLisp<'a> {
    pub(super) fn new(entry: EntryPoints<'a>, shared: &'static Shared) -> Self {
        Self { entry, shared }
    }

    /// Returns the Lisp half's version of the interface, `STEELBANK_ABI`.
    pub(super) fn interface(&self) -> u32 {
        self.entry.points.abi
    }

    /// Calls Lisp and returns `number` plus one.
    ///
    /// # Errors
    /// Lisp is dead, or this thread was abandoned.
    pub fn ping(&self, number: i64) -> Result<i64, CallError> {
        let ping =
            self.entry.points.ping.filter(|_| self.shared.may_enter()).ok_or(CallError::Interrupted)?;
        // SAFETY: the token proves that this is a Lisp thread. The runtime was alive just now; if
        // it dies later, it parks the threads that are inside Lisp. Lisp's table stays valid.
        Ok(unsafe { ping(number) })
    }

    /// Extends the running job's deadline by `more`. Jobs use it for work that must not count
    /// against their limit, such as printing a result.
    pub fn grant(&self, more: Duration) {
        self.shared.grant(more);
    }

    /// Calls the question `question`, which is defined with `define-question` in `lisp/`. The time
    /// limit is the job's remaining time. `arguments` must serialize to an array (`&()` for none).
    pub fn call(
        &self,
        question: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> Result<CallAnswer, CallError> {
        self.call_until(question, arguments, None)
    }

    /// Calls a question like [`OnLisp::call`], for at most `limit`. When the limit passes, only
    /// this call is stopped; the job continues. If the call does not stop, the job ends without an
    /// answer.
    ///
    /// # Errors
    /// [`CallError`]: the code failed or was stopped.
    pub fn call_within(
        &self,
        limit: Duration,
        question: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> Result<CallAnswer, CallError> {
        self.call_until(question, arguments, Some(ticket::deadline_after(limit)))
    }

    fn call_until(
        &self,
        question: &str,
        arguments: &(impl Serialize + ?Sized),
        until: Option<Instant>,
    ) -> Result<CallAnswer, CallError> {
        let arguments = serde_json::to_string(arguments).map_err(|error| Fault {
            kind: FaultKind::Misuse,
            message: format!("the arguments of {question} cannot be serialized to JSON: {error}"),
            condition: None,
            output: String::new(),
        })?;
        let text = |text: &str| ffi::steelbank_text { octets: text.as_ptr(), length: text.len() };
        let (name, array) = (text(question), text(&arguments));
        let Some(call) = self.entry.points.call else { return Err(CallError::Interrupted) };
        let number = self.shared.begin_call(until)?;
        // SAFETY: the token proves that this is a Lisp thread, and begin_call found the runtime
        // alive. The texts live until the call returns, and Lisp copies them. Lisp's entry point
        // does not unwind.
        let status = unsafe { call(number, &raw const name, &raw const array) };
        self.shared.end_call(number);
        let call = host::take_output();
        match u32::try_from(status) {
            Ok(ffi::STEELBANK_STATUS_ANSWERED) => Ok(CallAnswer {
                bytes: call.answer,
                output: call.output,
                output_dropped: call.output_dropped,
            }),
            Ok(ffi::STEELBANK_STATUS_INTERRUPTED) => Err(CallError::Interrupted),
            _ => {
                let mut fault = serde_json::from_slice::<Fault>(&call.answer).unwrap_or_else(|error| Fault {
                    kind: FaultKind::Other,
                    message: format!("Lisp failed, and its error cannot be read ({error})"),
                    condition: None,
                    output: String::new(),
                });
                fault.output = call.output;
                if fault.kind == FaultKind::HeapExhausted {
                    self.shared.note_heap_exhausted();
                }
                Err(CallError::Fault(fault))
            }
        }
    }
}
