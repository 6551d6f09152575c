//! Asks one server for minutes: questions, loads, redefinitions, faults, cancellations and, with `--deaths`, the death of
//! Lisp, eight requests in flight at any time. It ends with an error if an answer was lost, doubled or crossed, was
//! wrong, or if the server's memory, threads or descriptors grew.
//!
//!     cargo run --release --example soak -- --minutes 15 [--deaths] [PROGRAM]

#![allow(clippy::print_stdout)]

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The number of requests in flight.
const IN_FLIGHT: usize = 8;
/// The time without an answer after which a request counts as lost.
const LOST: Duration = Duration::from_secs(120);
/// The time between two measurements of the process.
const LOOK: Duration = Duration::from_secs(10);
/// The growth in KiB of resident memory that is allowed after the first half: Lisp's heap moves within its
/// limit.
const GROWTH: u64 = 400 * 1024;

/// Code that misbehaves, each loaded as a file with a second to do so.
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
        let system = "(defsystem \"soak\" :serial t :components ((:file \"package\") (:file \"steady\") (:file \"moving\")))";
        fs::write(root.join("soak.asd"), system)?;
        fs::write(root.join("package.lisp"), "(defpackage :soak (:use :cl))\n")?;
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

    /// Writes the file that changes, with a definition of its own for each turn.
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

/// The kind of a request, which says what its answer must look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Describe,
    WhoCalls,
    WhoReferences,
    References,
    Status,
    Load,
    Fault,
    Death,
}

struct Asked {
    kind: Kind,
    at: Instant,
    cancelled: bool,
}

/// A measurement of the process.
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
}

impl<'a> Soak<'a> {
    fn start(program: &Path, project: &'a Project, deaths: bool) -> Result<Self, Box<dyn Error>> {
        let mut child = Command::new(program)
            .arg("--project")
            .arg(&project.0)
            .arg("serve")
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
        };
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
        while Instant::now() < end {
            if Instant::now() >= next_look {
                next_look += LOOK;
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
            while self.waiting.len() < IN_FLIGHT {
                let kind = self.choose();
                self.begin(kind)?;
            }
            self.hear()?;
        }
        while !self.waiting.is_empty() {
            self.hear()?;
        }
        self.looks.push(self.look()?);
        Ok(())
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
        if self.wrong.is_empty() { Ok(()) } else { Err(format!("{} wrong", self.wrong.len()).into()) }
    }

    fn choose(&mut self) -> Kind {
        let busy = |kind| self.waiting.values().any(|asked: &Asked| asked.kind == kind);
        let loading = busy(Kind::Load) || busy(Kind::Fault) || busy(Kind::Death);
        match self.roll(100) {
            0..=1 if !loading => Kind::Fault,
            2..=4 if !loading => Kind::Load,
            5 if self.deaths && !loading && self.roll(8) == 0 => Kind::Death,
            6..=30 => Kind::Describe,
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
            Kind::Death => ("load-file", path(FAULTS.len())),
        };
        let id = self.next;
        self.next += 1;
        *self.asked.entry(kind).or_default() += 1;
        let call = json!({ "name": tool, "arguments": arguments });
        self.send(&json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": call }))?;
        let cancelled = kind != Kind::Death && self.roll(100) < 6 && id > 1;
        self.waiting.insert(id, Asked { kind, at: Instant::now(), cancelled });
        if cancelled {
            self.cancelled += 1;
            let params = json!({ "requestId": id, "reason": "soak" });
            self.send(&json!({ "jsonrpc": "2.0", "method": "notifications/cancelled", "params": params }))?;
        }
        Ok(())
    }

    /// Reads one message, and stops waiting for cancelled requests, which stay unanswered, as the protocol
    /// wants.
    fn hear(&mut self) -> Result<(), Box<dyn Error>> {
        match self.output.recv_timeout(Duration::from_millis(500)) {
            Ok(line) => self.take(&line),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Err("the server has left".into()),
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
            // Accept the answer to a cancelled request: it may have come before the server heard of the
            // cancellation.
            if id >= self.next || !message["error"].is_null() {
                self.wrong.push(format!("an answer that nobody waits for: {line:.200}"));
            }
            return;
        };
        self.worst = self.worst.max(asked.at.elapsed());
        let text = message["result"]["content"][0]["text"].as_str().unwrap_or_default();
        let dead = line.contains("has died") || line.contains("restart");
        let right = match asked.kind {
            Kind::Describe => text.starts_with("COMMON-LISP::MAPCAR [FUNCTION]") || dead,
            Kind::WhoCalls => text.contains("SOAK::USER") || dead,
            Kind::WhoReferences => text.starts_with("Code that references COMMON-LISP::*PRINT-BASE*:"),
            Kind::References => line.contains("steady.lisp") || line.contains("SOAK::TARGET") || dead,
            Kind::Status | Kind::Load | Kind::Fault | Kind::Death => !message["result"].is_null() || dead,
        };
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
