//! MCP over streamable HTTP. Each session is a client that joins an image as others do; what is said over HTTP is carried to
//! it line by line, and dispatched there. So Lisp's death and its restarts end no connection here.
//!
//! `address` is where the server listens, `gate` who may ask; `door` answers each request by a `session` of `seats`, which has
//! an `exchange` of messages for each request. Requests without a session (2026-07-28) are all one client's.

mod address;
mod door;
mod exchange;
mod gate;
mod seats;
mod session;

use std::convert::Infallible;
use std::io;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use address::{Connection, Listener};
pub use address::{HttpAddress, token};
use door::Door;
use gate::Gate;
use seats::Seats;
pub use session::HttpSeat;

/// Has a client join the image. May wait.
pub type Join = dyn Fn() -> Result<HttpSeat, String> + Send + Sync;

/// The time in which a request's head must be there.
const HEAD_TIME: Duration = Duration::from_secs(10);
/// The longest head, in bytes.
const LONGEST_HEAD: usize = 64 << 10;
/// The most connections; others wait to be accepted.
const MOST_CONNECTIONS: usize = 256;
/// The time that requests may go on once the server is to end.
const ENDING_TIME: Duration = Duration::from_secs(5);
/// How long to wait where the system accepts nobody, as where there is no descriptor left.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// The reasons for which the server does not begin.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    /// The image does not take a client.
    #[error("{0}")]
    Join(String),
    /// The system refuses what is needed.
    #[error("the system refuses what HTTP needs: {0}")]
    System(#[from] io::Error),
}

/// Serves clients that show `token`, if there is one, until the process is to end: then those who wait are answered first.
/// `join` seats each; the first seat is taken before `announce` is called with the address.
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
        let seats = Arc::new(Seats::new(Arc::clone(&join), join().map_err(HttpError::Join)?));
        let (end, mut ending) = watch::channel(false);
        let end = Arc::new(end);
        // Leave SIGHUP to the system: nohup has it ignored.
        for kind in [SignalKind::terminate(), SignalKind::interrupt()] {
            let (end, mut signal) = (Arc::clone(&end), signal(kind)?);
            tokio::spawn(async move {
                signal.recv().await;
                end.send_replace(true);
            });
        }
        announce(&address);
        let gate = Gate::new(address, token);
        let door = Arc::new(Door { gate, seats: Arc::clone(&seats), ending: ending.clone() });
        let mut connections = JoinSet::new();
        tokio::select! {
            () = accept(&listener, &door, &mut connections) => (),
            () = seats.tend() => (),
            () = told(&mut ending) => (),
        }
        drop(listener);
        // Let requests end, then answer those that have not, and let that be read.
        let _ = timeout(ENDING_TIME, all(&mut connections)).await;
        seats.close().await;
        let _ = timeout(ENDING_TIME / 5, all(&mut connections)).await;
        Ok(())
    });
    // Do not wait for a client that is still joining.
    runtime.shutdown_background();
    served
}

async fn all(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// Accepts connections.
async fn accept(listener: &Listener, door: &Arc<Door>, connections: &mut JoinSet<()>) {
    loop {
        match listener.accept().await {
            Ok(Some(stream)) => drop(connections.spawn(serve_connection(stream, Arc::clone(door)))),
            Ok(None) => (),
            Err(_) => sleep(ACCEPT_PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
        if connections.len() >= MOST_CONNECTIONS {
            connections.join_next().await;
        }
    }
}

/// Serves a connection until its client closes it, or the server is to end.
async fn serve_connection(stream: Box<dyn Connection>, door: Arc<Door>) {
    let mut ending = door.ending.clone();
    let answer = service_fn(move |request| {
        let door = Arc::clone(&door);
        async move { Ok::<_, Infallible>(door.answer(request).await) }
    });
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(LONGEST_HEAD);
    let mut connection = pin!(http.serve_connection(TokioIo::new(stream), answer));
    // Ignore what a client does to its connection: it alone hears of it.
    tokio::select! {
        _ = connection.as_mut() => return,
        () = told(&mut ending) => connection.as_mut().graceful_shutdown(),
    }
    let _ = connection.await;
}

/// Waits until the server is to end.
async fn told(ending: &mut watch::Receiver<bool>) {
    // An error would say that the server is gone.
    let _ = ending.wait_for(|ending| *ending).await;
}
