//! Stress-tests one server for minutes with eight concurrent requests: queries, loads,
//! redefinitions, evaluations, faults, cancellations and, with `--deaths`, Lisp's death and
//! restarts. Meanwhile it edits and reloads a generated project, and compares who-calls,
//! code-find-references and find_references with the generated text.
//!
//! It fails if an answer is lost, duplicated, swapped or wrong, if an edit is lost, or if an
//! evaluation is lost or repeated. It also fails if the server's memory, threads or descriptors
//! grow beyond a limit, or if the server does not end with its client.
//!
//!     cargo run --release --example soak -- --minutes 15 [--deaths] [PROGRAM]

#![allow(clippy::print_stdout)]

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::error::Error;
use std::fmt::Write as _;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The number of concurrent requests.
const IN_FLIGHT: usize = 8;
/// The time without an answer after which a request counts as lost.
const LOST: Duration = Duration::from_secs(120);
/// The interval between two measurements of the process.
const SAMPLING: Duration = Duration::from_secs(10);
/// The time between the end of a comparison with the generated text and the next comparison.
const COMPARING: Duration = Duration::from_secs(4);
/// How long Lisp may take to restart by itself. Tool calls are retried for this time; then
/// restart-lisp is called.
const RETURN: Duration = Duration::from_secs(20);
/// The allowed growth of resident memory after the first half, in KiB. Lisp's heap varies within
/// its limit.
const GROWTH: u64 = 400 * 1024;

/// Faulty code, loaded as files with a limit of two seconds each.
const FAULTS: [&str; 10] = [
    "(error \"a plain error\")",
    "(loop)",
    "(labels ((f (n) (1+ (f (1+ n))))) (f 0))",
    "(let ((l nil)) (loop (push (make-array 100000) l)))",
    "(exit :code 9 :abort t)",
    "(setf (sb-sys:sap-ref-8 (sb-sys:int-sap 4096) 0) 1)",
    "(throw 'nowhere 1)",
    "(break)",
    "(read)",
    "(dotimes (i 100000) (print i))",
];
const DEATH: &str = "(sb-alien:alien-funcall (sb-alien:extern-alien \"lose\" (function sb-alien:void sb-alien:c-string)) \"soak\")";

fn main() -> Result<(), Box<dyn Error>> {
    let mut minutes = 1.0;
    let mut deaths = false;
    let mut program = None;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--minutes" => minutes = arguments.next().ok_or("--minutes takes a number")?.parse()?,
            "--deaths" => deaths = true,
            path => program = Some(PathBuf::from(path)),
        }
    }
    let program = match program {
        Some(program) => program,
        // Find the program in the folder above the examples, where cargo puts it.
        None => std::env::current_exe()?.ancestors().nth(2).ok_or("no folder")?.join("steelbank"),
    };
    let project = Project::new()?;
    let mut soak = Soak::start(&program, &project, deaths)?;
    let end = Instant::now() + Duration::from_secs_f64(minutes * 60.0);
    soak.run(end)?;
    soak.finish()
}

/// The folder of the server's project.
struct Project(PathBuf);

impl Project {
    fn new() -> std::io::Result<Self> {
        let root = std::env::temp_dir().join(format!("steelbank-soak-{}", std::process::id()));
        fs::create_dir_all(&root)?;
        let users: String = (0..FILES).map(|file| format!(" (:file \"users-{file}\")")).collect();
        let system = format!(
            "(defsystem \"soak\" :serial t :components ((:file \"package\") (:file \"steady\") (:file \"moving\"){users}))"
        );
        fs::write(root.join("soak.asd"), system)?;
        let targets: String = (0..TARGETS).map(|target| format!("(defun target-{target} ())\n")).collect();
        let package = format!("(defpackage :soak (:use :cl))\n(in-package :soak)\n{targets}");
        fs::write(root.join("package.lisp"), package)?;
        fs::write(
            root.join("steady.lisp"),
            "(in-package :soak)\n(defun target (x) (1+ x))\n(defun user (x)\n  (target\n   (target x)))\n",
        )?;
        let project = Self(root);
        project.change(0)?;
        for (number, code) in FAULTS.iter().enumerate() {
            fs::write(project.fault(number), code)?;
        }
        fs::write(project.fault(FAULTS.len()), DEATH)?;
        Ok(project)
    }

