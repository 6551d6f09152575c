//! Ends the processes that code in this process has started and left running, before this process
//! ends.

use std::collections::HashSet;
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::again::Writing;
use super::host::Semaphore;
use super::signals;

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

/// Lists the live descendants of this process, except helpers and their descendants.
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

/// Ends the processes that `descendants` lists: sends SIGTERM, waits briefly, then sends SIGKILL.
pub(crate) fn end_children() {
    let all = descendants();
    let left =
        || all.iter().filter(|known| process(known.number).is_some_and(|now| now.started == known.started));
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

static ENDED_BY: AtomicI32 = AtomicI32::new(0);
static ENDING: OnceLock<Semaphore> = OnceLock::new();

/// The signal handler. It only stores to an atomic and posts a semaphore.
extern "C" fn note_end(signal: libc::c_int) {
    ENDED_BY.store(signal, Ordering::SeqCst);
    if let Some(ending) = ENDING.get() {
        ending.post();
    }
}

/// Returns whether children must end with this process: [`end_children_at_signals`] was called.
pub(super) fn end_with_process() -> bool {
    ENDING.get().is_some()
}

/// How long writers may continue after a signal to end. The next start rolls back writes that are
/// unfinished by then.
const WRITING: Duration = Duration::from_secs(5);

/// Handles SIGTERM, SIGHUP and SIGINT, unless they are ignored. When one arrives, waits for
/// writers, calls `clean`, ends the children, and then ends this process by the signal. Must be
/// called before SBCL starts; the programs that Lisp code runs then end even if this process is
/// killed. Later calls have no effect.
///
/// # Errors
/// The system refuses a thread or a semaphore.
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
        // SAFETY: the first call removes the handler; the second ends the process by the signal.
        unsafe {
            libc::signal(signal, libc::SIG_DFL);
            libc::kill(libc::getpid(), signal);
        }
    })?;
    for signal in [libc::SIGTERM, libc::SIGHUP, libc::SIGINT] {
        // SAFETY: the handler only stores to an atomic and posts a semaphore, and both operations
        // are async-signal-safe.
        let before = unsafe { libc::signal(signal, note_end as *const () as libc::sighandler_t) };
        if before == libc::SIG_IGN {
            // Leave the signal ignored; nohup, for example, starts programs with SIGHUP ignored.
            // SAFETY: ignoring a signal installs no handler.
            unsafe { libc::signal(signal, libc::SIG_IGN) };
        }
    }
    Ok(())
}
