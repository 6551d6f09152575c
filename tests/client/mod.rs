//! An MCP client for tests. It insists that every line it reads is a JSON-RPC message in which no object has a
//! key twice.

#![allow(dead_code)]

mod keys;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};

use serde_json::{Value, json};

use keys::KeysOnce;

/// The client's end of a connection.
pub(crate) struct Client {
    input: Box<dyn Write + Send>,
    output: BufReader<Box<dyn Read + Send>>,
    next: u64,
    /// What goes along with every request: the 2026-07-28 protocol has no sessions.
    meta: Option<Value>,
    early: HashMap<u64, Value>,
    /// Notifications and errors without an id, in order of arrival.
    pub(crate) others: Vec<Value>,
}

impl Client {
    /// A client that has not said anything.
    pub(crate) fn new(input: impl Write + Send + 'static, output: impl Read + Send + 'static) -> Self {
        Self {
            input: Box::new(input),
            output: BufReader::new(Box::new(output)),
            next: 1,
            meta: None,
            early: HashMap::new(),
            others: Vec::new(),
        }
    }

    /// Begins as protocol 2025-11-25 does, and returns what the server says of itself.
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

    /// Speaks protocol 2026-07-28 from now on.
    pub(crate) fn without_initialize(&mut self) {
        self.meta = Some(json!({
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientInfo": { "name": "tests", "version": "1" },
            "io.modelcontextprotocol/clientCapabilities": {},
        }));
    }

    /// Sends bytes as they are.
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

    /// Reads up to and with the line that ends in `marker`, which is not the protocol's yet.
    pub(crate) fn skip_past(&mut self, marker: &str) {
        let mut line = String::new();
        while !line.trim_end().ends_with(marker) {
            line.clear();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the process ended before its marker");
        }
    }

    /// Reads the next message, whatever it is; none at the stream's end.
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

    /// Sends nothing more, and reads until the server, and whoever else has its stream, is gone.
    pub(crate) fn leave(mut self) {
        self.input = Box::new(std::io::sink());
        while self.read().is_some() {}
    }

    /// Waits for the response to a request. Others that come first are kept.
    pub(crate) fn response(&mut self, id: u64) -> Value {
        loop {
            if let Some(response) = self.early.remove(&id) {
                return response;
            }
            let message = self.read().expect("the server has left");
            match message["id"].as_u64() {
                Some(id) => assert!(self.early.insert(id, message).is_none(), "answered twice"),
                None => self.others.push(message),
            }
        }
    }

    /// Whether a response to `id` was read already.
    pub(crate) fn has_response(&self, id: u64) -> bool {
        self.early.contains_key(&id)
    }

    /// A request and its response.
    pub(crate) fn request(&mut self, method: &str, params: Value) -> Value {
        let id = self.begin(method, params);
        self.response(id)
    }

    /// Calls a tool; returns its result.
    pub(crate) fn call(&mut self, tool: &str, arguments: Value) -> Value {
        let response = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        assert!(response["error"].is_null(), "{response}");
        response["result"].clone()
    }

    /// Calls a tool; returns the text of an answer that is no error.
    pub(crate) fn text(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], false, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }

    /// Calls a tool; returns the text of an answer that is an error.
    pub(crate) fn error(&mut self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments);
        assert_eq!(result["isError"], true, "{result}");
        result["content"][0]["text"].as_str().unwrap().to_owned()
    }
}
