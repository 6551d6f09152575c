//! What is one client's: its streams, the protocol's state, its calls, and its session, which has its permissions and
//! tools. Sessions of several clients may share the image and its record of restarts.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::calls::{Calls, Pool, UnansweredCall};
use super::input::ClientInput;
use super::output::ClientOutput;
use super::protocol::Protocol;
use super::reader::ReaderRole;
use super::server::ServeError;
use crate::engine::{Writing, close_on_fork};
use crate::recovery::ClientHandover;
use crate::tools::Session;

/// The time that calls may go on when a client has closed its end, but may still read.
const GRACE: Duration = Duration::from_millis(800);

/// A client. `dispatch` and `call` answer its messages, `reader` reads them.
pub(super) struct Client {
    pub(super) session: Session,
    /// The rendered results of `tools/list`, one for each [`ResultFormat`](super::protocol::ResultFormat).
    pub(super) listing: OnceLock<[Vec<u8>; 2]>,
    pub(super) input: ClientInput,
    pub(super) output: ClientOutput,
    pub(super) protocol: Mutex<Protocol>,
    pub(super) calls: Calls,
    /// The pool for questions that may wait for Lisp, or walk a tree.
    pub(super) questions: Arc<Pool>,
    /// The pool for calls that run code: however many loads wait, a question finds a thread.
    pub(super) code: Arc<Pool>,
    pub(super) reader: ReaderRole,
    ended: Sender<()>,
}

impl Client {
    /// Makes a client on a pair of streams, or takes over that of the process before this one. The receiver hears when there
    /// is nothing more to read, or nobody to write to.
    ///
    /// # Errors
    /// The system refuses a descriptor.
    pub(super) fn new(
        input: OwnedFd,
        output: OwnedFd,
        session: Session,
        handover: Option<&ClientHandover>,
    ) -> Result<(Arc<Self>, Receiver<()>), ServeError> {
        let protocol = handover.and_then(|client| serde_json::from_str(&client.protocol).ok());
        let unread = handover.map(|client| client.unread.clone()).unwrap_or_default();
        close_on_fork(&input);
        close_on_fork(&output);
        let (ended, end) = channel();
        let client = Self {
            session,
            listing: OnceLock::new(),
            input: ClientInput::new(input, unread)?,
            output: ClientOutput::new(output),
            protocol: Mutex::new(protocol.unwrap_or_default()),
            calls: Calls::default(),
            questions: Pool::new(),
            code: Pool::new(),
            reader: ReaderRole::default(),
            ended,
        };
        Ok((Arc::new(client), end))
    }

    /// Runs `body` on a thread of its own.
    pub(super) fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> io::Result<()> {
        let client = Arc::clone(self);
        std::thread::Builder::new().name(name.into()).spawn(move || body(&client)).map(drop)
    }

    /// Notes that there is nothing more to read, or nobody to write to.
    pub(super) fn end(&self) {
        // Ignore the error: nobody waits any more.
        let _ = self.ended.send(());
    }

    /// Ends the calls once the client has left, or seems to have.
    pub(super) fn leave(&self) {
        let reads = || !self.output.is_gone() && !self.output.has_no_reader();
        let end = (!self.input.is_file()).then(|| Instant::now() + GRACE);
        self.calls.wait_until_none(end, reads);
        self.calls.cancel_all();
        // Let no edit be cut by the program's end.
        Writing::wait_for_end();
        if reads() {
            self.output.drain(end);
        }
        self.output.close();
    }

    /// Stops reading, and waits a while for the calls that end soon: those that waited for a dead Lisp get its error. Returns
    /// the input that was read and not taken. `lisp_lives` says that long work may go on, which is not waited for.
    pub(super) fn suspend(&self, lisp_lives: bool) -> Vec<u8> {
        let unread = self.input.halt();
        self.calls.wait_for_answers(lisp_lives, Instant::now() + GRACE, || !self.output.is_gone());
        unread
    }

    /// Hands over to the next process, with `unread` after the lines of the questions that have no answer. Returns
    /// these questions; none if the client has left.
    pub(super) fn hand_over(&self, unread: &[u8]) -> Option<(ClientHandover, Vec<UnansweredCall>)> {
        let (repeated, lost): (Vec<_>, Vec<_>) =
            self.calls.take_unanswered().into_iter().partition(|call| call.line.is_some());
        let mut handover = ClientHandover::default();
        for call in &repeated {
            handover.unread.extend_from_slice(call.line.as_deref().unwrap_or_default());
            handover.unread.push(b'\n');
        }
        handover.unread.extend_from_slice(unread);
        repeated.iter().chain(&lost).for_each(|call| call.cancellation.cancel());
        let errors = lost.iter().flat_map(UnansweredCall::error);
        self.output.add(&errors.collect::<Vec<u8>>());
        self.calls.wait_until_none(None, || !self.output.is_gone());
        self.output.drain(None);
        if self.output.is_gone() {
            return None;
        }
        handover.input = self.input.stream.as_fd().as_raw_fd();
        handover.output = self.output.stream.as_fd().as_raw_fd();
        handover.protocol = serde_json::to_string(&*self.protocol.lock()).unwrap_or_default();
        Some((handover, repeated))
    }
}
