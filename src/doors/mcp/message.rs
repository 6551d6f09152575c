//! Reads and writes JSON-RPC messages, one per line.

use std::borrow::Cow;

use rmcp::model::ErrorData;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::answer::escape::escaped;

/// A request's id: a JSON string or number with the client's spelling. rmcp's `RequestId` cannot
/// represent `1.5`, and turns `1.0` into `1`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Id(String);

impl Id {
    /// Creates an id from `json`. Returns `None` if it is neither a string nor a number.
    pub(super) fn new(json: &RawValue) -> Option<Self> {
        let text = json.get();
        let fits = text.starts_with(|first: char| first == '"' || first == '-' || first.is_ascii_digit());
        fits.then(|| Self(text.to_owned()))
    }

    /// Creates the id `number`.
    #[cfg(feature = "http")]
    pub(super) fn number(number: u64) -> Self {
        Self(number.to_string())
    }

    /// Creates the id with the string `text`.
    pub(super) fn string(text: &str) -> Self {
        Self(Value::from(text).to_string())
    }
}

/// A parsed message.
#[derive(Debug)]
pub(super) enum Message<'a> {
    /// A request from the client.
    Request { id: Id, method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// A notification from the client.
    Notification { method: Cow<'a, str>, params: Option<&'a RawValue> },
    /// A response to a request of the server. In an error response, `result` is `None`.
    Response { id: Id, result: Option<&'a RawValue> },
    /// An empty line.
    Blank,
}

/// The fields of a message, unparsed.
#[derive(Deserialize)]
pub(super) struct Envelope<'a> {
    #[serde(borrow, default)]
    jsonrpc: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) id: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) method: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) params: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) result: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) error: Option<&'a RawValue>,
}

/// Parses a line without its end. Returns an error with the request's id, if there is one, for a
/// line that is not a valid message.
pub(super) fn read(line: &[u8]) -> Result<Message<'_>, (Option<Id>, ErrorData)> {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii();
    if line.is_empty() {
        return Ok(Message::Blank);
    }
    let Ok(text) = std::str::from_utf8(line) else {
        return Err((None, ErrorData::parse_error("The message is not UTF-8.", None)));
    };
    // Reject arrays, which serde would accept as the fields in order.
    let envelope = match serde_json::from_str::<Envelope<'_>>(text) {
        Ok(envelope) if text.starts_with('{') => envelope,
        other => return Err(unread(text, other.err())),
    };
    let id = envelope.id.filter(|id| id.get() != "null");
    let known = id.and_then(Id::new);
    let refused = |why: &'static str| (known.clone(), ErrorData::invalid_request(why, None));
    if envelope.jsonrpc.as_deref() != Some("2.0") {
        return Err(refused("The message is not JSON-RPC: \"jsonrpc\" must be \"2.0\"."));
    }
    match (envelope.method, id, known.clone()) {
        (Some(method), None, _) => Ok(Message::Notification { method, params: envelope.params }),
        (Some(method), Some(_), Some(id)) => Ok(Message::Request { id, method, params: envelope.params }),
        (None, Some(_), Some(id)) => Ok(Message::Response { id, result: envelope.result }),
        (_, Some(_), None) => Err(refused("The request's \"id\" must be a string or a number.")),
        (None, None, _) => Err(refused("The message is not a JSON-RPC request, notification or response.")),
    }
}

/// Returns the error for an invalid message, with the id if the line is JSON and has one.
fn unread(text: &str, error: Option<serde_json::Error>) -> (Option<Id>, ErrorData) {
    match serde_json::from_str::<Value>(text) {
        Ok(value) => {
            let id = value.get("id").filter(|id| id.is_string() || id.is_number());
            let why = "The message is not a JSON-RPC request, notification or response.";
            (id.map(|id| Id(id.to_string())), ErrorData::invalid_request(why, None))
        }
        Err(unread) => {
            let error = error.unwrap_or(unread);
            (None, ErrorData::parse_error(format!("The message is not JSON: {error}."), None))
        }
    }
}

