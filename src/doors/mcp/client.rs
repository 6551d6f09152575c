//! The state of one client: its streams, the protocol, its calls, and its session with permissions
//! and tools. The sessions of several clients may share one image.

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
use crate::doors::restart::{LEAVING_TIME, SharedSocket};
use crate::doors::streams::input::{ClientInput, Framing};
use crate::doors::streams::output::ClientOutput;
use crate::engine::Writing;
use crate::handle::recovery::ClientHandover;
use crate::tools::Session;

/// One client. `reader` reads its messages; `dispatch`, `call` and `query` answer them.
pub(super) struct Client {
    pub(super) session: Session,
    /// The serialized results of `tools/list`, one for each
    /// [`ResultFormat`](super::protocol::ResultFormat).
    pub(super) listing: OnceLock<[Vec<u8>; 2]>,
    pub(super) input: ClientInput,
    pub(super) output: ClientOutput,
    pub(super) protocol: Mutex<Protocol>,
    pub(super) calls: Calls,
    /// The pool for calls that run no code. These calls may wait for Lisp or walk a folder tree.
    pub(super) questions: Arc<Pool>,
    /// The pool for calls that run code. The pool is separate so that long loads never block other
    /// calls.
    pub(super) code: Arc<Pool>,
    pub(super) reader: ReaderRole,
    pub(super) joined: Option<SharedSocket>,
    ended: Sender<()>,
}

impl Client {
    /// Creates a client on a pair of streams, or resumes the client in `handover`. The receiver
    /// gets a message when [`Client::end`] is called.
    ///
    /// # Errors
    /// A descriptor cannot be created.
    pub(super) fn new(
        input: OwnedFd,
        output: OwnedFd,
        session: Session,
        joined: Option<SharedSocket>,
        handover: Option<&ClientHandover>,
    ) -> Result<(Arc<Self>, Receiver<()>), ServeError> {
        let protocol: Option<Protocol> =
            handover.and_then(|client| serde_json::from_str(&client.protocol).ok());
        if let (Some(seat), Some(name)) =
            (session.client_slot(), protocol.as_ref().and_then(Protocol::client))
        {
            seat.set_name(name);
        }
        let ClientHandover { unread, unwritten, .. } = handover.cloned().unwrap_or_default();
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
        client.output.queue(&unwritten);
        Ok((Arc::new(client), end))
    }

    /// Runs `body` on a new thread.
    pub(super) fn spawn(
        self: &Arc<Self>,
        name: &str,
        body: impl FnOnce(&Arc<Self>) + Send + 'static,
    ) -> io::Result<()> {
        let client = Arc::clone(self);
        std::thread::Builder::new().name(name.into()).spawn(move || body(&client)).map(drop)
    }

    /// Reports that the client has disconnected: the input has ended, the output is closed, or the
    /// client's process has closed its [`SharedSocket`].
    pub(super) fn end(&self) {
        // Ignore the error: the receiver no longer waits.
        let _ = self.ended.send(());
    }

    /// Ends the calls of a client that has disconnected. First waits for them for a short time,
    /// while the client still reads responses. The time is unlimited if the input is a file.
    pub(super) fn leave(&self) {
        let reads = || !self.output.failed() && !self.output.has_no_reader();
        let end = (!self.input.is_file()).then(|| Instant::now() + LEAVING_TIME);
        self.calls.wait_until_none(end, reads);
        self.calls.cancel_all();
        // Wait for file writes, so that the end of the program interrupts no edit.
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

    /// Starts the client's threads: the reader, its standby thread, the writer of progress
    /// notifications and, if the image is shared, a thread that waits until the socket is closed.
    pub(super) fn spawn_threads(self: &Arc<Self>) -> io::Result<()> {
        self.spawn("mcp-progress", |client| {
            client.output.run_progress_writer();
            client.end();
        })?;
        if self.joined.is_some() {
            self.spawn("mcp-socket", |client| {
                client.joined.iter().for_each(SharedSocket::wait_for_end);
                client.end();
            })?;
        }
        self.spawn("mcp-standby", Self::stand_by)?;
        self.spawn("mcp-read", |client| client.read_lines(0))
    }
}
