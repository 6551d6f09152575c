//! The HTTP endpoint: finds the session of each request, forwards the message, and writes the
//! response.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::value::RawValue;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::timeout;

use super::connections::ConnectionUse;
use super::gate::{EVENTS, Gate, HttpRefusal, JSON, refused, text};
use super::server_ending;
use super::session::{ExchangeReading, GENERAL, HttpSession, error_code};
use super::sessions::HttpSessions;
use crate::doors::mcp::calls::cancelled;
use crate::doors::mcp::message::{self, Id, Message};
use crate::doors::mcp::protocol::{Meta, VERSIONS};

/// The maximum size of a body, in bytes.
const MAX_BODY: usize = 4 << 20;
/// The deadline for receiving a body.
const BODY_TIME: Duration = Duration::from_secs(30);
/// How long a response may take before it becomes a stream.
const STREAM_AFTER: Duration = Duration::from_millis(500);
/// The interval of keep-alive comments in an idle stream.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The maximum number of events that wait for a client to read them.
const MAX_UNREAD: usize = 8;
/// The oldest protocol version with clients that accept an event without data.
const POLLING_SINCE: &str = "2025-11-25";
/// The error code for a header that differs from the body.
const HEADER_MISMATCH: ErrorCode = ErrorCode(-32020);

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// The only endpoint.
pub(super) struct Endpoint {
    pub(super) gate: Gate,
    pub(super) sessions: Arc<HttpSessions>,
    /// Limits the connections that count against no session.
    pub(super) sessionless: Arc<Semaphore>,
    /// Becomes `true` when the server ends.
    pub(super) ending: watch::Receiver<bool>,
}

/// A response without a body, with one message, or with a stream of events.
type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

impl Endpoint {
    /// Answers a request. Closes the connection afterwards if it counts against no session.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>, used: &ConnectionUse) -> Answer {
        let (head, body) = request.into_parts();
        let mut id = None;
        let admitted = self.gate.check(&head).and_then(|()| self.admit(&head.headers, used));
        let answered = match (admitted, &head.method) {
            (Err(refusal), _) => Err(refusal),
            (Ok(()), &Method::POST) => self.post(&head.headers, body, &mut id, used).await,
            (Ok(()), &Method::GET) => self.get(&head.headers, used),
            (Ok(()), _) => self.delete(&head.headers),
        };
        let mut answer = answered.unwrap_or_else(|(status, error)| refusal(status, id.as_ref(), &error));
        if !used.has_session(&self.sessionless) {
            answer.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        answer
    }

    /// Counts an authenticated request's connection against its session. If the session has too
    /// many, counts it against no session, so that the client can still cancel calls.
    fn admit(&self, headers: &HeaderMap, used: &ConnectionUse) -> Result<(), HttpRefusal> {
        used.authenticated.store(true, Ordering::Relaxed);
        let session = text(headers, SESSION).and_then(|name| self.sessions.find(name).ok());
        match session.map(|session| used.count_against(&session.connections)) {
            Some(Ok(())) => Ok(()),
            _ => used.count_against(&self.sessionless),
        }
    }

    /// Answers a POSTed message. Stores its id in `id` for use in a rejection.
    async fn post(
        &self,
        headers: &HeaderMap,
        body: Incoming,
        id: &mut Option<Id>,
        used: &ConnectionUse,
    ) -> Result<Answer, HttpRefusal> {
        let body = read_body(body).await?;
        let read = message::read(&body).map_err(|(of, error)| {
            id.clone_from(&of);
            (StatusCode::BAD_REQUEST, error)
        })?;
        let params = match &read {
            Message::Request { id: of, params, .. } => {
                *id = Some(of.clone());
                *params
            }
            Message::Notification { params, .. } => *params,
            Message::Blank => return Err(refused(StatusCode::BAD_REQUEST, "The body is empty.")),
            Message::Response { .. } => None,
        };
        let (meta, version) = (Meta::of(params), text(headers, VERSION));
        // Forward unknown versions in this way, too, because the MCP server in the host rejects
        // them.
        if meta.version().is_some_and(|version| !has_sessions(version.as_str()))
            || version.is_some_and(|version| !has_sessions(version))
        {
            return self.post_stateless(headers, read, &meta, used).await;
        }
        let session = match (&read, text(headers, SESSION)) {
            (Message::Request { method, .. }, None) if method == "initialize" => None,
            _ => Some(self.find(headers)?),
        };
        match (read, session) {
            (Message::Request { id, method, params }, None) => {
                self.initialize(id, &method, params, used).await
            }
            (Message::Request { id, method, params }, Some(session)) => {
                used.count_against(&session.connections)?;
                let reading = session.request(id, &method, params, true).await?;
                let polls = version.is_some_and(|version| version >= POLLING_SINCE);
                Ok(self.reply(reading, polls, |_| StatusCode::OK).await)
            }
            (Message::Notification { method, params }, Some(session))
                if method == "notifications/cancelled" =>
            {
                cancelled(params).iter().for_each(|id| session.cancel(id));
                Ok(empty(StatusCode::ACCEPTED))
            }
            (_, Some(session)) => session.notify(&body).await.map(|()| empty(StatusCode::ACCEPTED)),
            (_, None) => Ok(empty(StatusCode::ACCEPTED)),
        }
    }