    fn fault(&self, number: usize) -> PathBuf {
        self.0.join(format!("fault-{number}.lisp"))
    }

    /// Returns the path of a file of generated functions.
    fn users(&self, file: usize) -> PathBuf {
        self.0.join(format!("users-{file}.lisp"))
    }

    /// Returns the path of the file to which each evaluation appends its number.
    fn marks(&self) -> PathBuf {
        self.0.join("marks.txt")
    }

    /// Writes the changing file, with definitions that depend on `turn`.
    fn change(&self, turn: u64) -> std::io::Result<()> {
        let code =
            format!("(in-package :soak)\n(defun moving () (user {turn}))\n(defun turn-{} ())\n", turn % 7);
        fs::write(self.0.join("moving.lisp"), code)
    }
}

impl Drop for Project {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The numbers of generated files, of functions in each, and of functions that they call.
const FILES: usize = 6;
const USERS: usize = 8;
const TARGETS: usize = 12;

/// The contents of the generated files: for each file, each function's calls, as the numbers of the
/// targets.
type Truth = Vec<Vec<Vec<usize>>>;

/// Returns the text of one generated function.
fn user_text(file: usize, user: usize, calls: &[usize]) -> String {
    let lines: String = calls.iter().fold(String::new(), |mut lines, target| {
        let _ = write!(lines, "\n  (target-{target})");
        lines
    });
    format!("(defun user-{file}-{user} ()\n (list{lines}))")
}

/// Returns the text of a generated file.
fn file_text(file: usize, users: &[Vec<usize>]) -> String {
    let forms = users.iter().enumerate().map(|(user, calls)| user_text(file, user, calls) + "\n");
    "(in-package :soak)\n".to_owned() + &forms.collect::<String>()
}

/// Returns the calls of `target`: each user with its places.
fn callers(truth: &Truth, target: usize) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (file, users) in truth.iter().enumerate() {
        let mut line = 2;
        for (user, calls) in users.iter().enumerate() {
            for (number, called) in calls.iter().enumerate() {
                if *called == target {
                    let place = format!("users-{file}.lisp:{}", line + 2 + number);
                    found.entry(format!("soak::user-{file}-{user}")).or_default().insert(place);
                }
            }
            line += 2 + calls.len();
        }
    }
    found
}

/// The kind of a request, which determines the expected answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Describe,
    WhoCalls,
    WhoReferences,
    References,
    Status,
    Load,
    Fault,
    Evaluate,
    Restart,
    Death,
    /// The caller of `Soak::ask` checks the answer.
    Compared,
}

struct Asked {
    kind: Kind,
    at: Instant,
    cancelled: bool,
}

/// Returns whether the answer reports that Lisp is dead, restarting or still loading, or that it
/// was made from an earlier state of the image.
fn is_passing(message: &Value) -> bool {
    let (error, result) = (&message["error"], &message["result"]);
    error["data"]["passing"] == true
        || result["_meta"]["steelbank/passing"] == true
        || result["structuredContent"]["loading"] == true
        || result["structuredContent"]["as_of"].is_u64()
}

/// A measurement of the server's process.
#[derive(Debug, Clone, Copy)]
struct Look {
    resident: u64,
    threads: usize,
    descriptors: usize,
}

struct Soak<'a> {
    project: &'a Project,
    child: Child,
    input: ChildStdin,
    output: Receiver<String>,
    waiting: HashMap<u64, Asked>,
    next: u64,
    random: u64,
    deaths: bool,
    asked: HashMap<Kind, u64>,
    cancelled: u64,
    wrong: Vec<String>,
    looks: Vec<Look>,
    worst: Duration,
    truth: Truth,
    compared: u64,
    edits: u64,
    /// The last answer of kind [`Kind::Compared`].
    answer: Option<Value>,
    /// The evaluations reported as done.
    evaluated: HashSet<u64>,
}

