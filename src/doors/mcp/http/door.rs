//! Answers requests over HTTP: finds the session of each, and writes what comes of it.

use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::body::{Body, Bytes, Frame, Incoming};
use hyper::header::{
    ALLOW, CACHE_CONTROL, CONTENT_TYPE, HeaderMap, HeaderValue, RETRY_AFTER, WWW_AUTHENTICATE,
};
use hyper::{Method, Request, Response, StatusCode};
use rmcp::model::{ErrorCode, ErrorData};
use serde_json::value::RawValue;
use tokio::sync::{mpsc, watch};
use tokio::time::timeout;

use super::gate::{EVENTS, Gate, HttpRefusal, JSON, refused, text};
use super::seats::Seats;
use super::session::{ExchangeReading, GENERAL, HttpSession, error_code};
use super::told;
use crate::doors::mcp::calls::cancelled;
use crate::doors::mcp::message::{self, Id, Message};
use crate::doors::mcp::protocol::{Meta, VERSIONS};

/// The longest body, in bytes.
const LONGEST_BODY: usize = 4 << 20;
/// The time in which a body must be there.
const BODY_TIME: Duration = Duration::from_secs(30);
/// The time that an answer may take before the client is given a stream.
const STREAM_AFTER: Duration = Duration::from_millis(500);
/// The time after which a stream without news says that it lives.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// The most events that wait for a client to read them.
const MOST_UNREAD: usize = 8;
/// The oldest version whose clients understand an event without data.
const POLLING_SINCE: &str = "2025-11-25";
/// The code of an error where a header differs from the body.
const HEADER_MISMATCH: ErrorCode = ErrorCode(-32020);

const SESSION: &str = "mcp-session-id";
const VERSION: &str = "mcp-protocol-version";

/// The one endpoint.
pub(super) struct Door {
    pub(super) gate: Gate,
    pub(super) seats: Arc<Seats>,
    /// Whether the server is to end.
    pub(super) ending: watch::Receiver<bool>,
}

/// A body of one piece, or of events.
type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

impl Door {
    /// Answers a request.
    pub(super) async fn answer(self: Arc<Self>, request: Request<Incoming>) -> Answer {
        let (head, body) = request.into_parts();
        let mut id = None;
        let answered = match self.gate.check(&head) {
            Err(refusal) => Err(refusal),
            Ok(()) => match head.method {
                Method::POST => self.post(&head.headers, body, &mut id).await,
                Method::GET => self.get(&head.headers),
                _ => self.delete(&head.headers),
            },
        };
        answered.unwrap_or_else(|(status, error)| refusal(status, id.as_ref(), &error))
    }

    /// Answers a message. Sets `id` to its id, which a refusal has, too.
    async fn post(
        &self,
        headers: &HeaderMap,
        body: Incoming,
        id: &mut Option<Id>,
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
        // Dispatch refuses the versions that nobody knows.
        if meta.version().is_some_and(|version| !has_sessions(version.as_str()))
            || version.is_some_and(|version| !has_sessions(version))
        {
            return self.post_stateless(headers, read, &meta).await;
        }
        let session = match (&read, text(headers, SESSION)) {
            (Message::Request { method, .. }, None) if method == "initialize" => None,
            _ => Some(self.find(headers)?),
        };
        match (read, session) {
            (Message::Request { id, method, params }, None) => self.initialize(id, &method, params).await,
            (Message::Request { id, method, params }, Some(session)) => {
                let reading = session.ask(id, &method, params, true).await?;
                let polls = version.is_some_and(|version| version >= POLLING_SINCE);
                Ok(self.reply(reading, polls, |_| StatusCode::OK).await)
            }
            (Message::Notification { method, params }, Some(session))
                if method == "notifications/cancelled" =>
            {
                cancelled(params).iter().for_each(|id| session.cancel(id));
                Ok(empty(StatusCode::ACCEPTED))
            }
            (_, Some(session)) => session.tell(&body).await.map(|()| empty(StatusCode::ACCEPTED)),
            (_, None) => Ok(empty(StatusCode::ACCEPTED)),
        }
    }

    async fn initialize(
        &self,
        id: Id,
        method: &str,
        params: Option<&RawValue>,
    ) -> Result<Answer, HttpRefusal> {
        let (name, session) = self.seats.begin().await?;
        let reading = session.ask(id, method, params, true).await?;
        let mut answer = self.reply(reading, false, |_| StatusCode::BAD_REQUEST).await;
        match HeaderValue::from_str(&name) {
            Ok(name) if answer.status() == StatusCode::OK => drop(answer.headers_mut().insert(SESSION, name)),
            _ => self.seats.end(&name),
        }
        Ok(answer)
    }

