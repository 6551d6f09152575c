//! A connected client of the image, for one HTTP session or for all requests without a session. It
//! forwards lines in both directions. Each request gets a unique number in place of its id and
//! progress token, so that responses find their exchange even if an id is used twice.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hyper::StatusCode;
use parking_lot::Mutex;
use rmcp::model::{ErrorCode, ErrorData};
use serde::Deserialize;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::sync::Semaphore;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;

use super::connections::connection_limit;
use super::exchange::Exchange;
use super::gate::{HttpRefusal, refused};
use crate::doors::mcp::message::{self, Envelope, Id};

/// The maximum number of calls in progress in a session.
const MAX_CALLS: usize = 256;
/// The maximum number of ended exchanges that a reconnecting client can still read.
const MAX_ENDED: usize = 32;
/// The maximum number of lines that wait for the image to read them.
const MAX_UNREAD: usize = 16;
/// The number of the exchange for messages that belong to no request.
pub(super) const GENERAL: u64 = 0;

/// A connection of one client to an image.
pub struct HttpConnection {
    /// The stream of the client's lines in both directions.
    pub stream: UnixStream,
    /// A guard that is dropped when the client disconnects.
    pub guard: Box<dyn Send + Sync>,
}

impl std::fmt::Debug for HttpConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpConnection").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl HttpConnection {
    /// Returns whether the image still has the other end open, and has sent nothing.
    pub(super) fn is_open(&self) -> bool {
        use rustix::net::{RecvFlags, recv};
        let peeked = recv(&self.stream, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        peeked == Err(rustix::io::Errno::AGAIN)
    }
}

/// A connected client of the image: one HTTP session, or the client that all requests without a
/// session share.
pub(super) struct HttpSession {
    /// Limits the connections that this session uses.
    pub(super) connections: Arc<Semaphore>,
    lines: Sender<Vec<u8>>,
    state: Mutex<SessionState>,
    tasks: Mutex<Vec<AbortHandle>>,
}

struct SessionState {
    /// The number of the last exchange.
    last: u64,
    exchanges: HashMap<u64, Arc<Exchange>>,
    /// The requests without a response, by the number of their exchange.
    calls: HashMap<u64, PendingCall>,
    /// The ended exchanges, oldest first.
    ended: VecDeque<u64>,
    used: Instant,
    closed: bool,
}

/// The id and progress token that the client sent with a request.
struct PendingCall {
    id: Id,
    token: Option<Box<RawValue>>,
}

/// A reader of the messages of one exchange.
pub(super) struct ExchangeReading {
    pub(super) session: Arc<HttpSession>,
    pub(super) number: u64,
    pub(super) exchange: Arc<Exchange>,
    /// Whether a reader that loses its connection can reconnect. Otherwise the call is cancelled
    /// when this value is dropped.
    pub(super) resumable: bool,
}

impl Drop for ExchangeReading {
    fn drop(&mut self) {
        if !self.resumable {
            self.session.cancel_exchange(self.number);
            self.session.forget(self.number);
        }
    }
}

type Fields = BTreeMap<String, Box<RawValue>>;

impl HttpSession {
    /// Starts a session on a connection.
    ///
    /// # Errors
    /// The stream cannot be made non-blocking or registered.
    pub(super) fn begin(seat: HttpConnection) -> std::io::Result<Arc<Self>> {
        let HttpConnection { stream, guard } = seat;
        stream.set_nonblocking(true)?;
        let (input, mut output) = tokio::net::UnixStream::from_std(stream)?.into_split();
        let (lines, mut unread): (Sender<Vec<u8>>, Receiver<Vec<u8>>) = channel(MAX_UNREAD);
        let session = Arc::new(Self {
            connections: connection_limit(),
            lines,
            state: Mutex::new(SessionState {
                last: GENERAL,
                exchanges: HashMap::from([(GENERAL, Arc::default())]),
                calls: HashMap::new(),
                ended: VecDeque::new(),
                used: Instant::now(),
                closed: false,
            }),
            tasks: Mutex::default(),
        });
        let writer = tokio::spawn(async move {
            while let Some(line) = unread.recv().await {
                if output.write_all(&line).await.is_err() {
                    break;
                }
            }
        });
        let of_reader = Arc::clone(&session);
        let reader = tokio::spawn(async move {
            let _guard = guard;
            let (mut input, mut line) = (BufReader::new(input), Vec::new());
            while matches!(input.read_until(b'\n', &mut line).await, Ok(1..)) {
                of_reader.receive(&line);
                line.clear();
            }
            of_reader.close("The host process of the shared Lisp has ended");
        });
        session.tasks.lock().extend([writer.abort_handle(), reader.abort_handle()]);
        Ok(session)
    }

