//! The handle that callers hold, and the token that jobs are lent.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use steelbank_sys::ffi;

use super::answers::{Answer, CallError, Fault, FaultKind, Lane, LispError, Operation, State, Status};
use super::host;
use super::shared::Shared;
use super::start::{self, Settings, StartError};
use super::ticket::{self, Progress, Ticket};

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

    /// Waits until the image is ready.
    ///
    /// # Errors
    /// [`StartError::Died`], [`StartError::OtherInterface`] or [`StartError::TimedOut`].
    pub fn wait_until_ready(&self) -> Result<(), StartError> {
        self.shared.wait_until_ready()
    }

    /// Queues `body` to run on the thread of `lane`. It is given `allowed` from now, waiting included.
    pub fn submit<T: Send + 'static>(
        &self,
        lane: Lane,
        allowed: Duration,
        progress: Option<Progress>,
        body: impl FnOnce(&OnLisp<'_>) -> Result<T, CallError> + Send + 'static,
    ) -> Ticket<T> {
        let (job, ticket) = ticket::job(self.shared, allowed, progress, body);
        self.shared.enqueue(lane, job);
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

    /// What Lisp is doing now.
    pub fn state(&self) -> State {
        self.shared.state()
    }

    /// A picture of the engine, for people. Works in every state.
    pub fn status(&self) -> Status {
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
    entry_points: &'a ffi::steelbank_entry_points,
    shared: &'static Shared,
    not_send: PhantomData<*const ()>,
}

impl<'a> OnLisp<'a> {
    /// # Safety
    /// The current thread must be one that Lisp called `serve` on, and the token must not outlive that call.
    pub(super) unsafe fn new(entry_points: &'a ffi::steelbank_entry_points, shared: &'static Shared) -> Self {
        Self { entry_points, shared, not_send: PhantomData }
    }

    /// The version of the boundary that the Lisp half speaks.
    pub(super) fn interface(&self) -> u32 {
        self.entry_points.abi
    }

    /// Crosses into Lisp and back: `number` plus one.
    pub fn ping(&self, number: i64) -> i64 {
        match self.entry_points.ping {
            // SAFETY: the token is proof that this is a Lisp thread, and Lisp's table stays valid.
            Some(ping) => unsafe { ping(number) },
            None => number,
        }
    }

    /// Gives the running job `more` time than it was submitted with: time that does not count while it waits.
    pub fn grant(&self, more: Duration) {
        self.shared.grant(more);
    }

    /// Runs one operation, for at most the job's remaining time.
    ///
    /// # Errors
    /// [`CallError`]: the code failed or was stopped.
    pub fn call(&self, operation: Operation, arguments: &[&str]) -> Result<Answer, CallError> {
        self.call_until(operation, arguments, None)
    }

    /// Runs one operation for at most `limit`. When that time is over, this call alone is stopped; the job goes on.
    ///
    /// # Errors
    /// [`CallError`]: the code failed or was stopped.
    pub fn call_within(
        &self,
        limit: Duration,
        operation: Operation,
        arguments: &[&str],
    ) -> Result<Answer, CallError> {
        self.call_until(operation, arguments, Some(Instant::now() + limit))
    }

    fn call_until(
        &self,
        operation: Operation,
        arguments: &[&str],
        until: Option<Instant>,
    ) -> Result<Answer, CallError> {
        let texts: Vec<ffi::steelbank_text> = arguments
            .iter()
            .map(|text| ffi::steelbank_text { octets: text.as_ptr(), length: text.len() })
            .collect();
        let Some(call) = self.entry_points.call else { return Err(CallError::Interrupted) };
        let number = self.shared.begin_call(until)?;
        // SAFETY: the token is proof that this is a Lisp thread; the texts live until the call returns, and Lisp copies
        // them; Lisp's entry point does not unwind.
        let status = unsafe { call(number, operation as i64, texts.as_ptr(), texts.len()) };
        self.shared.end_call(number);
        let said = host::take_said();
        match u32::try_from(status) {
            Ok(ffi::STEELBANK_STATUS_ANSWERED) => {
                Ok(Answer { octets: said.answer, output: said.output, output_dropped: said.output_dropped })
            }
            Ok(ffi::STEELBANK_STATUS_INTERRUPTED) => Err(CallError::Interrupted),
            _ => {
                let mut fault = serde_json::from_slice::<Fault>(&said.answer).unwrap_or_else(|error| Fault {
                    kind: FaultKind::Other,
                    message: format!("Lisp failed and could not say how ({error})"),
                    condition: None,
                    output: String::new(),
                });
                fault.output = said.output;
                Err(CallError::Fault(fault))
            }
        }
    }
}
