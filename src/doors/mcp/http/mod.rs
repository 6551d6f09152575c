//! MCP over streamable HTTP. Each session is a client that joins an image as others do; what is said over HTTP is carried to
//! it line by line, and dispatched there. So Lisp's death and its restarts end no connection here.
//!
//! `address` is where the server listens, `gate` who may ask; `door` answers each request by a `session`, which has an `exchange`
//! of messages for each request. Requests without a session (2026-07-28) are all one client's.

mod address;
mod door;
mod exchange;
mod gate;
mod session;

use std::convert::Infallible;
use std::io;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

pub use address::{HttpAddress, HttpListener, Url, token};
use door::Door;
use gate::Gate;
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
const PAUSE: Duration = Duration::from_millis(100);

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
/// `join` seats each; the first seat is taken before `announce` is called.
///
/// # Errors
/// [`HttpError`].
pub fn serve(
    listener: HttpListener,
    token: Option<String>,
    join: Arc<Join>,
    announce: impl FnOnce(&Url),
) -> Result<(), HttpError> {
    let first = join().map_err(HttpError::Join)?;
    let url = listener.url()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let served = runtime.block_on(async {
        let mut signals = Signals::new()?;
        let (end, ending) = watch::channel(false);
        let door = Arc::new(Door::new(Gate::new(url.clone(), token), join, first, ending.clone()));
        let tending = tokio::spawn(Arc::clone(&door).tend());
        let mut connections = JoinSet::new();
        announce(&url);
        let served = tokio::select! {
            told = accept(listener, &door, &ending, &mut connections) => told,
            () = signals.one() => Ok(()),
        };
        tending.abort();
        // Ignore the error: the receiver is here.
        let _ = end.send(true);
        // Let requests end, then answer those that have not, and let them be read.
        let _ = timeout(ENDING_TIME, all(&mut connections)).await;
        door.close().await;
        let _ = timeout(ENDING_TIME / 5, all(&mut connections)).await;
        served
    });
    // Do not wait for a client that is still joining.
    runtime.shutdown_background();
    Ok(served?)
}

/// The signals that end the process.
struct Signals([Signal; 3]);

impl Signals {
    fn new() -> io::Result<Self> {
        let kinds = [SignalKind::terminate(), SignalKind::interrupt(), SignalKind::hangup()];
        let [terminate, interrupt, hangup] = kinds.map(signal);
        Ok(Self([terminate?, interrupt?, hangup?]))
    }

    async fn one(&mut self) {
        let [terminate, interrupt, hangup] = &mut self.0;
        tokio::select! {
            _ = terminate.recv() => (),
            _ = interrupt.recv() => (),
            _ = hangup.recv() => (),
        }
    }
}

async fn all(connections: &mut JoinSet<()>) {
    while connections.join_next().await.is_some() {}
}

/// Accepts connections until the listener fails.
async fn accept(
    listener: HttpListener,
    door: &Arc<Door>,
    ending: &watch::Receiver<bool>,
    connections: &mut JoinSet<()>,
) -> io::Result<()> {
    let room = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let listener = Listener::new(listener)?;
    loop {
        // Never closed: there is always room at last.
        let Ok(permit) = Arc::clone(&room).acquire_owned().await else { return Ok(()) };
        match listener.accept().await {
            Ok(Some(stream)) => {
                let (door, ending) = (Arc::clone(door), ending.clone());
                connections.spawn(async move {
                    let _permit = permit;
                    serve_connection(stream, door, ending).await;
                });
            }
            Ok(None) => (),
            Err(_) => sleep(PAUSE).await,
        }
        while connections.try_join_next().is_some() {}
    }
}

/// A listener on the runtime.
enum Listener {
    Port(TcpListener),
    Socket(UnixListener, PathBuf),
}

/// A connection, of either kind.
type Connection = Box<dyn Stream>;

trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

impl Listener {
    fn new(listener: HttpListener) -> io::Result<Self> {
        Ok(match listener {
            HttpListener::Port(listener) => Self::Port(TcpListener::from_std(listener)?),
            HttpListener::Socket(listener, path) => Self::Socket(UnixListener::from_std(listener)?, path),
        })
    }

    /// Accepts a connection; none if it is another user's.
    async fn accept(&self) -> io::Result<Option<Connection>> {
        match self {
            Self::Port(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Some(Box::new(stream)))
            }
            Self::Socket(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let own = stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw();
                Ok(own.then(|| Box::new(stream) as Connection))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Socket(_, path) = self {
            // Ignore the error: whoever listens there next finds nobody, and replaces the socket.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Serves a connection until its client closes it, or the server is to end.
async fn serve_connection(stream: Connection, door: Arc<Door>, mut ending: watch::Receiver<bool>) {
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
