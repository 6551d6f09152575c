//! The protocol's streams, out of reach for everything else in the process.
//!
//! Lisp code, C code and the runtime itself may write to descriptor 1 or read from descriptor 0. So the protocol moves
//! to private copies first, 0 becomes empty, and 1 becomes another standard error.

use std::fs::File;
use std::io;

use rustix::fs::{Mode, OFlags};
use rustix::io::fcntl_dupfd_cloexec;

/// Takes the standard streams away from the process. Returns them for the protocol: to read from, and to write to.
///
/// # Errors
/// The system has no descriptor left, or no /dev/null.
pub(super) fn take() -> io::Result<(File, File)> {
    // Above 2, so that closing the standard descriptors does no harm either.
    let input = fcntl_dupfd_cloexec(rustix::stdio::stdin(), 3)?;
    let output = fcntl_dupfd_cloexec(rustix::stdio::stdout(), 3)?;
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((File::from(input), File::from(output)))
}
