//! Answers requests over HTTP: finds the session of each, and writes what comes of it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt, Full, Limited, combinators::UnsyncBoxBody};
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, RETRY_AFTER, WWW_AUTHENTICATE};
use hyper::{Method, Request, Response, StatusCode};
use parking_lot::Mutex;
use rmcp::model::{ErrorCode, ErrorData, ProtocolVersion};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::time::{sleep, timeout};

use super::address::{PATH, secret};
use super::exchange::Exchange;
use super::gate::{EVENTS, Gate, JSON, text};
use super::session::{GENERAL, HttpSeat, NotAsked, Session, error_code};
use super::{Join, told};
use crate::doors::mcp::calls::cancelled;
use crate::doors::mcp::message::{self, Id, Message};
use crate::doors::mcp::protocol::{Meta, VERSIONS};

/// The longest body, in bytes.
const LONGEST_BODY: usize = 4 << 20;
/// The time in which a body must be there.
const BODY_TIME: Duration = Duration::from_secs(30);
/// The time that an answer may take before the client is given a stream.
const PATIENCE: Duration = Duration::from_millis(500);
/// The time after which a stream without news says that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The most sessions.
const MOST_SESSIONS: usize = 32;
/// The time after which a session that nobody uses is ended.
const IDLE: Duration = Duration::from_secs(3600);
/// The time after which such a session gives way to a new one.
const GIVES_WAY: Duration = Duration::from_secs(60);
/// The oldest version whose clients understand an event without data.
const POLLING_SINCE: &str = "2025-11-25";

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// The code of an error where a header differs from the body.
const HEADER_MISMATCH: ErrorCode = ErrorCode(-32020);

/// The answers of the one endpoint.
pub(super) struct Door {
    gate: Gate,
    join: Arc<Join>,
    sessions: Mutex<HashMap<String, Arc<Session>>>,
    /// The client that all requests without a session are.
    stateless: tokio::sync::Mutex<Option<Arc<Session>>>,
    /// A seat for whoever needs one next: it keeps the image while nobody is there.
    spare: Mutex<Option<HttpSeat>>,
    ending: watch::Receiver<bool>,
}

/// A body: of one piece, or of events.
type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// Why a request is refused: status, and the error in the body.
type Refused = (StatusCode, Option<Id>, ErrorData);

/// Where a stream's messages come from, and how they are told.
struct Source {
    session: Arc<Session>,
    number: u64,
    exchange: Arc<Exchange>,
    /// Whether a reader that loses its connection may come again; else it has called the call off.
    resumable: bool,
}

impl Source {
    /// Calls the call off, if nobody can come for its answer.
    fn abandon(&self) {
        if !self.resumable {
            self.session.call_off(self.number);
            self.session.forget(self.number);
        }
    }
}

/// Calls a call off when its request is dropped.
struct Waiting(Option<Source>);

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.iter().for_each(Source::abandon);
    }
}

impl Door {
    pub(super) fn new(gate: Gate, join: Arc<Join>, first: HttpSeat, ending: watch::Receiver<bool>) -> Self {
        let spare = Mutex::new(Some(first));
        Self {
            gate,
            join,
            sessions: Mutex::default(),
            stateless: tokio::sync::Mutex::default(),
            spare,
            ending,
        }
    }

