//! The signals that SBCL's threads live by, and that no other thread must get.
//!
//! SBCL stops its threads for a collection with SIGUSR2, and its profiler uses SIGPROF. A thread that is not Lisp's and
//! gets one of them from outside would be parked by SBCL's handler, or held in it with a lock of its own.

use std::io;
use std::mem::MaybeUninit;
use std::sync::OnceLock;

/// The signal mask of the thread that first blocked Lisp's signals: the process's, if that was its first thread.
static BEFORE: OnceLock<libc::sigset_t> = OnceLock::new();

fn mask(how: libc::c_int) {
    let mut set = MaybeUninit::uninit();
    let mut before = MaybeUninit::uninit();
    // SAFETY: sigemptyset makes the set whole before anything reads it; the others are given a set that is whole;
    // pthread_sigmask changes this thread's mask alone, and writes the one before.
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

/// Keeps SBCL's own signals (SIGUSR2, SIGPROF) from this thread, and from those that it starts from now on. A program
/// calls it on its main thread, before it starts others; the engine's own threads are safe without.
pub fn block_lisp_signals() {
    mask(libc::SIG_BLOCK);
}

/// Has a write beyond the limit on the size of files (`ulimit -f`) fail with an error, where the system would end the
/// process.
pub fn survive_file_size_limit() {
    // SAFETY: to ignore a signal is no handler, and the program has no other use for this one.
    unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
}

/// Unblocks Lisp's signals on this thread, which becomes Lisp's.
pub(super) fn unblock_lisp_signals() {
    mask(libc::SIG_UNBLOCK);
}

/// The signals that SBCL handles and its threads send each other, those of timers, and those of children.
const OF_AN_IMAGE: [libc::c_int; 6] =
    [libc::SIGALRM, libc::SIGVTALRM, libc::SIGPROF, libc::SIGUSR2, libc::SIGURG, libc::SIGCHLD];

/// Drops Lisp's pending signals, ignores those that come until a new image is executed, and restores this thread's mask. By default
/// they end the process, and threads of Lisp send them for as long as they live.
pub(super) fn restore() {
    for signal in OF_AN_IMAGE.into_iter().chain([libc::SIGPIPE]) {
        // SAFETY: to ignore a signal is no handler. It drops those that wait.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    if let Some(before) = BEFORE.get() {
        // SAFETY: the set is whole, and the call changes this thread's mask alone.
        unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
    }
}

/// Gives the signals that the image before this one has left ignored their default handling. To be called when the program begins.
pub fn handle_signals_by_default() {
    for signal in OF_AN_IMAGE {
        // SAFETY: neither value is a handler. To ignore a signal drops those that wait.
        unsafe {
            libc::signal(signal, libc::SIG_IGN);
            libc::signal(signal, libc::SIG_DFL);
        }
    }
}

/// Checks that the system still grants `count` threads, for code that could not report the error when it makes them.
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

/// Starts a thread that gets none of Lisp's signals.
pub(super) fn spawn(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let body = || {
        block_lisp_signals();
        body();
    };
    std::thread::Builder::new().name(name.into()).spawn(body).map(drop)
}
