//! What is one client's: its streams, the protocol's state, its calls, and its session, which has its permissions and
//! tools. Sessions of several clients may share the image and its record of restarts.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;

use super::calls::{Calls, Pool};
use super::protocol::Protocol;
use super::reader::ReaderRole;
use super::server::ServeError;
use crate::doors::restart::{Joined, LEAVING_TIME};
use crate::doors::streams::input::{ClientInput, Framing};
use crate::doors::streams::output::ClientOutput;
use crate::engine::Writing;
use crate::handle::recovery::ClientHandover;
use crate::tools::Session;

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
    pub(super) joined: Option<Joined>,
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
            self.spawn("mcp-socket", |client| {
                client.joined.iter().for_each(Joined::wait_for_end);
                client.end();
            })?;
        }
        self.spawn("mcp-standby", Self::stand_by)?;
        self.spawn("mcp-read", |client| client.read_lines(0))
    }
}
