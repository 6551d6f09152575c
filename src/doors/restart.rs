//! Tracks the clients that this process serves, for all protocols, and restarts the program in
//! place without disconnecting them. When Lisp dies or becomes unusable, or a restart is requested,
//! [`ServedClients`] collects each client's state in a [`Handover`] and executes the program again.
//! The restarted program resumes the clients and repeats their interrupted calls. Calls that must
//! not be repeated get an error before the restart.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::Writing;
use crate::handle::recovery::{Cause, ClientHandover, Handover, JoinedClient, Moment};
use crate::tools::Session;
use crate::tools::clients::ClientSlot;

/// How long calls may continue before a restart, or after their client has disconnected.
pub(super) const LEAVING_TIME: Duration = Duration::from_millis(800);
/// How long a restart of a shared image waits for the threads of all clients to stop.
const STOPPING_TIME: Duration = Duration::from_millis(200);
/// The maximum size of the unread output of a client that a restart of a shared image hands over.
const MAX_UNREAD_OUTPUT: usize = 4 << 20;

/// The functions and descriptors needed to restart the program in place.
pub struct RestartHooks {
    /// Receives the causes of restarts, from [`crate::handle::recovery::Recovery::arm`].
    pub causes: Receiver<Cause>,
    /// The socket that clients connect to, if they share the image. If it is set, a restart
    /// disconnects clients that leave much output unread.
    pub listener: Option<RawFd>,
    /// Executes the program again with the handover. Returns only on failure.
    pub execute: Box<dyn Fn(Handover) -> io::Error + Send>,
}

debug_fields!(RestartHooks, listener);

/// The control socket and settings of a client that shares the image.
#[derive(Debug)]
pub struct SharedSocket {
    /// The socket that the client's process keeps open. It is closed when the client disconnects.
    pub socket: OwnedFd,
    /// The client's settings, as serialized by its process.
    pub settings: String,
}

impl SharedSocket {
    /// Returns the part of the client's state that is specific to shared images, for the restarted
    /// program. `session` is the client's session.
    pub(super) fn hand_over(&self, session: &Session) -> JoinedClient {
        JoinedClient {
            socket: self.socket.as_raw_fd(),
            settings: self.settings.clone(),
            number: session.client_slot().map(ClientSlot::number).unwrap_or_default(),
            edits: session.client_slot().map(ClientSlot::edits).unwrap_or_default(),
        }
    }

    /// Waits until the client's process has closed its socket.
    pub(super) fn wait_for_end(&self) {
        while matches!(rustix::io::retry_on_intr(|| rustix::io::read(&self.socket, &mut [0; 64])), Ok(1..)) {}
    }
}

/// Resumes a client after its handover, if the restart fails.
pub(super) type Resume<'a> = Box<dyn FnOnce() + 'a>;

/// A client that can be handed over to the restarted program.
pub(super) trait Restartable: Send + Sync {
    /// Stops reading. Returns the bytes that were read but not processed.
    fn halt(&self) -> Vec<u8>;

    /// Waits for calls in progress, at most until `end`, and stops writing. If `lisp_lives`, calls
    /// that wait for long work may be skipped, because they will not end soon.
    fn await_calls(&self, lisp_lives: bool, end: Instant);

    /// Collects the state for the restarted program: the client's streams, and as unread input its
    /// repeatable calls without a response, followed by `unread`. Returns `None` if the client has
    /// disconnected, or if its threads do not stop until `end`.
    fn hand_over(&self, unread: &[u8], end: Option<Instant>) -> Option<(ClientHandover, Resume<'_>)>;

    /// Answers the interrupted calls with errors, because Lisp has died or become unusable and will
    /// not be restarted.
    fn abandon_lisp(&self);
}

/// The clients of this process. A restart hands all of them over.
pub struct ServedClients {
    /// A session with the Lisp that all clients share.
    session: Session,
    /// Locked during a restart.
    clients: Mutex<Vec<Arc<dyn Restartable>>>,
}

debug_fields!(ServedClients);

impl ServedClients {
    /// Creates an empty set of clients, which will share the Lisp of `session`.
    pub fn new(session: &Session) -> Arc<Self> {
        Arc::new(Self { session: session.clone(), clients: Mutex::default() })
    }

    /// Starts the thread that restarts the program in place with all clients.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn restart_by(self: &Arc<Self>, hooks: RestartHooks) -> io::Result<()> {
        let served = Arc::clone(self);
        let run = move || {
            while let Ok(cause) = hooks.causes.recv() {
                // One restart serves all pending causes. If a client requested a restart, earlier
                // deaths no longer count.
                if hooks.causes.try_iter().any(|cause| cause == Cause::Requested) {
                    served.session.recovery().forget_deaths();
                }
                served.restart_in_place(&hooks, &cause);
            }
        };
        std::thread::Builder::new().name("lisp-restart".into()).spawn(run).map(drop)
    }

    /// Adds the client that `begin` creates and starts. A restart happens either before this call
    /// or includes the client.
    pub(super) fn add<C: Restartable + 'static, E>(
        &self,
        begin: impl FnOnce() -> Result<Arc<C>, E>,
    ) -> Result<Arc<C>, E> {
        let mut clients = self.clients.lock();
        let client = begin()?;
        clients.push(Arc::<C>::clone(&client));
        Ok(client)
    }

    /// Removes a client that has disconnected.
    pub(super) fn remove<C>(&self, client: &Arc<C>) {
        self.clients.lock().retain(|other| !std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(client)));
    }

    /// Executes the program again, and hands over each client's unread input and repeatable calls.
    /// If Lisp has died or become unusable too often, continues without Lisp instead. Does not
    /// restart if all clients have left and no other client can connect.
    fn restart_in_place(&self, hooks: &RestartHooks, cause: &Cause) {
        // The lock keeps new clients out during the restart.
        let clients = self.clients.lock();
        let recovery = self.session.recovery();
        let Some(mut handover) = recovery.decide(cause, Moment::now()) else {
            return clients.iter().for_each(|client| client.abandon_lisp());
        };
        let unread: Vec<_> = clients.iter().map(|client| client.halt()).collect();
        let end = Instant::now() + LEAVING_TIME;
        clients.iter().for_each(|client| client.await_calls(!matches!(cause, Cause::Died(_)), end));
        // Wait for calls that write files, including their responses, and block new calls of this
        // kind.
        let _no_writing = Writing::forbid();
        let mut left = Vec::new();
        let end = hooks.listener.map(|_| Instant::now() + STOPPING_TIME);
        for (client, unread) in clients.iter().zip(&unread) {
            if let Some((handed, resume)) = client.hand_over(unread, end)
                && (end.is_none() || handed.unwritten.len() <= MAX_UNREAD_OUTPUT)
            {
                handover.clients.push(handed);
                left.push(resume);
            }
        }
        if handover.clients.is_empty() && hooks.listener.is_none() {
            return;
        }
        handover.listener = hooks.listener;
        handover.project = self.session.project_folder();
        (hooks.execute)(handover);
        // The restart failed: continue without Lisp.
        recovery.give_up();
        left.into_iter().for_each(|resume| resume());
    }
}
