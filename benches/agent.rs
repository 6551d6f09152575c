//! Ten tasks and five questions of agents on projects that nobody here wrote, by steelbank over MCP and by ripgrep: `cargo bench --bench
//! agent [-- FOLDER]`. Both sides are scripted in benches/agent/tasks.txt, with the lines that are true. Counts calls, tokens
//! (characters / 4, of what is asked and answered), and wrong and missing lines; prints the table of README. A task is lost if an
//! answer has a wrong or missing line that the other side has not, or costs more than three times its tokens at equal truth. The
//! sources come from apt, into FOLDER if it is given, where they stay.
// Allow what a program does: a bench prints, and panics at what it does not expect.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use serde_json::{Value, json};

/// Unpacks the sources of Debian's packages into the folder `sources` of the current one.
const FETCH: &str = "set -e; mkdir -p sources debs; cd debs; apt-get download -qq -o APT::Sandbox::User=root stumpwm cl-hunchentoot \
    cl-clx-sbcl cl-alexandria cl-ppcre cl-chunga cl-base64 cl-fad cl-flexi-streams cl-md5 cl-rfc2388 cl-plus-ssl cl-trivial-backtrace \
    cl-usocket cl-bordeaux-threads cl-cffi cl-babel cl-trivial-features cl-trivial-gray-streams cl-trivial-garbage cl-split-sequence; \
    for deb in *.deb; do rm -rf un; dpkg-deb -x $deb un; if [ -d un/usr/share/common-lisp/source ]; then cp -RL \
    un/usr/share/common-lisp/source/. ../sources; fi; done; rm -rf un";

/// A task, as tasks.txt has it.
#[derive(Default)]
struct Task {
    name: String,
    project: String,
    system: String,
    /// Edits on disk before the questions: path, old and new text.
    writes: Vec<(String, String, String)>,
    asks: Vec<(String, Value)>,
    commands: Vec<String>,
    truth: BTreeSet<String>,
    /// Lines that are neither right nor wrong, as patterns of which `.*` is all that is understood.
    fine: Vec<String>,
    by_truth_alone: bool,
}

/// What a side's answer is worth.
#[derive(Default)]
struct Outcome {
    calls: usize,
    tokens: usize,
    wrong: BTreeSet<String>,
    missing: BTreeSet<String>,
}

fn main() {
    let folder = std::env::args().skip(1).find(|argument| argument != "--bench").map(PathBuf::from);
    let work = folder
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("steelbank-agent-{}", std::process::id())));
    std::fs::create_dir_all(&work).unwrap();
    let work = work.canonicalize().unwrap();
    let sources = work.join("sources");
    if !sources.is_dir() {
        assert!(shell(FETCH, &work).0, "the sources cannot be fetched");
    }
    for (path, text) in files(include_str!("agent/hard.txt")) {
        std::fs::create_dir_all(sources.join("hard")).unwrap();
        std::fs::write(sources.join("hard").join(path), text).unwrap();
    }
    println!(
        "| task | steelbank: calls, tokens | wrong, missing | ripgrep: calls, tokens | wrong, missing | |"
    );
    println!("|---|---|---|---|---|---|");
    let (mut lost, mut total) = (0, [0, 0]);
    let mut server: Option<(String, Server)> = None;
    for task in tasks(include_str!("agent/tasks.txt")) {
        let project = work.join("projects").join(&task.project);
        if server.as_ref().is_none_or(|(of, _)| *of != task.project) {
            let _ = std::fs::remove_dir_all(&project);
            std::fs::create_dir_all(&project).unwrap();
            assert!(shell(&format!("cp -RL {}/{}/. .", sources.display(), task.project), &project).0);
            let mut started = Server::start(&project, &work);
            let loaded = started.ask("load-system", &json!({ "system": task.system }));
            assert!(loaded.contains("is loaded"), "{loaded}");
            server = Some((task.project.clone(), started));
        }
        let (_, server) = server.as_mut().unwrap();
        let replace = |undo: bool| {
            for (path, old, new) in &task.writes {
                let (old, new) = if undo { (new, old) } else { (old, new) };
                let text = std::fs::read_to_string(project.join(path)).unwrap();
                assert!(text.contains(old), "{path}: {old}");
                std::fs::write(project.join(path), text.replace(old, new)).unwrap();
            }
        };
        replace(false);
        let asked = task.asks.iter().map(|(tool, arguments)| {
            (json!({ "name": tool, "arguments": arguments }).to_string(), server.ask(tool, arguments))
        });
        let ours = task.judged(asked.collect());
        let run = task.commands.iter().map(|command| (command.clone(), shell(command, &project).1));
        let theirs = task.judged(run.collect());
        replace(true);
        let verdict = task.verdict(&ours, &theirs);
        lost += usize::from(verdict == "lost");
        total = [total[0] + ours.tokens, total[1] + theirs.tokens];
        let side = |side: &Outcome| {
            format!("{}, {} | {}, {}", side.calls, side.tokens, side.wrong.len(), side.missing.len())
        };
        println!("| {} | {} | {} | {verdict} |", task.name, side(&ours), side(&theirs));
        for (what, lines) in [("wrong", &ours.wrong), ("missing", &ours.missing)] {
            if std::env::var_os("STEELBANK_BENCH_SHOW").is_some() && !lines.is_empty() {
                println!("  {what}: {lines:?}");
            }
        }
    }
    println!("| all | {} tokens | | {} tokens | | {lost} lost |", total[0], total[1]);
    drop(server);
    if folder.is_none() {
        std::fs::remove_dir_all(&work).unwrap();
    }
    assert_eq!(lost, 0, "tasks are lost");
}