    /// Sends a request. The response, and progress before it, arrive in the returned exchange.
    pub(super) async fn request(
        self: &Arc<Self>,
        id: Id,
        method: &str,
        params: Option<&RawValue>,
        resumable: bool,
    ) -> Result<ExchangeReading, HttpRefusal> {
        // Wait for room before adding the call, because this future may be dropped while it waits.
        let room = self.lines.reserve().await.map_err(|_| no_session())?;
        let mut state = self.state.lock();
        if state.closed {
            return Err(no_session());
        }
        if state.calls.len() >= MAX_CALLS {
            let why = "Too many calls are in progress. Wait until one has finished.";
            return Err((StatusCode::TOO_MANY_REQUESTS, ErrorData::internal_error(why, None)));
        }
        state.last += 1;
        state.used = Instant::now();
        let (number, exchange) = (state.last, Arc::<Exchange>::default());
        let (params, token) = with_token(params, number);
        state.exchanges.insert(number, Arc::clone(&exchange));
        state.calls.insert(number, PendingCall { id, token });
        let mut line = Vec::new();
        message::write_call(&mut line, Some(&Id::number(number)), method, &params);
        room.send(in_one_line(&line));
        Ok(ExchangeReading { session: Arc::clone(self), number, exchange, resumable })
    }

    /// Sends a notification or a response.
    pub(super) async fn notify(&self, body: &[u8]) -> Result<(), HttpRefusal> {
        self.state.lock().used = Instant::now();
        self.lines.send(in_one_line(body)).await.map_err(|_| no_session())
    }

    /// Cancels the calls with the client's id `id`.
    pub(super) fn cancel(&self, id: &Id) {
        let numbers: Vec<u64> = {
            let state = self.state.lock();
            state.calls.iter().filter(|(_, call)| call.id == *id).map(|(number, _)| *number).collect()
        };
        numbers.into_iter().for_each(|number| self.cancel_exchange(number));
    }

    /// Cancels the call of an exchange if it is in progress. The exchange then ends without a
    /// response.
    pub(super) fn cancel_exchange(&self, number: u64) {
        if self.state.lock().calls.remove(&number).is_none() {
            return;
        }
        let mut line = Vec::new();
        let params = serde_json::json!({ "requestId": number });
        message::write_call(&mut line, None, "notifications/cancelled", &params);
        let lines = self.lines.clone();
        tokio::spawn(async move {
            // Ignore the error: the session has ended.
            let _ = lines.send(line).await;
        });
        self.end_exchange(number);
    }

    /// Returns an exchange for a client that reconnects, if it still exists.
    pub(super) fn resume(self: &Arc<Self>, number: u64) -> Option<ExchangeReading> {
        let mut state = self.state.lock();
        state.used = Instant::now();
        let exchange = Arc::clone(state.exchanges.get(&number)?);
        Some(ExchangeReading { session: Arc::clone(self), number, exchange, resumable: true })
    }

    /// Removes an exchange that will not be read again.
    pub(super) fn forget(&self, number: u64) {
        let mut state = self.state.lock();
        state.exchanges.remove(&number);
        state.ended.retain(|ended| *ended != number);
    }

    /// Returns whether the session is closed.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Returns the time since the client last sent a message or reconnected. `None` while a call is
    /// in progress or an exchange is being read.
    pub(super) fn idle(&self) -> Option<Duration> {
        let state = self.state.lock();
        let is_read = |exchange: &Arc<Exchange>| Arc::strong_count(exchange) > 1;
        let busy = !state.calls.is_empty() || state.exchanges.values().any(is_read);
        (!busy).then(|| state.used.elapsed())
    }

    /// Ends the session. Calls in progress get an error with the reason `why`.
    pub(super) fn close(&self, why: &str) {
        let (calls, exchanges) = {
            let mut state = self.state.lock();
            state.closed = true;
            (std::mem::take(&mut state.calls), std::mem::take(&mut state.exchanges))
        };
        for (number, exchange) in exchanges {
            if let Some(call) = calls.get(&number) {
                let mut line = Vec::new();
                let passing = serde_json::json!({ "passing": true });
                let error = ErrorData::internal_error(format!("{why}. Retry."), Some(passing));
                message::write_error(&mut line, Some(&call.id), &error);
                exchange.push(line.trim_ascii_end().to_vec());
            }
            exchange.end();
        }
        self.tasks.lock().drain(..).for_each(|task| task.abort());
    }

