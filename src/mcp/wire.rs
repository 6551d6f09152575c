//! JSON-RPC messages as lines, on a thread for each direction.
//!
//! Threads and blocking calls serve pipes, socket pairs and files alike, and nothing has to be made non-blocking that
//! the client shares. What cannot be read is answered with an error, and the server goes on.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::sync::mpsc;

use rmcp::RoleServer;
use rmcp::model::{ErrorCode, ErrorData, RequestId};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use serde_json::Value;
use tokio::sync::{mpsc as tasks, oneshot, watch};

/// The longest message that is read, in octets.
const LONGEST: usize = 16 << 20;
/// How many messages are read ahead.
const AHEAD: usize = 64;

struct Outgoing {
    line: Vec<u8>,
    written: Option<oneshot::Sender<io::Result<()>>>,
}

/// The server's end of the connection.
pub(super) struct Wire {
    incoming: tasks::Receiver<RxJsonRpcMessage<RoleServer>>,
    outgoing: Option<mpsc::Sender<Outgoing>>,
    gone: watch::Receiver<bool>,
    /// Whether the client has sent a request: notifications before it mean nothing.
    opened: bool,
}

impl Wire {
    /// Starts the two threads.
    pub(super) fn new(
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
    ) -> io::Result<Self> {
        let (line_sender, line_receiver) = mpsc::channel();
        let (message_sender, message_receiver) = tasks::channel(AHEAD);
        let (gone_sender, gone) = watch::channel(false);
        let replies = line_sender.clone();
        std::thread::Builder::new().name("mcp-write".into()).spawn(move || {
            write_lines(output, &line_receiver, &gone_sender);
        })?;
        std::thread::Builder::new().name("mcp-read".into()).spawn(move || {
            read_lines(BufReader::new(input), &message_sender, &replies);
        })?;
        Ok(Self { incoming: message_receiver, outgoing: Some(line_sender), gone, opened: false })
    }

    /// Becomes true when the client does not read any more.
    pub(super) fn gone(&self) -> watch::Receiver<bool> {
        self.gone.clone()
    }
}

impl Transport<RoleServer> for Wire {
    type Error = io::Error;

    fn send(
        &mut self,
        message: TxJsonRpcMessage<RoleServer>,
    ) -> impl Future<Output = io::Result<()>> + Send + 'static {
        let outgoing = self.outgoing.clone();
        async move {
            let (written, outcome) = oneshot::channel();
            let outgoing = outgoing.ok_or(io::ErrorKind::NotConnected)?;
            outgoing
                .send(Outgoing { line: line(&message)?, written: Some(written) })
                .map_err(|_| io::ErrorKind::BrokenPipe)?;
            outcome.await.map_err(|_| io::ErrorKind::BrokenPipe)?
        }
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleServer>> {
        loop {
            let message = tokio::select! {
                biased;
                _ = self.gone.wait_for(|gone| *gone) => return None,
                message = self.incoming.recv() => message?,
            };
            self.opened |= matches!(message, RxJsonRpcMessage::<RoleServer>::Request(_));
            if self.opened {
                return Some(message);
            }
        }
    }

    async fn close(&mut self) -> io::Result<()> {
        self.outgoing = None;
        Ok(())
    }
}

fn line(message: &TxJsonRpcMessage<RoleServer>) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    Ok(line)
}

fn write_lines(mut output: impl Write, lines: &mpsc::Receiver<Outgoing>, gone: &watch::Sender<bool>) {
    for Outgoing { line, written } in lines {
        let outcome = output.write_all(&line).and_then(|()| output.flush());
        let failed = outcome.is_err();
        if let Some(written) = written {
            // Whoever asked may have stopped waiting.
            let _ = written.send(outcome);
        }
        if failed {
            break;
        }
    }
    gone.send_replace(true);
}

fn read_lines(
    mut input: impl BufRead,
    messages: &tasks::Sender<RxJsonRpcMessage<RoleServer>>,
    replies: &mpsc::Sender<Outgoing>,
) {
    let mut buffer = Vec::new();
    loop {
        let read = match read_line(&mut input, &mut buffer) {
            Ok(read) => read,
            Err(_) => return,
        };
        let refusal = match read {
            Line::End => return,
            Line::TooLong => {
                let why = format!("The message is longer than {} MiB.", LONGEST >> 20);
                Some((ErrorData::invalid_request(why, None), None))
            }
            Line::Whole => match parse(&buffer) {
                Ok(None) => None,
                Ok(Some(message)) => {
                    if messages.blocking_send(message).is_err() {
                        return;
                    }
                    None
                }
                Err(refusal) => Some(refusal),
            },
        };
        if let Some((error, id)) = refusal
            && let Ok(line) = line(&TxJsonRpcMessage::<RoleServer>::error(error, id))
            && replies.send(Outgoing { line, written: None }).is_err()
        {
            return;
        }
    }
}