    /// Answers a request.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let answered = match self.gate.check(request.method(), request.headers()) {
            _ if request.uri().path() != PATH => Err((StatusCode::NOT_FOUND, "The endpoint is /mcp.")),
            told => told,
        };
        let answered = match answered {
            Err((status, why)) => Err((status, None, ErrorData::invalid_request(why, None))),
            Ok(()) => match *request.method() {
                Method::POST => self.post(request).await,
                Method::GET => self.get(request.headers()),
                _ => self.delete(request.headers()),
            },
        };
        answered.unwrap_or_else(|(status, id, error)| refusal(status, id.as_ref(), &error))
    }

    async fn post(self: &Arc<Self>, request: Request<Incoming>) -> Result<Answer, Refused> {
        let (head, body) = request.into_parts();
        let headers = &head.headers;
        let body = timeout(BODY_TIME, Limited::new(body, LONGEST_BODY).collect()).await;
        let body = match body {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<http_body_util::LengthLimitError>() => {
                return Err(plainly(StatusCode::PAYLOAD_TOO_LARGE, "The message is longer than 4 MiB."));
            }
            Ok(Err(_)) => return Err(plainly(StatusCode::BAD_REQUEST, "The body is cut.")),
            Err(_) => return Err(plainly(StatusCode::REQUEST_TIMEOUT, "The body does not come.")),
        };
        let read = message::read(&body).map_err(|(id, error)| (StatusCode::BAD_REQUEST, id, error))?;
        let params = match &read {
            Message::Request { params, .. } | Message::Notification { params, .. } => *params,
            _ => None,
        };
        let (meta, version) = (Meta::of(params), text(headers, VERSION));
        let id = match &read {
            Message::Request { id, .. } => Some(id.clone()),
            _ => None,
        };
        let refused = |status, error| (status, id.clone(), error);
        // Take a version that nobody knows for one without sessions: dispatch refuses it with those that it knows.
        let stateless = meta.version().is_some_and(|version| !in_session(version.as_str()))
            || version.is_some_and(|version| !in_session(version)) && !headers.contains_key(SESSION);
        if stateless {
            return self
                .post_stateless(headers, read, &meta)
                .await
                .map_err(|(status, error)| refused(status, error));
        }
        if let Some(version) = version
            && !in_session(version)
        {
            return Err(refused(StatusCode::BAD_REQUEST, unsupported(version)));
        }
        let begins = matches!(&read, Message::Request { method, .. } if method == "initialize");
        let (name, session) = match text(headers, SESSION) {
            None if begins => self.new_session().await.map_err(|(status, error)| refused(status, error))?,
            _ if begins => {
                let error =
                    ErrorData::invalid_request("The session has begun: initialize begins another.", None);
                return Err(refused(StatusCode::BAD_REQUEST, error));
            }
            _ => self.find(headers).map_err(|(status, _, error)| refused(status, error))?,
        };
        let gone = |_| refused(StatusCode::NOT_FOUND, no_session());
        match read {
            Message::Request { id, method, params } => {
                let asked = session.ask(id.clone(), &method, params).await;
                let (number, exchange) = asked.map_err(|why| {
                    let (status, error) = not_asked(why);
                    (status, Some(id), error)
                })?;
                let waiting = Waiting(Some(Source { session, number, exchange, resumable: true }));
                let polls = version.is_some_and(|version| version >= POLLING_SINCE);
                let (only, mut answer) = self.reply(waiting, polls, |_| StatusCode::OK).await;
                if begins {
                    if only.is_some_and(|message| error_code(&message).is_some()) {
                        self.end_session(&name);
                        *answer.status_mut() = StatusCode::BAD_REQUEST;
                    } else if let Ok(value) = name.parse() {
                        answer.headers_mut().insert(SESSION, value);
                    }
                }
                Ok(answer)
            }
            Message::Notification { method, params } if method == "notifications/cancelled" => {
                cancelled(params).iter().for_each(|id| session.cancel(id));
                Ok(empty(StatusCode::ACCEPTED))
            }
            Message::Blank => Err(plainly(StatusCode::BAD_REQUEST, "The body is empty.")),
            _ => session.tell(&body).await.map(|()| empty(StatusCode::ACCEPTED)).map_err(gone),
        }
    }

    /// Answers a request of 2026-07-28, which has no sessions.
    async fn post_stateless(
        self: &Arc<Self>,
        headers: &HeaderMap,
        read: Message<'_>,
        meta: &Meta<'_>,
    ) -> Result<Answer, (StatusCode, ErrorData)> {
        let Message::Request { id, method, params } = read else { return Ok(empty(StatusCode::ACCEPTED)) };
        let differs = |header: &'static str, body: &str| text(headers, header) != Some(body);
        if meta.version().is_some_and(|version| differs(VERSION, version.as_str()))
            || meta.is_inline()
                && (differs("mcp-method", &method)
                    || name_of(&method, params).is_some_and(|name| differs("mcp-name", &name)))
        {
            let why = "The headers MCP-Protocol-Version, Mcp-Method and Mcp-Name must be those of the body.";
            return Err((StatusCode::BAD_REQUEST, ErrorData::new(HEADER_MISMATCH, why, None)));
        }
        let session = self.stateless().await?;
        let (number, exchange) = session.ask(id, &method, params).await.map_err(not_asked)?;
        let incomplete = !meta.missing().is_empty();
        let status = |code| match code {
            ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => StatusCode::BAD_REQUEST,
            _ if incomplete => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        };
        let waiting = Waiting(Some(Source { session, number, exchange, resumable: false }));
        Ok(self.reply(waiting, false, status).await.1)
    }

    /// Waits for a request's answer, and returns it as one message; or a stream, if there are news before it, or it is late.
    async fn reply(
        &self,
        mut waiting: Waiting,
        polls: bool,
        status: impl Fn(ErrorCode) -> StatusCode,
    ) -> (Option<Bytes>, Answer) {
        let only = match &waiting.0 {
            Some(source) => {
                let reader = source.exchange.claim();
                let told = timeout(PATIENCE, source.exchange.next(reader, 0)).await;
                match told {
                    // It was called off.
                    Ok(None) => Some(None),
                    Ok(Some(_)) => {
                        // An answer comes right after its last news, or before any.
                        source.exchange.only().map(Some)
                    }
                    Err(_) => None,
                }
            }
            None => Some(None),
        };
        let Some(source) = waiting.0.take() else { return (None, empty(StatusCode::ACCEPTED)) };
        match only {
            Some(message) => {
                source.session.forget(source.number);
                let answer = match &message {
                    Some(message) => {
                        let status = error_code(message).map_or(StatusCode::OK, status);
                        whole(status, message.clone())
                    }
                    None => empty(StatusCode::ACCEPTED),
                };
                (message, answer)
            }
            None => (None, self.stream(source, 0, polls)),
        }
    }

    fn get(&self, headers: &HeaderMap) -> Result<Answer, Refused> {
        let (_, session) = self.find(headers)?;
        let last = headers.get("last-event-id").map(|id| id.to_str().ok().and_then(|id| id.split_once('-')));
        let (number, after) = match last {
            None => (GENERAL, 0),
            Some(place) => place
                .and_then(|(number, after)| Some((number.parse().ok()?, after.parse().ok()?)))
                .ok_or_else(|| {
                    plainly(StatusCode::BAD_REQUEST, "The Last-Event-ID is none of this server's.")
                })?,
        };
        let exchange = session.exchange(number).ok_or_else(|| {
            plainly(StatusCode::BAD_REQUEST, "The stream of this Last-Event-ID is not kept any more.")
        })?;
        Ok(self.stream(Source { session, number, exchange, resumable: true }, after, false))
    }

    fn delete(&self, headers: &HeaderMap) -> Result<Answer, Refused> {
        let (name, _) = self.find(headers)?;
        self.end_session(&name);
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// Makes a stream of the messages after number `after`.
    fn stream(&self, source: Source, after: u64, polls: bool) -> Answer {
        let (events, body) = mpsc::channel(8);
        let mut ending = self.ending.clone();
        tokio::spawn(async move {
            let Source { session, number, exchange, resumable } = &source;
            let (reader, mut after) = (exchange.claim(), after);
            let event = |place: u64, data: &[u8]| {
                let id = if *resumable { format!("id: {number}-{place}\n") } else { String::new() };
                [id.as_bytes(), b"data: ", data, b"\n\n"].concat()
            };
            if polls {
                let _ = events.send([b"retry: 1000\n", event(0, b"").as_slice()].concat().into()).await;
            }
            loop {
                let news = tokio::select! {
                    news = timeout(KEEP_ALIVE, exchange.next(reader, after)) => news,
                    () = events.closed() => return source.abandon(),
                    // Let calls end; nothing else comes any more.
                    () = told(&mut ending), if *number == GENERAL => return,
                };
                let piece = match news {
                    Ok(Some((place, message))) => {
                        after = place;
                        event(place, &message)
                    }
                    Ok(None) => break,
                    Err(_) => b": \n\n".to_vec(),
                };
                if events.send(Bytes::from(piece)).await.is_err() {
                    return source.abandon();
                }
            }
            if !resumable {
                session.forget(*number);
            }
        });
        let mut answer = Response::new(Events(body).boxed_unsync());
        answer.headers_mut().insert(CONTENT_TYPE, value(EVENTS));
        answer.headers_mut().insert(CACHE_CONTROL, value("no-cache"));
        answer
    }

    /// Finds the session that the headers name.
    fn find(&self, headers: &HeaderMap) -> Result<(String, Arc<Session>), Refused> {
        match text(headers, VERSION) {
            Some(version) if VERSIONS.iter().all(|known| known.as_str() != version) => {
                return Err((StatusCode::BAD_REQUEST, None, unsupported(version)));
            }
            Some(version) if !in_session(version) => {
                return Err(plainly(
                    StatusCode::METHOD_NOT_ALLOWED,
                    "This version has no sessions, and POST alone.",
                ));
            }
            _ => (),
        }
        let Some(name) = text(headers, SESSION) else {
            return Err(plainly(
                StatusCode::BAD_REQUEST,
                "The Mcp-Session-Id header is missing: initialize first.",
            ));
        };
        let session = self.sessions.lock().get(name).cloned();
        match session {
            Some(session) if !session.is_closed() => Ok((name.to_owned(), session)),
            Some(_) => {
                self.end_session(name);
                Err((StatusCode::NOT_FOUND, None, no_session()))
            }
            None => Err((StatusCode::NOT_FOUND, None, no_session())),
        }
    }

    async fn new_session(self: &Arc<Self>) -> Result<(String, Arc<Session>), (StatusCode, ErrorData)> {
        self.end_idle(MOST_SESSIONS - 1, GIVES_WAY);
        if self.sessions.lock().len() >= MOST_SESSIONS {
            let why = "There are too many sessions: end one, or come again.";
            return Err((StatusCode::SERVICE_UNAVAILABLE, ErrorData::internal_error(why, None)));
        }
        let session = self.seated().await?;
        let name = secret().map_err(|error| trouble(&error))?;
        self.sessions.lock().insert(name.clone(), Arc::clone(&session));
        Ok((name, session))
    }

    /// Returns the client that requests without a session are.
    async fn stateless(&self) -> Result<Arc<Session>, (StatusCode, ErrorData)> {
        let mut stateless = self.stateless.lock().await;
        match &*stateless {
            Some(session) if !session.is_closed() => Ok(Arc::clone(session)),
            _ => {
                let session = self.seated().await?;
                *stateless = Some(Arc::clone(&session));
                Ok(session)
            }
        }
    }

    async fn seated(&self) -> Result<Arc<Session>, (StatusCode, ErrorData)> {
        let spare = self.spare.lock().take().filter(HttpSeat::is_open);
        let seat = match spare {
            Some(seat) => seat,
            None => self
                .joined()
                .await
                .map_err(|why| (StatusCode::SERVICE_UNAVAILABLE, ErrorData::internal_error(why, None)))?,
        };
        Session::begin(seat).map_err(|error| trouble(&error))
    }

    async fn joined(&self) -> Result<HttpSeat, String> {
        let join = Arc::clone(&self.join);
        let joined = tokio::task::spawn_blocking(move || join()).await;
        joined.unwrap_or_else(|error| Err(format!("Joining Lisp failed inside: {error}.")))
    }

    fn end_session(&self, name: &str) {
        let session = self.sessions.lock().remove(name);
        session.iter().for_each(|session| session.close("The session was ended"));
    }

    /// Ends sessions that nobody has used for `idle`, the idlest first, until `most` are left.
    fn end_idle(&self, most: usize, idle: Duration) {
        let mut idlest: Vec<(Duration, String)> = {
            let sessions = self.sessions.lock();
            let idle_of = |(name, session): (&String, &Arc<Session>)| {
                let time = if session.is_closed() { Some(Duration::MAX) } else { session.idle() };
                time.filter(|time| *time >= idle).map(|time| (time, name.clone()))
            };
            let surplus = sessions.len().saturating_sub(most);
            if surplus == 0 {
                return;
            }
            let mut found: Vec<_> = sessions.iter().filter_map(idle_of).collect();
            found.sort();
            found.split_off(found.len().saturating_sub(surplus))
        };
        idlest.drain(..).for_each(|(_, name)| self.end_session(&name));
    }

    /// Ends idle sessions from time to time, and keeps the image while nobody is there.
    pub(super) async fn tend(self: Arc<Self>) {
        loop {
            sleep(KEEP_ALIVE / 3).await;
            self.end_idle(0, IDLE);
            let stateless = self.stateless.lock().await.as_ref().is_some_and(|session| !session.is_closed());
            let alone = !stateless && self.sessions.lock().values().all(|session| session.is_closed());
            if alone && !self.spare.lock().as_ref().is_some_and(HttpSeat::is_open)
                // Ignore the error: the next client is told.
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

/// The events of a stream.
struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: std::pin::Pin<&mut Self>,
        context: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::default()
    }
}

fn value(text: &'static str) -> hyper::header::HeaderValue {
    hyper::header::HeaderValue::from_static(text)
}

fn whole(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, value(JSON));
    answer
}

