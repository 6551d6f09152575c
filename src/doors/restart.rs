//! The clients that are served in one process, of whatever protocol, and the program executed again in place with all of them:
//! hands the state over, and answers or repeats the calls.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::engine::Writing;
use crate::handle::recovery::{Cause, ClientHandover, Handover, JoinedClient, Moment};
use crate::tools::Session;
use crate::tools::clients::Seat;

/// The time that calls may go on before they are left to the next process, or when their client has closed its end.
pub(super) const LEAVING_TIME: Duration = Duration::from_millis(800);
/// The time that a restart waits for a client that does not read, where others wait for the restart.
pub(super) const UNREAD_RESTART_TIME: Duration = Duration::from_secs(5);

/// The means to restart a server in another image of the program.
pub struct RestartHooks {
    /// Receives the causes of restarts, from [`crate::handle::recovery::Recovery::arm`].
    pub causes: Receiver<Cause>,
    /// The socket at which clients join, if they share the image: its restarts wait for none of them.
    pub listener: Option<RawFd>,
    /// Executes the program again with the handover. Returns only if that fails.
    pub execute: Box<dyn Fn(Handover) -> io::Error + Send>,
}

impl std::fmt::Debug for RestartHooks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RestartHooks").field("listener", &self.listener).finish_non_exhaustive()
    }
}

/// What a client that shares the image has handed over besides its streams.
#[derive(Debug)]
pub struct Joined {
    /// The socket that it keeps open: its end is the client's leaving.
    pub socket: OwnedFd,
    /// Its own settings, as its process wrote them.
    pub settings: String,
}

impl Joined {
    /// Returns what the next process needs to know of the client, whose session is `session`.
    pub(super) fn hand_over(&self, session: &Session) -> JoinedClient {
        JoinedClient {
            socket: self.socket.as_raw_fd(),
            settings: self.settings.clone(),
            number: session.seat().map(Seat::number).unwrap_or_default(),
            edits: session.seat().map(Seat::edits).unwrap_or_default(),
        }
    }

    /// Waits until the client's process has closed its socket.
    pub(super) fn wait_for_end(&self) {
        while matches!(rustix::io::retry_on_intr(|| rustix::io::read(&self.socket, &mut [0; 64])), Ok(1..)) {}
    }
}

/// What is done with a client that has been handed over, if no process takes it.
pub(super) type GoOn<'a> = Box<dyn FnOnce() + 'a>;

/// A client, as a restart sees it.
pub(super) trait ServedClient: Send + Sync {
    /// Stops reading. Returns what was read and not taken.
    fn halt(&self) -> Vec<u8>;

    /// Waits until `end` for the calls that end soon. `lisp_lives` says that long work may go on, which is not waited for.
    fn await_answers(&self, lisp_lives: bool, end: Instant);

    /// Hands over to the next process, with `unread` after the calls that have no answer; none if the client has left, or if it
    /// does not read what is written while `others` wait.
    fn hand_over(&self, unread: &[u8], others: bool) -> Option<(ClientHandover, GoOn<'_>)>;

    /// Goes on without Lisp, which does not come back: answers the calls that its death interrupted.
    fn go_without_lisp(&self);
}

/// The clients that are served in one process, and restarted with it.
pub struct ServedClients {
    /// One whose Lisp they share.
    session: Session,
    /// Locked while the program is started again.
    clients: Mutex<Vec<Arc<dyn ServedClient>>>,
}

impl std::fmt::Debug for ServedClients {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedClients").finish_non_exhaustive()
    }
}

impl ServedClients {
    /// Makes a process's clients, none yet, whose sessions will share the Lisp of `session`.
    pub fn new(session: &Session) -> Arc<Self> {
        Arc::new(Self { session: session.clone(), clients: Mutex::default() })
    }

    /// Restarts the program in place, with all clients, for as long as the process lasts.
    ///
    /// # Errors
    /// The system refuses a thread.
    pub fn restart_by(self: &Arc<Self>, hooks: RestartHooks) -> io::Result<()> {
        let served = Arc::clone(self);
        let run = move || {
            while let Ok(cause) = hooks.causes.recv() {
                // Serve all pending requests for a restart with one.
                if hooks.causes.try_iter().any(|cause| cause == Cause::Asked) {
                    served.session.recovery().forget_deaths();
                }
                served.restart_in_place(&hooks, &cause);
            }
        };
        std::thread::Builder::new().name("lisp-restart".into()).spawn(run).map(drop)
    }

    /// Adds the client that `begin` makes and begins to serve: a restart comes before it, or takes the client along.
    pub(super) fn add<C: ServedClient + 'static, E>(
        &self,
        begin: impl FnOnce() -> Result<Arc<C>, E>,
    ) -> Result<Arc<C>, E> {
        let mut clients = self.clients.lock();
        let client = begin()?;
        clients.push(Arc::<C>::clone(&client));
        Ok(client)
    }

    /// Removes a client that has left.
    pub(super) fn remove<C>(&self, client: &Arc<C>) {
        self.clients.lock().retain(|other| !std::ptr::addr_eq(Arc::as_ptr(other), Arc::as_ptr(client)));
    }

    /// Ends the calls, and executes the program again. Hands over each client's unread input, and its calls without an
    /// answer.
    fn restart_in_place(&self, hooks: &RestartHooks, cause: &Cause) {
        // Let nobody join meanwhile.
        let clients = self.clients.lock();
        let recovery = self.session.recovery();
        let Some(mut handover) = recovery.decide(cause, Moment::now()) else {
            return clients.iter().for_each(|client| client.go_without_lisp());
        };
        let unread: Vec<_> = clients.iter().map(|client| client.halt()).collect();
        let end = Instant::now() + LEAVING_TIME;
        clients.iter().for_each(|client| client.await_answers(!matches!(cause, Cause::Died(_)), end));
        // Wait for the calls that write, with their answers, and let no other begin to.
        let _no_writing = Writing::forbid();
        let mut left = Vec::new();
        for (client, unread) in clients.iter().zip(&unread) {
            if let Some((handed, go_on)) = client.hand_over(unread, hooks.listener.is_some()) {
                handover.clients.push(handed);
                left.push(go_on);
            }
        }
        if handover.clients.is_empty() && hooks.listener.is_none() {
            return;
        }
        handover.listener = hooks.listener;
        handover.project = self.session.project_folder();
        (hooks.execute)(handover);
        // Go on without Lisp.
        recovery.give_up();
        left.into_iter().for_each(|go_on| go_on());
    }
}