    /// Answers a message of 2026-07-28, which has no sessions.
    async fn post_stateless(
        &self,
        headers: &HeaderMap,
        read: Message<'_>,
        meta: &Meta<'_>,
    ) -> Result<Answer, HttpRefusal> {
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
        if let Some(error) = meta.incomplete("The ") {
            return Err((StatusCode::BAD_REQUEST, error));
        }
        let reading = self.seats.stateless().await?.ask(id, &method, params, false).await?;
        let status = |code| match code {
            ErrorCode::METHOD_NOT_FOUND => StatusCode::NOT_FOUND,
            ErrorCode::UNSUPPORTED_PROTOCOL_VERSION => StatusCode::BAD_REQUEST,
            _ => StatusCode::OK,
        };
        Ok(self.reply(reading, false, status).await)
    }

    fn get(&self, headers: &HeaderMap) -> Result<Answer, HttpRefusal> {
        let session = self.find(headers)?;
        let wrong =
            || refused(StatusCode::BAD_REQUEST, "Nothing is kept of the stream of this Last-Event-ID.");
        let (number, after) = match text(headers, "last-event-id") {
            None => (GENERAL, 0),
            Some(id) => id
                .split_once('-')
                .and_then(|(number, after)| Some((number.parse().ok()?, after.parse().ok()?)))
                .ok_or_else(wrong)?,
        };
        Ok(self.stream(session.kept(number).ok_or_else(wrong)?, after, false))
    }

    fn delete(&self, headers: &HeaderMap) -> Result<Answer, HttpRefusal> {
        self.find(headers)?;
        text(headers, SESSION).iter().for_each(|name| self.seats.end(name));
        Ok(empty(StatusCode::NO_CONTENT))
    }

    /// Finds the session that the headers name.
    fn find(&self, headers: &HeaderMap) -> Result<Arc<HttpSession>, HttpRefusal> {
        if text(headers, VERSION).is_some_and(|version| !has_sessions(version)) {
            return Err(refused(
                StatusCode::METHOD_NOT_ALLOWED,
                "This version has no sessions, and POST alone.",
            ));
        }
        let missing =
            || refused(StatusCode::BAD_REQUEST, "There is no Mcp-Session-Id header: initialize first.");
        self.seats.find(text(headers, SESSION).ok_or_else(missing)?)
    }

    /// Waits for a request's answer, and returns it as one message; or a stream, if there are news before it, or it is late.
    async fn reply(
        &self,
        reading: ExchangeReading,
        polls: bool,
        status: impl Fn(ErrorCode) -> StatusCode,
    ) -> Answer {
        let reader = reading.exchange.claim();
        match timeout(STREAM_AFTER, reading.exchange.next(reader, 0)).await {
            Ok(Some((_, message))) if reading.exchange.is_answer_alone() => {
                reading.session.forget(reading.number);
                let status = error_code(&message).map_or(StatusCode::OK, status);
                whole(status, message)
            }
            // It was called off.
            Ok(None) => empty(StatusCode::ACCEPTED),
            _ => self.stream(reading, 0, polls),
        }
    }

    /// Makes a stream of the messages after number `after`.
    fn stream(&self, reading: ExchangeReading, after: u64, polls: bool) -> Answer {
        let (events, body) = mpsc::channel(MOST_UNREAD);
        let mut ending = self.ending.clone();
        tokio::spawn(async move {
            // If this returns early, the reading hears that its reader is gone.
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
                    // Let calls end; nothing else comes any more.
                    () = told(&mut ending), if *number == GENERAL => return,
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
    let read = timeout(BODY_TIME, Limited::new(body, LONGEST_BODY).collect());
    let read = read.await.map_err(|_| refused(StatusCode::REQUEST_TIMEOUT, "The body does not come."))?;
    read.map(http_body_util::Collected::to_bytes).map_err(|error| match error.is::<LengthLimitError>() {
        true => refused(StatusCode::PAYLOAD_TOO_LARGE, "The message is longer than 4 MiB."),
        false => refused(StatusCode::BAD_REQUEST, "The body is cut."),
    })
}

fn whole(status: StatusCode, body: impl Into<Bytes>) -> Answer {
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
    let mut answer = whole(status, line);
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

/// Whether a version is known, and has sessions.
fn has_sessions(version: &str) -> bool {
    VERSIONS.iter().any(|known| known.as_str() == version && known.has_initialize())
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
