//! The loads under way, by system, so that a caller that asks for the same one joins it.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use super::load::LoadListener;
use crate::engine::LispError;
use crate::query::Error;
use crate::query::control::Control;
use crate::query::load_system::{LoadAnswer, LoadNews};

/// The interval at which a caller that waits for another's load checks for its own cancellation.
const LOOK: Duration = Duration::from_millis(20);

/// The loads of systems that wait or run.
#[derive(Default)]
pub(super) struct Flights {
    by_system: Mutex<HashMap<String, Arc<Flight>>>,
}

/// A load, and the callers that wait for it.
#[derive(Default)]
pub(super) struct Flight {
    listeners: Mutex<Vec<LoadListener>>,
    outcome: Mutex<FlightState>,
    ended: Condvar,
}

#[derive(Default)]
struct FlightState {
    ended: bool,
    answer: Option<LoadAnswer>,
}

impl Flights {
    /// Joins the load of `system` that is under way; begins one if there is none, or if the caller wants to
    /// `lead` its own. True if the caller leads it, and must [`Flights::land`] it.
    pub(super) fn join(
        &self,
        system: &str,
        listener: Option<&LoadListener>,
        lead: bool,
    ) -> (Arc<Flight>, bool) {
        let mut by_system = self.by_system.lock();
        let (flight, leads) = match by_system.get(system) {
            Some(flight) if !lead => (Arc::clone(flight), false),
            under_way => {
                let flight = Arc::new(Flight::default());
                if under_way.is_none() {
                    by_system.insert(system.to_owned(), Arc::clone(&flight));
                }
                (flight, true)
            }
        };
        flight.listeners.lock().extend(listener.cloned());
        (flight, leads)
    }

    /// Ends `flight`, the load of `system`, and hands `answer` to its waiting callers.
    pub(super) fn land(&self, system: &str, flight: &Arc<Flight>, answer: Option<LoadAnswer>) {
        let mut by_system = self.by_system.lock();
        if by_system.get(system).is_some_and(|other| Arc::ptr_eq(other, flight)) {
            by_system.remove(system);
        }
        drop(by_system);
        *flight.outcome.lock() = FlightState { ended: true, answer };
        flight.ended.notify_all();
    }
}

impl Flight {
    /// Passes `news` to all listeners.
    pub(super) fn tell(&self, news: &LoadNews) {
        let listeners = self.listeners.lock().clone();
        for listener in listeners {
            listener(news.clone());
        }
    }

    /// Waits until the load has ended, and returns its answer, an empty one if it failed. None if `deadline`
    /// passed first.
    pub(super) fn wait(&self, control: &Control, deadline: Instant) -> Result<Option<LoadAnswer>, Error> {
        let mut outcome = self.outcome.lock();
        while !outcome.ended {
            if control.cancellation().is_cancelled() {
                return Err(LispError::Cancelled.into());
            }
            let now = Instant::now();
            if now >= deadline {
                return Ok(None);
            }
            self.ended.wait_until(&mut outcome, deadline.min(now + LOOK));
        }
        Ok(Some(outcome.answer.clone().unwrap_or_else(LoadAnswer::of_project)))
    }
}
