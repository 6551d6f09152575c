//! The sessions, by their names, and the one client that all requests without a session are.

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
use super::session::{HttpSeat, HttpSession, no_session};

/// The most sessions.
const MOST_SESSIONS: usize = 32;
/// The time after which a session that nobody uses is ended.
const IDLE: Duration = Duration::from_secs(3600);
/// The time after which such a session gives way to a new one.
const GIVES_WAY: Duration = Duration::from_secs(60);
/// How often to look after the sessions. Shorter than a host stays without clients.
const TENDING: Duration = Duration::from_secs(5);

/// The sessions.
pub(super) struct Seats {
    join: Arc<Join>,
    sessions: Mutex<HashMap<String, Arc<HttpSession>>>,
    stateless: tokio::sync::Mutex<Option<Arc<HttpSession>>>,
    /// A seat for whoever needs one next: it keeps the image while nobody is there.
    spare: Mutex<Option<HttpSeat>>,
}

impl Seats {
    pub(super) fn new(join: Arc<Join>, first: HttpSeat) -> Self {
        Self {
            join,
            sessions: Mutex::default(),
            stateless: tokio::sync::Mutex::default(),
            spare: Mutex::new(Some(first)),
        }
    }

    /// Finds a session.
    pub(super) fn find(&self, name: &str) -> Result<Arc<HttpSession>, HttpRefusal> {
        let session = self.sessions.lock().get(name).cloned();
        session.filter(|session| !session.is_closed()).ok_or_else(no_session)
    }

    /// Begins a session. Returns it with its name, which nobody guesses.
    pub(super) async fn begin(&self) -> Result<(String, Arc<HttpSession>), HttpRefusal> {
        let session = self.seated().await?;
        let name = secret().map_err(|error| unavailable(error.to_string()))?;
        let mut sessions = self.sessions.lock();
        if sessions.len() >= MOST_SESSIONS {
            let idle = sessions.iter().filter_map(|(name, session)| Some((session.idle()?, name.clone())));
            let idlest = idle.max().filter(|(time, _)| *time >= GIVES_WAY);
            let Some(idlest) = idlest.and_then(|(_, name)| sessions.remove(&name)) else {
                session.close("There is no room");
                return Err(unavailable("there are too many sessions, and all are in use".to_owned()));
            };
            idlest.close("The session has given way to another");
        }
        sessions.insert(name.clone(), Arc::clone(&session));
        Ok((name, session))
    }

    /// Ends a session.
    pub(super) fn end(&self, name: &str) {
        let session = self.sessions.lock().remove(name);
        session.iter().for_each(|session| session.close("The session was ended"));
    }

    /// Returns the client that requests without a session are.
    pub(super) async fn stateless(&self) -> Result<Arc<HttpSession>, HttpRefusal> {
        let mut stateless = self.stateless.lock().await;
        if let Some(session) = stateless.as_ref().filter(|session| !session.is_closed()) {
            return Ok(Arc::clone(session));
        }
        let session = self.seated().await?;
        *stateless = Some(Arc::clone(&session));
        Ok(session)
    }

    async fn seated(&self) -> Result<Arc<HttpSession>, HttpRefusal> {
        let spare = self.spare.lock().take().filter(HttpSeat::is_open);
        let seat = match spare {
            Some(seat) => seat,
            None => self.joined().await.map_err(unavailable)?,
        };
        HttpSession::begin(seat).map_err(|error| unavailable(error.to_string()))
    }

    async fn joined(&self) -> Result<HttpSeat, String> {
        let join = Arc::clone(&self.join);
        let joined = tokio::task::spawn_blocking(move || join()).await;
        joined.unwrap_or_else(|error| Err(error.to_string()))
    }

    /// Ends idle sessions from time to time, and keeps the image while nobody is there.
    pub(super) async fn tend(&self) {
        loop {
            sleep(TENDING).await;
            self.sessions.lock().retain(|_, session| {
                let stays = !session.is_closed() && session.idle().is_none_or(|time| time < IDLE);
                if !stays {
                    session.close("The session was idle for too long");
                }
                stays
            });
            let stateless = self.stateless.lock().await.as_ref().is_some_and(|session| !session.is_closed());
            let alone = !stateless && self.sessions.lock().is_empty();
            let kept = self.spare.lock().as_ref().is_some_and(HttpSeat::is_open);
            // Ignore an error: the next client is told.
            if alone
                && !kept
                && let Ok(seat) = self.joined().await
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
    let why = format!("No further client is served: {}.", why.trim_end_matches('.'));
    (StatusCode::SERVICE_UNAVAILABLE, ErrorData::internal_error(why, None))
}
