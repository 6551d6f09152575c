//! The client's stream, split into lines. Reading and taking lines are separate, so that a restart can
//! collect what was read and not taken.

use std::io;
use std::os::fd::OwnedFd;

use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, PollFd, PollFlags};

use super::stdio::{ClientStream, NOW, out_of_reach, wait};

/// The longest message that is read, in bytes.
const LONGEST: usize = 16 << 20;
/// The size of one read, in bytes.
const CHUNK: usize = 64 << 10;

/// The client's stream.
pub(super) struct ClientInput {
    pub(super) stream: ClientStream,
    unread: Mutex<Unread>,
    /// An event descriptor, readable while reading is halted.
    halt: OwnedFd,
    resumed: Condvar,
}

/// The bytes that were read and not yet taken.
#[derive(Default)]
struct Unread {
    bytes: Vec<u8>,
    /// The bytes before this index were taken.
    start: usize,
    /// Whether nothing more may be taken or read.
    halted: bool,
    /// The bytes before this index have no line end.
    searched: usize,
    /// Whether the current line is too long, and its bytes so far were dropped.
    skipping: bool,
    ended: bool,
}

/// The result of [`ClientInput::take`].
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// A line, without its end.
    Line,
    /// A line that was too long.
    TooLong,
    /// No whole line is there.
    Nothing,
    /// The stream has ended.
    End,
}

impl ClientInput {
    /// Reads `stream`, after the bytes in `unread`, which were read from it before.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub(super) fn new(stream: OwnedFd, unread: Vec<u8>) -> io::Result<Self> {
        let unread = Mutex::new(Unread { bytes: unread, ..Unread::default() });
        let halt = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let halt = out_of_reach(&halt)?;
        Ok(Self { stream: ClientStream::new(stream), unread, halt, resumed: Condvar::new() })
    }

    /// Stops taking and reading, until [`ClientInput::resume`]. Returns what was read and not taken.
    pub(super) fn halt(&self) -> Vec<u8> {
        let mut unread = self.unread.lock();
        // Set this before waking the readers: one that missed it would read, and wait for the client with the
        // lock held.
        unread.halted = true;
        let _ = rustix::io::write(&self.halt, &1_u64.to_ne_bytes());
        // Stand in for an overlong line whose bytes were dropped, so that the next image refuses it too.
        let skipped = if unread.skipping { vec![b' '; LONGEST + 1] } else { Vec::new() };
        [skipped.as_slice(), &unread.bytes[unread.start..]].concat()
    }

    /// Resumes after [`ClientInput::halt`].
    pub(super) fn resume(&self) {
        let _ = rustix::io::read(&self.halt, &mut [0; 8]);
        self.unread.lock().halted = false;
        self.resumed.notify_all();
    }

    /// Whether the stream is a file on disk. It is answered to its end: its writer does not leave.
    pub(super) fn is_file(&self) -> bool {
        rustix::fs::fstat(&self.stream)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file())
    }

    /// Takes the next whole line into `line`. A last line without an end counts.
    pub(super) fn take(&self, line: &mut Vec<u8>) -> Taken {
        let mut unread = self.unread.lock();
        if unread.halted {
            line.clear();
            return Taken::Nothing;
        }
        unread.take(line)
    }

    /// Waits until the stream is readable, and reads from it.
    ///
    /// # Errors
    /// The stream cannot be read any more.
    pub(super) fn fill(&self) -> io::Result<()> {
        loop {
            wait(
                &mut [PollFd::new(&self.stream, PollFlags::IN), PollFd::new(&self.halt, PollFlags::IN)],
                None,
            )?;
            if self.stream.is_lost() {
                return Err(io::ErrorKind::NotConnected.into());
            }
            let mut unread = self.unread.lock();
            if unread.halted {
                while unread.halted {
                    self.resumed.wait(&mut unread);
                }
                return Ok(());
            }
            // Check again under the lock: another thread may have read first, and a read that waits would
            // hold the lock.
            if !wait(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&NOW))? {
                continue;
            }
            unread.make_room();
            unread.bytes.reserve(CHUNK);
            match rustix::io::read(&self.stream, rustix::buffer::spare_capacity(&mut unread.bytes)) {
                Ok(0) => unread.ended = true,
                Ok(_) => (),
                // Wait again after a signal, or if another reader of the stream was first.
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            return Ok(());
        }
    }
}

