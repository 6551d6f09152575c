//! `steelbank serve` as its client sees it: process start to first answer, and each tool's round trip, beside what the
//! pipes cost without it (a process that only repeats the answer). Run with `cargo bench --bench stdio`.

// Clippy takes only functions marked #[test] for tests.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use divan::Bencher;
use serde_json::{Value, json};

const ECHO: &str = "STEELBANK_BENCH_ECHO";

fn main() {
    if std::env::var_os(ECHO).is_some() {
        return repeat_first_line();
    }
    divan::main();
}

/// The process that the pipes are measured with: it answers each line with the first one.
fn repeat_first_line() {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let (mut first, mut line) = (String::new(), String::new());
    input.read_line(&mut first).unwrap();
    loop {
        output.write_all(first.as_bytes()).unwrap();
        output.flush().unwrap();
        line.clear();
        if input.read_line(&mut line).unwrap() == 0 {
            return;
        }
    }
}

/// A process that answers lines with lines.
struct Lines {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    line: String,
}

impl Lines {
    fn start(command: &mut Command) -> Self {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output, line: String::new() }
    }

    fn server() -> Self {
        let mut server = Self::start(Command::new(env!("CARGO_BIN_EXE_steelbank")).arg("serve"));
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } } });
        server.ask(&format!("{hello}\n"));
        server
    }

    /// Sends a line and waits for one.
    fn ask(&mut self, line: &str) -> &str {
        self.input.write_all(line.as_bytes()).unwrap();
        self.line.clear();
        self.output.read_line(&mut self.line).unwrap();
        &self.line
    }

    fn end(mut self) {
        drop(self.input);
        self.child.wait().unwrap();
    }
}

fn call(tool: &str, arguments: &Value) -> String {
    let request = json!({ "jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": tool, "arguments": arguments } });
    format!("{request}\n")
}

/// Process start to the answer of a first call.
#[divan::bench(sample_count = 20, args = ["describe-symbol", "who-calls"])]
fn start_to_first_answer(bencher: Bencher<'_, '_>, tool: &str) {
    let request = call(tool, &json!({ "name": "cl:mapcar" }));
    bencher.bench(|| {
        let mut server = Lines::server();
        assert!(server.ask(&request).contains("COMMON-LISP::MAPCAR"));
        server.end();
    });
}

/// Process start to end of the command line's answer.
#[divan::bench(sample_count = 20)]
fn command_line(bencher: Bencher<'_, '_>) {
    bencher.bench(|| {
        let output =
            Command::new(env!("CARGO_BIN_EXE_steelbank")).args(["who-calls", "cl:mapcar"]).output().unwrap();
        assert!(output.status.success());
    });
}

const QUESTIONS: [(&str, &str); 5] = [
    ("status", ""),
    ("describe-symbol", "cl:mapcar"),
    ("describe-symbol", "cl:*print-base*"),
    ("who-references", "cl:*print-base*"),
    ("who-calls", "cl:mapcar"),
];

fn arguments(name: &str) -> Value {
    if name.is_empty() { json!({}) } else { json!({ "name": name }) }
}

/// A call of a tool and its answer.
#[divan::bench(args = QUESTIONS.map(|(tool, name)| format!("{tool} {name}")))]
fn round_trip(bencher: Bencher<'_, '_>, question: &str) {
    let (tool, name) = question.split_once(' ').unwrap();
    let mut server = Lines::server();
    let request = call(tool, &arguments(name));
    assert!(server.ask(&request).contains("\"isError\":false"));
    bencher.bench_local(|| server.ask(&request).len());
    server.end();
}

/// What the pipes and two processes cost alone: the answer comes from a program that only repeats it.
#[divan::bench(args = QUESTIONS.map(|(tool, name)| format!("{tool} {name}")))]
fn echo(bencher: Bencher<'_, '_>, question: &str) {
    let (tool, name) = question.split_once(' ').unwrap();
    let mut server = Lines::server();
    let answer = server.ask(&call(tool, &arguments(name))).to_owned();
    server.end();
    let mut echo = Lines::start(Command::new(std::env::current_exe().unwrap()).env(ECHO, "1"));
    assert_eq!(echo.ask(&answer), answer);
    let request = call(tool, &arguments(name));
    bencher.bench_local(|| echo.ask(&request).len());
    echo.end();
}
