//! Benchmarks `steelbank serve` from its client's view: the time from process start to the first
//! answer, and the round trips of several tools. Compares these with the cost of the pipes,
//! measured with a process that only repeats the answer. Also measures the command line, and calls
//! within this process. Run with `cargo bench --bench stdio`.

// Clippy counts only functions marked #[test] as tests.
#![allow(clippy::unwrap_used, missing_docs)]

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use steelbank::Control;

use divan::Bencher;
use serde_json::{Value, json};
use steelbank::Steelbank;
use steelbank::actions::uses::who::WhoRequest;
use steelbank::tools::{Call, Session};
use steelbank_xref::Kind;

const ECHO: &str = "STEELBANK_BENCH_ECHO";

fn main() {
    if std::env::var_os(ECHO).is_some() {
        return repeat_first_line();
    }
    divan::main();
}

/// Answers each line with the first line, to measure the pipes.
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

/// A process that answers each line with a line.
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

    /// Starts a server without a project, in an empty folder so that no project is found.
    fn server() -> Self {
        let empty = std::env::temp_dir().join(format!("steelbank-bench-empty-{}", std::process::id()));
        std::fs::create_dir_all(&empty).unwrap();
        Self::served(Command::new(env!("CARGO_BIN_EXE_steelbank")).arg("serve").current_dir(empty))
    }

    /// Starts a server on a project with three lines that use `bench::callee`, and with `folders`
    /// more folders of ten files each.
    fn server_of_project(folders: usize) -> Self {
        let folder = std::env::temp_dir().join(format!("steelbank-bench-{}-{folders}", std::process::id()));
        let project = folder.join("project");
        std::fs::create_dir_all(&project).unwrap();
        for library in 0..folders {
            let library = project.join(format!("library-{library}/src"));
            std::fs::create_dir_all(&library).unwrap();
            for file in 0..10 {
                let code = format!("(in-package #:library)\n(defun function-{file} (x) (list x {file}))\n");
                std::fs::write(library.join(format!("file-{file}.lisp")), code).unwrap();
            }
        }
        std::fs::write(project.join("bench.asd"), "(defsystem \"bench\" :components ((:file \"code\")))")
            .unwrap();
        let code = "(defpackage #:bench (:use #:cl))\n(in-package #:bench)\n(defun callee (x) x)\n\
            (defun one () (callee 1))\n(defun two () (callee 2))\n(defun three () (callee 3))\n";
        std::fs::write(project.join("code.lisp"), code).unwrap();
        let mut server = Self::served(
            Command::new(env!("CARGO_BIN_EXE_steelbank"))
                .args(["--no-userinit", "serve", "--project"])
                .arg(&project)
                .env("STEELBANK_CACHE", folder.join("cache")),
        );
        assert!(
            server.ask(&call("load-system", &json!({ "system": "bench" }))).contains("\"isError\":false")
        );
        server
    }

    fn served(command: &mut Command) -> Self {
        let mut server = Self::start(command);
        let hello = json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "bench", "version": "1" } } });
        server.ask(&format!("{hello}\n"));
        server
    }

    /// Sends a line and returns the answer, one line.
    fn ask(&mut self, line: &str) -> &str {
        self.input.write_all(line.as_bytes()).unwrap();
        self.line.clear();
        self.output.read_line(&mut self.line).unwrap();
        &self.line
    }

    /// Sends `count` lines at once and reads `count` answers.
    fn ask_together(&mut self, lines: &str, count: usize) {
        self.input.write_all(lines.as_bytes()).unwrap();
        for _ in 0..count {
            self.line.clear();
            self.output.read_line(&mut self.line).unwrap();
        }
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

/// Measures process start to the answer of a first call.
#[divan::bench(sample_count = 20, args = ["describe-symbol", "who-calls"])]
fn start_to_first_answer(bencher: Bencher<'_, '_>, tool: &str) {
    let request = call(tool, &json!({ "name": "cl:mapcar" }));
    bencher.bench(|| {
        let mut server = Lines::server();
        assert!(server.ask(&request).contains("COMMON-LISP::MAPCAR"));
        server.end();
    });
}

/// Measures the command line from process start to end.
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

/// Measures a call of a tool and its answer.
#[divan::bench(args = QUESTIONS.map(|(tool, name)| format!("{tool} {name}")))]
fn round_trip(bencher: Bencher<'_, '_>, question: &str) {
    let (tool, name) = question.split_once(' ').unwrap();
    let mut server = Lines::server();
    let request = call(tool, &arguments(name));
    assert!(server.ask(&request).contains("\"isError\":false"));
    bencher.bench_local(|| server.ask(&request).len());
    server.end();
}

/// Measures the pipes between two processes, with a program that only repeats the answer.
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

/// The numbers of folders that the project has in addition to its loaded system.
const FOLDERS: [usize; 2] = [0, 300];

fn references() -> String {
    call("code-find-references", &json!({ "symbol": "bench::callee" }))
}

/// Measures code-find-references of a symbol that three lines use.
#[divan::bench(args = FOLDERS)]
fn references_of_three_lines(bencher: Bencher<'_, '_>, folders: usize) {
    let mut server = Lines::server_of_project(folders);
    let request = references();
    assert!(server.ask(&request).contains("\"total\":3"));
    bencher.bench_local(|| server.ask(&request).len());
    server.end();
}

/// Measures who-references in a project with `folders` more folders.
#[divan::bench(args = FOLDERS)]
fn who_references_in_a_project(bencher: Bencher<'_, '_>, folders: usize) {
    let mut server = Lines::server_of_project(folders);
    let request = call("who-references", &arguments("cl:*print-base*"));
    assert!(server.ask(&request).contains("\"isError\":false"));
    bencher.bench_local(|| server.ask(&request).len());
    server.end();
}

/// Measures the pipes for the answer of `references_of_three_lines`, with a program that only
/// repeats it.
#[divan::bench]
fn echo_of_three_lines(bencher: Bencher<'_, '_>) {
    let mut server = Lines::server_of_project(0);
    let request = references();
    let answer = server.ask(&request).to_owned();
    server.end();
    let mut echo = Lines::start(Command::new(std::env::current_exe().unwrap()).env(ECHO, "1"));
    assert_eq!(echo.ask(&answer), answer);
    bencher.bench_local(|| echo.ask(&request).len());
    echo.end();
}

const TOGETHER: usize = 32;

/// Measures 32 concurrent calls of the same question. The first question has an empty answer, the
/// second has no arguments, and the answer of the third lists eight places.
#[divan::bench(args = ["who-calls cl:*print-base*", "status ", "who-references cl:*print-base*"])]
fn in_flight(bencher: Bencher<'_, '_>, question: &str) {
    let (tool, name) = question.split_once(' ').unwrap();
    let mut server = Lines::server();
    let requests = call(tool, &arguments(name)).repeat(TOGETHER);
    bencher
        .counter(divan::counter::ItemsCount::new(TOGETHER))
        .bench_local(|| server.ask_together(&requests, TOGETHER));
    server.end();
}

/// Measures 32 concurrent calls to who-references. The variable is used in five unloaded files of
/// 500 lines each.
#[divan::bench]
fn in_flight_with_text_that_is_not_loaded(bencher: Bencher<'_, '_>) {
    let project = std::env::temp_dir().join(format!("steelbank-bench-text-{}", std::process::id()));
    std::fs::create_dir_all(&project).unwrap();
    let code = "(in-package #:cl-user)\n".to_owned() + &"(defun other (x) (list x 1))\n".repeat(500);
    for file in 0..5 {
        let code = format!("{code}(defun user-{file} () *print-base*)\n");
        std::fs::write(project.join(format!("file-{file}.lisp")), code).unwrap();
    }
    let mut server = Lines::served(
        Command::new(env!("CARGO_BIN_EXE_steelbank"))
            .args(["--no-userinit", "serve", "--project"])
            .arg(&project)
            .env("STEELBANK_CACHE", project.join("cache")),
    );
    let request = call("who-references", &arguments("cl:*print-base*"));
    assert!(server.ask(&request).contains("file-4.lisp"));
    let requests = request.repeat(TOGETHER);
    bencher
        .counter(divan::counter::ItemsCount::new(TOGETHER))
        .bench_local(|| server.ask_together(&requests, TOGETHER));
    server.end();
}

/// Variables with different uses.
const VARIABLES: [&str; 8] = [
    "*print-base*", "*print-pretty*", "*print-readably*", "*package*", "*read-base*", "*readtable*",
    "*print-length*", "*print-escape*",
];

/// Measures 32 concurrent calls with different arguments, so that no answer can be reused.
#[divan::bench]
fn different_in_flight(bencher: Bencher<'_, '_>) {
    let mut server = Lines::server();
    let asked = |tool| VARIABLES.map(|name| call(tool, &arguments(&format!("cl:{name}"))));
    let tools = ["who-references", "who-binds", "who-sets", "who-calls"];
    let requests = tools.map(|tool| asked(tool).concat()).concat();
    bencher
        .counter(divan::counter::ItemsCount::new(TOGETHER))
        .bench_local(|| server.ask_together(&requests, TOGETHER));
    server.end();
}

/// Measures three stages of who-references. `ping` is only the server's input and output.
/// `question` is the query alone, in this process. `tool` also checks arguments and formats text
/// and JSON.
#[divan::bench(args = ["ping", "question", "tool"])]
fn stages(bencher: Bencher<'_, '_>, stage: &str) {
    if stage == "ping" {
        let mut server = Lines::server();
        let ping = format!("{}\n", json!({ "jsonrpc": "2.0", "id": 1, "method": "ping" }));
        bencher.bench_local(|| server.ask(&ping).len());
        return server.end();
    }
    let bank = Steelbank::get_or_start(Steelbank::builder()).unwrap();
    let session = Session::new(bank.clone()).with_tools(steelbank::actions::tools().clone());
    let tool = session.tools().get("who-references").unwrap();
    let Value::Object(given) = arguments("cl:*print-base*") else { return };
    let question = WhoRequest::new(Kind::References, "cl:*print-base*");
    match stage {
        "question" => bencher.bench_local(|| bank.ask(&question, &Control::default()).unwrap().count),
        _ => bencher.bench_local(|| tool.call(&session, given.clone(), &Call::default()).unwrap().text.len()),
    }
}

/// Compares a call about a name that does not exist, which the tool answers with similar names,
/// with ten calls about existing names.
#[divan::bench(args = ["no such name", "ten existing names"])]
fn names(bencher: Bencher<'_, '_>, which: &str) {
    let bank = Steelbank::get_or_start(Steelbank::builder()).unwrap();
    let session = Session::new(bank).with_tools(steelbank::actions::tools().clone());
    let tool = session.tools().get("who-calls").unwrap();
    let names: &[&str] = match which {
        "no such name" => &["cl:multiple-value-bnd"],
        _ => &[
            "cl:notany", "cl:reduce", "cl:gcd", "cl:sixth", "cl:lcm", "cl:substitute", "cl:rplaca",
            "cl:ninth", "cl:revappend", "cl:phase",
        ],
    };
    bencher.bench_local(|| {
        for name in names {
            let Value::Object(given) = arguments(name) else { return };
            assert!(!tool.call(&session, given, &Call::default()).unwrap().text.is_empty());
        }
    });
}

/// Measures 32 concurrent calls to code-find-references with three lines each, in a project with
/// `folders` more folders.
#[divan::bench(args = FOLDERS)]
fn references_in_flight(bencher: Bencher<'_, '_>, folders: usize) {
    let mut server = Lines::server_of_project(folders);
    let requests = references().repeat(TOGETHER);
    server.ask(&references());
    bencher
        .counter(divan::counter::ItemsCount::new(TOGETHER))
        .bench_local(|| server.ask_together(&requests, TOGETHER));
    server.end();
}

/// Measures the cost of the pipes for 32 concurrent calls: a program that only repeats the answer.
#[divan::bench]
fn echo_in_flight(bencher: Bencher<'_, '_>) {
    let mut server = Lines::server();
    let request = call("who-calls", &arguments("cl:*print-base*"));
    let answer = server.ask(&request).to_owned();
    server.end();
    let mut echo = Lines::start(Command::new(std::env::current_exe().unwrap()).env(ECHO, "1"));
    assert_eq!(echo.ask(&answer), answer);
    let requests = request.repeat(TOGETHER);
    bencher
        .counter(divan::counter::ItemsCount::new(TOGETHER))
        .bench_local(|| echo.ask_together(&requests, TOGETHER));
    echo.end();
}
