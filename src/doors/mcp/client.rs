//! What is one client's: its streams, the protocol's state, its calls, and its session, which has its permissions and
//! tools. Sessions of several clients may share the image and its record of restarts.

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::calls::{Calls, Pool, UnansweredCall};
use super::protocol::Protocol;
use super::reader::ReaderRole;
use super::server::ServeError;
use crate::doors::streams::input::{ClientInput, Framing};
use crate::doors::streams::output::ClientOutput;
use crate::engine::Writing;
use crate::handle::recovery::{ClientHandover, JoinedClient};
use crate::tools::Session;
use crate::tools::clients::Seat;

/// The time that calls may go on when a client has closed its end, but may still read.
const LEAVING_TIME: Duration = Duration::from_millis(800);

/// The time that a restart waits for a client that does not read, where others wait for the restart.
const UNREAD_RESTART_TIME: Duration = Duration::from_secs(5);

/// What a client that shares the image has handed over besides its streams.
#[derive(Debug)]
pub struct Joined {
    /// The socket that it keeps open: its end is the client's leaving.
    pub socket: OwnedFd,
    /// Its own settings, as its process wrote them.
    pub settings: String,
}

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
    joined: Option<Joined>,
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
        joined: Option<Joined>,
        handover: Option<&ClientHandover>,
    ) -> Result<(Arc<Self>, Receiver<()>), ServeError> {
        let protocol: Option<Protocol> =
            handover.and_then(|client| serde_json::from_str(&client.protocol).ok());
        if let (Some(seat), Some(name)) = (session.seat(), protocol.as_ref().and_then(Protocol::client)) {
            seat.set_name(name);
        }
        let unread = handover.map(|client| client.unread.clone()).unwrap_or_default();
        let (ended, end) = channel();
        let client = Self {
            session,
            listing: OnceLock::new(),
            input: ClientInput::new(input, Framing::Lines, unread)?,
            output: ClientOutput::new(output),
            protocol: Mutex::new(protocol.unwrap_or_default()),
            calls: Calls::default(),
            questions: Pool::new(),
            code: Pool::new(),
            reader: ReaderRole::default(),
            joined,
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
        let end = (!self.input.is_file()).then(|| Instant::now() + LEAVING_TIME);
        self.calls.wait_until_none(end, reads);
        self.calls.cancel_all();
        // Let no edit be cut by the program's end.
        Writing::wait_for_end();
        if reads() {
            self.output.drain(end);
        }
        self.close();
    }

    /// Ends the client's threads.
    pub(super) fn close(&self) {
        self.output.close();
        self.input.close();
        self.reader.close();
    }

    /// Spawns the threads that read and write.
    pub(super) fn spawn_threads(self: &Arc<Self>) -> io::Result<()> {
        self.spawn("mcp-progress", |client| {
            client.output.run_progress_writer();
            client.end();
        })?;
        if self.joined.is_some() {
            self.spawn("mcp-socket", |client| client.watch_socket())?;
        }
        self.spawn("mcp-standby", Self::stand_by)?;
        self.spawn("mcp-read", |client| client.read_lines(0))
    }

    /// Waits until the client's process has closed its socket, and notes that it has left.
    fn watch_socket(&self) {
        let Some(joined) = &self.joined else { return };
        while matches!(rustix::io::retry_on_intr(|| rustix::io::read(&joined.socket, &mut [0; 64])), Ok(1..))
        {
        }
        self.end();
    }

    /// Stops reading the `clients`, and waits a while for the calls that end soon: those that waited for a dead Lisp get its
    /// error. Returns the input of each that was read and not taken. `lisp_lives` says that long work may go on, which is not
    /// waited for.
    pub(super) fn suspend(clients: &[Arc<Self>], lisp_lives: bool) -> Vec<Vec<u8>> {
        let unread = clients.iter().map(|client| client.input.halt()).collect();
        let end = Instant::now() + LEAVING_TIME;
        for client in clients {
            client.calls.wait_for_answers(lisp_lives, end, || !client.output.is_gone());
        }
        unread
    }

    /// Hands over to the next process, with `unread` after the lines of the questions that have no answer. Returns
    /// these questions; none if the client has left, or if it does not read what is written while others wait.
    pub(super) fn hand_over(
        &self,
        unread: &[u8],
        others: bool,
    ) -> Option<(ClientHandover, Vec<UnansweredCall>)> {
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
        self.calls
            .wait_until_none(others.then(|| Instant::now() + UNREAD_RESTART_TIME), || !self.output.is_gone());
        if !self.output.drain(others.then(|| Instant::now() + UNREAD_RESTART_TIME)) || self.output.is_gone() {
            return None;
        }
        handover.input = self.input.stream.as_fd().as_raw_fd();
        handover.output = self.output.stream.as_fd().as_raw_fd();
        handover.joined = self.joined.as_ref().map(|joined| JoinedClient {
            socket: joined.socket.as_raw_fd(),
            settings: joined.settings.clone(),
            number: self.session.seat().map(Seat::number).unwrap_or_default(),
            edits: self.session.seat().map(Seat::edits).unwrap_or_default(),
        });
        handover.protocol = serde_json::to_string(&*self.protocol.lock()).unwrap_or_default();
        Some((handover, repeated))
    }
}
