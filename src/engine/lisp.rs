//! The handle that callers hold, and the token that jobs are lent.

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

/// Why an image was not saved.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The image has contents that cannot be saved: a sentence for each. Lisp goes on.
    #[error("{}", .0.join(" "))]
    InTheWay(Vec<String>),
    /// Lisp could not be asked.
    #[error(transparent)]
    Lisp(#[from] LispError),
    /// The save failed, and Lisp is gone.
    #[error("the image could not be saved: {0}")]
    Failed(String),
    /// The file that was written is no core.
    #[error(transparent)]
    Image(#[from] ImageError),
}

/// A handle to the process's Lisp. Clones are cheap and mean the same Lisp.
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

    /// Starts SBCL on a thread of its own, and returns at once. Jobs can be submitted right away; they wait.
    ///
    /// # Errors
    /// [`StartError`] names what is unfit, and the remedy.
    pub fn start(settings: &Settings) -> Result<Self, StartError> {
        start::start(settings)
    }

    /// The version of SBCL, such as `2.5.2`.
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

    /// Whether the image was not ready in time.
    pub(crate) fn has_timed_out(&self) -> bool {
        self.shared.has_timed_out()
    }

    /// Queues `body` to run on the thread of `lane`. It is given `allowed` from now, waiting included.
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

    /// Runs `body` on the thread of short questions and waits for what it returns, for at most about `allowed`.
    ///
    /// # Errors
    /// [`LispError`]: the code failed, was stopped, or Lisp is gone.
    pub fn run<T: Send + 'static>(
        &self,
        allowed: Duration,
        body: impl FnOnce(&OnLisp<'_>) -> Result<T, CallError> + Send + 'static,
    ) -> Result<T, LispError> {
        self.submit(Lane::Query, allowed, None, body).wait()
    }

    /// Saves the image as a core at `path`, and ends Lisp with it. What cannot be saved is told before anything ends.
    ///
    /// # Errors
    /// [`SaveError`]: what is in the way, or how the save failed.
    pub fn save(&self, path: &Path, allowed: Duration) -> Result<(), SaveError> {
        let given = path.display().to_string();
        let answer = self.run(allowed, move |on_lisp| on_lisp.call("prepare-save", &[given]))?;
        let obstacles: Vec<String> = serde_json::from_slice(&answer.bytes)
            .map_err(|error| LispError::Unreadable(error.to_string()))?;
        if !obstacles.is_empty() {
            return Err(SaveError::InTheWay(obstacles));
        }
        match self.shared.save(allowed) {
            // C's exit, which is how a save ends, reaches the shim as any other does.
            Some((0, _)) => Ok(image::core_build(path).map(drop)?),
            Some((_, reason)) => {
                // Prefer Lisp's last report, which says more than the runtime's message.
                let said = self.status().reports.pop();
                Err(SaveError::Failed(said.unwrap_or(reason)))
            }
            None => Err(SaveError::Failed("it did not end in time".to_owned())),
        }
    }

    /// Waits until there is other trouble than was `seen`: until Lisp has died, one of its threads had to be given up,
    /// or a job has used up the heap. Returns all that there was so far.
    pub fn wait_for_trouble(&self, seen: &EngineTrouble) -> EngineTrouble {
        self.shared.phase.wait_for_trouble(seen)
    }

    /// Notes that code which handles its own faults ended because the heap was used up.
    pub(crate) fn note_filled(&self) {
        self.shared.note_filled();
    }

    /// Whether the heap is too full to be used, whatever is collected. This collects all garbage.
    pub fn is_full(&self) -> bool {
        let full = self.run(ALLOWED, |on_lisp| on_lisp.call("heap-is-full", &()));
        full.is_ok_and(|answer| answer.bytes == b"true")
    }

    /// The present state of Lisp.
    pub fn state(&self) -> EngineState {
        self.shared.state()
    }

    /// Returns the number of long jobs that were begun so far; none while one runs. Two equal numbers say that none ran between.
    pub(crate) fn work_begun(&self) -> Option<u64> {
        self.shared.queue.taken_if_idle(Lane::Work)
    }

    /// When the runtime ended, in seconds since 1970; none while it lives.
    pub fn died_at(&self) -> Option<u64> {
        self.shared.died_at()
    }

    /// Takes a snapshot of the engine's state, for display. Works in every state.
    pub fn status(&self) -> EngineStatus {
        self.shared.status()
    }
}

