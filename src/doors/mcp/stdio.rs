//! Moves the protocol's streams out of reach for all other code in the process.
//!
//! Lisp code, C code and the runtime itself may write to descriptor 1 or read from descriptor 0. So the
//! protocol gets private copies first, then 0 becomes empty, and 1 another standard error.

use std::io;
use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{Mode, OFlags};
use rustix::io::fcntl_dupfd_cloexec;

/// Identifies a stream by device and inode, to notice when its descriptor has been closed and reused: code in
/// the process may close any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StreamIdentity(Option<(u64, u64)>);

impl StreamIdentity {
    pub(super) fn of(stream: &impl AsFd) -> Self {
        Self(rustix::fs::fstat(stream).ok().map(|stat| (stat.st_dev, stat.st_ino)))
    }

    /// Whether `stream` is still the same.
    pub(super) fn is(self, stream: &impl AsFd) -> bool {
        self.0.is_some() && Self::of(stream) == self
    }
}

/// The least number of a private copy, higher than the descriptors that code closes when it closes "all".
/// Where the system allows no such number, the least above the standard ones is taken.
const HIGH: i32 = 900;

/// Copies `stream` to a descriptor with a high number.
///
/// # Errors
/// The system has no free descriptor.
pub(super) fn out_of_reach(stream: &impl AsFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(stream, HIGH).or_else(|_| fcntl_dupfd_cloexec(stream, 3))?)
}

/// Takes the standard streams away from the process. Returns private copies for the protocol: one to read
/// from, one to write to.
///
/// # Errors
/// The system has no free descriptor, or no /dev/null.
pub(in crate::doors) fn take() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = out_of_reach(&rustix::stdio::stdin())?;
    let output = out_of_reach(&rustix::stdio::stdout())?;
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input, output))
}
