//! Compares steelbank over MCP, sb-introspect and Swank in Debian's SBCL, and ripgrep on twelve
//! questions about code and the five questions about benches/agent/hard.txt: `cargo bench --bench
//! peers [-- ROUNDS]`.
//!
//! The sides take turns in one run. Prints the table of docs/peers.md: the wrong and missing lines
//! of each side, and its median time. Fails if steelbank has any wrong or missing line. Swank and
//! ripgrep come from apt.
// A bench is a program: it prints, and panics at unexpected results.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout)]

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use serde_json::{Value, json};

#[path = "agent/side.rs"]
mod side;
use side::{Peer, Server, files, places, shell};

/// Unpacks Swank into the folder `swank`.
const FETCH: &str = "set -e; apt-get download -qq -o APT::Sandbox::User=root cl-swank; dpkg-deb -x cl-swank_*.deb un; \
    mv un/usr/share/common-lisp/source/slime swank";

const SIDES: [&str; 4] = ["steelbank", "sb-introspect", "Swank", "ripgrep"];

/// A question in questions.txt.
#[derive(Default)]
struct Question {
    name: String,
    asks: Vec<(String, Value)>,
    lisp: Option<String>,
    swank: Option<String>,
    run: String,
    truth: BTreeSet<String>,
    /// Lines or files that count neither as right nor as wrong.
    fine: Vec<String>,
}

fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with("--"));
    let rounds: usize = arguments.next().map_or(11, |rounds| rounds.parse().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let work = folder.path().canonicalize().unwrap();
    assert!(shell(FETCH, &work).0, "fetching Swank failed");
    let project = work.join("sources/hard");
    std::fs::create_dir_all(&project).unwrap();
    for (path, text) in files(include_str!("agent/hard.txt")) {
        std::fs::write(project.join(path), text).unwrap();
    }
    let mut server = Server::start(&project, &work);
    let loaded = server.ask("load-system", &json!({ "system": "hard" }));
    assert!(loaded.contains("is loaded"), "{loaded}");
    let mut lisp = Lisp::start(&work, &project, "nil");
    let mut swank = Lisp::start(&work, &project, "(asdf:load-system :swank)");
    let all = questions(include_str!("peers/questions.txt"));
    let mut said: Vec<[Option<String>; 4]> = vec![Default::default(); all.len()];
    let mut took = vec![[const { Vec::new() }; 4]; all.len()];
    for _ in 0..rounds {
        for (number, question) in all.iter().enumerate() {
            let ours = |server: &mut Server| {
                let answers = question.asks.iter().map(|(tool, arguments)| server.ask(tool, arguments));
                answers.collect::<Vec<_>>().join("\n")
            };
            for side in 0..4 {
                let begun = Instant::now();
                let answer = match side {
                    0 => Some(ours(&mut server)),
                    1 => question.lisp.as_deref().map(|form| lisp.ask(form)),
                    2 => question.swank.as_deref().map(|form| swank.ask(form)),
                    _ => Some(shell(&question.run, &project).1),
                };
                took[number][side].push(begun.elapsed().as_secs_f64() * 1e3);
                said[number][side] = answer;
            }
        }
    }
    print(&all, &said, &mut took);
}

fn print(all: &[Question], said: &[[Option<String>; 4]], took: &mut [[Vec<f64>; 4]]) {
    println!("| question | {} |\n|---|---|---|---|---|", SIDES.join(" | "));
    let (mut faults, mut unasked) = ([0; 4], [0; 4]);
    for (number, question) in all.iter().enumerate() {
        let mut row = format!("| {}", question.name);
        for side in 0..4 {
            let Some(answer) = &said[number][side] else {
                unasked[side] += 1;
                row.push_str(" | –");
                continue;
            };
            let found = places(answer);
            let is_wrong = |place: &&String| {
                let is_fine = |fine: &String| *place == fine || place.split(':').next() == Some(fine);
                !question.truth.contains(*place) && !question.fine.iter().any(is_fine)
            };
            let wrong: Vec<_> = found.iter().filter(is_wrong).collect();
            let missing: Vec<_> = question.truth.difference(&found).collect();
            faults[side] += wrong.len() + missing.len();
            if std::env::var_os("STEELBANK_BENCH_SHOW").is_some() {
                println!("  {}: wrong {wrong:?}, missing {missing:?}", SIDES[side]);
            }
            let times = &mut took[number][side];
            times.sort_by(f64::total_cmp);
            row.push_str(&format!(" | {}, {}; {:.2} ms", wrong.len(), missing.len(), times[times.len() / 2]));
        }
        println!("{row} |");
    }
    let sums = faults.iter().zip(unasked).map(|(faults, unasked)| match unasked {
        0 => faults.to_string(),
        _ => format!("{faults}; {unasked} questions not supported"),
    });
    println!("| all: wrong and missing | {} |", sums.collect::<Vec<_>>().join(" | "));
    assert_eq!(faults[0], 0, "steelbank has wrong or missing lines");
}

fn questions(text: &str) -> Vec<Question> {
    let mut all: Vec<Question> = Vec::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let Some((word, rest)) = line.split_once(' ') else { continue };
        if word == "task" {
            all.push(Question { name: rest.to_owned(), ..Question::default() });
            continue;
        }
        let question = all.last_mut().unwrap();
        let words = || rest.split_whitespace().map(str::to_owned);
        match word {
            "ask" => {
                let (tool, arguments) = rest.split_once(' ').unwrap();
                question.asks.push((tool.to_owned(), serde_json::from_str(arguments).unwrap()));
            }
            "lisp" => question.lisp = Some(rest.to_owned()),
            "swank" => question.swank = Some(rest.to_owned()),
            "run" => rest.clone_into(&mut question.run),
            "true" => question.truth.extend(words()),
            "fine" => question.fine.extend(words()),
            other => panic!("{other}"),
        }
    }
    all
}

/// Debian's SBCL with the project loaded, and for one side also Swank.
struct Lisp(Peer);

impl Lisp {
    fn start(work: &Path, project: &Path, also: &str) -> Self {
        let peers = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/peers/peers.lisp");
        let mut command = Command::new("sbcl");
        command
            .args(["--noinform", "--no-userinit", "--non-interactive", "--load"])
            .arg(peers)
            .args(["--eval", "(asdf:load-system :hard)", "--eval", also, "--eval", "(answer)"])
            .env("CL_SOURCE_REGISTRY", format!("{0}/:{1}/swank/:", project.display(), work.display()))
            .env("XDG_CACHE_HOME", work.join("plain"));
        let mut lisp = Self(Peer::start(&mut command));
        // Wait until everything is loaded.
        lisp.ask("t");
        lisp
    }

    /// Evaluates a form and returns its output.
    fn ask(&mut self, form: &str) -> String {
        self.0.tell(form);
        let mut said = String::new();
        while !said.ends_with(";;; end\n") {
            self.0.hear(&mut said);
        }
        said
    }
}
