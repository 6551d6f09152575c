//! Keeps SBCL's signals away from threads that are not Lisp's.
//!
//! SBCL stops its threads for a garbage collection with SIGUSR2, and its profiler uses SIGPROF. If
//! another thread received such a signal, SBCL's handler would park the thread, or block it while
//! it holds a lock.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// The signal mask of the first thread that called [`mask`], from before that call. In the program,
/// the main thread calls it first, so this is the process's original mask.
static BEFORE: OnceLock<libc::sigset_t> = OnceLock::new();

fn mask(how: libc::c_int) {
    let mut set = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: sigemptyset initializes each set before anything reads it, and the other functions
    // get initialized sets. pthread_sigmask changes only this thread's mask, and writes the
    // previous one.
    let before = unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), libc::SIGUSR2);
        libc::sigaddset(set.as_mut_ptr(), libc::SIGPROF);
        libc::sigemptyset(before.as_mut_ptr());
        libc::pthread_sigmask(how, set.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    };
    let _ = BEFORE.set(before);
}

/// Blocks SBCL's signals (SIGUSR2, SIGPROF) on this thread and on threads that it starts from now
/// on. Call this on a program's main thread before other threads start. The engine's threads block
/// the signals anyway.
pub fn block_lisp_signals() {
    mask(libc::SIG_BLOCK);
}

/// Makes a write beyond the file size limit (`ulimit -f`) return an error instead of killing the
/// process.
pub fn ignore_file_size_signal() {
    // SAFETY: ignoring a signal installs no handler, and the program does not use this signal
    // otherwise.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Unblocks Lisp's signals on this thread, which becomes a Lisp thread.
pub(super) fn unblock_lisp_signals() {
    mask(libc::SIG_UNBLOCK);
}

/// Signals that may arrive during a re-execution. SBCL's threads send each other SIGUSR2 and
/// SIGURG, timers send SIGALRM, SIGVTALRM and SIGPROF, and children that end cause SIGCHLD.
const IMAGE_SIGNALS: [libc::c_int; 6] =
    [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF, libc::SIGUSR2, libc::SIGURG, libc::SIGCHLD];

/// Discards pending [`IMAGE_SIGNALS`] and SIGPIPE, and ignores further ones; see
/// [`reset_signal_actions`]. Lisp threads and timers may send more of them until the new program
/// runs, and the default action of most of them would end it. Also restores this thread's signal
/// mask from before the engine changed it.
pub(super) fn restore() {
    for signal in IMAGE_SIGNALS.into_iter().chain([libc::SIGPIPE]) {
        // SAFETY: ignoring a signal installs no handler; it discards pending ones.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: the set is initialized, and the call changes only this thread's mask.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
    }
}

/// Restores the default action of the signals in `IMAGE_SIGNALS`, which `restore` has left ignored
/// across a re-execution. Must be called when the program begins.
pub fn reset_signal_actions() {
    for signal in IMAGE_SIGNALS {
        // SAFETY: neither value is a handler. Ignoring a signal first discards pending ones.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// Checks that the system allows `count` more threads, because SBCL could not report a refusal when
/// it starts them later.
pub(super) fn probe_threads(count: usize) -> io::Result<()> {
    let (release, held) = std::sync::mpsc::channel::<()>();
    let held = std::sync::Arc::new(std::sync::Mutex::new(held));
    let mut threads = Vec::new();
    for _ in 0..count {
        let held = std::sync::Arc::clone(&held);
        let probe = std::thread::Builder::new().name("sbcl-probe".into());
        threads.push(probe.spawn(move || {
            // Hold each thread until all have started.
            let _ = held.lock().map(|held| held.recv());
        })?);
    }
    drop(release);
    for thread in threads {
        let _ = thread.join();
    }
    Ok(())
}

/// Starts a thread with Lisp's signals blocked.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let body = || {
        block_lisp_signals();
        body();
    };
    std::thread::Builder::new().name(name.into()).spawn(body).map(drop)
}
