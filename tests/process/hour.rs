//! A long random test of eight agents and a person in one Lisp that dies again and again. Each
//! agent gets its own answers, and no answer is older than the person's last compilation. It runs
//! for STEELBANK_MINUTES, which `cargo xtask full` sets. The person is SLIME in Emacs if that is
//! installed.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::client::{Client, is_passing};
use crate::program::{Streams, ends_well, initialized};
use crate::swank::{COMPILED, Editor, has_slime, is_installed, port, project, serving};

const AGENTS: usize = 8;
/// The limit of the median time to an answer.
const ANSWERED: Duration = Duration::from_millis(100);
/// The limit of the time until the port listens again.
const LISTENS: Duration = Duration::from_secs(2);
/// The time after which a restart counts as failed.
const RESTARTED: Duration = Duration::from_secs(90);

/// The numbers of the person's last compilation that has begun, and of the last compilation that
/// has ended.
#[derive(Default)]
struct Turns {
    begun: AtomicU64,
    ended: AtomicU64,
    over: AtomicBool,
    /// The number of answers compared with compilations.
    compared: AtomicU64,
}

fn form(turn: u64) -> String {
    format!("(defun probe ()\n  \"turn {turn}\"\n  (list {turn} (turn-{})))", turn % 10)
}

const BEFORE: &str = "(defpackage :shop (:use :cl))\n(in-package :shop)\n";

fn text(turn: u64) -> String {
    let turns: String = (0..10).map(|turn| format!("(defun turn-{turn} () {turn})\n")).collect();
    format!("{BEFORE}{turns}\n{}\n", form(turn))
}

/// A person who edits, saves and compiles one definition.
enum Person {
    Emacs(Child, BufReader<std::process::ChildStdout>),
    Swank(Option<Editor>),
}

impl Person {
    fn new(port: u16, path: &Path) -> Self {
        if !has_slime() {
            return Self::Swank(None);
        }
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/editors/slime-hour.el");
        let mut emacs = Command::new("emacs")
            .args(["--batch", "-l"])
            .arg(script)
            .env("PORT", port.to_string())
            .env("FILE", path)
            .env("HOME", path.parent().unwrap())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let said = BufReader::new(emacs.stdout.take().unwrap());
        Self::Emacs(emacs, said)
    }

    /// Compiles the definition of `turn`. Retries while Lisp restarts.
    fn compile(&mut self, turn: u64, port: u16, path: &Path) {
        match self {
            Self::Emacs(emacs, said) => {
                let mut line = String::new();
                // Ignore the error: the loop below sees that Emacs has ended.
                let _ = writeln!(emacs.stdin.as_mut().unwrap(), "{turn}");
                while line.trim_end() != format!("done {turn}") {
                    line.clear();
                    if said.read_line(&mut line).unwrap() == 0 {
                        // Without a terminal, Emacs may end when its Lisp dies. Start another
                        // Emacs.
                        emacs.wait().unwrap();
                        *self = Self::new(port, path);
                        return self.compile(turn, port, path);
                    }
                }
            }
            Self::Swank(editor) => {
                let text = text(turn);
                std::fs::write(path, &text).unwrap();
                let position = text.find("(defun probe").unwrap() + 1;
                loop {
                    let connected = editor.get_or_insert_with(|| Editor::connected(port));
                    match connected.try_compile(&form(turn), path, position) {
                        Ok(answer) if answer.contains(COMPILED) => return,
                        // Lisp is still loading after a restart.
                        Ok(_) => std::thread::sleep(Duration::from_millis(20)),
                        Err(_) => *editor = None,
                    }
                }
            }
        }
    }
}

/// Counts of an agent's answers.
#[derive(Debug, Default)]
struct Seen {
    asked: usize,
    /// Answers that report that Lisp is dead, restarting or loading.
    passing: usize,
    /// Answers that were compared with the person's compilations.
    compared: usize,
}

/// Returns whether an answer is temporary, or from an incomplete image. A resource has only a note
/// about a running load.
fn is_incomplete(response: &Value) -> bool {
    let answer = &response["result"]["structuredContent"];
    let has_note = || response["result"]["contents"].to_string().contains(" load");
    is_passing(response) || answer["loading"] == true || answer["as_of"].is_u64() || has_note()
}