/// Appends the start of a message.
pub(super) fn begin(line: &mut Vec<u8>, id: Option<&Id>) {
    line.extend_from_slice(b"{\"jsonrpc\":\"2.0\"");
    if let Some(id) = id {
        line.extend_from_slice(b",\"id\":");
        line.extend_from_slice(id.0.as_bytes());
    }
}

/// Appends the response to `id`. `body` writes the result.
pub(super) fn write_result(line: &mut Vec<u8>, id: &Id, body: impl FnOnce(&mut Vec<u8>)) {
    begin(line, Some(id));
    line.extend_from_slice(b",\"result\":");
    body(line);
    line.extend_from_slice(b"}\n");
}

/// Appends an error response.
pub(super) fn write_error(line: &mut Vec<u8>, id: Option<&Id>, refusal: &ErrorData) {
    begin(line, id);
    line.extend_from_slice(b",\"error\":");
    match escaped(&refusal.message) {
        Cow::Borrowed(_) => write(line, refusal),
        Cow::Owned(message) => write(line, &ErrorData { message: message.into(), ..refusal.clone() }),
    }
    line.extend_from_slice(b"}\n");
}

/// Appends a notification, or a request if `id` is given.
pub(super) fn write_call<T: Serialize>(line: &mut Vec<u8>, id: Option<&Id>, method: &str, params: &T) {
    begin(line, id);
    line.extend_from_slice(b",\"method\":");
    write(line, method);
    line.extend_from_slice(b",\"params\":");
    write(line, params);
    line.extend_from_slice(b"}\n");
}

/// Appends `value` as JSON.
pub(super) fn write<T: Serialize + ?Sized>(line: &mut Vec<u8>, value: &T) {
    let before = line.len();
    if serde_json::to_writer(&mut *line, value).is_err() {
        // Write null. Serialization fails only for maps with keys that are not strings, which do
        // not occur.
        line.truncate(before);
        line.extend_from_slice(b"null");
    }
}

#[cfg(test)]
mod tests {
    use rmcp::model::ErrorCode;

    use super::*;

    #[track_caller]
    fn refused(line: &[u8], expected: ErrorCode, id: Option<&str>) {
        match read(line) {
            Err((known, refusal)) => {
                assert_eq!(refusal.code, expected, "{}", refusal.message);
                assert_eq!(known.map(|id| id.0).as_deref(), id);
            }
            Ok(message) => panic!("{message:?}"),
        }
    }

    #[test]
    fn invalid_message_is_rejected_with_its_id() {
        refused(b"{", ErrorCode::PARSE_ERROR, None);
        refused(b"\xff\xfe", ErrorCode::PARSE_ERROR, None);
        refused(b"[]", ErrorCode::INVALID_REQUEST, None);
        refused(b"[\"2.0\",1,\"ping\",{},{}]", ErrorCode::INVALID_REQUEST, None);
        refused(b"{\"id\":7}", ErrorCode::INVALID_REQUEST, Some("7"));
        refused(b"{\"jsonrpc\":\"1.0\",\"id\":7,\"method\":\"ping\"}", ErrorCode::INVALID_REQUEST, Some("7"));
        refused(b"{\"jsonrpc\":\"2.0\",\"id\":[],\"method\":\"ping\"}", ErrorCode::INVALID_REQUEST, None);
        refused(b"{\"jsonrpc\":\"2.0\",\"id\":7,\"method\":8}", ErrorCode::INVALID_REQUEST, Some("7"));
        assert!(matches!(read(b"  \r"), Ok(Message::Blank)));
    }

    #[test]
    fn ids_keep_their_spelling() {
        for id in ["1", "-7", "1.5e3", "\"a\\u0041\\ud800\""] {
            let line = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":\"ping\"}}");
            let Ok(Message::Request { id: read, .. }) = read(line.as_bytes()) else { panic!("{id}") };
            let mut answer = Vec::new();
            write_result(&mut answer, &read, |line| line.extend_from_slice(b"{}"));
            assert_eq!(answer, format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{}}}}\n").as_bytes());
        }
    }
}
