//! The output stream to a client. A thread writes its response itself, without a thread switch.
//! While it writes, other threads add their lines to the next write. [`ClientOutput::send`] blocks
//! while the buffer is full. A restart halts the writing and collects the lines that the client has
//! not read, so that it waits for no client.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec};

use super::{ClientStream, NOW, wait};

/// The number of waiting bytes at which the buffer is full.
const MAX_UNREAD: usize = 64 << 20;
/// The number of waiting bytes above which progress notifications are dropped.
const PROGRESS_DROP_ABOVE: usize = 256 << 10;
/// The maximum size of one write, in bytes. A stream that is ready takes it without blocking.
const CHUNK: usize = 4096;
/// The interval at which a thread that waits for the client checks whether writing is halted.
const HALT_CHECK: Timespec = Timespec { tv_sec: 0, tv_nsec: 20_000_000 };

/// The output stream to a client.
pub(in crate::doors) struct ClientOutput {
    pub(in crate::doors) stream: ClientStream,
    waiting: Mutex<Waiting>,
    /// Notified after each write and when writing has failed.
    written: Condvar,
    /// Notified when a progress notification waits to be written.
    progress_added: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    /// The number of bytes that the writing thread has taken but not yet written.
    taken: usize,
    writing: bool,
    /// Whether writing is suspended.
    halted: bool,
    failed: bool,
    closed: bool,
    /// Whether a progress notification was added while no thread was writing.
    progress: bool,
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.lines.len() + self.taken >= MAX_UNREAD
    }
}

impl ClientOutput {
    pub(in crate::doors) fn new(stream: OwnedFd) -> Self {
        Self {
            stream: ClientStream::new(stream),
            waiting: Mutex::default(),
            written: Condvar::new(),
            progress_added: Condvar::new(),
        }
    }

    /// Returns whether the buffer is full.
    pub(in crate::doors) fn is_full(&self) -> bool {
        self.waiting.lock().is_full()
    }

    /// Returns whether writing has failed, usually because the client has closed its end.
    pub(in crate::doors) fn failed(&self) -> bool {
        self.waiting.lock().failed
    }

    /// Adds lines, which the next [`ClientOutput::flush`] writes. Drops them if writing has failed.
    /// Never blocks.
    pub(in crate::doors) fn add(&self, lines: &[u8]) {
        let mut waiting = self.waiting.lock();
        if !waiting.failed {
            waiting.lines.extend_from_slice(lines);
        }
    }

    /// Adds lines for the thread of [`ClientOutput::run_progress_writer`]. Never blocks, and drops
    /// nothing.
    pub(in crate::doors) fn queue(&self, lines: &[u8]) {
        let mut waiting = self.waiting.lock();
        if !waiting.failed {
            waiting.lines.extend_from_slice(lines);
            waiting.progress |= !waiting.writing;
            self.progress_added.notify_one();
        }
    }

    /// Adds lines and writes them, unless another thread is writing: then that thread writes them,
    /// too. Blocks while the buffer is full. Drops the lines if writing has failed.
    pub(in crate::doors) fn send(&self, lines: &[u8]) {
        let mut waiting = self.waiting.lock();
        while waiting.is_full() && !waiting.failed && !waiting.halted {
            self.written.wait(&mut waiting);
        }
        if waiting.failed {
            return;
        }
        waiting.lines.extend_from_slice(lines);
        drop(waiting);
        self.flush();
    }

    /// Adds a line that may be dropped if the client reads slowly. Never blocks, because Lisp's
    /// threads call it.
    pub(in crate::doors) fn try_queue_progress(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        if waiting.failed || waiting.lines.len() + waiting.taken > PROGRESS_DROP_ABOVE {
            return;
        }
        waiting.lines.extend_from_slice(line);
        if !waiting.writing {
            waiting.progress = true;
            self.progress_added.notify_one();
        }
    }

