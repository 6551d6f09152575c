//! Tests of MCP over HTTP (`serve --http`), at a port and at a Unix socket.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rmcp::ServiceExt;
use rmcp::model::{CallToolRequestParams, GetPromptRequestParams, ReadResourceRequestParams};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

use crate::child::wait_while;
use crate::program::{Folder, STEELBANK, ends, shown};
use crate::share::project;
use crate::texts::expect_text;

/// A running server, and its project.
struct Server {
    child: Option<Child>,
    folder: Folder,
    address: Address,
    token: Option<String>,
    process: Pid,
}

enum Address {
    Port(u16),
    Socket(PathBuf),
}

trait Duplex: Read + Write + Send {}
impl<T: Read + Write + Send> Duplex for T {}

/// The head of an answer, and its unread body.
struct Reply {
    status: u16,
    headers: HashMap<String, String>,
    body: BufReader<Box<dyn Read + Send>>,
}

/// A chunked body, as a stream.
struct Chunks {
    stream: BufReader<Box<dyn Duplex>>,
    left: usize,
}

impl Read for Chunks {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        if self.left == 0 {
            let mut line = String::new();
            self.stream.read_line(&mut line)?;
            // A lost connection ends the stream, too.
            self.left = usize::from_str_radix(line.trim(), 16).unwrap_or(0);
            if self.left == 0 {
                return Ok(0);
            }
        }
        let most = self.left.min(bytes.len());
        let got = self.stream.read(&mut bytes[..most])?;
        self.left -= got;
        if self.left == 0 {
            self.stream.read_exact(&mut [0; 2])?;
        }
        Ok(got)
    }
}

impl Reply {
    fn json(mut self) -> Value {
        let mut text = String::new();
        self.body.read_to_string(&mut text).unwrap();
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text:?}"))
    }

    fn kind(&self) -> &str {
        self.headers.get("content-type").map_or("", String::as_str)
    }

    /// Reads the id and message of the next event. Returns `None` at the stream's end.
    fn event(&mut self) -> Option<(String, Value)> {
        let (mut id, mut data) = (String::new(), None);
        for line in (&mut self.body).lines().map_while(Result::ok) {
            match line.split_once(": ") {
                Some(("id", text)) => text.clone_into(&mut id),
                Some(("data", "")) => data = Some(Value::Null),
                Some(("data", text)) => data = Some(serde_json::from_str(text).unwrap()),
                _ if line.is_empty() => match data.take() {
                    Some(data) => return Some((id, data)),
                    None => continue,
                },
                _ => assert!(line.starts_with(':') || line.starts_with("retry: "), "{line}"),
            }
        }
        None
    }

    /// Returns the JSON body, or the last message of the stream.
    fn answer(mut self) -> Value {
        if self.kind() == "application/json" {
            return self.json();
        }
        assert_eq!(self.kind(), "text/event-stream", "{}", self.status);
        let mut last = Value::Null;
        while let Some((_, message)) = self.event() {
            last = message;
        }
        last
    }
}

impl Server {
    fn at_port(name: &str, options: &[&str]) -> Self {
        Self::start(project(name), "127.0.0.1:0", options)
    }

    fn at_socket(name: &str, options: &[&str]) -> Self {
        let folder = project(name);
        let address = format!("unix:{}", folder.0.join("socket").display());
        Self::start(folder, &address, options)
    }

    fn command(folder: &Folder, address: &str) -> Command {
        let mut command = Command::new(STEELBANK);
        command.args(["--no-userinit", "--system", "shop", "serve", "--linger", "2", "--http", address]);
        command.current_dir(folder.0.join("project")).env("STEELBANK_CACHE", folder.0.join("cache"));
        command
    }

    fn start(folder: Folder, address: &str, options: &[&str]) -> Self {
        let mut command = Self::command(&folder, address);
        command.args(options).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut errors = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        while !line.contains(" MCP ") {
            line.clear();
            assert!(errors.read_line(&mut line).unwrap() > 0, "the server has ended");
        }
        std::thread::spawn(move || std::io::copy(&mut errors, &mut std::io::sink()));
        let tokens = std::fs::read_dir(folder.0.join("cache/http")).into_iter().flatten().flatten();
        let token = tokens.map(|file| std::fs::read_to_string(file.path()).unwrap().trim().to_owned()).next();
        let address = match line.split("127.0.0.1:").nth(1) {
            Some(rest) => Address::Port(rest.split('/').next().unwrap().parse().unwrap()),
            None => Address::Socket(folder.0.join("socket")),
        };
        let process = Pid::from_child(&child);
        Self { child: Some(child), folder, address, token, process }
    }

