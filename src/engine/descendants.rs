//! Lists and ends the processes that code in this process or in a helper has started. A helper
//! adopts its orphans, so its descendants include processes that have detached themselves.

use std::collections::{BTreeSet, HashSet};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// How long children may take to end after SIGTERM, before SIGKILL.
const TERMINATION: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_millis(10);

/// A process, identified by its ID and start time, because the system reuses IDs. `parent` is the
/// parent's ID.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Process {
    number: i32,
    parent: i32,
    started: u64,
}

/// Returns the process with the ID `number`, or `None` if it has ended.
fn process(number: i32) -> Option<Process> {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The command name, in parentheses, may contain any character.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let is_alive = !["Z", "X"].contains(fields.first()?);
    let process =
        Process { number, parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? };
    is_alive.then_some(process)
}

/// Returns whether the process is a helper: this program with the first argument `helper`. A helper
/// ends its children and itself when the pipe from this process closes.
fn is_copy(process: &Process) -> bool {
    let command = std::fs::read(format!("/proc/{}/cmdline", process.number)).unwrap_or_default();
    command.split(|byte| *byte == 0).nth(1) == Some(b"helper".as_slice())
        && std::fs::read_link(format!("/proc/{}/exe", process.number)).ok()
            == std::fs::read_link("/proc/self/exe").ok()
}

/// Lists the live descendants of the process `root`, except helpers and their descendants.
fn descendants(root: i32) -> HashSet<Process> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others: Vec<Process> = numbers.filter_map(process).collect();
    let mut found = HashSet::new();
    let mut parents = HashSet::from([root]);
    loop {
        let (children, rest): (Vec<_>, Vec<_>) =
            others.into_iter().partition(|process| parents.contains(&process.parent));
        others = rest;
        parents = HashSet::new();
        for child in children {
            if !is_copy(&child) {
                parents.insert(child.number);
                found.insert(child);
            }
        }
        if parents.is_empty() {
            return found;
        }
    }
}

/// Returns the commands of the live descendants of the process `root`.
pub(crate) fn descendant_commands(root: u32) -> Vec<String> {
    let command = |process: Process| std::fs::read(format!("/proc/{}/cmdline", process.number)).ok();
    let shown = |line: Vec<u8>| String::from_utf8_lossy(&line).replace('\0', " ").trim_end().to_owned();
    let commands: BTreeSet<_> =
        descendants(root.cast_signed()).into_iter().filter_map(command).map(shown).collect();
    commands.into_iter().collect()
}

/// Ends the live descendants of the process `root`: sends SIGTERM, waits briefly, then sends
/// SIGKILL.
pub(crate) fn end_descendants(root: u32) {
    // Repeat, because a process may start another one before it ends.
    for _ in 0..3 {
        let all = descendants(root.cast_signed());
        if all.is_empty() {
            return;
        }
        let left = || {
            all.iter().filter(|known| process(known.number).is_some_and(|now| now.started == known.started))
        };
        let send = |signal: Signal| {
            for number in left().filter_map(|process| Pid::from_raw(process.number)) {
                // Ignore the error: the process has ended, or belongs to another user.
                let _ = kill_process(number, signal);
            }
        };
        send(Signal::TERM);
        let until = Instant::now() + TERMINATION;
        while left().next().is_some() && Instant::now() < until {
            std::thread::sleep(POLL);
        }
        send(Signal::KILL);
    }
}
