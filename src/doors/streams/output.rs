//! The stream to the client. The thread that has an answer writes it, with no thread in between. While one
//! thread writes, others add their lines to its next write; a full buffer blocks the threads that add to it.

use std::io;
use std::os::fd::OwnedFd;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use rustix::event::{PollFd, PollFlags};

use super::{ClientStream, NOW, wait};

/// The most bytes that may wait for the client to read.
const MOST_UNREAD: usize = 64 << 20;
/// The waiting bytes beyond which progress notifications are dropped.
const PROGRESS_DROP_ABOVE: usize = 256 << 10;

/// The client's stream.
pub(in crate::doors) struct ClientOutput {
    pub(in crate::doors) stream: ClientStream,
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
        self.lines.len() + self.taken >= MOST_UNREAD
    }
}

impl ClientOutput {
    pub(in crate::doors) fn new(stream: OwnedFd) -> Self {
        Self {
            stream: ClientStream::new(stream),
            waiting: Mutex::default(),
            written: Condvar::new(),
            news: Condvar::new(),
        }
    }

    /// Whether the buffer is full.
    pub(in crate::doors) fn is_full(&self) -> bool {
        self.waiting.lock().is_full()
    }

    /// Whether the client has stopped reading.
    pub(in crate::doors) fn is_gone(&self) -> bool {
        self.waiting.lock().gone
    }

    /// Adds lines, which the next [`ClientOutput::flush`] writes. Never blocks.
    pub(in crate::doors) fn add(&self, lines: &[u8]) {
        let mut waiting = self.waiting.lock();
        if !waiting.gone {
            waiting.lines.extend_from_slice(lines);
        }
    }

    /// Adds lines and writes them; blocks while the buffer is full.
    pub(in crate::doors) fn send(&self, lines: &[u8]) {
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
    pub(in crate::doors) fn try_queue_progress(&self, line: &[u8]) {
        let mut waiting = self.waiting.lock();
        if waiting.gone || waiting.lines.len() + waiting.taken > PROGRESS_DROP_ABOVE {
            return;
        }
        waiting.lines.extend_from_slice(line);
        if !waiting.writing {
            waiting.news = true;
            self.news.notify_one();
        }
    }

    /// Writes the waiting lines, unless another thread writes already.
    pub(in crate::doors) fn flush(&self) {
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
        if self.stream.is_lost() {
            return Err(io::ErrorKind::NotConnected.into());
        }
        while !lines.is_empty() {
            match rustix::io::write(&self.stream, lines) {
                Ok(written) => lines = &lines[written..],
                Err(rustix::io::Errno::INTR) => (),
                // Wait where another process that shares the stream has made it non-blocking.
                Err(rustix::io::Errno::AGAIN) => {
                    wait(&mut [PollFd::new(&self.stream, PollFlags::OUT)], None)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Writes the lines of [`ClientOutput::try_queue_progress`], until [`ClientOutput::close`] or the client stops
    /// reading.
    pub(in crate::doors) fn run_progress_writer(&self) {
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

    /// Writes all waiting lines, and waits until they are written, or until `end`. Whether they are.
    pub(in crate::doors) fn drain(&self, end: Option<Instant>) -> bool {
        self.flush();
        let mut waiting = self.waiting.lock();
        while (waiting.writing || !waiting.lines.is_empty()) && !waiting.gone {
            match end {
                None => self.written.wait(&mut waiting),
                Some(end) if self.written.wait_until(&mut waiting, end).timed_out() => return false,
                Some(_) => (),
            }
        }
        true
    }

    /// Whether nobody has the stream's other end open, as far as the system tells.
    pub(in crate::doors) fn has_no_reader(&self) -> bool {
        let mut streams = [PollFd::new(&self.stream, PollFlags::empty())];
        wait(&mut streams, Some(&NOW)).is_ok()
            && streams[0].revents().intersects(PollFlags::ERR | PollFlags::HUP)
    }

    /// Ends the thread that writes progress notifications.
    pub(in crate::doors) fn close(&self) {
        self.waiting.lock().closed = true;
        self.news.notify_all();
        self.written.notify_all();
    }
}
