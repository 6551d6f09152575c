//! Executes the program again: same process, same descriptors, a new image of everything in it.
//!
//! A new image inherits more than descriptors: the signal mask, ignored signals, timers and pending signals, the
//! folder. Code that ran in Lisp may have changed each of them.

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

/// The arguments, environment and folder that the process was started with, to start it again.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ProcessStart {
    /// The arguments, the program's name included.
    pub arguments: Vec<OsString>,
    /// The environment.
    pub environment: Vec<(OsString, OsString)>,
    /// The current folder.
    pub folder: PathBuf,
}

/// The number of calls that write files, and whether no further one may begin.
static WRITERS: Mutex<(usize, bool)> = Mutex::new((0, false));
static WRITTEN: Condvar = Condvar::new();

/// A call that writes files: the program is neither executed again nor ended by its server before this is
/// dropped.
#[derive(Debug)]
pub struct Writing(());

impl Writing {
    /// Begins to write. None if the program is about to be executed again.
    pub fn begin() -> Option<Self> {
        let mut writers = WRITERS.lock();
        (!writers.1).then(|| {
            writers.0 += 1;
            Self(())
        })
    }

    /// Waits until no call writes.
    pub fn wait_for_end() {
        WRITTEN.wait_while(&mut WRITERS.lock(), |writers| writers.0 > 0);
    }

    /// Waits until no call writes, but not longer than `most`, and lets none begin to: the program is told to end.
    pub(super) fn end(most: Duration) {
        let mut writers = WRITERS.lock();
        writers.1 = true;
        WRITTEN.wait_while_for(&mut writers, |writers| writers.0 > 0, most);
    }

    /// Waits until no call writes, and lets none begin to until the guard is dropped.
    pub fn forbid() -> NoWriting {
        let mut writers = WRITERS.lock();
        WRITTEN.wait_while(&mut writers, |writers| writers.1);
        writers.1 = true;
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

/// See [`Writing::forbid`].
#[derive(Debug)]
pub struct NoWriting(());

impl Drop for NoWriting {
    fn drop(&mut self) {
        WRITERS.lock().1 = false;
        WRITTEN.notify_all();
    }
}

/// Executes `program` in place of this one as `origin` says. The standard descriptors and those of `kept` stay open.
/// Returns only if that fails.
pub fn execute_again(program: &Path, origin: &ProcessStart, kept: &[RawFd]) -> io::Error {
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
    // Ignore a folder that is gone by now.
    let _ = std::env::set_current_dir(&origin.folder);
    keep_descriptors(kept)?;
    forget_timers();
    signals::restore();
    // SAFETY: program and arrays are NUL-terminated, of NUL-terminated strings, and live until the call returns, if it
    // does.
    unsafe { libc::execve(program.as_ptr(), arguments_array.as_ptr(), variables_array.as_ptr()) };
    Err(io::Error::last_os_error())
}

/// Has programs that this process executes from now on inherit no descriptor that is open now but the standard ones: code in
/// Lisp opens sockets without close-on-exec.
///
/// # Errors
/// The descriptors cannot be listed.
pub(crate) fn keep_descriptors_private() -> io::Result<()> {
    keep_descriptors(&[])
}

/// Has the execution close every descriptor but the standard ones and those of `kept`.
fn keep_descriptors(kept: &[RawFd]) -> io::Result<()> {
    for entry in std::fs::read_dir("/proc/self/fd")? {
        let Some(descriptor) = entry?.file_name().to_str().and_then(|name| name.parse::<RawFd>().ok()) else {
            continue;
        };
        if descriptor > 2 {
            let flags = if kept.contains(&descriptor) { 0 } else { libc::FD_CLOEXEC };
            // SAFETY: the call changes a flag of a descriptor; one that is gone meanwhile is an error of no concern.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, flags) };
        }
    }
    Ok(())
}

/// Disarms the timers that outlive an execution: their signals would end the new image.
fn forget_timers() {
    // SAFETY: a timer value of zeros is a valid one, which disarms; the calls read it and write nothing.
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

/// Takes over a descriptor that the image before this one kept, by its number. To be called before SBCL starts, whose
/// code opens descriptors without close-on-exec.
///
/// # Errors
/// There is none of that number, or it was not kept for this image: it is a standard one, or closes on execution, as
/// all that Rust code has opened, and what was taken over already.
#[cfg(feature = "server")]
pub(crate) fn adopt_descriptor(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: the call reads the flags of a descriptor, or says that there is none.
    let flags = unsafe { libc::fcntl(number, libc::F_GETFD) };
    if flags < 0 {
        return Err(io::Error::last_os_error());
    }
    if number <= 2 || flags & libc::FD_CLOEXEC != 0 {
        return Err(io::Error::other(format!("descriptor {number} was not handed over by the image before")));
    }
    // SAFETY: the call changes a flag of a descriptor.
    unsafe { libc::fcntl(number, libc::F_SETFD, libc::FD_CLOEXEC) };
    // SAFETY: the descriptor is open, and outlived the execution of this image, in which nobody else has it: what this
    // image opens closes on execution, and what was taken over does, too, from then on.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// Reaps children of the image before this one that have ended: nobody else knows of them.
pub fn reap_children() {
    // SAFETY: the call writes nothing; without children it is an error, which ends the loop.
    while unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) } > 0 {}
}

const NONE: i32 = -1;
/// The descriptors that forked children close: the streams of each client, and two of each folder watch.
static PRIVATE: [AtomicI32; 128] = [const { AtomicI32::new(NONE) }; 128];

extern "C" fn close_private() {
    for descriptor in &PRIVATE {
        let number = descriptor.swap(NONE, Ordering::SeqCst);
        if number != NONE {
            // SAFETY: this runs in a forked child, where nobody else uses the descriptor; close may be called there.
            unsafe { libc::close(number) };
        }
    }
}

/// Has every child that code of this process forks close the descriptor `number`, if it is `private`, or no longer.
/// Beyond 128, children keep the rest.
pub(crate) fn keep_from_children(number: RawFd, private: bool) {
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
    fn only_what_was_handed_over_is_adopted_and_once() {
        let file = std::fs::File::open("/dev/null").unwrap();
        assert!(adopt_descriptor(file.as_raw_fd()).is_err(), "it has an owner");
        assert!(adopt_descriptor(1).is_err() && adopt_descriptor(-1).is_err());
        // SAFETY: the call makes a descriptor that nobody has.
        let kept = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_DUPFD, 500) };
        let adopted = adopt_descriptor(kept).unwrap();
        assert_eq!(adopted.as_raw_fd(), kept);
        assert!(adopt_descriptor(kept).is_err(), "it has an owner by now");
    }

    #[test]
    fn what_threads_signal_meanwhile_does_not_end_the_process() {
        extern "C" fn hears(_: libc::c_int) {}
        for round in 0..10 {
            // SAFETY: what the child does is ready for a fork, or is glibc's, which sees to it.
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
                execute_again(Path::new("/bin/true"), &origin, &[]);
                // SAFETY: the call ends this process alone.
                unsafe { libc::_exit(1) };
            }
            let mut status = 0;
            // SAFETY: the status is the one that is written to, and the child is ours.
            assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
            assert_eq!(status, 0, "{round}: signal {}", libc::WTERMSIG(status));
        }
    }
}
