//! Benchmarks `steelbank lsp` from an editor's view, on a project of the test fixtures' libraries,
//! and prints a table: `cargo bench --bench lsp [-- FOLDER]`. FOLDER is a folder filled by
//! tests/held-out.sh; all of its systems are loaded.
//!
//! Each request is followed by an echo, a request that the server only rejects. For both, prints
//! the server's processor time and the time from request to response, at the median and the 99th
//! percentile. The processor time includes the notification of an edit before the request, if any.
//! Also compares the diagnostics of a saved file with `compile-file` in plain SBCL.
// A bench is a program: it prints, and panics at unexpected results.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, dead_code)]

mod common;
#[path = "../tests/it/fixtures.rs"]
mod fixtures;
#[path = "../tests/framing/mod.rs"]
mod framing;

use std::fs;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::{Value, json};

const REPEATS: usize = 200;

struct Editor {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    next: i64,
}

impl Editor {
    fn start(root: &Path, cache: &Path, systems: &[&str]) -> Self {
        let systems = systems.iter().flat_map(|system| ["--system", system]);
        let mut child = Command::new(env!("CARGO_BIN_EXE_steelbank"))
            .args(["--no-userinit", "--project", root.to_str().unwrap()])
            .args(systems)
            .arg("lsp")
            .env("STEELBANK_CACHE", cache)
            .env("CL_SOURCE_REGISTRY", format!("{}//", root.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let (input, output) = (child.stdin.take().unwrap(), BufReader::new(child.stdout.take().unwrap()));
        let mut editor = Self { child, input, output, next: 0 };
        let window = json!({ "workDoneProgress": true });
        let encodings = json!({ "positionEncodings": ["utf-8"] });
        let capabilities = json!({ "capabilities": { "window": window, "general": encodings } });
        editor.ask("initialize", capabilities);
        editor.tell("initialized", json!({}));
        while editor.read()["params"]["value"]["kind"] != "end" {}
        editor
    }

    fn send(&mut self, message: &Value) {
        framing::write(&mut self.input, message);
    }

    /// Reads a message, and prints it if it is a log message. The server logs, for example, that it
    /// fell back to slower checks.
    fn read(&mut self) -> Value {
        let message = framing::read(&mut self.output);
        if message["method"] == "window/logMessage" {
            println!("the server logs: {}", message["params"]["message"]);
        }
        message
    }

    /// Reads a message that the server sends unprompted. Panics after a minute without one.
    fn read_in_time(&mut self) -> Value {
        let timeout = Timespec { tv_sec: 60, tv_nsec: 0 };
        let mut ready = [PollFd::new(self.output.get_ref(), PollFlags::IN)];
        let waits = self.output.buffer().is_empty();
        assert!(!waits || poll(&mut ready, Some(&timeout)).unwrap() > 0, "the server sends nothing");
        self.read()
    }

    fn tell(&mut self, method: &str, params: Value) {
        self.send(&json!({ "jsonrpc": "2.0", "method": method, "params": params }));
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.next += 1;
        self.send(&json!({ "jsonrpc": "2.0", "id": self.next, "method": method, "params": params }));
        loop {
            let message = self.read();
            if message["id"] == self.next && message.get("method").is_none() {
                return message;
            }
        }
    }

    /// Returns the processor times of the server, and of its children that have ended.
    fn used(&self) -> (Duration, Duration) {
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id())).unwrap();
        let fields: Vec<u64> = stat
            .rsplit_once(") ")
            .unwrap()
            .1
            .split(' ')
            .skip(11)
            .take(4)
            .map(|field| field.parse().unwrap())
            .collect();
        let ticks = |count: u64| Duration::from_millis(10 * count);
        (ticks(fields[0] + fields[1]), ticks(fields[2] + fields[3]))
    }

    /// Returns the processor time of the server so far, in nanosecond resolution.
    fn processor_time(&self) -> Duration {
        let (mut clock, mut time) = (0, libc::timespec { tv_sec: 0, tv_nsec: 0 });
        // SAFETY: both functions only write to the variables passed to them, and the process has
        // not been waited for.
        let failed = unsafe {
            libc::clock_getcpuclockid(self.child.id() as i32, &mut clock) != 0
                || libc::clock_gettime(clock, &mut time) != 0
        };
        assert!(!failed, "the server has ended");
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }

