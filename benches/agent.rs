//! Compares steelbank over MCP with ripgrep on ten typical tasks of agents in third-party projects,
//! and on five questions about benches/agent/hard.txt: `cargo bench --bench agent [-- FOLDER]`.
//!
//! benches/agent/tasks.txt scripts both sides and lists the correct lines. The bench counts calls,
//! tokens (characters / 4, in requests and answers), and wrong and missing lines, and prints a
//! table. A task is lost if steelbank has a wrong or missing line that ripgrep does not have. It is
//! also lost if steelbank costs more than three times the tokens at equal correctness, unless the
//! task is marked `by truth alone`. The sources come from apt and are stored in FOLDER, if given.
// A bench is a program: it prints, and panics at unexpected results.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::path::PathBuf;

use serde_json::{Value, json};

#[path = "agent/side.rs"]
mod side;
use side::{Server, files, places, shell};

/// Unpacks the sources of Debian's packages into the folder `sources`.
const FETCH: &str = "set -e; mkdir -p sources debs; cd debs; apt-get download -qq -o APT::Sandbox::User=root stumpwm cl-hunchentoot \
    cl-clx-sbcl cl-alexandria cl-ppcre cl-chunga cl-base64 cl-fad cl-flexi-streams cl-md5 cl-rfc2388 cl-plus-ssl cl-trivial-backtrace \
    cl-usocket cl-bordeaux-threads cl-cffi cl-babel cl-trivial-features cl-trivial-gray-streams cl-trivial-garbage cl-split-sequence; \
    for deb in *.deb; do rm -rf un; dpkg-deb -x $deb un; if [ -d un/usr/share/common-lisp/source ]; then cp -RL \
    un/usr/share/common-lisp/source/. ../sources; fi; done; rm -rf un";

/// A task in tasks.txt.
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
    /// Patterns of lines that count neither as right nor as wrong. Their only operator is `.*`.
    fine: Vec<String>,
    by_truth_alone: bool,
}

/// The score of one side's answer.
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
        assert!(shell(FETCH, &work).0, "fetching the sources failed");
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
    /// Scores a side by its requests and answers.
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