    /// Delivers a line from the image to its exchange. Lines that belong to no request go to
    /// exchange number [`GENERAL`].
    fn receive(&self, line: &[u8]) {
        let Ok(Envelope { id, method, params, result, error, .. }) = serde_json::from_slice(line) else {
            return;
        };
        let number = id.and_then(|id| id.get().parse::<u64>().ok());
        let answer = result.map(|result| (&b",\"result\":"[..], result));
        let answer = answer.or_else(|| error.map(|error| (&b",\"error\":"[..], error)));
        if let (Some(number), Some((key, body))) = (number, answer) {
            // Drop the response to a call that was cancelled meanwhile.
            let Some(call) = self.state.lock().calls.remove(&number) else { return };
            let mut message = Vec::with_capacity(body.get().len() + 64);
            message::begin(&mut message, Some(&call.id));
            message.extend_from_slice(key);
            message.extend_from_slice(body.get().as_bytes());
            message.push(b'}');
            self.push(number, message);
            return self.end_exchange(number);
        }
        match method.as_deref() {
            Some("notifications/progress") => {
                let progress = self.progress(params);
                progress.into_iter().for_each(|(number, message)| self.push(number, message));
            }
            _ => self.push(GENERAL, line.trim_ascii_end().to_vec()),
        }
    }

    fn push(&self, number: u64, message: Vec<u8>) {
        let exchange = self.state.lock().exchanges.get(&number).cloned();
        if let Some(exchange) = exchange {
            exchange.push(message);
        }
    }

    /// Restores the client's token in a progress notification, and finds its exchange.
    fn progress(&self, params: Option<&RawValue>) -> Option<(u64, Vec<u8>)> {
        let mut fields: Fields = serde_json::from_str(params?.get()).ok()?;
        let number = fields.get("progressToken")?.get().parse().ok()?;
        let token = self.state.lock().calls.get(&number)?.token.clone()?;
        fields.insert("progressToken".to_owned(), token);
        let mut message = Vec::new();
        message::write_call(&mut message, None, "notifications/progress", &fields);
        Some((number, message.trim_ascii_end().to_vec()))
    }

    fn end_exchange(&self, number: u64) {
        let mut state = self.state.lock();
        let Some(exchange) = state.exchanges.get(&number).cloned() else { return };
        state.ended.push_back(number);
        if state.ended.len() > MAX_ENDED
            && let Some(oldest) = state.ended.pop_front()
        {
            state.exchanges.remove(&oldest);
        }
        drop(state);
        exchange.end();
    }
}

/// Returns the parameters with `number` as the progress token, and the original token. Without a
/// token, returns the parameters unchanged.
fn with_token(params: Option<&RawValue>, number: u64) -> (Option<Box<RawValue>>, Option<Box<RawValue>>) {
    let Some(params) = params else { return (None, None) };
    let replaced = || {
        let mut fields: Fields = serde_json::from_str(params.get()).ok()?;
        let mut meta: Fields = serde_json::from_str(fields.get("_meta")?.get()).ok()?;
        let own = RawValue::from_string(number.to_string()).ok()?;
        let token = std::mem::replace(meta.get_mut("progressToken")?, own);
        fields.insert("_meta".to_owned(), serde_json::value::to_raw_value(&meta).ok()?);
        Some((serde_json::value::to_raw_value(&fields).ok()?, token))
    };
    match replaced() {
        Some((params, token)) => (Some(params), Some(token)),
        None => (Some(params.to_owned()), None),
    }
}

/// Puts a message on one line. In JSON, line ends occur only between tokens.
fn in_one_line(message: &[u8]) -> Vec<u8> {
    let line =
        message.trim_ascii_end().iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte });
    line.chain([b'\n']).collect()
}

/// Returns the rejection of a message for a session that has ended or does not exist.
pub(super) fn no_session() -> HttpRefusal {
    refused(StatusCode::NOT_FOUND, "The session has ended. Send initialize again.")
}

