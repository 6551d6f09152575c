//! MCP over streamable HTTP. Each HTTP session is a client of the host of the shared image, like a
//! client of `--share`. This module only forwards messages to the host line by line, so that Lisp's
//! death and restarts do not close HTTP connections.
//!
//! `address` binds the listening socket, and `gate` checks the headers of requests. `endpoint`
//! answers each request in one of the `sessions`; a `session` has an `exchange` of messages for
//! each request. All requests without a session (protocol version 2026-07-28) share one client.
//! `connections` limits the connections of each session.

mod address;
mod connections;
mod endpoint;
mod exchange;
mod gate;
mod session;
mod sessions;

use std::convert::Infallible;
use std::future::pending;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::{JoinSet, yield_now};
use tokio::time::{sleep, timeout};

use address::{Connection, Listener};
pub use address::{HttpAddress, token};
use connections::{ConnectionUse, MAX_CONNECTIONS, UNAUTHENTICATED_TIME, Unauthenticated, connection_limit};
use endpoint::Endpoint;
use gate::Gate;
pub use session::HttpConnection;
use sessions::HttpSessions;

/// Connects a new client to the image. The call may block.
pub type Join = dyn Fn() -> Result<HttpConnection, String> + Send + Sync;

/// The deadline for receiving a request's head.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The maximum size of a head, in bytes.
const MAX_HEAD: usize = 64 << 10;
/// The time that requests get to finish when the server ends.
const ENDING_TIME: Duration = Duration::from_secs(5);
/// The pause after a failure to accept a connection, for example for lack of descriptors.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The reasons for which the server cannot start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The first client could not be connected to the image.
    #[error("{0}")]
    Join(String),
    /// A system call failed.
    #[error("cannot serve HTTP: {0}")]
    System(#[from] io::Error),
}

/// Serves clients until the process receives SIGTERM or SIGINT, and then waits a few seconds for
/// the responses to requests in progress. Clients must send `token`, if there is one. `join`
/// connects each client; the first client is connected before `announce` is called with the
/// address.
///
/// # Errors
/// [`HttpError`].
pub fn serve(
    address: &HttpAddress,
    token: Option<String>,
    join: Arc<Join>,
    announce: impl FnOnce(&HttpAddress),
) -> Result<(), HttpError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let listener = Listener::bind(address).await?;
        let address = listener.address()?;
        let sessions = Arc::new(HttpSessions::new(Arc::clone(&join), join().map_err(HttpError::Join)?));
        let (end, mut ending) = watch::channel(false);
        let end = Arc::new(end);
        // Do not handle SIGHUP: a handler would override nohup, which makes the process ignore it.
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            let (end, mut signal) = (Arc::clone(&end), signal(kind)?);
            tokio::spawn(async move {
                signal.recv().await;
                end.send_replace(true);
            });
        }
        announce(&address);
        let gate = Gate::new(address, token);
        let endpoint = Arc::new(Endpoint {
            gate,
            sessions: Arc::clone(&sessions),
            sessionless: connection_limit(),
            ending: ending.clone(),
        });
        let mut connections = JoinSet::new();
        tokio::select! {
            () = accept(&listener, &endpoint, &mut connections) => (),
            () = sessions.maintain() => (),
            () = server_ending(&mut ending) => (),
        }
        drop(listener);
        // Let requests finish, answer the remaining requests with an error, and give clients time
        // to read the responses.
        let _ = timeout(ENDING_TIME, all(&mut connections)).await;
        sessions.close().await;
        let _ = timeout(ENDING_TIME / 5, all(&mut connections)).await;
        Ok(())
    });
    // Do not wait for a client that is still connecting.
    runtime.shutdown_background();
    served
}

async fn all(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// Accepts connections and serves each in a task.
async fn accept(listener: &Listener, endpoint: &Arc<Endpoint>, connections: &mut JoinSet<()>) {
    let mut unauthenticated = Unauthenticated::default();
    loop {
        match listener.accept().await {
            Ok(Some(stream)) => {
                let used = Arc::<ConnectionUse>::default();
                let served = serve_connection(stream, Arc::clone(endpoint), Arc::clone(&used));
                unauthenticated.add(used, connections.spawn(served));
                // Let the connection read a request that has arrived before another replaces it.
                yield_now().await;
            }
            Ok(None) => (),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
        if connections.len() >= MAX_CONNECTIONS {
            connections.join_next().await;
        }
    }
}

/// Serves a connection until its client closes it or, when the server ends, until the current
/// request is answered. Closes it earlier if its client does not authenticate in time.
async fn serve_connection(stream: Box<dyn Connection>, endpoint: Arc<Endpoint>, used: Arc<ConnectionUse>) {
    let mut ending = endpoint.ending.clone();
    let of_answer = Arc::clone(&used);
    let answer = service_fn(move |request| {
        let (endpoint, used) = (Arc::clone(&endpoint), Arc::clone(&of_answer));
        async move { Ok::<_, Infallible>(endpoint.answer(request, &used).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(MAX_HEAD);
    let unauthenticated = async {
        sleep(UNAUTHENTICATED_TIME).await;
        if used.authenticated.load(Ordering::Relaxed) {
            pending::<()>().await;
        }
    };
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    // Ignore errors of the connection, because they concern only its client.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = unauthenticated => return,
        () = server_ending(&mut ending) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Waits until the server ends.
async fn server_ending(ending: &mut watch::Receiver<bool>) {
    // Ignore the error: a dropped sender also means that the server ends.
    let _ = ending.wait_for(|ending| *ending).await;
}