/// Runs a command line in a folder: whether it succeeds, and what it prints.
fn shell(command: &str, folder: &Path) -> (bool, String) {
    let output = Command::new("bash").arg("-c").arg(command).current_dir(folder).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Splits a text into files, each after a line `//- PATH`.
fn files(text: &str) -> Vec<(String, String)> {
    let parts = text.split("//- ").skip(1).filter_map(|part| part.split_once('\n'));
    parts.map(|(path, text)| (path.to_owned(), text.to_owned())).collect()
}

fn tasks(text: &str) -> Vec<Task> {
    let mut all: Vec<Task> = Vec::new();
    let (mut project, mut system) = (String::new(), String::new());
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((word, rest)) = line.split_once(' ') else { continue };
        let words = || rest.split_whitespace().map(str::to_owned);
        match (word, all.last_mut()) {
            ("project", _) => {
                let mut words = words();
                (project, system) = (words.next().unwrap(), words.next().unwrap());
            }
            ("task", _) => all.push(Task {
                name: rest.split(':').next().unwrap().to_owned(),
                project: project.clone(),
                system: system.clone(),
                ..Task::default()
            }),
            ("ask", Some(task)) => {
                let (tool, arguments) = rest.split_once(' ').unwrap();
                task.asks.push((tool.to_owned(), serde_json::from_str(arguments).unwrap()));
            }
            ("write", Some(task)) => {
                let (path, edit) = rest.split_once(' ').unwrap();
                let (old, new) = edit.split_once(" => ").unwrap();
                task.writes.push((path.to_owned(), old.to_owned(), new.to_owned()));
            }
            ("run", Some(task)) => task.commands.push(rest.to_owned()),
            ("true", Some(task)) => task.truth.extend(words()),
            ("fine", Some(task)) => task.fine.extend(words()),
            ("by", Some(task)) => task.by_truth_alone = true,
            other => panic!("{other:?}", other = other.0),
        }
    }
    all
}

impl Task {
    /// Judges a side by what it asked and was answered.
    fn judged(&self, answers: Vec<(String, String)>) -> Outcome {
        let said: BTreeSet<String> = answers.iter().flat_map(|(_, answer)| places(answer)).collect();
        let is_fine = |place: &String| {
            self.fine.iter().any(|fine| match fine.split_once(".*") {
                None => fine == place,
                Some((before, rest)) => {
                    place.starts_with(before) && place.contains(rest.trim_end_matches(".*"))
                }
            })
        };
        Outcome {
            calls: answers.len(),
            tokens: answers
                .iter()
                .map(|(asked, answer)| (asked.chars().count() + answer.chars().count()) / 4)
                .sum(),
            wrong: said
                .iter()
                .filter(|place| !self.truth.contains(*place) && !is_fine(place))
                .cloned()
                .collect(),
            missing: self.truth.difference(&said).cloned().collect(),
        }
    }

    fn verdict(&self, ours: &Outcome, theirs: &Outcome) -> &'static str {
        let beyond = |ours: &BTreeSet<String>, theirs: &BTreeSet<String>| {
            ours.iter().any(|line| !theirs.contains(line))
        };
        let faults = |side: &Outcome| side.wrong.len() + side.missing.len();
        let dear = ours.tokens > 3 * theirs.tokens && !self.by_truth_alone;
        match () {
            () if beyond(&ours.wrong, &theirs.wrong) || beyond(&ours.missing, &theirs.missing) => "lost",
            () if faults(ours) == faults(theirs) && dear => "lost",
            () if faults(ours) < faults(theirs) => "won",
            () => "even",
        }
    }
}

/// Finds the places in an answer, `file:line`: those that it names, and the lines that its diffs change.
fn places(text: &str) -> BTreeSet<String> {
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
struct Server {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
    number: u64,
}

impl Server {
    fn start(project: &Path, work: &Path) -> Self {
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
    fn ask(&mut self, tool: &str, arguments: &Value) -> String {
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