/// Proof that the code that holds it runs on a Lisp thread. Lent to jobs, and of no use elsewhere:
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

impl std::fmt::Debug for OnLisp<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("OnLisp").finish_non_exhaustive()
    }
}

/// Lisp's entry points, on a thread that may call them: it does not leave it.
#[derive(Clone, Copy)]
pub(super) struct EntryPoints<'a> {
    points: &'a ffi::steelbank_entry_points,
    not_send: PhantomData<*const ()>,
}

impl<'a> EntryPoints<'a> {
    /// # Safety
    /// The current thread must be one that Lisp called `serve` on, and the token must not outlive that call.
    pub(super) unsafe fn new(points: &'a ffi::steelbank_entry_points) -> Self {
        Self { points, not_send: PhantomData }
    }
}

impl<'a> OnLisp<'a> {
    pub(super) fn new(entry: EntryPoints<'a>, shared: &'static Shared) -> Self {
        Self { entry, shared }
    }

    /// The version of the boundary that the Lisp half speaks.
    pub(super) fn interface(&self) -> u32 {
        self.entry.points.abi
    }

    /// Crosses into Lisp and back: `number` plus one.
    ///
    /// # Errors
    /// Lisp is gone, or this thread was given up.
    pub fn ping(&self, number: i64) -> Result<i64, CallError> {
        let ping =
            self.entry.points.ping.filter(|_| self.shared.may_enter()).ok_or(CallError::Interrupted)?;
        // SAFETY: the token is proof that this is a Lisp thread, the runtime was alive just now (one that dies later
        // parks whoever is in it), and Lisp's table stays valid.
        Ok(unsafe { ping(number) })
    }

    /// Gives the running job `more` time than it was submitted with: time that does not count while it waits.
    pub fn grant(&self, more: Duration) {
        self.shared.grant(more);
    }

    /// Asks the question of that name, which `define-question` in `lisp/` defines, with `arguments`, which serialize to
    /// an array (`&()` for none), for at most the job's remaining time.
    ///
    /// # Errors
    /// [`CallError`]: the code failed or was stopped.
    pub fn call(
        &self,
        question: &str,
        arguments: &(impl Serialize + ?Sized),
    ) -> Result<CallAnswer, CallError> {
        self.call_until(question, arguments, None)
    }

    /// Asks a question as [`OnLisp::call`] does, for at most `limit`. When that time is over, this call alone is stopped;
    /// the job goes on.
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
            message: format!("the arguments of {question} have no form in JSON: {error}"),
            condition: None,
            output: String::new(),
        })?;
        let text = |text: &str| ffi::steelbank_text { octets: text.as_ptr(), length: text.len() };
        let (name, array) = (text(question), text(&arguments));
        let Some(call) = self.entry.points.call else { return Err(CallError::Interrupted) };
        let number = self.shared.begin_call(until)?;
        // SAFETY: the token is proof that this is a Lisp thread; begin_call found the runtime alive; the texts live
        // until the call returns, and Lisp copies them; Lisp's entry point does not unwind.
        let status = unsafe { call(number, &raw const name, &raw const array) };
        self.shared.end_call(number);
        let said = host::take_said();
        match u32::try_from(status) {
            Ok(ffi::STEELBANK_STATUS_ANSWERED) => Ok(CallAnswer {
                bytes: said.answer,
                output: said.output,
                output_dropped: said.output_dropped,
            }),
            Ok(ffi::STEELBANK_STATUS_INTERRUPTED) => Err(CallError::Interrupted),
            _ => {
                let mut fault = serde_json::from_slice::<Fault>(&said.answer).unwrap_or_else(|error| Fault {
                    kind: FaultKind::Other,
                    message: format!("Lisp failed and could not say how ({error})"),
                    condition: None,
                    output: String::new(),
                });
                fault.output = said.output;
                if fault.kind == FaultKind::HeapExhausted {
                    self.shared.note_filled();
                }
                Err(CallError::Fault(fault))
            }
        }
    }
}
