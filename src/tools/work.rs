//! Runs background jobs that may outlast the call that started them. Hosts limit the time of a
//! call, often to a minute. A call that has waited for part of that time therefore returns the
//! job's number, and a later call fetches the outcome. [`ClientWork`] holds the jobs of one client;
//! dropping it cancels them.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::call::{Call, Failure, ToolAnswer};
use crate::engine::control::Cancellation;

/// The maximum number of jobs that run or have an outcome that was not fetched. Beyond it, the
/// oldest finished job is removed.
const MAX_OUTCOMES: usize = 16;
/// The interval at which a waiting call checks whether it was cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The outcome of a job: a function that builds the answer for the call that fetches the outcome.
pub(crate) type Outcome = Box<dyn FnOnce(&Call) -> Result<ToolAnswer, Failure> + Send>;

/// The background jobs of one client, by number. Jobs that still run when the client disconnects
/// are cancelled.
#[derive(Default)]
pub(crate) struct ClientWork(Mutex<Numbered>);

#[derive(Default)]
struct Numbered {
    last: u64,
    works: BTreeMap<u64, Arc<Work>>,
}

struct Work {
    begun: Instant,
    cancellation: Cancellation,
    state: Mutex<WorkState>,
    ended: Condvar,
}

#[derive(Default)]
struct WorkState {
    /// The call that waits for the job, and that receives its progress reports.
    waiting: Option<Call>,
    ended: bool,
    /// `None` until the job has ended, and after the outcome was returned.
    outcome: Option<Outcome>,
}

/// The result of waiting for a job.
pub(crate) enum WaitResult {
    /// The job has ended. Its outcome is returned only once.
    Ended(Outcome),
    /// The job still runs, and has run for this long.
    Running(Duration),
    /// There is no job with that number, or its outcome was returned already.
    Unknown,
}

impl ClientWork {
    /// Starts `work` on a new thread and returns the job's number. Progress goes to `call`, or to
    /// the call that waits later. The call passed to `work` is cancelled with the job.
    ///
    /// # Errors
    /// The system cannot create a thread.
    pub(crate) fn begin(
        &self,
        call: &Call,
        work: impl FnOnce(&Call) -> Outcome + Send + 'static,
    ) -> io::Result<u64> {
        let state = Mutex::new(WorkState { waiting: Some(call.clone()), ..WorkState::default() });
        let cancellation = Cancellation::default();
        let this = Arc::new(Work { begun: Instant::now(), cancellation, state, ended: Condvar::new() });
        let (ran, heard) = (Arc::clone(&this), Arc::downgrade(&this));
        let listener = move |progress| {
            let waiting = heard.upgrade().and_then(|work| work.state.lock().waiting.clone());
            waiting.iter().for_each(|call| call.report(Clone::clone(&progress)));
        };
        let own = Call::new(listener).cancelled_by(this.cancellation.clone());
        std::thread::Builder::new().name("steelbank-work".into()).spawn(move || {
            let outcome = catch_unwind(AssertUnwindSafe(|| work(&own))).unwrap_or_else(|_| {
                Box::new(|_| Err(Failure::engine("The background job panicked: this is a bug in steelbank.")))
            });
            let mut state = ran.state.lock();
            // Hand over the pending write, so that a restart waits for the answer that reports it.
            state.waiting.iter().for_each(|call| call.take_writing_of(&own));
            (state.ended, state.outcome) = (true, Some(outcome));
            ran.ended.notify_all();
        })?;
        let mut all = self.0.lock();
        all.last += 1;
        let number = all.last;
        all.works.insert(number, this);
        if all.works.len() > MAX_OUTCOMES {
            let is_over = |work: &Arc<Work>| work.state.lock().ended;
            let oldest = all.works.iter().find(|(_, work)| is_over(work)).map(|(number, _)| *number);
            oldest.map(|number| all.works.remove(&number));
        }
        Ok(number)
    }

    /// Waits for the job with this number, at most for `patience`; `None` means without a limit.
    /// Cancels the job if `call` is cancelled.
    pub(crate) fn wait(&self, number: u64, call: &Call, patience: Option<Duration>) -> WaitResult {
        let Some(work) = self.0.lock().works.get(&number).cloned() else { return WaitResult::Unknown };
        let end = patience.map(|patience| Instant::now() + patience);
        let mut state = work.state.lock();
        state.waiting = Some(call.clone());
        while !state.ended {
            if call.cancellation().is_cancelled() {
                work.cancellation.cancel();
            } else if end.is_some_and(|end| Instant::now() >= end) {
                state.waiting = None;
                return WaitResult::Running(work.begun.elapsed());
            }
            work.ended.wait_for(&mut state, POLL_INTERVAL);
        }
        let outcome = state.outcome.take();
        drop(state);
        self.0.lock().works.remove(&number);
        outcome.map_or(WaitResult::Unknown, WaitResult::Ended)
    }

    /// Lists the numbers of the jobs that still run or have an outcome that was not fetched, newest
    /// first.
    pub(crate) fn numbers(&self) -> Vec<String> {
        self.0.lock().works.keys().rev().map(u64::to_string).collect()
    }
}

impl Drop for ClientWork {
    fn drop(&mut self) {
        self.0.get_mut().works.values().for_each(|work| work.cancellation.cancel());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools::CallOutcome;

    fn answered(text: &str) -> Outcome {
        let text = text.to_owned();
        Box::new(move |_| ToolAnswer::new(text, &serde_json::json!({}), CallOutcome::Answered))
    }

    fn text(waited: WaitResult) -> String {
        match waited {
            WaitResult::Ended(outcome) => match outcome(&Call::default()) {
                Ok(answer) => answer.text,
                Err(failure) => failure.to_string(),
            },
            WaitResult::Running(_) => "running".to_owned(),
            WaitResult::Unknown => "unknown".to_owned(),
        }
    }

    /// Runs until the call is cancelled.
    fn endless(call: &Call) -> Outcome {
        while !call.cancellation().is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        answered("called off")
    }

    #[test]
    fn an_outcome_is_returned_only_once() {
        let (all, call) = (ClientWork::default(), Call::default());
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let number = all
            .begin(&call, move |_| {
                wait.recv().unwrap();
                answered("done")
            })
            .unwrap();
        assert_eq!(text(all.wait(number, &call, Some(Duration::ZERO))), "running");
        assert_eq!(all.numbers(), ["1"]);
        go.send(()).unwrap();
        assert_eq!(text(all.wait(number, &call, None)), "done");
        assert_eq!(text(all.wait(number, &call, None)), "unknown");
        let number = all.begin(&call, |_| panic!("a bug")).unwrap();
        assert!(text(all.wait(number, &call, None)).contains("bug"));
    }

    #[test]
    fn cancelling_or_disconnecting_cancels_the_job() {
        let (all, call) = (ClientWork::default(), Call::default());
        let number = all.begin(&call, endless).unwrap();
        call.cancellation().cancel();
        assert_eq!(text(all.wait(number, &call, None)), "called off");
        let (told, ended) = std::sync::mpsc::channel::<()>();
        all.begin(&Call::default(), move |call| {
            let outcome = endless(call);
            told.send(()).unwrap();
            outcome
        })
        .unwrap();
        drop(all);
        ended.recv().unwrap();
    }
}
