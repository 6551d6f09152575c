//! Ends the processes that code of this process has started and left, before it ends itself.

use std::collections::HashSet;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::again::Writing;
use super::host::Semaphore;
use super::signals;

/// The time that they are given to end by themselves.
const TERMINATION: Duration = Duration::from_millis(300);
const POLL: Duration = Duration::from_millis(10);

/// A process, by its number and the time of its start, which no other of that number has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Process {
    number: i32,
    parent: i32,
    started: u64,
}

/// Reads the process `number`; none if it has ended.
fn process(number: i32) -> Option<Process> {
    let text = std::fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    // The name before may hold anything.
    let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
    let is_alive = !["Z", "X"].contains(fields.first()?);
    let process =
        Process { number, parent: fields.get(1)?.parse().ok()?, started: fields.get(19)?.parse().ok()? };
    is_alive.then_some(process)
}

/// Whether the process is a copy of the program, which ends with the pipe of its orders, and cleans up.
fn is_copy(process: &Process) -> bool {
    let command = std::fs::read(format!("/proc/{}/cmdline", process.number)).unwrap_or_default();
    command.split(|byte| *byte == 0).nth(1) == Some(b"helper".as_slice())
        && std::fs::read_link(format!("/proc/{}/exe", process.number)).ok()
            == std::fs::read_link("/proc/self/exe").ok()
}

/// Lists the children of this process that live, and theirs; but not copies of the program.
fn descendants() -> HashSet<Process> {
    let numbers = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let mut others: Vec<Process> = numbers.filter_map(process).collect();
    let mut found = HashSet::new();
    let mut parents = HashSet::from([rustix::process::getpid().as_raw_nonzero().get()]);
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

/// Ends the children of this process and theirs: asks them first, and waits a moment.
pub(crate) fn end_children() {
    let all = descendants();
    let left =
        || all.iter().filter(|known| process(known.number).is_some_and(|now| now.started == known.started));
    let send = |signal: Signal| {
        for number in left().filter_map(|process| Pid::from_raw(process.number)) {
            // Ignore the error: the process has ended, or is another user's.
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

static ENDED_BY: AtomicI32 = AtomicI32::new(0);
static ENDING: OnceLock<Semaphore> = OnceLock::new();

/// Stores and posts only: this is a signal handler.
extern "C" fn note_end(signal: libc::c_int) {
    ENDED_BY.store(signal, Ordering::SeqCst);
    if let Some(ending) = ENDING.get() {
        ending.post();
    }
}

/// Whether children are to end with this process.
pub(super) fn are_to_end() -> bool {
    ENDING.get().is_some()
}

/// How long what writes files may go on once a signal ends the process. What it has not done then is taken back at the next start.
const WRITING: Duration = Duration::from_secs(5);

/// Has the signals that end this process wait for what writes files, and end its children first. To be called before SBCL starts, whose own children then end
/// even if this process is killed.
///
/// # Errors
/// The system refuses a thread.
pub(crate) fn end_children_at_signals(clean: impl FnOnce() + Send + 'static) -> io::Result<()> {
    if ENDING.set(Semaphore::new()?).is_err() {
        return Ok(());
    }
    signals::spawn("steelbank-ending", move || {
        let Some(ending) = ENDING.get() else { return };
        ending.wait();
        Writing::end(WRITING);
        clean();
        end_children();
        let signal = ENDED_BY.load(Ordering::SeqCst);
        // SAFETY: the first call sets the default action, which is no handler; the second has it end the process.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::kill(libc::getpid(), signal);
        }
    })?;
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        // SAFETY: the handler only stores to an atomic and posts a semaphore, both of which a handler may do.
        let before = unsafe { libc::signal(signal, note_end as *const () as libc::sighandler_t) };
        if before == libc::SIG_IGN {
            // Leave it ignored, as nohup has set it.
            // SAFETY: to ignore a signal is no handler.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
    Ok(())
}