fn empty(status: StatusCode) -> Answer {
    let mut answer = Response::new(Full::default().boxed_unsync());
    *answer.status_mut() = status;
    answer
}

fn refusal(status: StatusCode, id: Option<&Id>, error: &ErrorData) -> Answer {
    let mut line = Vec::new();
    message::write_error(&mut line, id, error);
    let mut answer = whole(status, line.into());
    let headers = answer.headers_mut();
    match status {
        StatusCode::UNAUTHORIZED => drop(headers.insert(WWW_AUTHENTICATE, value("Bearer"))),
        StatusCode::METHOD_NOT_ALLOWED => drop(headers.insert(ALLOW, value("POST, GET, DELETE"))),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => {
            drop(headers.insert(RETRY_AFTER, value("5")));
        }
        _ => (),
    }
    answer
}

fn plainly(status: StatusCode, why: &'static str) -> Refused {
    (status, None, ErrorData::invalid_request(why, None))
}

fn no_session() -> ErrorData {
    ErrorData::invalid_request("There is no such session any more: initialize again.", None)
}

fn not_asked(why: NotAsked) -> (StatusCode, ErrorData) {
    match why {
        NotAsked::Closed => (StatusCode::NOT_FOUND, no_session()),
        NotAsked::Busy => {
            let why = "Too many calls are under way: wait for one.";
            (StatusCode::TOO_MANY_REQUESTS, ErrorData::internal_error(why, None))
        }
    }
}

fn trouble(error: &std::io::Error) -> (StatusCode, ErrorData) {
    let why = format!("The system refuses what a session needs: {error}.");
    (StatusCode::SERVICE_UNAVAILABLE, ErrorData::internal_error(why, None))
}

/// Whether a known version has sessions.
fn in_session(version: &str) -> bool {
    VERSIONS.iter().any(|known| known.as_str() == version && known.has_initialize())
}

fn unsupported(version: &str) -> ErrorData {
    let version = serde_json::from_value::<ProtocolVersion>(version.into()).unwrap_or_default();
    ErrorData::unsupported_protocol_version(version, &VERSIONS)
}

/// Returns what the parameters name, which a header names too.
fn name_of(method: &str, params: Option<&RawValue>) -> Option<String> {
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return None,
    };
    let params: HashMap<String, &RawValue> = serde_json::from_str(params?.get()).ok()?;
    serde_json::from_str(params.get(key)?.get()).ok()
}