    /// Writes the waiting lines, unless another thread is writing.
    pub(in crate::doors) fn flush(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.writing {
            return;
        }
        waiting.writing = true;
        while !waiting.lines.is_empty() && !waiting.failed && !waiting.halted {
            let mut lines = std::mem::take(&mut waiting.lines);
            waiting.taken = lines.len();
            drop(waiting);
            let outcome = self.write(&lines);
            waiting = self.waiting.lock();
            waiting.taken = 0;
            waiting.failed |= outcome.is_err();
            let written = outcome.unwrap_or(lines.len());
            if written < lines.len() {
                lines.drain(..written);
                lines.append(&mut waiting.lines);
                waiting.lines = lines;
            } else if waiting.lines.is_empty() && lines.capacity() <= 1 << 20 {
                lines.clear();
                waiting.lines = lines;
            }
            self.written.notify_all();
            if waiting.failed {
                self.progress_added.notify_all();
            }
        }
        waiting.writing = false;
        self.written.notify_all();
    }

    /// Writes `lines` unless writing is halted. Returns the number of bytes written.
    fn write(&self, lines: &[u8]) -> io::Result<usize> {
        if self.stream.is_lost() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        let mut written = 0;
        while written < lines.len() && !self.waiting.lock().halted {
            if !wait(&mut [PollFd::new(&self.stream, PollFlags::OUT)], Some(&HALT_CHECK))? {
                continue;
            }
            match rustix::io::write(&self.stream, &lines[written..lines.len().min(written + CHUNK)]) {
                Ok(count) => written += count,
                Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => (),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(written)
    }

    /// Suspends writing until [`ClientOutput::resume`]. Lines can still be added.
    pub(in crate::doors) fn halt(&self) {
        self.waiting.lock().halted = true;
        self.written.notify_all();
    }

    /// Resumes after [`ClientOutput::halt`].
    pub(in crate::doors) fn resume(&self) {
        let mut waiting = self.waiting.lock();
        (waiting.halted, waiting.progress) = (false, true);
        self.progress_added.notify_one();
    }

    /// Returns the lines that remain to be written. Call this function while writing is halted.
    /// Returns `None` if writing has failed or does not stop until `end`.
    pub(in crate::doors) fn unwritten(&self, end: Option<Instant>) -> Option<Vec<u8>> {
        let has_stopped = self.drain(end);
        let waiting = self.waiting.lock();
        (has_stopped && !waiting.failed).then(|| waiting.lines.clone())
    }

    /// Writes the lines of [`ClientOutput::try_queue_progress`] until [`ClientOutput::close`] or a
    /// write failure.
    pub(in crate::doors) fn run_progress_writer(&self) {
        let mut waiting = self.waiting.lock();
        while !waiting.closed && !waiting.failed {
            if std::mem::take(&mut waiting.progress) {
                drop(waiting);
                self.flush();
                waiting = self.waiting.lock();
            } else {
                self.progress_added.wait(&mut waiting);
            }
        }
    }

    /// Writes all waiting lines, and waits until they are written, writing fails or is halted, or
    /// `end` has passed. Returns `false` only after `end`.
    pub(in crate::doors) fn drain(&self, end: Option<Instant>) -> bool {
        self.flush();
        let mut waiting = self.waiting.lock();
        while (waiting.writing || !waiting.lines.is_empty() && !waiting.halted) && !waiting.failed {
            match end {
                None => self.written.wait(&mut waiting),
                Some(end) if self.written.wait_until(&mut waiting, end).timed_out() => return false,
                Some(_) => (),
            }
        }
        true
    }

    /// Returns whether the other end of the stream has been closed.
    pub(in crate::doors) fn has_no_reader(&self) -> bool {
        let mut streams = [PollFd::new(&self.stream, PollFlags::empty())];
        wait(&mut streams, Some(&NOW)).is_ok()
            && streams[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }

    /// Ends the thread that writes progress notifications.
    pub(in crate::doors) fn close(&self) {
        self.waiting.lock().closed = true;
        self.progress_added.notify_all();
        self.written.notify_all();
    }
}
