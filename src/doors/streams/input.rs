//! The input stream of a client, split into messages. Reading bytes and taking messages are
//! separate, so that a restart can collect the bytes that were read but not taken.

use std::io;
use std::os::fd::OwnedFd;

use parking_lot::{Condvar, Mutex};
use rustix::event::{EventfdFlags, PollFd, PollFlags};

use super::{ClientStream, NOW, private_copy, wait};

/// The maximum length of a line, in bytes.
const MAX_LINE: usize = 16 << 20;
/// The maximum length of a message after a header, in bytes. Editors send entire documents.
const MAX_BODY: usize = 256 << 20;
/// The maximum length of a header, in bytes.
const MAX_HEADER: usize = 64 << 10;
/// The size of one read, in bytes.
const CHUNK: usize = 64 << 10;

/// How a stream is split into messages.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(in crate::doors) enum Framing {
    /// Each message is a line.
    #[default]
    Lines,
    /// Each message follows a header with its `Content-Length`.
    Headers,
}

/// The input stream of a client.
pub(in crate::doors) struct ClientInput {
    pub(in crate::doors) stream: ClientStream,
    unread: Mutex<Unread>,
    /// An event descriptor, readable while reading is halted and after it has ended for good.
    halt: OwnedFd,
    resumed: Condvar,
}

/// Returns the header of a message of `length` bytes.
pub(in crate::doors) fn header(length: usize) -> String {
    format!("Content-Length: {length}\r\n\r\n")
}

/// The bytes that were read and not yet taken.
#[derive(Default)]
struct Unread {
    framing: Framing,
    bytes: Vec<u8>,
    /// The index of the first byte that was not taken.
    start: usize,
    /// Whether taking and reading are suspended.
    halted: bool,
    /// Whether taking and reading have ended for good.
    closed: bool,
    /// The index up to which no line end was found.
    searched: usize,
    /// Whether the current line is too long, so that its bytes are dropped.
    skipping: bool,
    /// The number of bytes of an overlong body that remain to be dropped.
    dropped: usize,
    ended: bool,
}

/// The result of [`ClientInput::take`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::doors) enum Taken {
    /// A message: a line without its end, or the body after a header.
    Message,
    /// A message that was dropped, because it is too long or has no valid header.
    Refused,
    /// There is no complete message yet.
    Nothing,
    /// The stream has ended.
    End,
}

impl ClientInput {
    /// Creates an input that starts with the bytes in `unread`, which were read from the stream
    /// before, and continues with `stream`.
    ///
    /// # Errors
    /// A descriptor cannot be created.
    pub(in crate::doors) fn new(stream: OwnedFd, framing: Framing, unread: Vec<u8>) -> io::Result<Self> {
        let unread = Mutex::new(Unread { framing, bytes: unread, ..Unread::default() });
        let halt = rustix::event::eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        let halt = private_copy(&halt)?;
        Ok(Self { stream: ClientStream::new(stream), unread, halt, resumed: Condvar::new() })
    }

    /// Suspends taking and reading until [`ClientInput::resume`]. Returns the bytes that were read
    /// but not taken.
    pub(in crate::doors) fn halt(&self) -> Vec<u8> {
        let mut unread = self.unread.lock();
        // Wake the readers that wait for input. They see `halted` when they get the lock.
        unread.halted = true;
        let _ = rustix::io::write(&self.halt, &1_u64.to_ne_bytes());
        // Return a substitute for the dropped bytes of an overlong message, so that the restarted
        // program skips the rest of the message.
        let skipped = match unread.framing {
            Framing::Lines if unread.skipping => vec![b' '; MAX_LINE + 1],
            Framing::Headers if unread.dropped > 0 => header(unread.dropped).into_bytes(),
            _ => Vec::new(),
        };
        [skipped.as_slice(), &unread.bytes[unread.start..]].concat()
    }