    /// Sends the requests from `next`, each followed by an echo, and prints a row.
    fn measure(&mut self, what: &str, mut next: impl FnMut(&mut Self, usize) -> (&'static str, Value)) {
        let (mut times, mut echoes, mut spent) = (Vec::new(), Vec::new(), [Vec::new(), Vec::new()]);
        let mut size = 0;
        for number in 0..REPEATS {
            let before = self.processor_time();
            let (method, params) = next(self, number);
            let begun = Instant::now();
            let answer = self.ask(method, params);
            times.push(begun.elapsed());
            assert!(answer.get("error").is_none(), "{answer}");
            size = size.max(answer["result"].to_string().len());
            let (between, begun) = (self.processor_time(), Instant::now());
            self.ask("steelbank/echo", Value::Null);
            echoes.push(begun.elapsed());
            spent[0].push(between - before);
            spent[1].push(self.processor_time() - between);
        }
        [&mut times, &mut echoes].into_iter().chain(&mut spent).for_each(|row| row.sort());
        let part = |times: &[Duration], percent: usize| times[times.len() * percent / 100];
        println!(
            "{what}: processor time: {:.2?} at the median, {:.2?} at 99 % (echo {:.2?}, {:.2?}); time: {:.2?}, {:.2?} \
             (echo {:.2?}, {:.2?}); answers of up to {size} bytes",
            part(&spent[0], 50),
            part(&spent[0], 99),
            part(&spent[1], 50),
            part(&spent[1], 99),
            part(&times, 50),
            part(&times, 99),
            part(&echoes, 50),
            part(&echoes, 99)
        );
    }
}

fn main() {
    let scratch = tempfile::tempdir().unwrap();
    let (root, cache) = (scratch.path().join("project"), scratch.path().join("cache"));
    // In a folder filled by tests/held-out.sh, `others` has the libraries that are used below.
    let large = std::env::args().skip(1).find(|argument| argument != "--bench");
    let libraries = large.as_ref().map_or_else(fixtures::lisp_libraries, PathBuf::from);
    for library in fs::read_dir(libraries).unwrap().flatten() {
        common::copy(&library.path(), &root.join(library.file_name()));
    }
    let root = root.canonicalize().unwrap();
    let systems: &[&str] = if large.is_some() { &["auto"] } else { &common::LIBRARIES };
    let mut editor = Editor::start(&root, &cache, systems);
    let others = if large.is_some() { root.join("others") } else { root.clone() };
    // Wait for the snapshot, which is a folder. Names with an extension belong to locks and
    // unfinished snapshots.
    let patience = Instant::now();
    let is_made = || {
        let mut entries = fs::read_dir(cache.join("projects/snapshots")).into_iter().flatten().flatten();
        entries.any(|entry| entry.path().is_dir() && entry.path().extension().is_none())
    };
    while !is_made() && patience.elapsed() < Duration::from_secs(120) {
        std::thread::sleep(Duration::from_millis(200));
    }
    let path = others.join("alexandria/alexandria-1/lists.lisp");
    let text = fs::read_to_string(&path).unwrap();
    let (uri, document) = opened(&mut editor, &path, &text);
    let at = |word: &str| {
        let start = text.find(word).unwrap();
        let line = text[..start].matches('\n').count();
        let column = start - text[..start].rfind('\n').map_or(0, |at| at + 1);
        json!({ "textDocument": document, "position": { "line": line, "character": column + 7 } })
    };
    let mut asked = at("(defun ensure-list");
    asked["context"] = json!({ "includeDeclaration": true });
    editor.measure("references", |_, _| ("textDocument/references", asked.clone()));
    asked["newName"] = json!("make-sure-of-list");
    editor.measure("rename plan", |_, _| ("textDocument/rename", asked.clone()));
    // Simulate a user who types names in a new definition.
    let line = text.matches('\n').count();
    let letters = ["c", "co", "con", "copy-", "mvb", "with-", "e", "ensure"];
    let mut version = 1;
    editor.measure("completion while one types", |editor, number| {
        let typed = letters[number % letters.len()];
        version += 1;
        let changed = json!({ "uri": uri, "version": version });
        let text = format!("{text}(defun typed () ({typed}");
        editor.tell(
            "textDocument/didChange",
            json!({ "textDocument": changed, "contentChanges": [{ "text": text }] }),
        );
        let position = json!({ "line": line, "character": 17 + typed.len() });
        ("textDocument/completion", json!({ "textDocument": document, "position": position }))
    });
    // Use a file of 3,000 lines, first as loaded and then with a line inserted before each request.
    let long = others.join("iterate/iterate.lisp");
    let text = fs::read_to_string(&long).unwrap();
    println!("{}: {} lines", long.display(), text.lines().count());
    let (uri, document) = opened(&mut editor, &long, &text);
    editor.measure("tokens, nothing changed", |_, _| {
        ("textDocument/semanticTokens/full", json!({ "textDocument": document }))
    });
    let (mut version, mut typed) = (1, text.clone());
    editor.measure("tokens after each line that is typed", |editor, _| {
        version += 1;
        typed.insert_str(0, "; typed\n");
        let start = json!({ "line": 0, "character": 0 });
        let changed = json!({ "uri": uri, "version": version });
        let change = json!({ "range": { "start": start, "end": start }, "text": "; typed\n" });
        editor.tell("textDocument/didChange", json!({ "textDocument": changed, "contentChanges": [change] }));
        ("textDocument/semanticTokens/full", json!({ "textDocument": document }))
    });
    growth(&mut editor, &root);
    diagnostics(&mut editor, &root, &others);
    editor.ask("shutdown", Value::Null);
    editor.tell("exit", Value::Null);
    editor.child.wait().unwrap();
}

/// Prints the processor time and the memory for texts from 10 KB to 8 MB, the largest that is
/// analysed, in one line and in many.
fn growth(editor: &mut Editor, root: &Path) {
    let memory = |editor: &Editor| {
        let status = fs::read_to_string(format!("/proc/{}/status", editor.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
        line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0
    };
    for (what, separator) in [("one line", " "), ("many lines", "\n")] {
        for size in [10_000, 100_000, 1_000_000, 8_000_000] {
            let form = |number| {
                format!("(defun f{number:06} (a b) (let ((c (list a b))) (g{number:06} c 'd \"s\")))")
            };
            let text = (0..size / 62).map(form).collect::<Vec<_>>().join(separator);
            let (before, begun) = (memory(editor), editor.processor_time());
            let (uri, document) = opened(editor, &root.join("grown.lisp"), &text);
            for method in ["semanticTokens/full", "documentSymbol", "foldingRange"] {
                editor.ask(&format!("textDocument/{method}"), json!({ "textDocument": document }));
            }
            let spent = (editor.processor_time() - begun).as_nanos() as f64 / text.len() as f64;
            // The server releases memory after it has answered.
            std::thread::sleep(Duration::from_millis(500));
            let open = memory(editor);
            editor.tell("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
            editor.ask("steelbank/echo", Value::Null);
            let times = |memory: f64| (memory - before) / text.len() as f64;
            println!(
                "{} bytes in {what}: {spent:.0} ns for each byte; memory: {:.1} times the text, {:.1} after it is closed",
                text.len(),
                times(open),
                times(memory(editor))
            );
        }
    }
}

/// Compares the processor time for the diagnostics of a saved file with that of `compile-file` in
/// plain SBCL with the library loaded.
fn diagnostics(editor: &mut Editor, root: &Path, libraries: &Path) {
    const SAVES: usize = 10;
    for (system, file) in
        [("cl-ppcre", "cl-ppcre/api.lisp"), ("alexandria", "alexandria/alexandria-1/lists.lisp")]
    {
        let path = libraries.join(file);
        let text = fs::read_to_string(&path).unwrap();
        let (uri, _) = opened(editor, &path, &text);
        let (mut times, mut before) = (Vec::new(), editor.used());
        for save in 0..=SAVES {
            let unknown = format!("steelbank-nowhere-{save}");
            let text = format!("{text}\n(defun steelbank-saved-{save} () ({unknown}))\n");
            let document = json!({ "uri": uri, "version": save + 2 });
            let change = json!([{ "text": text }]);
            editor.tell(
                "textDocument/didChange",
                json!({ "textDocument": document, "contentChanges": change }),
            );
            fs::write(&path, &text).unwrap();
            let begun = Instant::now();
            editor.tell("textDocument/didSave", json!({ "textDocument": document }));
            while !editor.read_in_time()["params"]["diagnostics"]
                .to_string()
                .to_lowercase()
                .contains(&unknown)
            {}
            // The first check has to start a copy of Lisp, so it is not measured.
            match save {
                0 => before = editor.used(),
                _ => times.push(begun.elapsed()),
            }
            // Wait until the next copy is ready.
            std::thread::sleep(Duration::from_millis(300));
        }
        let after = editor.used();
        let spent = (after.0 + after.1 - before.0 - before.1) / SAVES as u32;
        println!("a save: server {:?}, children {:?}", (after.0 - before.0) / 10, (after.1 - before.1) / 10);
        times.sort();
        let compile = format!(
            "(progn (asdf:load-system {system:?}) (let ((start (get-internal-run-time))) (dotimes (i {SAVES}) \
             (handler-bind ((warning #'muffle-warning)) (let ((*error-output* (make-broadcast-stream)) \
             (*standard-output* (make-broadcast-stream))) (compile-file {path:?} :output-file \"/tmp/steelbank-bench.fasl\"))))
             (format t \"~&spent ~d~%\" (round (- (get-internal-run-time) start) {SAVES}))))"
        );
        let output = common::plain_sbcl(&root.join("plain"), &[&compile])
            .env("CL_SOURCE_REGISTRY", format!("{}//", root.display()))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let plain = said.lines().find_map(|line| line.strip_prefix("spent ")?.parse::<u64>().ok());
        let plain = Duration::from_micros(plain.unwrap_or_else(|| panic!("{said}")));
        println!(
            "diagnostics of {file} after a save: {spent:.2?} of processor time, {:.2?} at the median until they arrive; \
             compile-file in plain SBCL: {plain:.2?}",
            times[SAVES / 2]
        );
        fs::write(&path, &text).unwrap();
        editor.tell("textDocument/didClose", json!({ "textDocument": { "uri": uri } }));
    }
}

fn opened(editor: &mut Editor, path: &Path, text: &str) -> (String, Value) {
    let uri = format!("file://{}", path.display());
    let document = json!({ "uri": uri, "languageId": "commonlisp", "version": 1, "text": text });
    editor.tell("textDocument/didOpen", json!({ "textDocument": document }));
    (uri.clone(), json!({ "uri": uri }))
}