    fn connect(&self) -> Box<dyn Duplex> {
        // A read fails instead of hanging.
        let patience = Some(Duration::from_secs(900));
        match &self.address {
            Address::Port(port) => {
                let stream = TcpStream::connect(("127.0.0.1", *port)).unwrap();
                stream.set_read_timeout(patience).unwrap();
                Box::new(stream)
            }
            Address::Socket(path) => {
                let stream = UnixStream::connect(path).unwrap();
                stream.set_read_timeout(patience).unwrap();
                Box::new(stream)
            }
        }
    }

    /// Sends a request. `headers` add to the required headers or replace them. An empty value
    /// removes a header. The name `path` requests a path that does not exist.
    fn send(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Reply {
        read_reply(self.begin(method, headers, body))
    }

    /// Sends a request as [`Self::send`] does, without waiting for the answer.
    fn begin(&self, method: &str, headers: &[(&str, &str)], body: &[u8]) -> Box<dyn Duplex> {
        let host = match self.address {
            Address::Port(port) => format!("localhost:{port}"),
            Address::Socket(_) => "localhost".to_owned(),
        };
        let token = format!("Bearer {}", self.token.as_deref().unwrap_or_default());
        let length = body.len().to_string();
        let usual = [
            ("Host", host.as_str()),
            ("Authorization", token.as_str()),
            ("Content-Type", "application/json"),
            ("Accept", "application/json, text/event-stream"),
            ("Content-Length", &length),
        ];
        let is_given = |name: &str| headers.iter().any(|(given, _)| given.eq_ignore_ascii_case(name));
        let usual = usual.into_iter().filter(|(name, _)| !is_given(name));
        let path = if is_given("path") { "/other" } else { "/mcp" };
        let mut head = format!("{method} {path} HTTP/1.1\r\nConnection: close\r\n");
        for (name, value) in usual.chain(headers.iter().copied()).filter(|(_, value)| !value.is_empty()) {
            head += &format!("{name}: {value}\r\n");
        }
        let mut stream = self.connect();
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        // The server may refuse the request before it reads the body.
        let _ = stream.write_all(body);
        stream
    }

    fn post(&self, headers: &[(&str, &str)], message: &Value) -> Reply {
        self.send("POST", headers, message.to_string().as_bytes())
    }

    /// Sends a request of protocol 2026-07-28, which has no sessions.
    fn ask(&self, method: &str, params: Value) -> Reply {
        let (headers, message) = stateless(method, params);
        self.post(&headers.each_ref().map(|(name, value)| (*name, value.as_str())), &message)
    }

    fn initialize(&self) -> Session<'_> {
        let params = json!({
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "tests", "version": "1" }
        });
        let reply =
            self.post(&[], &json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params }));
        assert_eq!(reply.status, 200);
        let id = reply.headers["mcp-session-id"].clone();
        assert_eq!(reply.answer()["result"]["protocolVersion"], "2025-11-25");
        let session = Session { server: self, id };
        let told = session.post(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        assert_eq!(told.status, 202);
        session
    }

    /// Ends the server by SIGTERM, and checks that it removes its socket and exits with 0.
    fn end(mut self) -> Folder {
        kill_process(self.process, Signal::TERM).unwrap();
        assert_eq!(ends(self.child.take().unwrap()).code(), Some(0));
        if let Address::Socket(path) = &self.address {
            assert!(!path.exists());
        }
        std::mem::replace(&mut self.folder, Folder::new("http-ended"))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            let _ = child.kill().and_then(|()| child.wait());
        }
    }
}