enum Line {
    Whole,
    TooLong,
    End,
}

/// Reads a line into `buffer`, without its end; skips it if it is too long. A last line without an end counts.
fn read_line(input: &mut impl BufRead, buffer: &mut Vec<u8>) -> io::Result<Line> {
    buffer.clear();
    let mut skipping = false;
    loop {
        let available = match input.fill_buf() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            available => available?,
        };
        if available.is_empty() {
            return Ok(match (skipping, buffer.is_empty()) {
                (true, _) => Line::TooLong,
                (false, true) => Line::End,
                (false, false) => Line::Whole,
            });
        }
        let end = memchr::memchr(b'\n', available);
        let octets = end.unwrap_or(available.len());
        skipping |= buffer.len() + octets > LONGEST;
        if skipping {
            buffer.clear();
        } else {
            buffer.extend_from_slice(&available[..octets]);
        }
        input.consume(end.map_or(octets, |end| end + 1));
        if end.is_some() {
            return Ok(if skipping { Line::TooLong } else { Line::Whole });
        }
    }
}

type Refusal = (ErrorData, Option<RequestId>);

/// A line's message; none for blank lines and for notifications that MCP does not know.
fn parse(line: &[u8]) -> Result<Option<RxJsonRpcMessage<RoleServer>>, Refusal> {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(None);
    }
    let unread = match serde_json::from_slice(line) {
        Ok(message) => return Ok(Some(message)),
        Err(error) => error,
    };
    let parse_error = |why: String| (ErrorData::parse_error(why, None), None);
    let Ok(text) = std::str::from_utf8(line) else {
        return Err(parse_error("The message is not UTF-8.".to_owned()));
    };
    let Ok(value) = serde_json::from_str::<Value>(text) else {
        return Err(parse_error(format!("The message is not JSON: {unread}.")));
    };
    let method = value.get("method").and_then(Value::as_str);
    match value.get("id") {
        None if method.is_some() => Ok(None),
        id => {
            let id = id.and_then(|id| serde_json::from_value(id.clone()).ok());
            let why = match method {
                Some(method) => format!("The message is no JSON-RPC request {method:?} that MCP knows."),
                None => "The message is no JSON-RPC message of MCP's.".to_owned(),
            };
            Err((ErrorData::new(ErrorCode::INVALID_REQUEST, why, None), id))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_whole_and_the_last_needs_no_end() {
        let mut input = BufReader::with_capacity(3, &b"one\n\nthree"[..]);
        let mut buffer = Vec::new();
        for expected in ["one", "", "three"] {
            assert!(matches!(read_line(&mut input, &mut buffer), Ok(Line::Whole)));
            assert_eq!(buffer, expected.as_bytes());
        }
        assert!(matches!(read_line(&mut input, &mut buffer), Ok(Line::End)));
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_read() {
        let octets = [vec![b'x'; LONGEST + 1], b"\nshort\n".to_vec()].concat();
        let mut input = BufReader::new(&octets[..]);
        let mut buffer = Vec::new();
        assert!(matches!(read_line(&mut input, &mut buffer), Ok(Line::TooLong)));
        assert!(matches!(read_line(&mut input, &mut buffer), Ok(Line::Whole)));
        assert_eq!(buffer, b"short");
    }

    #[track_caller]
    fn refused(line: &[u8], code: ErrorCode, id: Option<i64>) {
        match parse(line) {
            Err((error, refused)) => {
                assert_eq!(error.code, code, "{}", error.message);
                assert_eq!(refused, id.map(RequestId::Number));
            }
            Ok(message) => panic!("{message:?}"),
        }
    }

    #[test]
    fn what_is_no_message_is_refused_with_its_id_if_it_has_one() {
        refused(b"{", ErrorCode::PARSE_ERROR, None);
        refused(b"\xff\xfe", ErrorCode::PARSE_ERROR, None);
        refused(b"[]", ErrorCode::INVALID_REQUEST, None);
        refused(b"{\"id\":7}", ErrorCode::INVALID_REQUEST, Some(7));
        assert!(matches!(parse(b"  \r"), Ok(None)));
    }
}