fn turn_told(text: &str) -> Option<u64> {
    let digits = text.split("turn ").nth(1)?;
    digits.split(|char: char| !char.is_ascii_digit()).next()?.parse().ok()
}

fn agent(client: &mut Client, number: usize, turns: &Turns) -> Seen {
    let (mut seen, mut random) = (Seen::default(), 88_172_645_463_325_252 + number as u64);
    while !turns.over.load(SeqCst) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let (before, at) = (turns.ended.load(SeqCst), seen.asked);
        let quiet = turns.begun.load(SeqCst) == before;
        let call =
            |name: &str, arguments: Value| ("tools/call", json!({ "name": name, "arguments": arguments }));
        let kind = random % 7;
        let (method, params) = match kind {
            0 => call("evaluate", json!({ "code": format!("(list {number} {at})") })),
            1 => call("who-calls", json!({ "name": format!("shop::turn-{}", before % 10) })),
            2 => call("describe-symbol", json!({ "name": "shop::probe" })),
            3 => call("status", json!({})),
            4 => call("evaluate", json!({ "code": "(sleep 0.01)" })),
            5 => ("resources/read", json!({ "uri": "steelbank:///symbol/shop::probe" })),
            _ => call("who-calls", json!({ "name": "cl:mapcar", "limit": number + 1 })),
        };
        let id = client.begin(method, params);
        seen.asked += 1;
        if kind == 4 {
            let params = json!({ "requestId": id });
            client.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }));
            continue;
        }
        let response = client.response(id);
        let quiet = quiet && turns.begun.load(SeqCst) == before;
        let result = &response["result"];
        let text = result["content"][0]["text"]
            .as_str()
            .or(result["contents"][0]["text"].as_str())
            .unwrap_or_default();
        match kind {
            0 if number % 2 == 1 => assert!(text.contains("--allow-eval"), "{response}"),
            3 => {
                let host = &result["structuredContent"]["host"];
                let own =
                    host["clients"].as_array().unwrap().iter().find(|each| each["number"] == host["you"]);
                let allowed = own.unwrap()["allowed"].as_array().unwrap().len();
                assert_eq!(allowed, usize::from(number.is_multiple_of(2)), "{host}");
            }
            _ if is_incomplete(&response) => seen.passing += 1,
            0 => assert!(text.starts_with(&format!("({number} {at})\n")), "{response}"),
            // The person compiled nothing meanwhile, so `probe` calls this function.
            1 if quiet => {
                assert!(text.contains("SHOP::PROBE"), "older than turn {before}: {response}");
                seen.compared += 1;
                turns.compared.fetch_add(1, SeqCst);
            }
            1 => (),
            6 => {
                let entries = result["structuredContent"]["users"].as_array().map(Vec::len);
                assert_eq!(entries, Some(number + 1), "{response}");
            }
            _ => {
                let told = turn_told(text).unwrap_or_else(|| panic!("{response}"));
                let begun = turns.begun.load(SeqCst);
                assert!((before..=begun).contains(&told), "turn {told} of {before} to {begun}: {response}");
                seen.compared += 1;
                turns.compared.fetch_add(1, SeqCst);
            }
        }
        std::thread::sleep(Duration::from_millis(random % 40));
    }
    // The client stores any answers to cancelled calls while it waits for this answer.
    client.request("ping", json!({}));
    seen
}

/// Ends Lisp from an editor. Returns the longest wait for an answer until the port listens again,
/// and the time until then.
fn death(client: &mut Client, port: u16) -> (Duration, Duration) {
    let mut editor = Editor::connected(port);
    let begun = Instant::now();
    editor.end_lisp();
    let listens = std::thread::spawn(move || {
        while editor.read().is_ok() {}
        drop(Editor::connected(port));
        begun.elapsed()
    });
    let mut longest = Duration::ZERO;
    while !listens.is_finished() {
        if begun.elapsed() > RESTARTED {
            // Exit: threads that wait for the port cannot be joined.
            let status = client.status();
            println!("the port does not listen again after a death: {status}");
            let host = status["host"]["process"].as_i64().and_then(|id| i32::try_from(id).ok());
            if let Some(host) = host.and_then(rustix::process::Pid::from_raw) {
                let _ = rustix::process::kill_process(host, rustix::process::Signal::KILL);
            }
            std::process::exit(101);
        }
        let asked = Instant::now();
        let answer = client.call("who-calls", json!({ "name": "cl:mapcar", "limit": 1 }));
        assert_eq!(answer["structuredContent"]["users"].as_array().map(Vec::len), Some(1), "{answer}");
        longest = longest.max(asked.elapsed());
        std::thread::sleep(Duration::from_millis(2));
    }
    (longest, listens.join().unwrap())
}