/// Returns a request of protocol 2026-07-28, and its headers.
fn stateless(method: &str, mut params: Value) -> ([(&'static str, String); 3], Value) {
    params["_meta"]["io.modelcontextprotocol/protocolVersion"] = "2026-07-28".into();
    params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = json!({});
    let name = params["name"].as_str().unwrap_or_default().to_owned();
    let version = ("MCP-Protocol-Version", "2026-07-28".to_owned());
    let headers = [version, ("Mcp-Method", method.to_owned()), ("Mcp-Name", name)];
    (headers, json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": params }))
}

fn read_reply(stream: Box<dyn Duplex>) -> Reply {
    let mut stream = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        stream.read_line(&mut line).unwrap();
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let status = lines[0].split(' ').nth(1).unwrap().parse().unwrap();
    let headers: HashMap<_, _> = lines[1..]
        .iter()
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
        .collect();
    let body: Box<dyn Read + Send> = match headers.get("content-length") {
        Some(length) => Box::new(stream.take(length.parse().unwrap())),
        None if headers.contains_key("transfer-encoding") => Box::new(Chunks { stream, left: 0 }),
        None => Box::new(std::io::empty()),
    };
    Reply { status, headers, body: BufReader::new(body) }
}

struct Session<'a> {
    server: &'a Server,
    id: String,
}

impl Session<'_> {
    fn headers(&self) -> [(&str, &str); 2] {
        [("Mcp-Session-Id", &self.id), ("MCP-Protocol-Version", "2025-11-25")]
    }

    fn post(&self, message: &Value) -> Reply {
        self.server.post(&self.headers(), message)
    }

    fn begin(&self, id: u64, tool: &str, arguments: &Value) -> Reply {
        let params = json!({ "name": tool, "arguments": arguments, "_meta": { "progressToken": "token" } });
        self.post(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }))
    }

    fn call(&self, tool: &str, arguments: &Value) -> Value {
        let answer = self.begin(1, tool, arguments).answer();
        assert_eq!((&answer["id"], answer["error"].is_null()), (&json!(1), true), "{answer}");
        answer["result"].clone()
    }

    fn text(&self, tool: &str, arguments: &Value) -> String {
        self.call(tool, arguments)["content"][0]["text"].as_str().unwrap().to_owned()
    }

    fn loaded(&self) {
        wait_while(|| self.call("status", &json!({}))["structuredContent"]["loading"] == true);
    }

    fn get(&self, last: &str) -> Reply {
        let [session, version] = self.headers();
        self.server.send("GET", &[session, version, ("Last-Event-ID", last), ("Content-Type", "")], b"")
    }
}

fn code(reply: Reply) -> (u16, i64) {
    (reply.status, reply.json()["error"]["code"].as_i64().unwrap())
}

#[test]
fn both_lifecycles_are_served() {
    for server in [Server::at_port("http-port", &[]), Server::at_socket("http-socket", &[])] {
        assert_eq!(server.token.is_some(), matches!(server.address, Address::Port(_)));
        let session = server.initialize();
        session.loaded();
        let listed = session.post(&json!({ "jsonrpc": "2.0", "id": "l", "method": "tools/list" })).answer();
        assert_eq!(listed["id"], "l");
        assert!(listed["result"]["tools"].as_array().unwrap().len() > 5, "{listed}");
        let question = json!({ "name": "cl-user::of-client-1" });
        assert!(session.text("describe-symbol", &question).contains("::OF-CLIENT-1"));
        let told = session.call("status", &json!({}))["structuredContent"]["host"].clone();
        assert_eq!(told["clients"][0]["name"], "tests 1", "{told}");
        assert_eq!(told["clients"][0]["process"], server.process.as_raw_nonzero().get(), "{told}");

        let listed = server.ask("tools/list", json!({}));
        assert_eq!((listed.status, listed.kind()), (200, "application/json"));
        assert!(!listed.headers.contains_key("mcp-session-id"));
        assert_eq!(listed.json()["result"]["resultType"], "complete");
        let called = server.ask("tools/call", json!({ "name": "describe-symbol", "arguments": question }));
        assert!(called.answer().to_string().contains("::OF-CLIENT-1"));
        let resources = server.ask("resources/list", json!({})).json();
        assert!(resources["result"]["resources"].is_array(), "{resources}");
        // Methods that the server does not declare are unknown with and without a session.
        for method in ["resources/subscribe", "logging/setLevel", "tasks/list"] {
            assert_eq!(code(server.ask(method, json!({}))), (404, -32601), "{method}");
            let told = session.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": method, "params": {} }));
            assert_eq!(code(told), (200, -32601), "{method}");
        }
        assert_eq!(code(server.ask("initialize", json!({}))), (404, -32601));

        let ended = || server.send("DELETE", &session.headers(), b"").status;
        assert_eq!((ended(), ended()), (204, 404));
        let told = session.post(&json!({ "jsonrpc": "2.0", "id": 5, "method": "ping" }));
        assert_eq!((told.status, told.json()["id"].clone()), (404, json!(5)));
        if let Address::Socket(path) = &server.address {
            let address = format!("unix:{}", path.display());
            let output = Server::command(&server.folder, &address).output().unwrap();
            assert_eq!(output.status.code(), Some(3));
            expect_text("address in use", &shown(&output));
            // Only the user's processes can connect to the socket, so it needs no token.
            use std::os::unix::fs::PermissionsExt;
            assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        }
        server.end();
    }
}

