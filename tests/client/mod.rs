//! An MCP client for tests. It asserts that each line is a JSON-RPC message without duplicate keys.

#![allow(dead_code)]

mod keys;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

use keys::KeysOnce;

/// Whether the response is a temporary failure: Lisp is dead, restarting or loading.
pub(crate) fn is_passing(response: &Value) -> bool {
    response["error"]["data"]["passing"] == true || response["result"]["_meta"]["steelbank/passing"] == true
}

/// The number of seconds to wait for an answer: much more than any answer needs.
const REPLY_SECONDS: i64 = 900;

/// A stream that panics if a read waits longer than [`REPLY_SECONDS`].
struct Patient<T>(T);

impl<T: Read + AsFd> Read for Patient<T> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let patience = Timespec { tv_sec: REPLY_SECONDS, tv_nsec: 0 };
        let ready = poll(&mut [PollFd::new(&self.0, PollFlags::IN)], Some(&patience));
        assert!(ready != Ok(0), "the server is silent");
        self.0.read(buffer)
    }
}

/// The client's end of a connection.
pub(crate) struct Client {
    input: Box<dyn Write + Send>,
    output: BufReader<Box<dyn Read + Send>>,
    next: u64,
    /// The `_meta` of every request in protocol 2026-07-28, which has no sessions.
    meta: Option<Value>,
    early: HashMap<u64, Value>,
    /// Notifications and errors without an id, in order of arrival.
    pub(crate) others: Vec<Value>,
}

impl Client {
    /// Returns a client that has sent nothing.
    pub(crate) fn new(input: impl Write + Send + 'static, output: impl Read + AsFd + Send + 'static) -> Self {
        Self {
            input: Box::new(input),
            output: BufReader::new(Box::new(Patient(output))),
            next: 1,
            meta: None,
            early: HashMap::new(),
            others: Vec::new(),
        }
    }

    /// Begins a session of protocol 2025-11-25, and returns the result of `initialize`.
    pub(crate) fn initialize(&mut self) -> Value {
        let hello = self.request(
            "initialize",
            json!({
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": { "name": "tests", "version": "1" },
            }),
        );
        self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        hello["result"].clone()
    }

    /// Switches to protocol 2026-07-28.
    pub(crate) fn without_initialize(&mut self) {
        self.meta = Some(json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "tests", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        }));
    }

    /// Sends raw bytes.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) {
        self.input.write_all(bytes).unwrap();
        self.input.flush().unwrap();
    }

    /// Sends a message.
    pub(crate) fn send(&mut self, message: &Value) {
        self.send_bytes(format!("{message}\n").as_bytes());
    }

    /// Sends a request, and returns its id.
    pub(crate) fn begin(&mut self, method: &str, mut params: Value) -> u64 {
        let id = self.next;
        self.next += 1;
        if let Some(meta) = &self.meta {
            params["_meta"] = meta.clone();
        }
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params }));
        id
    }

    /// Skips the output before the protocol, up to and with the line that ends in `marker`.
    pub(crate) fn skip_past(&mut self, marker: &str) {
        let mut line = String::new();
        while !line.trim_end().ends_with(marker) {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the process ended before its marker");
        }
    }

    /// Reads the next message of any kind. Returns `None` at the stream's end.
    pub(crate) fn read(&mut self) -> Option<Value> {
        let mut line = String::new();
        if self.output.read_line(&mut line).unwrap() == 0 {
            return None;
        }
        let message: Value = serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"));
        assert_eq!(message["jsonrpc"], "2.0", "{line}");
        serde_json::from_str::<KeysOnce>(&line).unwrap_or_else(|error| panic!("{error}: {line}"));
        Some(message)
    }

    /// Closes the input, and reads until all processes have closed the output.
    pub(crate) fn leave(mut self) {
        self.input = Box::new(std::io::sink());
        while self.read().is_some() {}
    }

    /// Waits for the response to a request, and stores other messages.
    pub(crate) fn response(&mut self, id: u64) -> Value {
        loop {
            if let Some(response) = self.early.remove(&id) {
                return response;
            }
            self.keep_next();
        }
    }

    /// Waits for a notification or an error without an id. Responses to later requests may precede
    /// it.
    pub(crate) fn other(&mut self) -> Value {
        while self.others.is_empty() {
            self.keep_next();
        }
        self.others.remove(0)
    }

    /// Reads and stores a message.
    fn keep_next(&mut self) {
        let message = self.read().expect("the server has left");
        match message["id"].as_u64() {
            Some(id) => assert!(self.early.insert(id, message).is_none(), "answered twice"),
            None => self.others.push(message),
        }
    }

    /// Whether a response to `id` has been read already.
    pub(crate) fn has_response(&self, id: u64) -> bool {
        self.early.contains_key(&id)
    }

    /// Sends a request, and returns its response.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.response(id)
    }

    /// Calls a tool, and returns its result.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let response = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(response["error"].is_null(), "{response}");
        response["result"].clone()
    }

    /// Calls a tool, and returns its structured answer.
    pub(crate) fn structured(&mut self, tool: &str, arguments: Value) -> Value {
        self.call(tool, arguments)["structuredContent"].clone()
    }

    /// Returns the structured answer of `status`.
    pub(crate) fn status(&mut self) -> Value {
        self.structured("status", json!({}))
    }

    /// Calls a tool, and returns the text of its answer, which must be no error.
    pub(crate) fn text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Calls a tool, and returns the text of its answer, which must be an error.
    pub(crate) fn error(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}
