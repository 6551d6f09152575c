//! The stream to the client. The thread that has an answer writes it, with no thread in between. While one
//! thread writes, others add their lines to its next write; a full buffer blocks the threads that add to it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::input::wait;
use super::stdio::StreamIdentity;

/// The most bytes that may wait for the client to read.
const MOST: usize = 64 << 20;
/// The waiting bytes beyond which progress notifications are dropped.
const MOST_BESIDE_NEWS: usize = 256 << 10;

/// The client's stream.
pub(super) struct ClientOutput {
    stream: OwnedFd,
    identity: StreamIdentity,
    waiting: Mutex<Waiting>,
    /// Notified after each write, and when writing has failed.
    written: Condvar,
    /// Notified when a progress notification waits to be written.
    news: Condvar,
}

#[derive(Default)]
struct Waiting {
    lines: Vec<u8>,
    /// The bytes that the writing thread has taken and not yet written.
    taken: usize,
    writing: bool,
    gone: bool,
    closed: bool,
    /// Whether a progress notification came while nobody wrote.
    news: bool,
}

impl Waiting {
    fn is_full(&self) -> bool {
        self.lines.len() + self.taken >= MOST
    }
}

impl ClientOutput {
    pub(super) fn new(stream: OwnedFd) -> Self {
        Self {
            identity: StreamIdentity::of(&stream),
            stream,
            waiting: Mutex::default(),
            written: Condvar::new(),
            news: Condvar::new(),
        }
    }

    /// Returns the stream's descriptor.
    pub(super) fn stream(&self) -> &OwnedFd {
        &self.stream
    }

    /// Whether code of this process has closed the stream.
    pub(super) fn is_lost(&self) -> bool {
        !self.identity.is(&self.stream)
    }

    /// Whether the buffer is full.
    pub(super) fn is_full(&self) -> bool {
        self.waiting.lock().is_full()
    }

    /// Whether the client has stopped reading.
    pub(super) fn is_gone(&self) -> bool {
        self.waiting.lock().gone
    }

    /// Adds lines, which the next [`ClientOutput::flush`] writes. Never blocks.
    pub(super) fn add(&self, lines: &[u8]) {
        let mut waiting = self.waiting.lock();
        if !waiting.gone {
            waiting.lines.extend_from_slice(lines);
        }
    }

    /// Adds lines and writes them; blocks while the buffer is full.
    pub(super) fn send(&self, lines: &[u8]) {
        let mut waiting = self.waiting.lock();
        while waiting.is_full() && !waiting.gone {
            self.written.wait(&mut waiting);
        }
        if waiting.gone {
            return;
        }
        waiting.lines.extend_from_slice(lines);
        drop(waiting);
        self.flush();
    }

    /// Adds a line that may be dropped if the client reads slowly. Never blocks, as a thread of Lisp's calls
    /// it.
    pub(super) fn offer(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        if waiting.gone || waiting.lines.len() + waiting.taken > MOST_BESIDE_NEWS {
            return;
        }
        waiting.lines.extend_from_slice(line);
        if !waiting.writing {
            waiting.news = true;
            self.news.notify_one();
        }
    }

    /// Writes the waiting lines, unless another thread writes already.
    pub(super) fn flush(&self) {
        let mut waiting = self.waiting.lock();
        if waiting.writing {
            return;
        }
        waiting.writing = true;
        while !waiting.lines.is_empty() && !waiting.gone {
            let mut lines = std::mem::take(&mut waiting.lines);
            waiting.taken = lines.len();
            drop(waiting);
            let outcome = self.write(&lines);
            waiting = self.waiting.lock();
            waiting.taken = 0;
            waiting.gone |= outcome.is_err();
            if waiting.lines.is_empty() && lines.capacity() <= 1 << 20 {
                lines.clear();
                waiting.lines = lines;
            }
            self.written.notify_all();
            if waiting.gone {
                self.news.notify_all();
            }
        }
        waiting.writing = false;
        self.written.notify_all();
    }

    fn write(&self, mut lines: &[u8]) -> io::Result<()> {
        if self.is_lost() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        while !lines.is_empty() {
            match rustix::io::write(&self.stream, lines) {
                Ok(written) => lines = &lines[written..],
                Err(rustix::io::Errno::INTR) => (),
                Err(rustix::io::Errno::AGAIN) => wait(&self.stream, PollFlags::OUT)?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes the lines of [`ClientOutput::offer`], until [`ClientOutput::close`] or the client stops
    /// reading.
    pub(super) fn write_news(&self) {
        let mut waiting = self.waiting.lock();
        while !waiting.closed && !waiting.gone {
            if std::mem::take(&mut waiting.news) {
                drop(waiting);
                self.flush();
                waiting = self.waiting.lock();
            } else {
                self.news.wait(&mut waiting);
            }
        }
    }

    /// Writes all waiting lines, and waits until they are written, or until `end`.
    pub(super) fn drain(&self, end: Option<Instant>) {
        self.flush();
        let mut waiting = self.waiting.lock();
        while (waiting.writing || !waiting.lines.is_empty()) && !waiting.gone {
            match end {
                None => self.written.wait(&mut waiting),
                Some(end) if self.written.wait_until(&mut waiting, end).timed_out() => return,
                Some(_) => (),
            }
        }
    }

    /// Whether nobody has the stream's other end open, as far as the system tells.
    pub(super) fn has_no_reader(&self) -> bool {
        let mut streams = [PollFd::new(&self.stream, PollFlags::empty())];
        poll(&mut streams, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).is_ok()
            && streams[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }

    /// Ends the thread that writes progress notifications.
    pub(super) fn close(&self) {
        self.waiting.lock().closed = true;
        self.news.notify_all();
        self.written.notify_all();
    }
}
