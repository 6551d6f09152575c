//! Ends the processes that code in this process has started and left running, before this process
//! ends.

use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use super::again::Writing;
use super::descendants::end_descendants;
use super::host::Semaphore;
use super::signals;

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
        end_descendants(std::process::id());
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