    async fn initialize(
        &self,
        id: Id,
        method: &str,
        params: Option<&RawValue>,
        used: &ConnectionUse,
    ) -> Result<Answer, HttpRefusal> {
        let (name, session) = self.sessions.begin().await?;
        used.count_against(&session.connections)?;
        let reading = session.request(id, method, params, true).await?;
        let mut answer = self.reply(reading, false, |_| StatusCode::BAD_REQUEST).await;
        match HeaderValue::from_str(&name) {
            Ok(name) if answer.status() == StatusCode::OK => drop(answer.headers_mut().insert(SESSION, name)),
            _ => self.sessions.end(&name),
        }
        Ok(answer)
    }

    /// Answers a message of version 2026-07-28, which has no sessions.
    async fn post_stateless(
        &self,
        headers: &HeaderMap,
        read: Message<'_>,
        meta: &Meta<'_>,
        used: &ConnectionUse,
    ) -> Result<Answer, HttpRefusal> {
        let Message::Request { id, method, params } = read else { return Ok(empty(StatusCode::ACCEPTED)) };
        let differs = |header: &'static str, body: &str| text(headers, header) != Some(body);
        if meta.version().is_some_and(|version| differs(VERSION, version.as_str()))
            || meta.is_inline()
                && (differs("mcp-method", &method)
                    || name_of(&method, params).is_some_and(|name| differs("mcp-name", &name)))
        {
            let why = "The headers MCP-Protocol-Version, Mcp-Method and Mcp-Name must agree with the body.";
            return Err((StatusCode::BAD_REQUEST, ErrorData::new(HEADER_MISMATCH, why, None)));
        }
        if let Some(error) = meta.incomplete("The ") {
            return Err((StatusCode::BAD_REQUEST, error));
        }
        let session = self.sessions.stateless().await?;
        used.count_against(&session.connections)?;
        let reading = session.request(id, &method, params, false).await?;
        let status = |code| match code {
            ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        };
        Ok(self.reply(reading, false, status).await)
    }

    fn get(&self, headers: &HeaderMap, used: &ConnectionUse) -> Result<Answer, HttpRefusal> {
        let session = self.find(headers)?;
        used.count_against(&session.connections)?;
        let wrong = || {
            refused(StatusCode::BAD_REQUEST, "The stream of this Last-Event-ID has expired or never existed.")
        };
        let (number, after) = match text(headers, "last-event-id") {
            None => (GENERAL, 0),
            Some(id) => id
                .split_once('-')
                .and_then(|(number, after)| Some((number.parse().ok()?, after.parse().ok()?)))
                .ok_or_else(wrong)?,
        };
        Ok(self.stream(session.resume(number).ok_or_else(wrong)?, after, false))
    }

