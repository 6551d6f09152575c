//! Limits the connections of each session and those of clients that have not authenticated, so that
//! no client can use up all connections.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use hyper::StatusCode;
use parking_lot::Mutex;
use rmcp::model::ErrorData;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::AbortHandle;

use super::gate::HttpRefusal;

/// The maximum number of connections. Further connections wait to be accepted.
pub(super) const MAX_CONNECTIONS: usize = 256;
/// The maximum number of unauthenticated connections.
const MAX_UNAUTHENTICATED: usize = 32;
/// The deadline for a client to authenticate.
pub(super) const UNAUTHENTICATED_TIME: Duration = Duration::from_secs(2);

/// Returns a limit on the connections of one session.
pub(super) fn connection_limit() -> Arc<Semaphore> {
    Arc::new(Semaphore::new(MAX_CONNECTIONS / 4))
}

/// The use of one connection: whether its client has authenticated, and the limit that the
/// connection counts against.
#[derive(Default)]
pub(super) struct ConnectionUse {
    pub(super) authenticated: AtomicBool,
    permit: Mutex<Option<OwnedSemaphorePermit>>,
}

impl ConnectionUse {
    /// Returns whether the connection counts against a limit other than `sessionless`.
    pub(super) fn has_session(&self, sessionless: &Arc<Semaphore>) -> bool {
        self.permit.lock().as_ref().is_some_and(|permit| !Arc::ptr_eq(permit.semaphore(), sessionless))
    }

    /// Counts the connection against `limit`, and no longer against its previous limit.
    ///
    /// # Errors
    /// The limit is reached.
    pub(super) fn count_against(&self, limit: &Arc<Semaphore>) -> Result<(), HttpRefusal> {
        let mut permit = self.permit.lock();
        if !permit.as_ref().is_some_and(|permit| Arc::ptr_eq(permit.semaphore(), limit)) {
            let why = "This session uses too many connections. Close one, or wait until a call has finished.";
            let acquired = Arc::clone(limit).try_acquire_owned();
            *permit = Some(
                acquired
                    .map_err(|_| (StatusCode::TOO_MANY_REQUESTS, ErrorData::internal_error(why, None)))?,
            );
        }
        Ok(())
    }
}

/// The unauthenticated connections, oldest first.
#[derive(Default)]
pub(super) struct Unauthenticated(VecDeque<(Arc<ConnectionUse>, AbortHandle)>);

impl Unauthenticated {
    /// Adds a connection, which `task` serves. If there are too many, closes the oldest one, so
    /// that silent clients do not delay a client that authenticates.
    pub(super) fn add(&mut self, used: Arc<ConnectionUse>, task: AbortHandle) {
        self.0.retain(|(used, task)| !used.authenticated.load(Ordering::Relaxed) && !task.is_finished());
        if self.0.len() >= MAX_UNAUTHENTICATED
            && let Some((_, oldest)) = self.0.pop_front()
        {
            oldest.abort();
        }
        self.0.push_back((used, task));
    }
}
