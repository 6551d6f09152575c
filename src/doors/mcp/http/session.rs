//! A session: one client of the image, whose lines this module carries. Each request gets a number of ours as its id and as the
//! token of its progress, so that answers find their exchange, whatever ids clients give.

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
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::task::AbortHandle;

use super::exchange::Exchange;
use super::gate::{HttpRefusal, refused};
use crate::doors::mcp::message::{self, Envelope, Id};

/// The most calls of a session that are under way at once.
const MOST_CALLS: usize = 256;
/// The most exchanges that have ended and are kept for readers that come again.
const MOST_ENDED: usize = 32;
/// The most lines that wait for the image to read them.
const MOST_UNREAD: usize = 16;
/// The number of the exchange of what nobody has asked for.
pub(super) const GENERAL: u64 = 0;

/// A client's place at an image: lines go to it, and come from it.
pub struct HttpSeat {
    /// The stream of the client's lines, both ways.
    pub stream: UnixStream,
    /// What is dropped when the client leaves.
    pub kept: Box<dyn Send + Sync>,
}

impl std::fmt::Debug for HttpSeat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("HttpSeat").field("stream", &self.stream).finish_non_exhaustive()
    }
}

impl HttpSeat {
    /// Whether the image still has the stream's other end open.
    pub(super) fn is_open(&self) -> bool {
        use rustix::net::{RecvFlags, recv};
        let peeked = recv(&self.stream, &mut [0; 1], RecvFlags::PEEK | RecvFlags::DONTWAIT);
        peeked == Err(rustix::io::Errno::AGAIN)
    }
}

/// A session, for as long as its client stays.
pub(super) struct HttpSession {
    lines: Sender<Vec<u8>>,
    state: Mutex<SessionState>,
    tasks: Mutex<Vec<AbortHandle>>,
}

struct SessionState {
    /// The number of the last exchange.
    last: u64,
    exchanges: HashMap<u64, Arc<Exchange>>,
    /// The exchanges without an answer.
    calls: HashMap<u64, PendingCall>,
    /// The exchanges that have ended, oldest first.
    ended: VecDeque<u64>,
    used: Instant,
    closed: bool,
}

/// What the client has called a request, and the news of it.
struct PendingCall {
    id: Id,
    token: Option<Box<RawValue>>,
}

/// The messages of one exchange, and whose they are.
pub(super) struct ExchangeReading {
    pub(super) session: Arc<HttpSession>,
    pub(super) number: u64,
    pub(super) exchange: Arc<Exchange>,
    /// Whether a reader that loses its connection may come again; else it has called the call off.
    pub(super) resumable: bool,
}

impl Drop for ExchangeReading {
    fn drop(&mut self) {
        if !self.resumable {
            self.session.call_off(self.number);
            self.session.forget(self.number);
        }
    }
}

type Fields = BTreeMap<String, Box<RawValue>>;

impl HttpSession {
    /// Begins a session at `seat`.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn begin(seat: HttpSeat) -> std::io::Result<Arc<Self>> {
        let HttpSeat { stream, kept } = seat;
        stream.set_nonblocking(true)?;
        let (input, mut output) = tokio::net::UnixStream::from_std(stream)?.into_split();
        let (lines, mut unread): (Sender<Vec<u8>>, Receiver<Vec<u8>>) = channel(MOST_UNREAD);
        let session = Arc::new(Self {
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
            let _kept = kept;
            let (mut input, mut line) = (BufReader::new(input), Vec::new());
            while matches!(input.read_until(b'\n', &mut line).await, Ok(1..)) {
                of_reader.receive(&line);
                line.clear();
            }
            of_reader.close("The process that keeps Lisp has ended");
        });
        session.tasks.lock().extend([writer.abort_handle(), reader.abort_handle()]);
        Ok(session)
    }

    /// Sends a request. Its answer, and the news of it before, come in the exchange that is returned.
    pub(super) async fn ask(
        self: &Arc<Self>,
        id: Id,
        method: &str,
        params: Option<&RawValue>,
        resumable: bool,
    ) -> Result<ExchangeReading, HttpRefusal> {
        // Note the call when there is room for its line: this may be dropped while it waits.
        let room = self.lines.reserve().await.map_err(|_| no_session())?;
        let mut state = self.state.lock();
        if state.closed {
            return Err(no_session());
        }
        if state.calls.len() >= MOST_CALLS {
            let why = "Too many calls are under way: wait for one.";
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
    pub(super) async fn tell(&self, body: &[u8]) -> Result<(), HttpRefusal> {
        self.state.lock().used = Instant::now();
        self.lines.send(in_one_line(body)).await.map_err(|_| no_session())
    }

    /// Calls off the calls that the client has given the id `id`.
    pub(super) fn cancel(&self, id: &Id) {
        let numbers: Vec<u64> = {
            let state = self.state.lock();
            state.calls.iter().filter(|(_, call)| call.id == *id).map(|(number, _)| *number).collect()
        };
        numbers.into_iter().for_each(|number| self.call_off(number));
    }

    /// Calls off the call of an exchange, which ends without an answer.
    pub(super) fn call_off(&self, number: u64) {
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

    /// Returns an exchange for a reader that comes again, if it is kept.
    pub(super) fn kept(self: &Arc<Self>, number: u64) -> Option<ExchangeReading> {
        let mut state = self.state.lock();
        state.used = Instant::now();
        let exchange = Arc::clone(state.exchanges.get(&number)?);
        Some(ExchangeReading { session: Arc::clone(self), number, exchange, resumable: true })
    }

    /// Forgets an exchange that nobody comes for again.
    pub(super) fn forget(&self, number: u64) {
        let mut state = self.state.lock();
        state.exchanges.remove(&number);
        state.ended.retain(|ended| *ended != number);
    }

    /// Whether the client is gone.
    pub(super) fn is_closed(&self) -> bool {
        self.state.lock().closed
    }

    /// Returns the time since the client has last asked; none while a call is under way or somebody reads.
    pub(super) fn idle(&self) -> Option<Duration> {
        let state = self.state.lock();
        let is_read = |exchange: &Arc<Exchange>| Arc::strong_count(exchange) > 1;
        let busy = !state.calls.is_empty() || state.exchanges.values().any(is_read);
        (!busy).then(|| state.used.elapsed())
    }

    /// Ends the session: `why` answers the calls that are under way.
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
                let error = ErrorData::internal_error(format!("{why}: ask again."), Some(passing));
                message::write_error(&mut line, Some(&call.id), &error);
                exchange.push(line.trim_ascii_end().to_vec());
            }
            exchange.end();
        }
        self.tasks.lock().drain(..).for_each(|task| task.abort());
    }

    /// Takes a line of the image's to its exchange.
    fn receive(&self, line: &[u8]) {
        let Ok(Envelope { id, method, params, result, error, .. }) = serde_json::from_slice(line) else {
            return;
        };
        let number = id.and_then(|id| id.get().parse::<u64>().ok());
        let answer = result.map(|result| (&b",\"result\":"[..], result));
        let answer = answer.or_else(|| error.map(|error| (&b",\"error\":"[..], error)));
        if let (Some(number), Some((key, body))) = (number, answer) {
            // Drop the answer of a call that was called off meanwhile.
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

    /// Gives a notification of progress the client's own token back, and finds its exchange.
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
        if state.ended.len() > MOST_ENDED
            && let Some(oldest) = state.ended.pop_front()
        {
            state.exchanges.remove(&oldest);
        }
        drop(state);
        exchange.end();
    }
}