#[test]
fn unauthorized_requests_are_refused_and_block_nobody() {
    let server = Server::at_port("http-refused", &[]);
    let session = server.initialize();
    let Address::Port(port) = server.address else { panic!() };
    // Many connections send half a head, half a body, or nothing.
    let silent: Vec<_> = (0..60)
        .map(|number| {
            let mut stream = server.connect();
            let token = server.token.as_deref().unwrap();
            let head = format!(
                "POST /mcp HTTP/1.1\r\nHost: localhost:{port}\r\nAuthorization: Bearer {token}\r\n\
                 Content-Type: application/json\r\nAccept: */*\r\nContent-Length: 100\r\n\r\n{{"
            );
            stream.write_all(&head.as_bytes()[..[0, 40, head.len()][number % 3]]).unwrap();
            stream
        })
        .collect();
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    let status =
        |headers: &[(&str, &str)]| server.post(&[&session.headers()[..], headers].concat(), &ping).status;
    assert_eq!(status(&[]), 200);
    let other = format!("evil.example:{port}");
    for host in ["evil.example", &other, "localhost", "localhost:1"] {
        assert_eq!(status(&[("Host", host)]), 403, "{host}");
    }
    let own = format!("http://127.0.0.1:{port}");
    for (origin, expected) in
        [("http://evil.example", 403), ("null", 403), ("http://localhost:5173", 200), (&own, 200)]
    {
        assert_eq!(status(&[("Origin", origin)]), expected, "{origin}");
    }
    for token in ["", "Bearer", "Bearer 0", "Basic x"] {
        assert_eq!(status(&[("Authorization", token)]), 401, "{token}");
    }
    assert_eq!(status(&[("Content-Type", "text/plain")]), 415);
    assert_eq!(status(&[("Accept", "application/json")]), 406);
    assert_eq!(status(&[("path", "/other")]), 404);
    assert_eq!(server.send("PUT", &[], b"").status, 405);
    let status = |headers: &[(&str, &str)]| server.post(headers, &ping).status;
    assert_eq!(status(&[]), 400, "no session");
    assert_eq!(status(&[("Mcp-Session-Id", "0")]), 404);
    let [named, _] = session.headers();
    assert_eq!(status(&[named, ("MCP-Protocol-Version", "2031-01-01")]), 400);
    let body = |body: &[u8]| server.send("POST", &session.headers(), body);
    assert_eq!(code(body(b"{")), (400, -32700));
    assert_eq!(code(body(b"[]")), (400, -32600));
    assert_eq!(body(&[b' '; (4 << 20) + 1]).status, 413);
    let long = format!("{{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"{}\n}}", " ".repeat(4_000_000));
    assert_eq!(body(long.as_bytes()).status, 200);
    let chunked = [("Transfer-Encoding", "chunked"), ("Content-Length", ""), session.headers()[0]];
    let pieces = format!("100000\r\n{}\r\n", " ".repeat(1 << 20)).repeat(5) + "0\r\n\r\n";
    assert_eq!(server.send("POST", &chunked, pieces.as_bytes()).status, 413);
    // Send headers that contradict the body.
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": {}
    });
    let list = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": { "_meta": meta } });
    let version = ("MCP-Protocol-Version", "2026-07-28");
    for headers in
        [&[][..], &[version], &[version, ("Mcp-Method", "tools/call")], &[("Mcp-Method", "tools/list")]]
    {
        let reply = server.post(headers, &list);
        assert_eq!(
            (reply.status, reply.json()),
            (400, {
                let why =
                    "The headers MCP-Protocol-Version, Mcp-Method and Mcp-Name must agree with the body.";
                json!({ "jsonrpc": "2.0", "id": 9, "error": { "code": -32020, "message": why } })
            })
        );
    }
    let bare = json!({ "jsonrpc": "2.0", "id": 9, "method": "tools/list", "params": {} });
    assert_eq!(code(server.post(&[version, ("Mcp-Method", "tools/list")], &bare)), (400, -32602));
    assert_eq!(server.send("GET", &[version], b"").status, 405);
    // Only `initialize` creates a session.
    let broken = json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {} });
    assert_eq!(code(server.post(&[], &broken)), (400, -32602));
    drop(silent);
    server.end();
}

#[test]
fn session_gets_a_quarter_of_the_connections() {
    let server = Server::at_port("http-quarter", &["--allow-eval"]);
    let [session, other] = [server.initialize(), server.initialize()];
    session.loaded();
    let params = json!({ "name": "evaluate", "arguments": { "code": "(loop (sleep 0.01))" } });
    let begin = |id: u64| {
        let message = json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params });
        server.begin("POST", &session.headers(), message.to_string().as_bytes())
    };
    let mut calls: Vec<_> = (0..65).map(|id| read_reply(begin(id))).collect();
    let refused = calls.pop().unwrap();
    assert!(calls.iter().all(|reply| (reply.status, reply.kind()) == (200, "text/event-stream")));
    assert_eq!((refused.status, refused.headers["connection"].as_str()), (429, "close"));
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    assert_eq!((session.post(&ping).status, other.post(&ping).status), (429, 200));
    // The session can still cancel its calls, which frees their connections.
    let cancel = |id: u64| {
        let params = json!({ "requestId": id });
        json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params })
    };
    (0..64).for_each(|id| assert_eq!(session.post(&cancel(id)).status, 202));
    calls.into_iter().for_each(|mut reply| while reply.event().is_some() {});
    wait_while(|| session.post(&ping).status == 429);
    assert_eq!(session.post(&ping).status, 200);
    server.end();
}

