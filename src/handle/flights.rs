//! The loads in progress, of systems and of the project. A caller that requests a system while the
//! system is loading waits for that load and receives its progress reports. Then the caller loads
//! the system again, because files may have changed since that load started. Loads with the options
//! `force` or `keep_going` do not wait, and loads of single files are not tracked.
//!
//! A server announces its first loads before they begin. Until they have ended, all other loads of
//! systems wait for them: an agent that has loaded a system can then rely on the answers.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};
use std::thread::{ThreadId, current};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::engine::LispError;
use crate::engine::control::Control;
use crate::engine::{OnProgress, Progress};
use crate::handle::Error;
use crate::handle::loaded::LoadAnswer;
use crate::handle::recovery::LoadedItem;

/// The interval at which a caller that waits for another caller's load checks whether its own
/// request was cancelled.
const CANCELLATION_INTERVAL: Duration = Duration::from_millis(20);

/// The loads that callers can join.
#[derive(Default)]
pub(crate) struct InFlightLoads {
    by_item: Mutex<HashMap<LoadedItem, Arc<Flight>>>,
    announced: Mutex<Option<Arc<AnnouncedLoads>>>,
}

/// The first loads of a server, or those that it repeats after a restart.
#[derive(Default)]
pub(super) struct AnnouncedLoads {
    /// Ends with the last load.
    pub(super) flight: Flight,
    /// The answers to the loads that have ended.
    pub(super) answers: Mutex<HashMap<LoadedItem, LoadAnswer>>,
    /// The thread that runs the loads, once it has started.
    runner: OnceLock<ThreadId>,
    /// Whether the loads are repeated after a restart.
    pub(super) again: bool,
}

/// A load, and the callers that wait for it.
#[derive(Default)]
pub(crate) struct Flight {
    listeners: Mutex<Vec<OnProgress>>,
    outcome: Mutex<FlightState>,
    ended: Condvar,
}

#[derive(Default)]
struct FlightState {
    ended: bool,
    answer: Option<LoadAnswer>,
}

impl InFlightLoads {
    /// Joins the load of `item` that is in progress. If there is none, or if `lead` is true,
    /// returns a new load. The second value is true if the load is new: the caller must then run
    /// the load and call [`InFlightLoads::finish`].
    pub(crate) fn join(
        &self,
        item: &LoadedItem,
        listener: Option<&OnProgress>,
        lead: bool,
    ) -> (Arc<Flight>, bool) {
        let mut by_item = self.by_item.lock();
        let (flight, leads) = match by_item.get(item) {
            Some(flight) if !lead => (Arc::clone(flight), false),
            under_way => {
                let flight = Arc::new(Flight::default());
                if under_way.is_none() {
                    by_item.insert(item.clone(), Arc::clone(&flight));
                }
                (flight, true)
            }
        };
        flight.listeners.lock().extend(listener.cloned());
        // The progress of a load inside another load reaches the outer load's listeners.
        if let (true, 1, Some(all)) = (leads, by_item.len(), self.announced.lock().clone()) {
            flight.listeners.lock().push(Arc::new(move |progress| all.flight.report(&progress)));
        }
        (flight, leads)
    }

    /// Announces loads, which are repeated after a restart if `again`.
    pub(super) fn announce(&self, again: bool) {
        *self.announced.lock() = Some(Arc::new(AnnouncedLoads { again, ..AnnouncedLoads::default() }));
    }

    /// Makes this thread the runner of the announced loads, so that it does not wait for them.
    pub(super) fn run_announced_here(&self) {
        self.announced.lock().iter().for_each(|loads| _ = loads.runner.set(current().id()));
    }

    /// Ends the announced loads.
    pub(super) fn end_announced(&self) {
        let announced = self.announced.lock().take();
        announced.iter().for_each(|loads| loads.flight.end(None));
    }

    /// Returns the announced loads, if there are any and another thread runs them.
    pub(super) fn announced(&self) -> Option<Arc<AnnouncedLoads>> {
        self.announced.lock().clone().filter(|loads| loads.runner.get() != Some(&current().id()))
    }

    /// Ends `flight`, the load of `item`, and passes `answer` to the waiting callers.
    pub(crate) fn finish(&self, item: &LoadedItem, flight: &Arc<Flight>, answer: Option<LoadAnswer>) {
        let mut by_item = self.by_item.lock();
        if by_item.get(item).is_some_and(|other| Arc::ptr_eq(other, flight)) {
            by_item.remove(item);
        }
        drop(by_item);
        if let (Some(announced), Some(answer)) = (&*self.announced.lock(), &answer) {
            announced.answers.lock().insert(item.clone(), answer.clone());
        }
        flight.end(answer);
    }
}

impl Flight {
    fn end(&self, answer: Option<LoadAnswer>) {
        *self.outcome.lock() = FlightState { ended: true, answer };
        self.ended.notify_all();
    }

    /// Also reports progress to the listener of `control`.
    pub(super) fn listen(&self, control: &Control) {
        self.listeners.lock().extend(control.progress().cloned());
    }

    /// Reports `progress` to all listeners.
    pub(crate) fn report(&self, progress: &Progress) {
        let listeners = self.listeners.lock().clone();
        for listener in listeners {
            listener(progress.clone());
        }
    }

    /// Waits until the load has ended, and returns its answer. If the load ended with an error,
    /// returns the default answer. Returns `None` if `deadline` passes first, and an error if the
    /// caller's request is cancelled.
    pub(crate) fn wait(&self, control: &Control, deadline: Instant) -> Result<Option<LoadAnswer>, Error> {
        let mut outcome = self.outcome.lock();
        while !outcome.ended {
            if control.cancellation().is_cancelled() {
                return Err(LispError::Cancelled.into());
            }
            let now = Instant::now();
            if now >= deadline {
                return Ok(None);
            }
            self.ended.wait_until(&mut outcome, deadline.min(now + CANCELLATION_INTERVAL));
        }
        Ok(Some(outcome.answer.clone().unwrap_or_default()))
    }
}