/// Returns the error code of a message, or `None` if it is not an error.
pub(super) fn error_code(message: &[u8]) -> Option<ErrorCode> {
    #[derive(Deserialize)]
    struct Refused {
        error: Coded,
    }
    #[derive(Deserialize)]
    struct Coded {
        code: ErrorCode,
    }
    serde_json::from_slice::<Refused>(message).ok().map(|refused| refused.error.code)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, Write};

    use serde_json::{Value, json};

    use super::*;

    fn raw(value: &Value) -> Box<RawValue> {
        RawValue::from_string(value.to_string()).unwrap()
    }

    fn session() -> (Arc<HttpSession>, std::io::BufReader<UnixStream>) {
        let (own, image) = UnixStream::pair().unwrap();
        let session = HttpSession::begin(HttpConnection { stream: own, guard: Box::new(()) }).unwrap();
        (session, std::io::BufReader::new(image))
    }

    /// Reads a line that was sent to the image, while the session's tasks run.
    async fn sent(image: &mut std::io::BufReader<UnixStream>) -> Value {
        let mut reader = std::io::BufReader::new(image.get_ref().try_clone().unwrap());
        let line = tokio::task::spawn_blocking(move || {
            let mut line = String::new();
            reader.read_line(&mut line).unwrap();
            line
        });
        serde_json::from_str(&line.await.unwrap()).unwrap()
    }

    fn says(image: &std::io::BufReader<UnixStream>, message: &Value) {
        image.get_ref().write_all(format!("{message}\n").as_bytes()).unwrap();
    }

    async fn heard(exchange: &Exchange, reader: u64, after: u64) -> Value {
        let (number, message) = exchange.next(reader, after).await.unwrap();
        assert_eq!(number, after + 1);
        serde_json::from_slice(&message).unwrap()
    }

    #[tokio::test]
    async fn equal_ids_and_tokens_are_distinguished() {
        let (session, mut image) = session();
        let params = raw(&json!({ "name": "a", "_meta": { "progressToken": "t" } }));
        let mut exchanges = Vec::new();
        for number in 1..=2 {
            let reading =
                session.request(Id::string("same"), "tools/call", Some(&params), true).await.unwrap();
            assert_eq!(reading.number, number);
            let line = sent(&mut image).await;
            assert_eq!(line["id"], number);
            assert_eq!(line["params"], json!({ "name": "a", "_meta": { "progressToken": number } }));
            exchanges.push(Arc::clone(&reading.exchange));
        }
        for number in [2_u64, 1] {
            let params = json!({ "progressToken": number, "progress": number });
            says(&image, &json!({ "jsonrpc": "2.0", "method": "notifications/progress", "params": params }));
            says(&image, &json!({ "jsonrpc": "2.0", "id": number, "result": { "of": number } }));
        }
        for (exchange, number) in exchanges.iter().zip(1..) {
            let reader = exchange.claim();
            let progress = heard(exchange, reader, 0).await;
            assert_eq!(progress["params"], json!({ "progressToken": "t", "progress": number }));
            let answer = heard(exchange, reader, 1).await;
            assert_eq!(answer, json!({ "jsonrpc": "2.0", "id": "same", "result": { "of": number } }));
            assert_eq!(exchange.next(reader, 2).await, None);
        }
        assert!(session.idle().is_none(), "exchanges are being read");
        drop(exchanges);
        assert!(session.idle().is_some());
    }

    #[tokio::test]
    async fn cancelled_call_ends_silently_others_with_error() {
        let (session, mut image) = session();
        let reading = session.request(Id::number(7), "a", None, true).await.unwrap();
        let called_off = Arc::clone(&reading.exchange);
        let reading = session.request(Id::number(8), "b", None, true).await.unwrap();
        let other = Arc::clone(&reading.exchange);
        session.notify(b"{\"jsonrpc\":\r\n \"2.0\"}").await.unwrap();
        assert_eq!(sent(&mut image).await["method"], "a");
        session.cancel(&Id::number(7));
        let reader = called_off.claim();
        assert_eq!(called_off.next(reader, 0).await, None);
        // Requests from the image go to the general stream.
        says(&image, &json!({ "jsonrpc": "2.0", "id": "roots", "method": "roots/list" }));
        let general = Arc::clone(&session.resume(GENERAL).unwrap().exchange);
        let reader = general.claim();
        assert_eq!(heard(&general, reader, 0).await["method"], "roots/list");
        drop(image);
        let reader = other.claim();
        let error = heard(&other, reader, 0).await;
        assert_eq!((&error["id"], &error["error"]["data"]["passing"]), (&json!(8), &json!(true)));
        assert!(session.is_closed());
        let refused = session.request(Id::number(9), "c", None, true).await.err().unwrap();
        assert_eq!(refused.0, StatusCode::NOT_FOUND);
        assert_eq!(
            error_code(b"{\"error\":{\"code\":-32601,\"message\":\"\"}}"),
            Some(ErrorCode::METHOD_NOT_FOUND)
        );
        assert_eq!(error_code(b"{\"result\":{}}"), None);
    }
}