    fn delete(&self, headers: &HeaderMap) -> Result<Answer, HttpRefusal> {
        self.find(headers)?;
        text(headers, SESSION).iter().for_each(|name| self.sessions.end(name));
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// Finds the session named in the headers.
    fn find(&self, headers: &HeaderMap) -> Result<Arc<HttpSession>, HttpRefusal> {
        if text(headers, VERSION).is_some_and(|version| !has_sessions(version)) {
            return Err(refused(
                StatusCode::METHOD_NOT_ALLOWED,
                "This protocol version has no sessions and supports only POST.",
            ));
        }
        let missing = || {
            refused(StatusCode::BAD_REQUEST, "The Mcp-Session-Id header is missing. Send initialize first.")
        };
        self.sessions.find(text(headers, SESSION).ok_or_else(missing)?)
    }

    /// Waits for the response to a request and returns it as one message. Returns a stream instead
    /// if other messages come first or the response is late, and nothing but a status if the call
    /// was cancelled.
    async fn reply(
        &self,
        reading: ExchangeReading,
        polls: bool,
        status: impl Fn(ErrorCode) -> StatusCode,
    ) -> Answer {
        let reader = reading.exchange.claim();
        match timeout(STREAM_AFTER, reading.exchange.next(reader, 0)).await {
            Ok(Some((_, message))) if reading.exchange.is_single_response() => {
                reading.session.forget(reading.number);
                let status = error_code(&message).map_or(StatusCode::OK, status);
                json_response(status, message)
            }
            // The call was cancelled.
            Ok(None) => empty(StatusCode::ACCEPTED),
            _ => self.stream(reading, 0, polls),
        }
    }

    /// Returns a stream of the messages after number `after`. With `polls`, the stream starts with
    /// an event without data, so that the client can reconnect before the first message.
    fn stream(&self, reading: ExchangeReading, after: u64, polls: bool) -> Answer {
        let (events, body) = mpsc::channel(MAX_UNREAD);
        let mut ending = self.ending.clone();
        tokio::spawn(async move {
            // Returning drops `reading`, which cancels a call that cannot be resumed.
            let ExchangeReading { number, exchange, resumable, .. } = &reading;
            let (reader, mut after) = (exchange.claim(), after);
            let event = |place: u64, data: &[u8]| {
                let id = if *resumable { format!("id: {number}-{place}\n") } else { String::new() };
                [id.as_bytes(), b"data: ", data, b"\n\n"].concat()
            };
            let mut piece =
                if polls { [b"retry: 1000\n", &*event(0, b"")].concat() } else { b": \n\n".to_vec() };
            while events.send(Bytes::from(piece)).await.is_ok() {
                let news = tokio::select! {
                    news = timeout(KEEP_ALIVE, exchange.next(reader, after)) => news,
                    () = events.closed() => return,
                    // When the server ends, end the general stream; streams of calls continue until
                    // their responses.
                    () = server_ending(&mut ending), if *number == GENERAL => return,
                };
                piece = match news {
                    Ok(Some((place, message))) => {
                        after = place;
                        event(place, &message)
                    }
                    Ok(None) => return,
                    Err(_) => b": \n\n".to_vec(),
                };
            }
        });
        let mut answer = Response::new(Events(body).boxed_unsync());
        answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(EVENTS));
        answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        answer
    }
}

/// The events of a stream.
struct Events(mpsc::Receiver<Bytes>);

impl Body for Events {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|piece| piece.map(|piece| Ok(Frame::data(piece))))
    }
}

async fn read_body(body: Incoming) -> Result<Bytes, HttpRefusal> {
    let read = timeout(BODY_TIME, Limited::new(body, MAX_BODY).collect());
    let read =
        read.await.map_err(|_| refused(StatusCode::REQUEST_TIMEOUT, "The body was not received in time."))?;
    read.map(http_body_util::Collected::to_bytes).map_err(|error| match error.is::<LengthLimitError>() {
        true => refused(StatusCode::PAYLOAD_TOO_LARGE, "The message is longer than 4 MiB."),
        false => refused(StatusCode::BAD_REQUEST, "The body is incomplete."),
    })
}

fn json_response(status: StatusCode, body: impl Into<Bytes>) -> Answer {
    let mut answer = Response::new(Full::new(body.into()).boxed_unsync());
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
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
    let mut answer = json_response(status, line);
    let advice = match status {
        StatusCode::UNAUTHORIZED => Some((WWW_AUTHENTICATE, "Bearer")),
        StatusCode::METHOD_NOT_ALLOWED => Some((ALLOW, "POST, GET, DELETE")),
        StatusCode::SERVICE_UNAVAILABLE | StatusCode::TOO_MANY_REQUESTS => Some((RETRY_AFTER, "5")),
        _ => None,
    };
    let advice = advice.map(|(name, value)| (name, HeaderValue::from_static(value)));
    answer.headers_mut().extend(advice);
    answer
}

/// Returns whether the version is supported and has sessions.
fn has_sessions(version: &str) -> bool {
    VERSIONS.iter().any(|known| known.as_str() == version && known.has_initialize())
}

/// Returns the name of the tool or prompt, or the URI of the resource, in the parameters. The
/// header Mcp-Name repeats this value.
fn name_of(method: &str, params: Option<&RawValue>) -> Option<String> {
    let key = match method {
        "tools/call" | "prompts/get" => "name",
        "resources/read" => "uri",
        _ => return None,
    };
    let params: HashMap<String, &RawValue> = serde_json::from_str(params?.get()).ok()?;
    serde_json::from_str(params.get(key)?.get()).ok()
}
