//! Serves clients: makes the threads of each, and ends its calls when it leaves.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use super::client::Client;
use crate::doors::restart::{Joined, RestartHooks, ServedClients};
use crate::doors::streams;
use crate::handle::recovery::ClientHandover;
use crate::tools::Session;

/// The reasons for which the server ends other than by its client's leaving.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The system refused a thread or a descriptor.
    #[error(
        "cannot set up the protocol's streams and threads: {0}; does a limit of this process (ulimit -a) leave no room?"
    )]
    System(#[from] io::Error),
    /// Code that was loaded has closed the client's streams, or put others in their place.
    #[error(
        "code that was loaded has closed the streams to the client, so nothing more can be heard or answered"
    )]
    StreamsLost,
}

/// Serves the process's standard input and output until the client leaves. From now on, descriptor 0 is empty, and what
/// the process writes to descriptor 1 goes to standard error. Call it before anything can write there.
///
/// `start` is called once the streams are safe; it gives the session.
///
/// # Errors
/// [`ServeError`], or what `start` says.
pub fn serve_stdio<E: From<ServeError>>(start: impl FnOnce() -> Result<Session, E>) -> Result<(), E> {
    let (input, output) = streams::take().map_err(ServeError::from)?;
    let session = start()?;
    Ok(serve_on(input, output, session)?)
}

/// Serves one client on a pair of streams until it leaves: until `input` ends, or `output` cannot be written.
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

/// Like [`serve_on`], but restarts the program in place, with the same client, when Lisp has died or a restart is
/// requested. `handover` is the client's of the image before this one.
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
    let client = SeatedClient::new(&served, [input, output], session, None, handover, || ())?;
    if let Some(hooks) = restarts {
        served.restart_by(hooks)?;
    }
    client.wait()
}

/// A client that is being served.
pub struct SeatedClient {
    served: Arc<ServedClients>,
    client: Arc<Client>,
    ended: Receiver<()>,
}

impl std::fmt::Debug for SeatedClient {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SeatedClient").finish_non_exhaustive()
    }
}

impl SeatedClient {
    /// Begins to serve a client on a pair of streams, or takes over that of the image before this one. Nothing is read before
    /// `welcome` has been called, and a restart comes before it, or takes the client along.
    ///
    /// # Errors
    /// [`ServeError`].
    pub fn new(
        served: &Arc<ServedClients>,
        [input, output]: [OwnedFd; 2],
        session: Session,
        joined: Option<Joined>,
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

    /// Waits until the client has left, and ends its calls.
    ///
    /// # Errors
    /// [`ServeError::StreamsLost`].
    pub fn wait(self) -> Result<(), ServeError> {
        let Self { served, client, ended } = self;
        // An error would say that the client is gone: it is not, while `client` lives.
        let _ = ended.recv();
        client.leave();
        served.remove(&client);
        if client.input.stream.is_lost() || client.output.stream.is_lost() {
            return Err(ServeError::StreamsLost);
        }
        Ok(())
    }
}