impl<'a> Soak<'a> {
    fn start(program: &Path, project: &'a Project, deaths: bool) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(program)
            .arg("--project")
            .arg(&project.0)
            .args(["serve", "--allow-eval", "--allow-edits"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let input = child.stdin.take().ok_or("no input")?;
        let reader = BufReader::new(child.stdout.take().ok_or("no output")?);
        let (sender, output) = channel();
        std::thread::spawn(move || {
            for line in reader.lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut soak = Self {
            project,
            child,
            input,
            output,
            waiting: HashMap::new(),
            next: 1,
            random: 88_172_645_463_325_252,
            deaths,
            asked: HashMap::new(),
            cancelled: 0,
            wrong: Vec::new(),
            looks: Vec::new(),
            worst: Duration::ZERO,
            truth: Truth::new(),
            compared: 0,
            edits: 0,
            answer: None,
            evaluated: HashSet::new(),
        };
        for file in 0..FILES {
            let users = (0..USERS).map(|_| soak.some_targets()).collect::<Vec<_>>();
            fs::write(project.users(file), file_text(file, &users))?;
            soak.truth.push(users);
        }
        soak.send(&json!({ "jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
            "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "soak", "version": "1" } } }))?;
        soak.output.recv_timeout(LOST)?;
        soak.send(&json!({ "jsonrpc": "2.0", "method": "notifications/initialized" }))?;
        soak.begin(Kind::Load)?;
        while !soak.waiting.is_empty() {
            soak.hear()?;
        }
        Ok(soak)
    }

    fn run(&mut self, end: Instant) -> Result<(), Box<dyn Error>> {
        println!("   time  resident  threads  descriptors   asked");
        let begin = Instant::now();
        let mut next_look = begin;
        let mut next_comparison = begin;
        while Instant::now() < end {
            if Instant::now() >= next_look {
                next_look += SAMPLING;
                let look = self.look()?;
                self.looks.push(look);
                println!(
                    "{:6.0} s {:5} MiB {:8} {:12} {:7}",
                    begin.elapsed().as_secs_f32(),
                    look.resident / 1024,
                    look.threads,
                    look.descriptors,
                    self.next
                );
            }
            if Instant::now() >= next_comparison {
                self.compare()?;
                next_comparison = Instant::now() + COMPARING;
            }
            while self.waiting.len() < IN_FLIGHT {
                let kind = self.choose();
                self.begin(kind)?;
            }
            self.hear()?;
        }
        self.compare()?;
        self.looks.push(self.look()?);
        Ok(())
    }

    /// Waits for the answers to all requests.
    fn drain(&mut self) -> Result<(), Box<dyn Error>> {
        while !self.waiting.is_empty() {
            self.hear()?;
        }
        Ok(())
    }

    /// Calls a tool while no other request is in progress. Retries while Lisp restarts or loads, up
    /// to a deadline.
    fn ask(&mut self, tool: &str, arguments: &Value) -> Result<Value, Box<dyn Error>> {
        let begun = Instant::now();
        loop {
            self.answer = None;
            self.begin_call(Kind::Compared, tool, arguments, false)?;
            self.drain()?;
            let answer = self.answer.take().ok_or("no answer")?;
            if !is_passing(&answer) || begun.elapsed() > RETURN {
                return Ok(answer["result"].clone());
            }
            std::thread::sleep(Duration::from_millis(200));
        }
    }

    /// Changes a generated file, reloads it, and compares answers with its new contents.
    fn compare(&mut self) -> Result<(), Box<dyn Error>> {
        self.drain()?;
        let (file, user) = (self.roll(FILES as u64) as usize, self.roll(USERS as u64) as usize);
        self.truth[file][user] = self.some_targets();
        let path = self.project.users(file);
        let text = file_text(file, &self.truth[file]);
        if self.roll(2) == 0 {
            fs::write(&path, &text)?;
        } else {
            let arguments = json!({ "path": path, "definition": format!("user-{file}-{user}"), "operation": "replace",
                "text": user_text(file, user, &self.truth[file][user]) });
            let answer = self.ask("edit-definition", &arguments)?;
            self.edits += 1;
            if fs::read_to_string(&path)? != text {
                self.wrong.push(format!("an edit of {} was lost: {answer:.300}", path.display()));
                fs::write(&path, &text)?;
            }
        }
        let mut begun = Instant::now();
        loop {
            // After a restart, wait until everything is loaded again.
            self.ask("status", &json!({}))?;
            let answer = self.ask("reload", &json!({ "timeout_seconds": 60 }))?;
            let told = &answer["structuredContent"];
            if told["status"] == "loaded" && told["nothing_loaded"] != true {
                break;
            }
            if begun.elapsed() > RETURN {
                self.ask("restart-lisp", &json!({}))?;
                begun = Instant::now();
            }
            std::thread::sleep(Duration::from_millis(200));
        }
        for _ in 0..3 {
            let target = self.roll(TARGETS as u64) as usize;
            self.compare_target(target)?;
        }
        Ok(())
    }

    fn compare_target(&mut self, target: usize) -> Result<(), Box<dyn Error>> {
        let truth = callers(&self.truth, target);
        let name = format!("soak::target-{target}");
        let without_column = |place: &Value| {
            let place = place.as_str().unwrap_or_default();
            place.rsplit_once(':').map_or(place, |(place, _)| place).to_owned()
        };
        let line = |reference: &Value| {
            format!("{}:{}", reference["path"].as_str().unwrap_or_default(), reference["line"])
        };
        let entries = |answer: &Value, key: &str| {
            answer["structuredContent"][key].as_array().cloned().unwrap_or_default()
        };

        let answer = self.ask("who-calls", &json!({ "name": name }))?;
        // Each user is listed once, with one of its places.
        let told: BTreeMap<String, String> = entries(&answer, "users")
            .iter()
            .map(|user| (user["name"].as_str().unwrap_or_default().to_owned(), without_column(&user["at"])))
            .collect();
        let is_right = |(name, place)| truth.get(name).is_some_and(|places| places.contains(place));
        if told.len() != truth.len() || !told.iter().all(is_right) {
            self.wrong.push(format!("who-calls {name}: {answer:.600}; expected {truth:?}"));
        }
        let places: BTreeSet<String> = truth.into_values().flatten().collect();
        let answer = self.ask("code-find-references", &json!({ "symbol": name, "limit": 1000 }))?;
        let told: Vec<String> = entries(&answer, "refs").iter().map(line).collect();
        if told.len() != places.len() || told.iter().collect::<BTreeSet<_>>() != places.iter().collect() {
            self.wrong.push(format!("code-find-references {name}: {answer:.600}; expected {places:?}"));
        }
        let answer =
            self.ask("find_references", &json!({ "pattern": format!("target-{target}"), "limit": 1000 }))?;
        let told: BTreeSet<String> = entries(&answer, "references").iter().map(line).collect();
        // The answer lists the definition among the references or separately.
        let defined = format!("package.lisp:{}", target + 3);
        if told.iter().filter(|place| **place != defined).collect::<BTreeSet<_>>() != places.iter().collect()
        {
            self.wrong.push(format!("find_references {name}: {answer:.600}; expected {places:?}"));
        }
        self.compared += 3;
        Ok(())
    }

    /// Returns some of the targets without duplicates.
    fn some_targets(&mut self) -> Vec<usize> {
        let first = self.roll(TARGETS as u64) as usize;
        let count = self.roll(5) as usize;
        (0..count).map(|number| (first + number * 5) % TARGETS).collect()
    }

    fn finish(mut self) -> Result<(), Box<dyn Error>> {
        drop(self.input);
        let patience = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait()?.is_none() {
            if Instant::now() > patience {
                self.child.kill()?;
                self.wrong.push("the server did not end with its client".to_owned());
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        let mut kinds: Vec<_> = self.asked.iter().collect();
        kinds.sort_by_key(|(_, count)| std::cmp::Reverse(**count));
        println!("asked {kinds:?}, cancelled {}, slowest answer {:?}", self.cancelled, self.worst);
        let marks = fs::read_to_string(self.project.marks()).unwrap_or_default();
        let mut done = HashSet::new();
        for mark in marks.split_ascii_whitespace().filter_map(|mark| mark.parse::<u64>().ok()) {
            if !done.insert(mark) {
                self.wrong.push(format!("evaluation {mark} ran twice"));
            }
        }
        self.wrong.extend(self.evaluated.difference(&done).map(|lost| format!("evaluation {lost} was lost")));
        println!(
            "{} answers compared, {} edits, {} evaluations reported as done, {} done",
            self.compared,
            self.edits,
            self.evaluated.len(),
            done.len()
        );
        let half = self.looks.len() / 2;
        if let (Some(middle), Some(last)) = (self.looks.get(half), self.looks.last()) {
            if last.resident > middle.resident + GROWTH {
                self.wrong.push(format!("resident memory grew: {middle:?}, {last:?}"));
            }
            if last.threads > middle.threads + IN_FLIGHT || last.descriptors > middle.descriptors + IN_FLIGHT
            {
                self.wrong.push(format!("threads or descriptors grew: {middle:?}, {last:?}"));
            }
        }
        for line in self.wrong.iter().take(20) {
            println!("WRONG: {line}");
        }
        let beginning = |line: &String| line.split(':').next().unwrap_or_default().to_owned();
        let kinds: BTreeSet<String> = self.wrong.iter().map(beginning).collect();
        if !kinds.is_empty() {
            println!("wrong: {kinds:?}");
        }
        if self.wrong.is_empty() { Ok(()) } else { Err(format!("{} wrong", self.wrong.len()).into()) }
    }

    fn choose(&mut self) -> Kind {
        let busy = |kind| self.waiting.values().any(|asked: &Asked| asked.kind == kind);
        let loading = busy(Kind::Load) || busy(Kind::Fault) || busy(Kind::Death);
        match self.roll(100) {
            0..=1 if !loading => Kind::Fault,
            2..=4 if !loading => Kind::Load,
            5 if self.deaths && !loading && self.roll(20) == 0 => Kind::Death,
            5 if self.deaths && !loading && self.roll(40) == 0 => Kind::Restart,
            6..=8 => Kind::Evaluate,
            9..=30 => Kind::Describe,
            31..=50 => Kind::WhoCalls,
            51..=70 => Kind::WhoReferences,
            71..=95 => Kind::References,
            _ => Kind::Status,
        }
    }

    fn begin(&mut self, kind: Kind) -> Result<(), Box<dyn Error>> {
        let fault = self.roll(FAULTS.len() as u64) as usize;
        let path = |number| json!({ "path": self.project.fault(number), "timeout_seconds": 2 });
        let (tool, arguments) = match kind {
            Kind::Describe => ("describe-symbol", json!({ "name": "cl:mapcar" })),
            Kind::WhoCalls => ("who-calls", json!({ "name": "soak::user" })),
            Kind::WhoReferences => ("who-references", json!({ "name": "cl:*print-base*" })),
            Kind::References => ("code-find-references", json!({ "symbol": "soak::target" })),
            Kind::Status => ("status", json!({})),
            Kind::Load => {
                self.project.change(self.next)?;
                ("load-system", json!({ "system": "soak", "timeout_seconds": 60 }))
            }
            Kind::Fault => ("load-file", path(fault)),
            Kind::Evaluate => {
                let marks = self.project.marks();
                let code = format!(
                    "(with-open-file (o {:?} :direction :output :if-exists :append :if-does-not-exist :create) (format o \"~D~%\" {}))",
                    marks.display(),
                    self.next
                );
                ("evaluate", json!({ "code": code }))
            }
            Kind::Restart => ("restart-lisp", json!({})),
            Kind::Death => ("load-file", path(FAULTS.len())),
            Kind::Compared => return Ok(()),
        };
        let cancelled = !matches!(kind, Kind::Death | Kind::Restart) && self.next > 1 && self.roll(100) < 6;
        self.begin_call(kind, tool, &arguments, cancelled)
    }

    fn begin_call(
        &mut self,
        kind: Kind,
        tool: &str,
        arguments: &Value,
        cancelled: bool,
    ) -> Result<(), Box<dyn Error>> {
        let id = self.next;
        self.next += 1;
        *self.asked.entry(kind).or_default() += 1;
        let call = json!({ "name": tool, "arguments": arguments });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call }))?;
        self.waiting.insert(id, Asked { kind, at: Instant::now(), cancelled });
        if cancelled {
            self.cancelled += 1;
            let params = json!({ "requestId": id, "reason": "soak" });
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))?;
        }
        Ok(())
    }

    /// Reads one message, if one arrives within half a second. Stops waiting for cancelled requests
    /// after a second, because they stay unanswered according to the protocol.
    fn hear(&mut self) -> Result<(), Box<dyn Error>> {
        match self.output.recv_timeout(Duration::from_millis(500)) {
            Ok(line) => self.take(&line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("the server has ended".into()),
        }
        let silent = Duration::from_secs(1);
        self.waiting.retain(|_, asked| !(asked.cancelled && asked.at.elapsed() > silent));
        if let Some((id, asked)) = self.waiting.iter().find(|(_, asked)| asked.at.elapsed() > LOST) {
            return Err(format!("lost: request {id}, {:?}", asked.kind).into());
        }
        Ok(())
    }

    fn take(&mut self, line: &str) {
        let message: Value = match serde_json::from_str(line) {
            Ok(message) => message,
            Err(error) => return self.wrong.push(format!("{error}: {line}")),
        };
        let Some(id) = message["id"].as_u64() else { return };
        let Some(asked) = self.waiting.remove(&id) else {
            // Accept the answer to a cancelled request, because the server may have sent it before
            // it received the cancellation.
            if id >= self.next || !message["error"].is_null() {
                self.wrong.push(format!("an unexpected answer: {line:.200}"));
            }
            return;
        };
        self.worst = self.worst.max(asked.at.elapsed());
        let text = message["result"]["content"][0]["text"].as_str().unwrap_or_default();
        let (dead, result) = (is_passing(&message), &message["result"]);
        let right = match asked.kind {
            Kind::Describe => text.starts_with("COMMON-LISP::MAPCAR [FUNCTION]") || dead,
            Kind::WhoCalls => text.contains("SOAK::USER") || dead,
            Kind::WhoReferences => text.starts_with("Code that references COMMON-LISP::*PRINT-BASE*:"),
            Kind::References => text.contains("steady.lisp") || dead,
            Kind::Evaluate => result["isError"] == false || dead,
            Kind::Status | Kind::Load | Kind::Fault | Kind::Restart | Kind::Death => {
                !result.is_null() || dead
            }
            Kind::Compared => true,
        };
        if asked.kind == Kind::Evaluate && result["isError"] == false {
            self.evaluated.insert(id);
        }
        if asked.kind == Kind::Compared {
            self.answer = Some(message);
            return;
        }
        if !right && !asked.cancelled {
            self.wrong.push(format!("{:?}: {line:.300}", asked.kind));
        }
    }

    fn send(&mut self, message: &Value) -> std::io::Result<()> {
        self.input.write_all(format!("{message}\n").as_bytes())?;
        self.input.flush()
    }

    fn look(&self) -> Result<Look, Box<dyn Error>> {
        let process = PathBuf::from(format!("/proc/{}", self.child.id()));
        let status = fs::read_to_string(process.join("status"))?;
        let field = |name: &str| {
            let line = status.lines().find(|line| line.starts_with(name))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        };
        Ok(Look {
            resident: field("VmRSS:").ok_or("no VmRSS")?,
            threads: field("Threads:").ok_or("no Threads")? as usize,
            descriptors: fs::read_dir(process.join("fd"))?.count(),
        })
    }

    /// Returns a pseudo-random number below `below` (xorshift).
    fn roll(&mut self, below: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % below
    }
}