#[test]
fn unauthenticated_connections_are_few_and_short() {
    let server = Server::at_port("http-silent", &[]);
    let session = server.initialize();
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    // The server would accept this many silent connections only in several batches, each of which
    // ends when its heads are late.
    let begun = std::time::Instant::now();
    let silent: Vec<_> = (0..600).map(|_| server.connect()).collect();
    assert_eq!(session.post(&ping).status, 200);
    assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
    // A refused client cannot keep its connection.
    let refused = server.post(&[("Connection", "keep-alive"), ("Authorization", "Bearer 0")], &ping);
    assert_eq!((refused.status, refused.headers["connection"].as_str()), (401, "close"));
    drop(silent);
    server.end();
}

/// Makes a system of files that each take a while to load.
fn slow_system(folder: &Folder, name: &str) {
    let files: Vec<String> = (0..8).map(|number| format!("{name}-{number}")).collect();
    let components: String = files.iter().map(|file| format!("(:file \"{file}\")")).collect();
    let write = |name: String, text: &str| std::fs::write(folder.0.join("project").join(name), text).unwrap();
    write(format!("{name}.asd"), &format!("(defsystem \"{name}\" :serial t :components ({components}))"));
    files.iter().for_each(|file| write(format!("{file}.lisp"), "(sleep 0.2)"));
}

#[test]
fn stream_of_a_call_can_be_resumed() {
    let server = Server::at_port("http-stream", &[]);
    slow_system(&server.folder, "slow");
    let session = server.initialize();
    session.loaded();
    let mut reply = session.begin(7, "load-system", &json!({ "system": "slow" }));
    assert_eq!((reply.status, reply.kind()), (200, "text/event-stream"));
    let (first, prime) = reply.event().unwrap();
    assert_eq!(prime, Value::Null);
    let stream = first.strip_suffix("-0").unwrap();
    let (last, progress) = reply.event().unwrap();
    assert_eq!(last, format!("{stream}-1"));
    assert_eq!(progress["params"]["progressToken"], "token", "{progress}");
    // The connection is lost, and the call continues.
    drop(reply);
    let read_on = |last: &str| {
        let (mut reply, mut events) = (session.get(last), Vec::new());
        assert_eq!((reply.status, reply.kind()), (200, "text/event-stream"));
        while let Some(event) = reply.event() {
            events.push(event);
        }
        events
    };
    let rest = read_on(&last);
    let answer = &rest.last().unwrap().1;
    assert_eq!((&answer["id"], &answer["result"]["isError"]), (&json!(7), &json!(false)), "{answer}");
    let mut places = rest.iter().enumerate().map(|(index, (id, _))| *id == format!("{stream}-{}", index + 2));
    assert!(rest.len() > 4 && places.all(|right| right), "{rest:?}");
    // The stream is kept for a while, and can be read from any event.
    assert_eq!(read_on(&first).len(), rest.len() + 1);
    assert_eq!(read_on(&rest[rest.len() - 2].0), rest[rest.len() - 1..]);
    assert_eq!((session.get("77-1").status, session.get("x").status), (400, 400));
    // Other sessions cannot read the stream.
    let other = server.initialize();
    assert_eq!(other.get(&last).status, 400);
    // A second reader of the general stream ends the stream of the first reader.
    let mut general = session.get("");
    assert_eq!(general.kind(), "text/event-stream");
    let second = session.get("");
    assert_eq!(general.event(), None);
    // A call without a session is a stream, too, but cannot be resumed.
    slow_system(&server.folder, "slower");
    let mut reply = server.ask(
        "tools/call",
        json!({ "name": "load-system", "arguments": { "system": "slower" }, "_meta": { "progressToken": 5 } }),
    );
    let (id, progress) = reply.event().unwrap();
    assert_eq!((id.as_str(), &progress["params"]["progressToken"]), ("", &json!(5)), "{progress}");
    assert_eq!(reply.answer()["result"]["resultType"], "complete");
    drop(second);
    server.end();
}

