//! Moves the protocol's streams away from descriptors 0 and 1.
//!
//! Lisp code, C code and the runtime may write to descriptor 1 or read from descriptor 0. Therefore
//! the protocol gets private copies first; then descriptor 0 becomes /dev/null, and descriptor 1 a
//! copy of standard error.

pub(in crate::doors) mod input;
pub(in crate::doors) mod output;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::fcntl_dupfd_cloexec;

use crate::engine::close_in_children;

/// A stream with its device and inode, to detect that its descriptor was closed and reused by other
/// code in the process. Forked children close the descriptor; otherwise the other end could not
/// detect that this process has ended.
pub(in crate::doors) struct ClientStream {
    descriptor: OwnedFd,
    inode: Option<(u64, u64)>,
}

impl ClientStream {
    pub(in crate::doors) fn new(descriptor: OwnedFd) -> Self {
        close_in_children(descriptor.as_raw_fd(), true);
        Self { inode: inode(&descriptor), descriptor }
    }

    /// Returns whether code in this process has closed the stream.
    pub(in crate::doors) fn is_lost(&self) -> bool {
        self.inode.is_none() || inode(&self.descriptor) != self.inode
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        // Unregister the number of the descriptor, because another stream may reuse it.
        close_in_children(self.descriptor.as_raw_fd(), false);
    }
}

impl AsFd for ClientStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

fn inode(descriptor: &OwnedFd) -> Option<(u64, u64)> {
    rustix::fs::fstat(descriptor).ok().map(|stat| (stat.st_dev, stat.st_ino))
}

/// Waits until one of `streams` is ready or `timeout` has passed. Returns whether one is ready.
pub(in crate::doors) fn wait(streams: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<bool> {
    Ok(rustix::io::retry_on_intr(|| poll(streams, timeout))? > 0)
}

/// A timeout that makes [`wait`] return immediately.
pub(in crate::doors) const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// The lowest descriptor for private copies, above the range that programs close in a loop. If the
/// limit on descriptors is lower, any free descriptor above the standard streams is used.
const HIGH: i32 = 900;

/// Duplicates `stream` to a high descriptor.
///
/// # Errors
/// There is no free descriptor.
pub(in crate::doors) fn private_copy(stream: &impl AsFd) -> io::Result<OwnedFd> {
    Ok(fcntl_dupfd_cloexec(stream, HIGH).or_else(|_| fcntl_dupfd_cloexec(stream, 3))?)
}

/// Replaces standard input by /dev/null and standard output by standard error. Returns private
/// copies of the original streams for the protocol's input and output.
///
/// # Errors
/// There is no free descriptor or no /dev/null.
pub(in crate::doors) fn take() -> io::Result<(OwnedFd, OwnedFd)> {
    let input = private_copy(&rustix::stdio::stdin())?;
    let output = private_copy(&rustix::stdio::stdout())?;
    let null = rustix::fs::open("/dev/null", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
    rustix::stdio::dup2_stdin(&null)?;
    rustix::stdio::dup2_stdout(rustix::stdio::stderr())?;
    Ok((input, output))
}
