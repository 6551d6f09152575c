//! Holds the HTTP sessions by their ids, and the single client for requests without a session.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::StatusCode;
use parking_lot::Mutex;
use rmcp::model::ErrorData;
use tokio::time::sleep;

use super::Join;
use super::address::secret;
use super::gate::HttpRefusal;
use super::session::{HttpConnection, HttpSession, no_session};

/// The maximum number of sessions.
const MAX_SESSIONS: usize = 32;
/// The time after which an idle session is ended.
const IDLE: Duration = Duration::from_secs(3600);
/// The time after which an idle session may be replaced by a new session.
const REPLACEABLE_AFTER: Duration = Duration::from_secs(60);
/// The interval of maintenance. It is shorter than the time after which a host without clients
/// ends.
const MAINTENANCE_INTERVAL: Duration = Duration::from_secs(5);

/// The HTTP sessions.
pub(super) struct HttpSessions {
    join: Arc<Join>,
    sessions: Mutex<HashMap<String, Arc<HttpSession>>>,
    stateless: tokio::sync::Mutex<Option<Arc<HttpSession>>>,
    /// A connected client for the next session. It keeps the host running while there are no
    /// sessions.
    spare: Mutex<Option<HttpConnection>>,
}

impl HttpSessions {
    pub(super) fn new(join: Arc<Join>, first: HttpConnection) -> Self {
        Self {
            join,
            sessions: Mutex::default(),
            stateless: tokio::sync::Mutex::default(),
            spare: Mutex::new(Some(first)),
        }
    }

    /// Returns the session with the id `name`. Returns a rejection if it does not exist or is
    /// closed.
    pub(super) fn find(&self, name: &str) -> Result<Arc<HttpSession>, HttpRefusal> {
        let session = self.sessions.lock().get(name).cloned();
        session.filter(|session| !session.is_closed()).ok_or_else(no_session)
    }

    /// Starts a session. Returns it with its id, which is a random secret. If there are too many
    /// sessions, ends the session with the longest idle time, or rejects the new session if no
    /// session has been idle for long enough.
    pub(super) async fn begin(&self) -> Result<(String, Arc<HttpSession>), HttpRefusal> {
        let session = self.new_session().await?;
        let name = secret().map_err(|error| unavailable(error.to_string()))?;
        let mut sessions = self.sessions.lock();
        if sessions.len() >= MAX_SESSIONS {
            let idle = sessions.iter().filter_map(|(name, session)| Some((session.idle()?, name.clone())));
            let idlest = idle.max().filter(|(time, _)| *time >= REPLACEABLE_AFTER);
            let Some(idlest) = idlest.and_then(|(_, name)| sessions.remove(&name)) else {
                session.close("There are too many sessions");
                return Err(unavailable("there are too many sessions, all in use".to_owned()));
            };
            idlest.close("The idle session was replaced by a new session");
        }
        sessions.insert(name.clone(), Arc::clone(&session));
        Ok((name, session))
    }

    /// Ends the session with the id `name`.
    pub(super) fn end(&self, name: &str) {
        let session = self.sessions.lock().remove(name);
        session.iter().for_each(|session| session.close("The session was ended"));
    }

    /// Returns the client for requests without a session.
    pub(super) async fn stateless(&self) -> Result<Arc<HttpSession>, HttpRefusal> {
        let mut stateless = self.stateless.lock().await;
        if let Some(session) = stateless.as_ref().filter(|session| !session.is_closed()) {
            return Ok(Arc::clone(session));
        }
        let session = self.new_session().await?;
        *stateless = Some(Arc::clone(&session));
        Ok(session)
    }

    async fn new_session(&self) -> Result<Arc<HttpSession>, HttpRefusal> {
        let spare = self.spare.lock().take().filter(HttpConnection::is_open);
        let seat = match spare {
            Some(seat) => seat,
            None => self.connect().await.map_err(unavailable)?,
        };
        HttpSession::begin(seat).map_err(|error| unavailable(error.to_string()))
    }

    async fn connect(&self) -> Result<HttpConnection, String> {
        let join = Arc::clone(&self.join);
        let joined = tokio::task::spawn_blocking(move || join()).await;
        joined.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Repeatedly ends idle sessions. If there is no session, connects a spare client so that the
    /// host does not end.
    pub(super) async fn maintain(&self) {
        loop {
            sleep(MAINTENANCE_INTERVAL).await;
            self.sessions.lock().retain(|_, session| {
                let stays = !session.is_closed() && session.idle().is_none_or(|time| time < IDLE);
                if !stays {
                    session.close("The session was idle for too long");
                }
                stays
            });
            let stateless = self.stateless.lock().await.as_ref().is_some_and(|session| !session.is_closed());
            let alone = !stateless && self.sessions.lock().is_empty();
            let kept = self.spare.lock().as_ref().is_some_and(HttpConnection::is_open);
            // Ignore an error: the next session will report it.
            if alone
                && !kept
                && let Ok(seat) = self.connect().await
            {
                *self.spare.lock() = Some(seat);
            }
        }
    }

    /// Ends all sessions.
    pub(super) async fn close(&self) {
        let sessions = std::mem::take(&mut *self.sessions.lock());
        let stateless = self.stateless.lock().await.take();
        sessions.into_values().chain(stateless).for_each(|session| session.close("The server was ended"));
        drop(self.spare.lock().take());
    }
}

fn unavailable(why: String) -> HttpRefusal {
    let why = format!("The server cannot accept another client: {}.", why.trim_end_matches('.'));
    (StatusCode::SERVICE_UNAVAILABLE, ErrorData::internal_error(why, None))
}