#[test]
fn clients_with_equal_ids_are_separate() {
    let server = Server::at_port("http-two", &["--allow-eval"]);
    let sessions = [server.initialize(), server.initialize()];
    sessions[0].loaded();
    std::thread::scope(|scope| {
        for (number, session) in sessions.iter().enumerate() {
            scope.spawn(move || {
                for round in 0..40 {
                    let code = json!({ "code": format!("(progn (sleep 0.001) (list {number} {round}))") });
                    assert!(session.text("evaluate", &code).starts_with(&format!("({number} {round})\n")));
                }
            });
        }
        for number in 2..4 {
            let server = &server;
            scope.spawn(move || {
                for round in 0..40 {
                    let code = json!({ "code": format!("(list {number} {round})") });
                    let params = json!({
                        "name": "evaluate", "arguments": code, "_meta": { "progressToken": "token" }
                    });
                    let answer = server.ask("tools/call", params).answer();
                    let text = answer["result"]["content"][0]["text"].as_str().unwrap();
                    assert!(text.starts_with(&format!("({number} {round})\n")), "{answer}");
                }
            });
        }
    });
    let handle = |session: &Session<'_>| {
        let answer = session.call("evaluate", &json!({ "code": "(list 1 2)" }));
        json!({ "handle": answer["structuredContent"]["values"][0]["handle"] })
    };
    let (own, others) = (handle(&sessions[0]), handle(&sessions[1]));
    assert_eq!(sessions[0].call("inspect", &own)["structuredContent"]["count"], 2);
    assert_eq!(sessions[0].call("inspect", &others)["structuredContent"]["status"], "unknown");
    server.end();
}

