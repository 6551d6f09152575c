//! Re-executes the program in place: the process and its descriptors stay, its memory is replaced.
//! This is how a server gets a clean Lisp without disconnecting its clients.
//!
//! A new program inherits more than descriptors: the signal mask, ignored and pending signals,
//! timers and the current folder. Code that ran in Lisp may have changed each of them, so this
//! module resets them. It also counts the calls that write files ([`Writing`]), so that a
//! re-execution interrupts none of them.

use std::ffi::{CString, OsString, c_char};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

use super::signals;

/// The arguments, environment and folder of the process when it started, needed to re-execute it.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProcessStart {
    /// The arguments, including the program's name.
    pub arguments: Vec<OsString>,
    /// The environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The current folder.
    pub folder: PathBuf,
}

/// The number of calls that write files, and the number of reasons why further such calls are
/// forbidden.
static WRITERS: Mutex<(usize, usize)> = Mutex::new((0, 0));
static WRITTEN: Condvar = Condvar::new();

/// Marks a call that writes files. While a `Writing` exists, the program is not re-executed. A
/// server that is about to end waits for it, but after a signal only for a few seconds.
#[derive(Debug)]
pub struct Writing(());

impl Writing {
    /// Registers a call that writes files. Returns `None` if the program is about to end or to be
    /// re-executed.
    pub fn begin() -> Option<Self> {
        let mut writers = WRITERS.lock();
        (writers.1 == 0).then(|| {
            writers.0 += 1;
            Self(())
        })
    }

    /// Waits until no call that writes files is running.
    pub fn wait_for_end() {
        WRITTEN.wait_while(&mut WRITERS.lock(), |writers| writers.0 > 0);
    }

    /// Forbids new writers, and waits up to `most` for the current writers to end. Called when the
    /// program is about to end.
    pub(super) fn end(most: Duration) {
        let mut writers = WRITERS.lock();
        writers.1 += 1;
        WRITTEN.wait_while_for(&mut writers, |writers| writers.0 > 0, most);
    }

    /// Forbids new writers until the guard is dropped, and waits for the current writers to end. If
    /// another [`NoWriting`] exists, first waits until that is dropped. Waits forever if the
    /// program is about to end.
    pub fn forbid() -> NoWriting {
        let mut writers = WRITERS.lock();
        WRITTEN.wait_while(&mut writers, |writers| writers.1 > 0);
        writers.1 += 1;
        WRITTEN.wait_while(&mut writers, |writers| writers.0 > 0);
        NoWriting(())
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        WRITERS.lock().0 -= 1;
        WRITTEN.notify_all();
    }
}

/// While this guard exists, no new call may write files; see [`Writing::forbid`].
#[derive(Debug)]
pub struct NoWriting(());

impl Drop for NoWriting {
    fn drop(&mut self) {
        WRITERS.lock().1 -= 1;
        WRITTEN.notify_all();
    }
}

/// Replaces the program by `program`, with the arguments, environment and folder in `origin`. The
/// standard descriptors and the descriptors in `kept` stay open. Returns only on failure.
pub fn reexecute(program: &Path, origin: &ProcessStart, kept: &[RawFd]) -> io::Error {
    match try_execute(program, origin, kept) {
        Ok(never) => match never {},
        Err(error) => error,
    }
}

fn try_execute(
    program: &Path,
    origin: &ProcessStart,
    kept: &[RawFd],
) -> io::Result<std::convert::Infallible> {
    let text = |text: OsString| CString::new(text.into_vec()).map_err(|_| io::ErrorKind::InvalidInput.into());
    let program = text(program.as_os_str().to_owned())?;
    let arguments: Vec<CString> = origin.arguments.iter().cloned().map(text).collect::<io::Result<_>>()?;
    let variables = origin.environment.iter().map(|(name, value)| {
        let mut variable = name.clone();
        variable.push("=");
        variable.push(value);
        text(variable)
    });
    let variables: Vec<CString> = variables.collect::<io::Result<_>>()?;
    let pointers = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (arguments_array, variables_array) = (pointers(&arguments), pointers(&variables));
    // Ignore the error if the folder no longer exists.
    let _ = std::env::set_current_dir(&origin.folder);
    close_on_exec_except(kept)?;
    disarm_timers();
    signals::restore();
    // SAFETY: `program` and the elements of both arrays are NUL-terminated strings, and the arrays
    // are NULL-terminated. All of them live at least until the call returns.
    unsafe { libc::execve(program.as_ptr(), arguments_array.as_ptr(), variables_array.as_ptr()) };
    Err(io::Error::last_os_error())
}

/// Marks all open descriptors except the standard ones as close-on-exec, because Lisp code opens
/// sockets without that flag and programs that this process executes would inherit them.
///
/// # Errors
/// The descriptors cannot be listed.
pub(crate) fn close_descriptors_on_exec() -> io::Result<()> {
    close_on_exec_except(&[])
}

