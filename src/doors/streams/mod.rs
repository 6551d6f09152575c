//! Moves the protocol's streams out of reach for all other code in the process.
//!
//! Lisp code, C code and the runtime itself may write to descriptor 1 or read from descriptor 0. So the
//! protocol gets private copies first, then 0 becomes empty, and 1 another standard error.

pub(in crate::doors) mod input;
pub(in crate::doors) mod output;

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, Timespec, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::fcntl_dupfd_cloexec;

use crate::engine::keep_from_children;

/// A stream with its device and inode, to notice when its descriptor has been closed and reused: code in the process may
/// close any. Children that code of this process forks close it: its other end could not see otherwise that the process
/// has ended.
pub(in crate::doors) struct ClientStream {
    descriptor: OwnedFd,
    inode: Option<(u64, u64)>,
}

impl ClientStream {
    pub(in crate::doors) fn new(descriptor: OwnedFd) -> Self {
        keep_from_children(descriptor.as_raw_fd(), true);
        Self { inode: inode(&descriptor), descriptor }
    }

    /// Whether code of this process has closed the stream.
    pub(in crate::doors) fn is_lost(&self) -> bool {
        self.inode.is_none() || inode(&self.descriptor) != self.inode
    }
}

impl Drop for ClientStream {
    fn drop(&mut self) {
        // Forget the number: the next descriptor that has it is another's.
        keep_from_children(self.descriptor.as_raw_fd(), false);
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

/// Waits until one of `streams` is ready, or until `timeout`. Whether one is.
pub(in crate::doors) fn wait(streams: &mut [PollFd<'_>], timeout: Option<&Timespec>) -> io::Result<bool> {
    Ok(rustix::io::retry_on_intr(|| poll(streams, timeout))? > 0)
}

/// A timeout for [`wait`] that does not wait.
pub(in crate::doors) const NOW: Timespec = Timespec { tv_sec: 0, tv_nsec: 0 };

/// Lowest descriptor for private copies: above those that programs close in a loop. Where the system allows no such number, the least above the standard ones is taken.
const HIGH: i32 = 900;

/// Copies `stream` to a descriptor with a high number.
///
/// # Errors
/// The system has no free descriptor.
pub(in crate::doors) fn out_of_reach(stream: &impl AsFd) -> io::Result<OwnedFd> {
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