#[test]
fn only_its_client_cancels_a_call() {
    let server = Server::at_socket("http-off", &["--allow-eval"]);
    let [session, other] = [server.initialize(), server.initialize()];
    session.loaded();
    let endless = json!({ "code": "(loop (sleep 0.01))" });
    let off = json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": { "requestId": 7 } });
    // The stream ends without an answer.
    let mut reply = session.begin(7, "evaluate", &endless);
    assert_eq!(other.post(&off).status, 202);
    assert_eq!(session.post(&json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" })).status, 200);
    assert_eq!(session.post(&off).status, 202);
    while let Some((_, message)) = reply.event() {
        assert!(message["result"].is_null() && message["error"].is_null(), "{message}");
    }
    // The lane of the cancelled call is free again.
    assert!(session.text("evaluate", &json!({ "code": "(+ 1 2)" })).starts_with('3'));
    // Without a session, a closed connection cancels the call.
    let params = json!({ "name": "evaluate", "arguments": endless });
    drop(server.ask("tools/call", params.clone()));
    assert!(session.text("evaluate", &json!({ "code": "(+ 1 2)" })).starts_with('3'));
    // A connection that closes before the stream begins cancels the request, too.
    let (headers, message) = stateless("tools/call", params);
    let headers = headers.each_ref().map(|(name, value)| (*name, value.as_str()));
    drop(server.begin("POST", &headers, message.to_string().as_bytes()));
    assert!(session.text("evaluate", &json!({ "code": "(+ 1 2)" })).starts_with('3'));
    server.end();
}

#[test]
fn sessions_survive_lisps_death() {
    let server = Server::at_port("http-death", &["--allow-eval"]);
    let session = server.initialize();
    session.loaded();
    let question = json!({ "name": "cl-user::of-client-1" });
    let mut general = session.get("");
    let told = session.text("load-file", &json!({ "path": "end.lisp" }));
    assert!(told.contains("on purpose"), "{told}");
    wait_while(|| !session.text("describe-symbol", &question).contains("::OF-CLIENT-1"));
    let status = session.call("status", &json!({}))["structuredContent"].clone();
    assert_eq!(status["restarts"].as_array().unwrap().len(), 1, "{status}");
    // Kill Lisp's host process during a call.
    let host = i32::try_from(status["host"]["process"].as_i64().unwrap()).unwrap();
    let mut reply = session.begin(9, "evaluate", &json!({ "code": "(loop (sleep 0.01))" }));
    assert_eq!(reply.event().unwrap().1, Value::Null);
    kill_process(Pid::from_raw(host).unwrap(), Signal::KILL).unwrap();
    let answer = reply.answer();
    assert_eq!((&answer["id"], &answer["error"]["data"]["passing"]), (&json!(9), &json!(true)), "{answer}");
    assert_eq!(general.event(), None);
    assert_eq!(session.post(&json!({ "jsonrpc": "2.0", "id": 5, "method": "ping" })).status, 404);
    let again = server.initialize();
    again.loaded();
    assert!(again.text("describe-symbol", &question).contains("::OF-CLIENT-1"));
    let asked = server.ask("tools/call", json!({ "name": "describe-symbol", "arguments": question }));
    assert!(asked.answer().to_string().contains("::OF-CLIENT-1"));
    server.end();
}

#[test]
fn shutdown_waits_for_answers_but_not_streams() {
    let server = Server::at_port("http-end", &["--allow-eval"]);
    let session = server.initialize();
    session.loaded();
    let mut general = session.get("");
    let short = std::thread::scope(|scope| {
        let call = scope.spawn(|| session.text("evaluate", &json!({ "code": "(progn (sleep 1.5) :slept)" })));
        std::thread::sleep(Duration::from_millis(700));
        kill_process(server.process, Signal::TERM).unwrap();
        assert_eq!(general.event(), None);
        call.join().unwrap()
    });
    assert!(short.starts_with(":SLEPT"), "{short}");
    let token = server.token.clone();
    let folder = server.end_again();
    // The token of an address is stored in one file.
    let files: Vec<_> = std::fs::read_dir(folder.0.join("cache/http")).unwrap().flatten().collect();
    assert_eq!(files.len(), 1);
    assert_eq!(std::fs::read_to_string(files[0].path()).unwrap().trim(), token.unwrap());
}

impl Server {
    /// Waits for a server that is shutting down, and checks that it exits with 0.
    fn end_again(mut self) -> Folder {
        assert_eq!(ends(self.child.take().unwrap()).code(), Some(0));
        std::mem::replace(&mut self.folder, Folder::new("http-ended"))
    }
}

#[test]
fn non_loopback_addresses_are_refused() {
    let folder = project("http-address");
    for address in ["0.0.0.0:0", "[::]:0", "8080"] {
        expect_text(address, &shown(&Server::command(&folder, address).output().unwrap()));
    }
}

/// Serves rmcp's client with and without a session.
#[tokio::test]
async fn client_of_rmcp_is_served() {
    let server = Server::at_socket("http-rmcp", &[]);
    let Address::Socket(path) = &server.address else { panic!() };
    let transport =
        StreamableHttpClientTransport::from_unix_socket(path.to_str().unwrap(), "http://localhost/mcp");
    let client = ().serve(transport).await.unwrap();
    assert_eq!(client.peer_info().unwrap().server_info.as_ref().unwrap().name, "steelbank");
    let tools = client.list_all_tools().await.unwrap();
    assert!(tools.iter().any(|tool| tool.name == "describe-symbol"));
    let arguments = json!({ "name": "cl:mapcar" }).as_object().unwrap().clone();
    let params = CallToolRequestParams::new("describe-symbol").with_arguments(arguments);
    let answer = client.call_tool(params).await.unwrap();
    assert!(answer.content[0].as_text().unwrap().text.starts_with("COMMON-LISP::MAPCAR"));
    let resources = client.list_all_resources().await.unwrap();
    assert!(resources.iter().any(|each| each.uri == "steelbank:///file/shop.lisp"), "{resources:?}");
    assert_eq!(client.list_all_resource_templates().await.unwrap().len(), 4);
    let params = ReadResourceRequestParams::new("steelbank:///symbol/cl%3Amapcar");
    let read = json!(client.read_resource(params).await.unwrap());
    assert!(read["contents"][0]["text"].as_str().unwrap().starts_with("COMMON-LISP::MAPCAR"));
    let missing = client.read_resource(ReadResourceRequestParams::new("steelbank:///symbol/cl%3Axyz")).await;
    assert!(missing.unwrap_err().to_string().contains("XYZ"));
    let (template, name) = ("steelbank:///symbol/{name}", "name");
    let completed = client.complete_resource_simple(template, name, "cl:mapca").await.unwrap();
    assert_eq!(completed, ["cl:mapcan", "cl:mapcar"]);
    let prompts = client.list_all_prompts().await.unwrap();
    assert_eq!(prompts.iter().map(|prompt| prompt.name.as_str()).collect::<Vec<_>>(), ["review-change"]);
    let prompt = client.get_prompt(GetPromptRequestParams::new("review-change")).await.unwrap();
    assert!(json!(prompt)["messages"][0]["content"]["text"].as_str().unwrap().contains("impact"));
    client.cancel().await.unwrap();
    tokio::task::spawn_blocking(|| server.end()).await.unwrap();
}

/// An rmcp server without tools, as an oracle.
#[derive(Clone)]
struct Oracle;

impl rmcp::ServerHandler for Oracle {
    fn get_info(&self) -> rmcp::model::ServerConfig {
        rmcp::model::ServerConfig::new(rmcp::model::ServerCapabilities::builder().enable_tools().build())
    }
}

/// Serves the oracle at a port, for as long as the test runs.
fn oracle() -> Server {
    let (said, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            said.send(listener.local_addr().unwrap().port()).unwrap();
            let config = StreamableHttpServerConfig::default().enforce_origin_validation();
            let sessions = std::sync::Arc::new(LocalSessionManager::default());
            let service = StreamableHttpService::new(|| Ok(Oracle), sessions, config);
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let service = service.clone();
                let answer = hyper::service::service_fn(move |request| {
                    let service = service.clone();
                    async move { Ok::<_, std::convert::Infallible>(service.handle(request).await) }
                });
                let stream = hyper_util::rt::TokioIo::new(stream);
                tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(stream, answer));
            }
        });
    });
    let address = Address::Port(heard.recv().unwrap());
    Server {
        child: None,
        folder: Folder::new("http-oracle"),
        address,
        token: None,
        process: rustix::process::getpid(),
    }
}