    /// Resumes after [`ClientInput::halt`].
    pub(in crate::doors) fn resume(&self) {
        let mut unread = self.unread.lock();
        if !unread.closed {
            let _ = rustix::io::read(&self.halt, &mut [0; 8]);
        }
        unread.halted = false;
        self.resumed.notify_all();
    }

    /// Ends taking and reading for good. Readers see the end of the stream.
    pub(in crate::doors) fn close(&self) {
        let mut unread = self.unread.lock();
        (unread.closed, unread.halted) = (true, false);
        let _ = rustix::io::write(&self.halt, &1_u64.to_ne_bytes());
        self.resumed.notify_all();
    }

    /// Returns whether the stream is a regular file. All messages in a file are answered, because
    /// its end does not mean that the client has disconnected.
    pub(in crate::doors) fn is_file(&self) -> bool {
        rustix::fs::fstat(&self.stream)
            .is_ok_and(|stat| rustix::fs::FileType::from_raw_mode(stat.st_mode).is_file())
    }

    /// Returns whether the client has closed its end of the stream.
    pub(in crate::doors) fn has_no_writer(&self) -> bool {
        let mut streams = [PollFd::new(&self.stream, PollFlags::RDHUP)];
        let hung_up = PollFlags::ERR | PollFlags::HUP | PollFlags::RDHUP;
        wait(&mut streams, Some(&NOW)).is_ok() && streams[0].revents().intersects(hung_up)
            || self.unread.lock().closed
    }

    /// Takes the next complete message into `message`. The last line needs no line end.
    pub(in crate::doors) fn take(&self, message: &mut Vec<u8>) -> Taken {
        let mut unread = self.unread.lock();
        message.clear();
        match unread.framing {
            _ if unread.closed => Taken::End,
            _ if unread.halted => Taken::Nothing,
            Framing::Lines => unread.take_line(message),
            Framing::Headers => unread.take_body(message),
        }
    }

    /// Waits until the stream is readable, and reads from it. Returns without reading when a halt
    /// ends or the input is closed.
    ///
    /// # Errors
    /// Other code in the process has closed the stream, or the stream cannot be read.
    pub(in crate::doors) fn fill(&self) -> io::Result<()> {
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
            if unread.closed {
                return Ok(());
            }
            // Check again under the lock, because another thread may have read first, and a
            // blocking read would hold the lock.
            if !wait(&mut [PollFd::new(&self.stream, PollFlags::IN)], Some(&NOW))? {
                continue;
            }
            unread.make_room();
            unread.bytes.reserve(CHUNK);
            match rustix::io::read(&self.stream, rustix::buffer::spare_capacity(&mut unread.bytes)) {
                Ok(0) => unread.ended = true,
                Ok(_) => (),
                // Wait again after a signal, or if another reader of the stream was faster.
                Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => continue,
                Err(error) => return Err(error.into()),
            }
            return Ok(());
        }
    }
}