impl Unread {
    fn take(&mut self, line: &mut Vec<u8>) -> Taken {
        line.clear();
        let found = memchr::memchr(b'\n', &self.bytes[self.searched..]);
        let end = match found {
            Some(at) => self.searched + at,
            None => {
                self.searched = self.bytes.len();
                if self.bytes.len() - self.start > LONGEST {
                    self.skipping = true;
                    self.clear();
                }
                if !self.ended {
                    return Taken::Nothing;
                }
                if self.start == self.bytes.len() && !self.skipping {
                    return Taken::End;
                }
                self.bytes.len()
            }
        };
        let length = end - self.start;
        if !self.skipping && length <= LONGEST {
            line.extend_from_slice(&self.bytes[self.start..end]);
        }
        let too_long = std::mem::take(&mut self.skipping) || length > LONGEST;
        self.start = (end + 1).min(self.bytes.len());
        self.searched = self.start;
        if too_long { Taken::TooLong } else { Taken::Line }
    }

    /// Drops the taken bytes, where that is cheap.
    fn make_room(&mut self) {
        if self.start == self.bytes.len() {
            self.clear();
        } else if self.start > CHUNK {
            self.bytes.drain(..self.start);
            self.searched -= self.start;
            self.start = 0;
        }
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.bytes.shrink_to(4 * CHUNK);
        (self.start, self.searched) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    fn read(chunks: &[&[u8]]) -> Vec<(Taken, Vec<u8>)> {
        let mut unread = Unread::default();
        let (mut taken, mut line) = (Vec::new(), Vec::new());
        for chunk in chunks {
            unread.make_room();
            unread.bytes.extend_from_slice(chunk);
            unread.ended = chunk.is_empty();
            loop {
                match unread.take(&mut line) {
                    Taken::Nothing => break,
                    Taken::End => return taken,
                    what => taken.push((what, line.clone())),
                }
            }
        }
        taken
    }

    #[test]
    fn lines_are_read_whole_and_the_last_needs_no_end() {
        let lines = read(&[b"on", b"e\n\nth", b"ree", b""]);
        let expected = [&b"one"[..], b"", b"three"].map(|line| (Taken::Line, line.to_vec()));
        assert_eq!(lines, expected);
    }

    #[test]
    fn halting_waits_for_no_client() {
        for _ in 0..200 {
            let (stream, mut client) = std::io::pipe().unwrap();
            let input = Arc::new(ClientInput::new(stream.into(), Vec::new()).unwrap());
            // Two may wait for a line, when one leads on.
            let readers = [0, 1].map(|_| {
                let input = Arc::clone(&input);
                std::thread::spawn(move || {
                    let mut line = Vec::new();
                    while input.fill().is_ok() {
                        if input.take(&mut line) == Taken::End {
                            return;
                        }
                    }
                })
            });
            std::io::Write::write_all(&mut client, b"a line\n").unwrap();
            input.halt();
            input.resume();
            input.halt();
            drop(client);
            input.resume();
            readers.into_iter().for_each(|reader| reader.join().unwrap());
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_skipped_and_the_next_one_read() {
        let long = vec![b'x'; LONGEST / 2 + 1];
        for chunks in [
            vec![&long[..], &long, b"\nshort\n", b""],
            vec![&[&long[..], &long, b"\nshort\n"].concat()[..], b""],
        ] {
            let lines = read(&chunks);
            assert_eq!(lines, [(Taken::TooLong, Vec::new()), (Taken::Line, b"short".to_vec())]);
        }
        assert_eq!(read(&[&long, &long, b""]), [(Taken::TooLong, Vec::new())]);
    }
}