/// Marks every descriptor as close-on-exec, except the standard descriptors. Clears the mark of the
/// descriptors in `kept`.
fn close_on_exec_except(kept: &[RawFd]) -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let Some(descriptor) = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else {
            continue;
        };
        if descriptor > 2 {
            let flags = if kept.contains(&descriptor) { 0 } else { libc::FD_CLOEXEC };
            // SAFETY: the call changes a flag of a descriptor. If the descriptor has been closed
            // meanwhile, the call fails without an effect.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, flags) };
        }
    }
    Ok(())
}

/// Disarms the timers that survive an execution: their signals would end the new program.
fn disarm_timers() {
    // SAFETY: an itimerval of zeros is valid and disarms the timer; the calls read it and write
    // nothing.
    unsafe {
        let never: libc::itimerval = MaybeUninit::zeroed().assume_init();
        for timer in [libc::ITIMER_REAL, libc::ITIMER_VIRTUAL, libc::ITIMER_PROF] {
            libc::syscall(
                libc::SYS_setitimer,
                timer,
                &raw const never,
                std::ptr::null_mut::<libc::itimerval>(),
            );
        }
    }
}

/// Takes ownership of the descriptor `number`, which the program kept open across its re-execution.
/// Must be called before SBCL starts, because Lisp code opens descriptors without close-on-exec.
///
/// # Errors
/// There is no such descriptor, it is a standard descriptor, or it is marked close-on-exec. Every
/// descriptor that Rust code has opened or adopted has that mark.
#[cfg(feature = "server")]
pub(crate) fn adopt_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call reads the flags of a descriptor, or fails if there is none.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    if number <= 2 || flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::other(format!("descriptor {number} was not inherited")));
    }
    // SAFETY: the call changes a flag of a descriptor.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: the descriptor is open and survived the execution of this program. Nothing in this
    // program owns it: SBCL has not started, Rust code opens its descriptors close-on-exec, and
    // adopting a descriptor sets that flag.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Reaps all children that have ended. After a re-execution, no code waits for the children that
/// the program started before it.
pub fn reap_children() {
    // SAFETY: the call writes nothing; without children it is an error, which ends the loop.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

const NONE: i32 = -1;
/// The descriptors that forked children close: the streams of each client, and two of each folder
/// watch.
static PRIVATE: [AtomicI32; 128] = [const { AtomicI32::new(NONE) }; 128];

extern "C" fn close_private() {
    for descriptor in &PRIVATE {
        let number = descriptor.swap(NONE, Ordering::SeqCst);
        if number != NONE {
            // SAFETY: this runs in a forked child, where no other code uses the descriptor; close
            // is async-signal-safe.
            unsafe { libc::close(number) };
        }
    }
}

/// Makes forked children close the descriptor `number` if `private`, or keep it otherwise. At most
/// 128 descriptors can be registered; children inherit any others.
pub(crate) fn close_in_children(number: RawFd, private: bool) {
    static REGISTERED: std::sync::Once = std::sync::Once::new();
    // SAFETY: the function only closes descriptors.
    REGISTERED.call_once(|| unsafe {
        libc::pthread_atfork(None, None, Some(close_private));
    });
    let (from, to) = if private { (NONE, number) } else { (number, NONE) };
    for place in &PRIVATE {
        if place.compare_exchange(from, to, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
            return;
        }
    }
}

#[cfg(all(test, feature = "server"))]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd;

    #[test]
    fn only_inherited_descriptors_are_adopted_once() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(adopt_descriptor(file.as_raw_fd()).is_err(), "it has an owner");
        assert!(adopt_descriptor(1).is_err() && adopt_descriptor(-1).is_err());
        // SAFETY: the call creates a descriptor that nothing else uses.
        let kept = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, 500) };
        let adopted = adopt_descriptor(kept).unwrap();
        assert_eq!(adopted.as_raw_fd(), kept);
        assert!(adopt_descriptor(kept).is_err(), "it was adopted already");
    }

    #[test]
    fn signals_during_execution_do_not_end_the_process() {
        extern "C" fn hears(_: libc::c_int) {}
        for round in 0..10 {
            // SAFETY: the child calls only functions that are safe after a fork, by POSIX or in
            // glibc.
            let child = unsafe { libc::fork() };
            if child == 0 {
                // SAFETY: the handler does nothing.
                unsafe { libc::signal(libc::SIGUSR2, hears as *const () as libc::sighandler_t) };
                for _ in 0..2 {
                    std::thread::spawn(|| {
                        loop {
                            // SAFETY: the process handles the signal, or ignores it.
                            unsafe { libc::kill(libc::getpid(), libc::SIGUSR2) };
                        }
                    });
                }
                let arguments = vec!["true".into()];
                let origin = ProcessStart { arguments, environment: Vec::new(), folder: "/".into() };
                reexecute(Path::new("/bin/true"), &origin, &[]);
                // SAFETY: the call ends only this process.
                unsafe { libc::_exit(1) };
            }
            let mut status = 0;
            // SAFETY: the call writes to `status`, and the child is our own.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "{round}: signal {}", libc::WTERMSIG(status));
        }
    }
}
