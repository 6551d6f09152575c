//! Runs an MCP server and command lines, and extracts the places from their answers, for the
//! benches `agent` and `peers`.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// Runs a command line in a folder. Returns whether it succeeds, and its output.
pub(crate) fn shell(command: &str, folder: &Path) -> (bool, String) {
    let output = Command::new("bash").arg("-c").arg(command).current_dir(folder).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Splits a text into files, each after a line `//- PATH`.
pub(crate) fn files(text: &str) -> Vec<(String, String)> {
    let parts = text.split("//- ").skip(1).filter_map(|part| part.split_once('\n'));
    parts.map(|(path, text)| (path.to_owned(), text.to_owned())).collect()
}

/// Returns the places in an answer, as `file:line`: places in its text, and lines that its diffs
/// change.
pub(crate) fn places(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let is_path = |character: char| character.is_alphanumeric() || "-_./".contains(character);
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    // In a diff: the file and the next line number in its old version.
    let (mut file, mut next) = (String::new(), None::<usize>);
    for line in text.lines() {
        if let Some(path) = line.strip_prefix("--- ") {
            (file, next) = (path.to_owned(), None);
        } else if let Some(hunk) = line.strip_prefix("@@ -") {
            next = digits(hunk).parse().ok();
        } else if let Some(at) = next.filter(|_| line.starts_with([' ', '-'])) {
            if line.starts_with('-') {
                found.insert(format!("{file}:{at}"));
            }
            next = Some(at + 1);
            continue;
        }
        for (at, _) in line.match_indices(':') {
            let before: String =
                line[..at].chars().rev().take_while(|character| is_path(*character)).collect();
            let path: String = before.chars().rev().collect();
            let number = digits(&line[at + 1..]);
            if path.contains('.') && !path.starts_with('.') | path.starts_with("./") && !number.is_empty() {
                let path = path.trim_start_matches("./").to_owned();
                // Further places in the same file, as in "also at 12:3, 14:5".
                let also = line.split_once("also at ").map_or("", |(_, also)| also);
                let also = also.split(", ").filter(|place| place.contains(':')).map(digits);
                found.extend(also.chain([number]).map(|number| format!("{path}:{number}")));
            }
        }
    }
    found
}

/// A process with a line protocol. Dropping this ends the process.
pub(crate) struct Peer {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Peer {
    pub(crate) fn start(command: &mut Command) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        Self { child, input, output }
    }

    pub(crate) fn tell(&mut self, line: impl Display) {
        writeln!(self.input, "{line}").unwrap();
    }

    /// Reads one line of output and appends it to `said`.
    pub(crate) fn hear(&mut self, said: &mut String) {
        assert!(self.output.read_line(said).unwrap() > 0, "the process has ended: {said}");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A server for a project.
pub(crate) struct Server {
    peer: Peer,
    number: u64,
}

impl Server {
    pub(crate) fn start(project: &Path, work: &Path) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_steelbank"));
        command
            .args(["--no-snapshot", "serve", "--allow-edits"])
            .current_dir(project)
            .env("CL_SOURCE_REGISTRY", format!("{}//", work.join("sources").display()))
            .env("XDG_CACHE_HOME", work.join("cache"));
        let mut server = Self { peer: Peer::start(&mut command), number: 0 };
        let client = json!({ "name": "bench", "version": "0" });
        server.request(
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }),
        );
        server.peer.tell(json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }));
        server
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.number, "method": method, "params": params });
        self.peer.tell(request);
        loop {
            let mut line = String::new();
            self.peer.hear(&mut line);
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.number {
                return message;
            }
        }
    }

    /// Returns the answer's text as a model reads it.
    pub(crate) fn ask(&mut self, tool: &str, arguments: &Value) -> String {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let text = answer["result"]["content"][0]["text"].as_str();
        text.map_or_else(|| answer.to_string(), str::to_owned)
    }
}
