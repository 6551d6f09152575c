//! Serves a client: makes its threads, and ends its calls when it leaves.

use std::io;
use std::os::fd::OwnedFd;

use super::client::Client;
use super::restart::RestartHooks;
use super::stdio;
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
    let (input, output) = stdio::take().map_err(ServeError::from)?;
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
    serve_with_restarts(input.into(), output.into(), session, None)
}

/// Like [`serve_on`], but restarts the program in place, with the same client, when Lisp has died or a restart is
/// requested.
///
/// # Errors
/// [`ServeError`].
pub fn serve_with_restarts(
    input: OwnedFd,
    output: OwnedFd,
    session: Session,
    restarts: Option<RestartHooks>,
) -> Result<(), ServeError> {
    let handover =
        restarts.as_ref().and_then(|hooks| hooks.handover.as_ref()).map(|handover| &handover.client);
    let (client, ended) = Client::new(input, output, session, handover)?;
    client.spawn("mcp-progress", |client| {
        client.output.run_progress_writer();
        client.end();
    })?;
    if let Some(hooks) = restarts {
        client.spawn("mcp-restart", move |client| hooks.run(client))?;
    }
    client.spawn("mcp-standby", Client::stand_by)?;
    client.spawn("mcp-read", |client| client.read_lines(0))?;
    // An error would say that the client is gone: it is not, while `client` lives.
    let _ = ended.recv();
    client.leave();
    if client.input.stream.is_lost() || client.output.stream.is_lost() {
        return Err(ServeError::StreamsLost);
    }
    Ok(())
}
