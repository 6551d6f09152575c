//! The entry points of the MCP server. They start the threads of a client, and end its calls when
//! it disconnects.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::client::Client;
use crate::doors::restart::{RestartHooks, ServedClients, SharedSocket};
use crate::doors::streams;
use crate::handle::recovery::ClientHandover;
use crate::tools::Session;

/// The reasons for which serving a client fails.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// A thread or a descriptor could not be created.
    #[error(
        "cannot create the streams and threads for the protocol: {0}; check the limits of this process (ulimit -a)"
    )]
    System(#[from] io::Error),
    /// Loaded code has closed or replaced the client's streams.
    #[error("loaded code closed stdin or stdout; the session cannot continue")]
    StreamsLost,
}

/// Serves the process's standard input and output until the client disconnects. Moves the client's
/// streams away: descriptor 0 then reads as empty, and descriptor 1 writes to standard error. Call
/// this function before other code uses the two descriptors.
///
/// `start` creates the session after the streams have been moved.
///
/// # Errors
/// [`ServeError`], or the error of `start`.
pub fn serve_stdio<E: From<ServeError>>(start: impl FnOnce() -> Result<Session, E>) -> Result<(), E> {
    let (input, output) = streams::take().map_err(ServeError::from)?;
    let session = start()?;
    Ok(serve_on(input, output, session)?)
}

/// Serves one client on a pair of streams until `input` ends or `output` is closed.
///
/// # Errors
/// [`ServeError`].
pub fn serve_on(
    input: impl Into<OwnedFd>,
    output: impl Into<OwnedFd>,
    session: Session,
) -> Result<(), ServeError> {
    serve_with_restarts(input.into(), output.into(), session, None, None)
}

/// Like [`serve_on`]. With `restarts`, also restarts the program in place, with the same client,
/// when Lisp dies or becomes unusable, or when a restart is requested. `handover` is the state of
/// the client from before a restart.
///
/// # Errors
/// [`ServeError`].
pub fn serve_with_restarts(
    input: OwnedFd,
    output: OwnedFd,
    session: Session,
    handover: Option<&ClientHandover>,
    restarts: Option<RestartHooks>,
) -> Result<(), ServeError> {
    let served = ServedClients::new(&session);
    let client = ServedClient::new(&served, [input, output], session, None, handover, || ())?;
    if let Some(hooks) = restarts {
        served.restart_by(hooks)?;
    }
    client.wait()
}

/// A client that is being served.
pub struct ServedClient {
    served: Arc<ServedClients>,
    client: Arc<Client>,
    ended: Receiver<()>,
}

debug_fields!(ServedClient);

impl ServedClient {
    /// Starts to serve a client on a pair of streams, or resumes the client in `handover`.
    /// `welcome` is called before anything is read. A restart happens either before this call or
    /// includes the new client.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn new(
        served: &Arc<ServedClients>,
        [input, output]: [OwnedFd; 2],
        session: Session,
        joined: Option<SharedSocket>,
        handover: Option<&ClientHandover>,
        welcome: impl FnOnce(),
    ) -> Result<Self, ServeError> {
        let (client, ended) = Client::new(input, output, session, joined, handover)?;
        let client = served.add(|| {
            welcome();
            client.spawn_threads().inspect_err(|_| client.close())?;
            Ok::<_, ServeError>(client)
        })?;
        Ok(Self { served: Arc::clone(served), client, ended })
    }

    /// Waits until the client has disconnected, and ends its calls.
    ///
    /// # Errors
    /// [`ServeError::StreamsLost`].
    pub fn wait(self) -> Result<(), ServeError> {
        let Self { served, client, ended } = self;
        // Ignore the error: the sender exists as long as `client`.
        let _ = ended.recv();
        client.leave();
        served.remove(&client);
        if client.input.stream.is_lost() || client.output.stream.is_lost() {
            return Err(ServeError::StreamsLost);
        }
        Ok(())
    }
}