/// Sends requests in order. Returns the name, status and error code of each request.
fn asked_in_order(server: &Server) -> Vec<(String, u16, Value)> {
    let mut told = Vec::new();
    let mut note = |what: &str, reply: Reply| {
        let (status, kind) = (reply.status, reply.kind().to_owned());
        let answer = match kind.as_str() {
            "application/json" => reply.json(),
            "text/event-stream" => reply.answer(),
            _ => Value::Null,
        };
        told.push((what.to_owned(), status, answer["error"]["code"].clone()));
    };
    let initialize = |version: &str| {
        let params = json!({
            "protocolVersion": version, "capabilities": {}, "clientInfo": { "name": "tests", "version": "1" }
        });
        json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
    };
    let ping = json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" });
    note("no session", server.post(&[], &ping));
    note("an unknown session", server.post(&[("Mcp-Session-Id", "unknown")], &ping));
    for (name, value) in [
        ("Accept", "application/json"),
        ("Content-Type", "text/plain"),
        ("Host", "evil.example"),
        ("Origin", "http://evil.example"),
    ] {
        note(name, server.post(&[(name, value)], &initialize("2025-11-25")));
    }
    note("PUT", server.send("PUT", &[], b""));
    note("GET of JSON", server.send("GET", &[("Accept", "application/json")], b""));
    note("GET without a session", server.send("GET", &[], b""));
    note("GET of an unknown session", server.send("GET", &[("Mcp-Session-Id", "unknown")], b""));
    note("DELETE without a session", server.send("DELETE", &[], b""));
    note("DELETE of an unknown session", server.send("DELETE", &[("Mcp-Session-Id", "unknown")], b""));
    let reply = server.post(&[], &initialize("2025-11-25"));
    let id = reply.headers["mcp-session-id"].clone();
    note("initialize", reply);
    let named = ("Mcp-Session-Id", id.as_str());
    let version = ("MCP-Protocol-Version", "2025-11-25");
    let initialized = json!({ "jsonrpc": "2.0", "method": "notifications/initialized" });
    note("initialized", server.post(&[named, version], &initialized));
    note("ping", server.post(&[named, version], &ping));
    note("ping of an unknown version", server.post(&[named, ("MCP-Protocol-Version", "2031-01-01")], &ping));
    let list = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/list" });
    note("tools/list", server.post(&[named, version], &list));
    let unknown = json!({ "jsonrpc": "2.0", "id": 1, "method": "unknown/method" });
    note("an unknown method", server.post(&[named, version], &unknown));
    note("DELETE", server.send("DELETE", &[named, version], b""));
    note("ping after the end", server.post(&[named, version], &ping));
    for method in ["server/discover", "tools/list", "unknown/method", "ping"] {
        note(&format!("stateless {method}"), server.ask(method, json!({})));
    }
    let (_, message) = stateless("tools/list", json!({}));
    let version = ("MCP-Protocol-Version", "2026-07-28");
    for headers in [
        &[version][..],
        &[version, ("Mcp-Method", "prompts/list")],
        &[("Mcp-Method", "tools/list")],
        &[("MCP-Protocol-Version", "2025-11-25"), ("Mcp-Method", "tools/list")],
    ] {
        note(&format!("stateless with {headers:?}"), server.post(headers, &message));
    }
    note("GET without sessions", server.send("GET", &[version], b""));
    told
}

#[test]
fn statuses_agree_with_rmcp() {
    let server = Server::at_port("http-oracle", &[]);
    let (own, expected) = (asked_in_order(&server), asked_in_order(&oracle()));
    // rmcp's plain-text answers have no code.
    let agree = |own: &(String, u16, Value), expected: &(String, u16, Value)| {
        own.1 == expected.1 && (own.2 == expected.2 || expected.2.is_null() && own.1 >= 400)
    };
    let differ = own.iter().zip(&expected).filter(|(own, expected)| !agree(own, expected));
    let differ: Vec<_> = differ.map(|(own, expected)| (own.0.as_str(), own.1, expected.1)).collect();
    assert_eq!(own.len(), expected.len());
    // rmcp answers 202, whether or not the session exists.
    assert_eq!(differ, [("DELETE of an unknown session", 404, 202), ("DELETE", 204, 202)]);
    server.end();
}
