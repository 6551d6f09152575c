//! A server that is asked, command lines, and the places that their answers name: for the benches of agents and of peers.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// Runs a command line in a folder: whether it succeeds, and what it prints.
pub(crate) fn shell(command: &str, folder: &Path) -> (bool, String) {
    let output = Command::new("bash").arg("-c").arg(command).current_dir(folder).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Splits a text into files, each after a line `//- PATH`.
pub(crate) fn files(text: &str) -> Vec<(String, String)> {
    let parts = text.split("//- ").skip(1).filter_map(|part| part.split_once('\n'));
    parts.map(|(path, text)| (path.to_owned(), text.to_owned())).collect()
}

/// Finds the places in an answer, `file:line`: those that it names, and the lines that its diffs change.
pub(crate) fn places(text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    let is_path = |character: char| character.is_alphanumeric() || "-_./".contains(character);
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    // In a diff: the file, and the next line of it as it was.
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
                // Further places of the same file: also at 12:3, 14:5.
                let also = line.split_once("also at ").map_or("", |(_, also)| also);
                let also = also.split(", ").filter(|place| place.contains(':')).map(digits);
                found.extend(also.chain([number]).map(|number| format!("{path}:{number}")));
            }
        }
    }
    found
}

/// A server for a project.
pub(crate) struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    number: u64,
}

impl Server {
    pub(crate) fn start(project: &Path, work: &Path) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_steelbank"))
            .args(["--no-snapshot", "serve", "--allow-edits"])
            .current_dir(project)
            .env("CL_SOURCE_REGISTRY", format!("{}//", work.join("sources").display()))
            .env("XDG_CACHE_HOME", work.join("cache"))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take().unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let mut server = Self { child, input, output, number: 0 };
        let client = json!({ "name": "bench", "version": "0" });
        server.request(
            "initialize",
            json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client }),
        );
        writeln!(server.input, "{}", json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))
            .unwrap();
        server
    }

    fn request(&mut self, method: &str, params: Value) -> Value {
        self.number += 1;
        let request = json!({ "jsonrpc": "2.0", "id": self.number, "method": method, "params": params });
        writeln!(self.input, "{request}").unwrap();
        loop {
            let mut line = String::new();
            assert!(self.output.read_line(&mut line).unwrap() > 0, "the server is gone");
            let message: Value = serde_json::from_str(&line).unwrap();
            if message["id"] == self.number {
                return message;
            }
        }
    }

    /// The answer as a model reads it.
    pub(crate) fn ask(&mut self, tool: &str, arguments: &Value) -> String {
        let answer = self.request("tools/call", json!({ "name": tool, "arguments": arguments }));
        let text = answer["result"]["content"][0]["text"].as_str();
        text.map_or_else(|| answer.to_string(), str::to_owned)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