impl Unread {
    fn take_line(&mut self, line: &mut Vec<u8>) -> Taken {
        let found = memchr::memchr(b'\n', &self.bytes[self.searched..]);
        let end = match found {
            Some(at) => self.searched + at,
            None => {
                self.searched = self.bytes.len();
                if self.bytes.len() - self.start > MAX_LINE {
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
        if !self.skipping && length <= MAX_LINE {
            line.extend_from_slice(&self.bytes[self.start..end]);
        }
        let too_long = std::mem::take(&mut self.skipping) || length > MAX_LINE;
        self.start = (end + 1).min(self.bytes.len());
        self.searched = self.start;
        if too_long { Taken::Refused } else { Taken::Message }
    }

    fn take_body(&mut self, body: &mut Vec<u8>) -> Taken {
        let dropped = self.dropped.min(self.bytes.len() - self.start);
        self.start += dropped;
        self.dropped -= dropped;
        let rest = &self.bytes[self.start..];
        let none = if self.ended { Taken::End } else { Taken::Nothing };
        let (mut at, mut length) = (0, None);
        loop {
            let Some(end) = memchr::memchr(b'\n', &rest[at..]) else {
                if rest.len() - at <= MAX_HEADER {
                    return none;
                }
                self.start = self.bytes.len();
                return Taken::Refused;
            };
            let line = String::from_utf8_lossy(rest[at..at + end].trim_ascii());
            at += end + 1;
            match line.split_once(':') {
                Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                    length = value.trim().parse::<usize>().ok();
                }
                Some(_) => (),
                None if line.is_empty() => break,
                None => {
                    self.start += at;
                    return Taken::Refused;
                }
            }
        }
        match length {
            Some(length) if length <= MAX_BODY => {
                let Some(found) = rest.get(at..at + length) else { return none };
                body.extend_from_slice(found);
                self.start += at + length;
                Taken::Message
            }
            _ => {
                self.start += at;
                self.dropped = length.unwrap_or(0);
                Taken::Refused
            }
        }
    }

    /// Removes the taken bytes from the buffer if all bytes or more than [`CHUNK`] bytes were
    /// taken.
    fn make_room(&mut self) {
        if self.start == self.bytes.len() {
            self.clear();
        } else if self.start > CHUNK {
            self.bytes.drain(..self.start);
            self.searched = self.searched.saturating_sub(self.start);
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
                line.clear();
                match unread.take_line(&mut line) {
                    Taken::Nothing => break,
                    Taken::End => return taken,
                    what => taken.push((what, line.clone())),
                }
            }
        }
        taken
    }

    #[test]
    fn last_line_needs_no_line_end() {
        let lines = read(&[b"on", b"e\n\nth", b"ree", b""]);
        let expected = [&b"one"[..], b"", b"three"].map(|line| (Taken::Message, line.to_vec()));
        assert_eq!(lines, expected);
    }

    #[test]
    fn bodies_without_valid_header_are_rejected() {
        let mut unread = Unread { framing: Framing::Headers, ..Unread::default() };
        let long = MAX_BODY + 1;
        let text = format!("{}ab\r\nContent-Length: x\r\n\r\n{}cd", header(1), header(2));
        let (mut taken, mut body) = (Vec::new(), Vec::new());
        for chunk in text.as_bytes().chunks(3) {
            unread.bytes.extend_from_slice(chunk);
            loop {
                body.clear();
                match unread.take_body(&mut body) {
                    Taken::Nothing => break,
                    what => taken.push((what, String::from_utf8_lossy(&body).into_owned())),
                }
            }
        }
        let refused = (Taken::Refused, String::new());
        let message = |text: &str| (Taken::Message, text.to_owned());
        assert_eq!(taken, [message("a"), refused.clone(), refused, message("cd")]);
        unread.bytes.extend_from_slice(header(long).as_bytes());
        unread.bytes.extend_from_slice(b"xyz");
        assert_eq!(unread.take_body(&mut body), Taken::Refused);
        assert_eq!((unread.take_body(&mut body), unread.dropped), (Taken::Nothing, long - 3));
    }

    #[test]
    fn halt_does_not_wait_for_client() {
        for _ in 0..200 {
            let (stream, mut client) = std::io::pipe().unwrap();
            let input = Arc::new(ClientInput::new(stream.into(), Framing::Lines, Vec::new()).unwrap());
            // During a takeover, two threads may wait for input.
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
    fn overlong_line_is_skipped() {
        let long = vec![b'x'; MAX_LINE / 2 + 1];
        for chunks in [
            vec![&long[..], &long, b"\nshort\n", b""],
            vec![&[&long[..], &long, b"\nshort\n"].concat()[..], b""],
        ] {
            let lines = read(&chunks);
            assert_eq!(lines, [(Taken::Refused, Vec::new()), (Taken::Message, b"short".to_vec())]);
        }
        assert_eq!(read(&[&long, &long, b""]), [(Taken::Refused, Vec::new())]);
    }
}
