//! Work that may outlast the call that began it. Hosts give a call a time, often a minute: who has waited for some of that
//! is told the number of the work, and asks for the outcome by another call.

use std::collections::BTreeMap;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::call::{Call, Failure, ToolAnswer};
use crate::engine::control::Cancellation;

/// The most outcomes that nobody has asked for yet.
const KEPT_OUTCOMES: usize = 16;
/// The time between two looks at whether the waiting call was called off.
const GLANCE: Duration = Duration::from_millis(20);

/// Makes the answer of the call that asks for an outcome.
pub(crate) type Outcome = Box<dyn FnOnce(&Call) -> Result<ToolAnswer, Failure> + Send>;

/// The work of one client, by its numbers. What still runs when the client leaves is called off.
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
    /// The call that waits: it hears of progress.
    waiting: Option<Call>,
    ended: bool,
    /// None before the end, and once it is told.
    outcome: Option<Outcome>,
}

/// What a call has waited for.
pub(crate) enum Waited {
    /// The outcome, which is told once.
    Ended(Outcome),
    /// It still runs, since so long.
    Running(Duration),
    /// There is no work of that number.
    Unknown,
}

impl ClientWork {
    /// Begins `work` on a thread, for `call` to hear of its progress, and returns its number. The call that `work` is given
    /// is called off with it.
    ///
    /// # Errors
    /// The system refuses a thread.
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
                Box::new(|_| Err(Failure::engine("The work failed inside: this is a bug of steelbank's.")))
            });
            let mut state = ran.state.lock();
            // A restart waits for the answer that tells of what was written.
            state.waiting.iter().for_each(|call| call.take_writing_of(&own));
            (state.ended, state.outcome) = (true, Some(outcome));
            ran.ended.notify_all();
        })?;
        let mut all = self.0.lock();
        all.last += 1;
        let number = all.last;
        all.works.insert(number, this);
        if all.works.len() > KEPT_OUTCOMES {
            let is_over = |work: &Arc<Work>| work.state.lock().ended;
            let oldest = all.works.iter().find(|(_, work)| is_over(work)).map(|(number, _)| *number);
            oldest.map(|number| all.works.remove(&number));
        }
        Ok(number)
    }

    /// Has `call` wait for the work of this number, for as long as it is patient. If the call is called off, so is the work.
    pub(crate) fn wait(&self, number: u64, call: &Call, patience: Option<Duration>) -> Waited {
        let Some(work) = self.0.lock().works.get(&number).cloned() else { return Waited::Unknown };
        let end = patience.map(|patience| Instant::now() + patience);
        let mut state = work.state.lock();
        state.waiting = Some(call.clone());
        while !state.ended {
            if call.cancellation().is_cancelled() {
                work.cancellation.cancel();
            } else if end.is_some_and(|end| Instant::now() >= end) {
                state.waiting = None;
                return Waited::Running(work.begun.elapsed());
            }
            work.ended.wait_for(&mut state, GLANCE);
        }
        let outcome = state.outcome.take();
        drop(state);
        self.0.lock().works.remove(&number);
        outcome.map_or(Waited::Unknown, Waited::Ended)
    }

    /// Lists the numbers of the work whose outcome was not asked for yet, the newest first.
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

    fn text(waited: Waited) -> String {
        match waited {
            Waited::Ended(outcome) => match outcome(&Call::default()) {
                Ok(answer) => answer.text,
                Err(failure) => failure.to_string(),
            },
            Waited::Running(_) => "running".to_owned(),
            Waited::Unknown => "unknown".to_owned(),
        }
    }

    /// Work that goes on until it is called off.
    fn endless(call: &Call) -> Outcome {
        while !call.cancellation().is_cancelled() {
            std::thread::sleep(Duration::from_millis(1));
        }
        answered("called off")
    }

    #[test]
    fn an_outcome_is_told_once_to_who_asks_for_it() {
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
    fn who_calls_off_or_leaves_ends_the_work() {
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