/// Returns the parameters with `number` in place of the progress token, and that token.
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

/// Makes one line of a message: ends of lines in JSON are between its words alone.
fn in_one_line(message: &[u8]) -> Vec<u8> {
    let line =
        message.trim_ascii_end().iter().map(|byte| if matches!(byte, b'\n' | b'\r') { b' ' } else { *byte });
    line.chain([b'\n']).collect()
}

/// Makes the refusal of who asks in a session that has ended.
pub(super) fn no_session() -> HttpRefusal {
    refused(StatusCode::NOT_FOUND, "There is no such session any more: initialize again.")
}

/// Returns the code of a message that is an error.
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
        let session = HttpSession::begin(HttpSeat { stream: own, kept: Box::new(()) }).unwrap();
        (session, std::io::BufReader::new(image))
    }

    /// Reads what the image is sent, while the session's tasks run.
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
    async fn equal_ids_and_tokens_are_told_apart() {
        let (session, mut image) = session();
        let params = raw(&json!({ "name": "a", "_meta": { "progressToken": "t" } }));
        let mut exchanges = Vec::new();
        for number in 1..=2 {
            let reading = session.ask(Id::string("same"), "tools/call", Some(&params), true).await.unwrap();
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
        assert!(session.idle().is_none(), "somebody reads");
        drop(exchanges);
        assert!(session.idle().is_some());
    }

    #[tokio::test]
    async fn what_is_called_off_ends_without_an_answer_and_the_rest_with_an_error() {
        let (session, mut image) = session();
        let reading = session.ask(Id::number(7), "a", None, true).await.unwrap();
        let called_off = Arc::clone(&reading.exchange);
        let reading = session.ask(Id::number(8), "b", None, true).await.unwrap();
        let other = Arc::clone(&reading.exchange);
        session.tell(b"{\"jsonrpc\":\r\n \"2.0\"}").await.unwrap();
        assert_eq!(sent(&mut image).await["method"], "a");
        session.cancel(&Id::number(7));
        let reader = called_off.claim();
        assert_eq!(called_off.next(reader, 0).await, None);
        // What comes for nobody is for the general stream.
        says(&image, &json!({ "jsonrpc": "2.0", "id": "roots", "method": "roots/list" }));
        let general = Arc::clone(&session.kept(GENERAL).unwrap().exchange);
        let reader = general.claim();
        assert_eq!(heard(&general, reader, 0).await["method"], "roots/list");
        drop(image);
        let reader = other.claim();
        let error = heard(&other, reader, 0).await;
        assert_eq!((&error["id"], &error["error"]["data"]["passing"]), (&json!(8), &json!(true)));
        assert!(session.is_closed());
        let refused = session.ask(Id::number(9), "c", None, true).await.err().unwrap();
        assert_eq!(refused.0, StatusCode::NOT_FOUND);
        assert_eq!(
            error_code(b"{\"error\":{\"code\":-32601,\"message\":\"\"}}"),
            Some(ErrorCode::METHOD_NOT_FOUND)
        );
        assert_eq!(error_code(b"{\"result\":{}}"), None);
    }
}
