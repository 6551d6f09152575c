//! Lets a client survive a restart of the program in place: interrupts its calls, hands its state
//! over to the restarted program, and resumes it if the restart fails.

use std::os::fd::{AsFd, AsRawFd};
use std::time::Instant;

use super::calls::UnansweredCall;
use super::client::Client;
use crate::doors::restart::{Restartable, Resume};
use crate::handle::recovery::ClientHandover;

impl Restartable for Client {
    fn halt(&self) -> Vec<u8> {
        self.input.halt()
    }

    fn await_calls(&self, lisp_lives: bool, end: Instant) {
        self.calls.wait_for_answers(lisp_lives, end, || !self.output.failed());
        self.output.halt();
    }

    fn hand_over(&self, unread: &[u8], end: Option<Instant>) -> Option<(ClientHandover, Resume<'_>)> {
        let (mut repeated, mut lost) = (Vec::new(), Vec::new());
        // Take the calls twice, because a line that is being processed may become a call.
        for _ in 0..2 {
            for call in self.calls.take_unanswered() {
                call.cancellation.cancel();
                if call.line.is_some() { repeated.push(call) } else { lost.push(call) }
            }
            self.calls.wait_until_written(end, || !self.output.failed());
        }
        let mut handover = ClientHandover::default();
        for call in &repeated {
            handover.unread.extend_from_slice(call.line.as_deref().unwrap_or_default());
            handover.unread.push(b'\n');
        }
        handover.unread.extend_from_slice(unread);
        let errors = lost.iter().flat_map(UnansweredCall::error);
        self.output.add(&errors.collect::<Vec<u8>>());
        handover.unwritten = self.output.unwritten(end)?;
        handover.input = self.input.stream.as_fd().as_raw_fd();
        handover.output = self.output.stream.as_fd().as_raw_fd();
        handover.joined = self.joined.as_ref().map(|joined| joined.hand_over(&self.session));
        handover.protocol = serde_json::to_string(&*self.protocol.lock()).unwrap_or_default();
        let resume = move || {
            self.output.resume();
            self.output.send(&repeated.iter().flat_map(UnansweredCall::error).collect::<Vec<u8>>());
            self.abandon_lisp();
            self.input.resume();
        };
        Some((handover, Box::new(resume)))
    }

    fn abandon_lisp(&self) {
        let failed = self.calls.take_deferred().into_iter().flat_map(|call| call.error());
        self.output.send(&failed.collect::<Vec<u8>>());
    }
}

impl Client {
    /// Defers a call that ended after a request for a restart, or `failed` because Lisp died, so
    /// that the client gets no answer of this image after that call's response. Returns `false` if
    /// the program will not restart.
    pub(super) fn defer_to_next_process(&self, serial: u64, response: &[u8], failed: bool) -> bool {
        let defers = || failed && self.session.will_restart() || self.session.recovery().is_requested();
        if !defers() {
            return false;
        }
        self.calls.defer(serial, response);
        // Check again, because the restart may have been rejected meanwhile.
        if !defers() {
            self.abandon_lisp();
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doors::mcp::message::Id;
    use crate::engine::control::Cancellation;
    use crate::tools::Session;

    const WAIT: std::time::Duration = std::time::Duration::from_secs(60);

    #[test]
    fn restart_hands_over_output_that_nobody_reads() {
        let ((input, _request), (response, output)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let session = Session::starting(|| Err(crate::Error::NeverBegan));
        let (client, _end) = Client::new(input.into(), output.into(), session, None, None).unwrap();
        let line = [vec![b'x'; 300_000], b"\n".to_vec()].concat();
        std::thread::scope(|scope| {
            // The pipe is full before the line is written, so that the writer waits for the client.
            let writer = scope.spawn(|| client.output.send(&line));
            let written = || rustix::io::ioctl_fionread(&response).unwrap();
            while written() < 60_000 {
                std::thread::yield_now();
            }
            client.output.halt();
            writer.join().unwrap();
            client.output.send(b"late\n");
            let (handover, resume) = client.hand_over(b"", Some(Instant::now() + WAIT)).unwrap();
            let rest = usize::try_from(written()).unwrap();
            assert_eq!(handover.unwritten, [&line[rest..], b"late\n"].concat());
            // If the restart fails, the client gets the rest from this program.
            let reader = scope.spawn(|| {
                let mut read = vec![0; line.len() + 5];
                std::io::Read::read_exact(&mut { response }, &mut read).unwrap();
                read
            });
            resume();
            assert_eq!(reader.join().unwrap(), [&line[..], b"late\n"].concat());
        });
    }

    #[test]
    fn restart_repeats_call_from_line_in_progress() {
        let ((input, _request), (_response, output)) = (std::io::pipe().unwrap(), std::io::pipe().unwrap());
        let session = Session::starting(|| Err(crate::Error::NeverBegan));
        let (client, _end) = Client::new(input.into(), output.into(), session, None, None).unwrap();
        client.calls.begin_line();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(std::time::Duration::from_millis(50));
                let line = Some(b"{\"id\":7}".to_vec());
                let serial = client.calls.add(Id::string("late"), Cancellation::default(), line, true);
                client.calls.defer(serial, b"Lisp has died");
                client.calls.end_line();
            });
            let (handover, _) = client.hand_over(b"next\n", Some(Instant::now() + WAIT)).unwrap();
            assert_eq!(handover.unread, b"{\"id\":7}\nnext\n");
        });
    }
}