#[test]
fn agents_and_person_survive_repeated_deaths() {
    let Ok(minutes) = std::env::var("STEELBANK_MINUTES") else { return };
    if !is_installed() {
        return;
    }
    let length = Duration::from_secs_f64(minutes.parse::<f64>().unwrap() * 60.0);
    let folder = project("hour");
    let path: PathBuf = folder.join("project/shop.lisp");
    std::fs::write(&path, text(0)).unwrap();
    let mut clients: Vec<(Child, Client)> = (0..=AGENTS)
        .map(|number| {
            let may: &[&str] = match number {
                AGENTS => &["--allow-eval", "--swank", "0"],
                number if number % 2 == 0 => &["--allow-eval"],
                _ => &[],
            };
            initialized(serving(&folder, &[&["--share", "--linger", "1"], may].concat()), Streams::Pipes)
        })
        .collect();
    let (child, mut prober) = clients.pop().unwrap();
    let port = port(&mut prober);
    let process = prober.status()["host"]["process"].clone();
    let mut person = Person::new(port, &path);
    let turns = Turns::default();
    let mut deaths: Vec<(Duration, Duration)> = Vec::new();
    let seen: Vec<Seen> = std::thread::scope(|scope| {
        let agents: Vec<_> = clients
            .iter_mut()
            .enumerate()
            .map(|(number, (_, client))| {
                let turns = &turns;
                scope.spawn(move || agent(client, number, turns))
            })
            .collect();
        let (person, turns, path) = (&mut person, &turns, &path);
        let compiles = scope.spawn(move || {
            let mut turn = 0;
            while !turns.over.load(SeqCst) {
                turn += 1;
                turns.begun.store(turn, SeqCst);
                person.compile(turn, port, path);
                turns.ended.store(turn, SeqCst);
                std::thread::sleep(Duration::from_millis(turn * 37 % 300));
            }
        });
        let end = Instant::now() + length;
        let goes_on = || Instant::now() < end || turns.compared.load(SeqCst) < 40;
        while goes_on() && !compiles.is_finished() && !agents.iter().any(|agent| agent.is_finished()) {
            // Lisp does not restart after three deaths within a minute.
            std::thread::sleep(Duration::from_secs(40));
            deaths.push(death(&mut prober, port));
        }
        turns.over.store(true, SeqCst);
        compiles.join().unwrap();
        agents.into_iter().map(|agent| agent.join().unwrap()).collect()
    });
    let (turns, total) =
        (turns.ended.into_inner(), |of: fn(&Seen) -> usize| seen.iter().map(of).sum::<usize>());
    deaths.sort();
    let middle = deaths[deaths.len() / 2].0;
    let listens = deaths.iter().map(|death| death.1).max().unwrap();
    println!(
        "seen: {} requests of {AGENTS} agents, {} compared with the last of {turns} compilations{}, {} passing; {} deaths, \
         answers within {middle:?} at the median and {:?} at the worst, the port within {listens:?}",
        total(|seen| seen.asked),
        total(|seen| seen.compared),
        if matches!(person, Person::Emacs(..)) { " of SLIME in Emacs" } else { "" },
        total(|seen| seen.passing),
        deaths.len(),
        deaths.last().unwrap().0,
    );
    assert!(total(|seen| seen.compared) >= 40 && turns > 2, "{turns} {seen:?}");
    assert_eq!(prober.status()["host"]["process"], process, "the same process");
    assert!(middle <= ANSWERED, "{deaths:?}");
    assert!(listens <= LISTENS, "{deaths:?}");
    if let Person::Emacs(mut emacs, _) = person {
        drop(emacs.stdin.take());
        emacs.wait().unwrap();
    }
    ends_well(child, prober);
    clients.into_iter().for_each(|(child, client)| ends_well(child, client));
    crate::child::wait_while(|| Path::new(&format!("/proc/{process}")).exists());
}
