//! The protocol's streams, out of reach for everything else in the process.
//!
//! Lisp code, C code and the runtime itself may write to descriptor 1 or read from descriptor 0. So the protocol moves
//! to private copies first, 0 becomes empty, and 1 becomes another standard error.

use std::io;
use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags};
use rustix::io::fcntl_dupfd_cloexec;

/// The least number of a private copy: beyond what code closes that closes "all" descriptors. Where the system allows no
/// such number, the least above the standard ones.
const HIGH: i32 = 900;

/// Takes the standard streams away from the process. Returns them for the protocol: to read from, and to write to.
///
/// # Errors
/// The system has no descriptor left, or no /dev/null.
pub(in crate::doors) fn take() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = fcntl_dupfd_cloexec(rustix::stdio::stdin(), HIGH)
        .or_else(|_| fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3))?;
    let output = fcntl_dupfd_cloexec(rustix::stdio::stdout(), HIGH)
        .or_else(|_| fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3))?;
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input, output))
}
