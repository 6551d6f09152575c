//! The host of a shared image: a process in a session of its own, which serves the streams that clients' processes hand over.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};

use super::serve::{Source, StartedImage, chosen, opened_swank, swank_not_allowed};
use super::{CommandError, Exit, Serve, Shell, installation, share};
use crate::doors::mcp::{Joined, McpServer, SeatedClient};
use crate::doors::share::{
    ClientSettings, HostAddress, HostMessage, accept, own_users, peer_process, take_over,
};
use crate::doors::streams::{out_of_reach, take as take_streams};
use crate::engine::{StartError, adopt_descriptor, end_children, end_children_at_signals};
use crate::handle::Error;
use crate::handle::recovery::{ClientHandover, JoinedClient};
use crate::tools::clients::Seat;
use crate::tools::{Clients, Permissions, Session};
use crate::{Control, RecoverEditsRequest};

/// How often to try again when the system accepts nobody, as where Lisp code has used up the descriptors.
const PAUSE: Duration = Duration::from_millis(100);

/// What all clients of the process share.
struct Host {
    server: Arc<McpServer>,
    clients: Arc<Clients>,
    session: Session,
    /// What the image is made of, in full.
    image: String,
    /// The number of clients and of those that are joining.
    present: AtomicUsize,
    /// An event descriptor, readable when a client has left.
    left: OwnedFd,
}

/// Keeps the image called `name` until no client has been there for a while.
pub(super) fn run(command: &Serve, shell: &Arc<Shell>, name: &str) -> Result<Exit, CommandError> {
    end_children_at_signals(|| ()).map_err(|error| Error::from(StartError::from(error)))?;
    // Ignore the error: after a restart the process leads its session already.
    let _ = rustix::process::setsid();
    let cache = installation::cache().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let address = HostAddress::new(&cache, name);
    let handover = command.handover()?;
    let listener: OwnedFd = match handover.as_ref().and_then(|handover| handover.listener) {
        Some(number) => adopt_descriptor(number)?,
        None => take_streams()?.0,
    };
    let folder =
        shell.options.project.root()?.folder().ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
    let image = share::image(shell, &folder)?;
    let source = Source::Socket(UnixListener::from(listener));
    let started = command.start_image(shell, handover, &source, Permissions::default());
    let Source::Socket(listener) = source else { return Ok(Exit::Answered) };
    let StartedImage { session, handover, restarts } = match started {
        Ok(started) => started,
        Err(trouble) => {
            refuse_all(&address, &listener, &trouble.message)?;
            return Err(trouble);
        }
    };
    let host = Arc::new(Host {
        server: McpServer::new(&session),
        clients: Arc::default(),
        session,
        image,
        present: AtomicUsize::new(0),
        left: out_of_reach(
            &eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from)?,
        )?,
    });
    for client in handover.map(|handover| handover.clients).unwrap_or_default() {
        if let Some(joined) = &client.joined {
            let socket = UnixStream::from(adopt_descriptor(joined.socket)?);
            let streams = [adopt_descriptor(client.input)?, adopt_descriptor(client.output)?];
            // Ignore a client that cannot be served again: its process hears that its socket is closed.
            if let Ok(seated) = host.seat_again(&socket, streams, joined, &client) {
                host.spawn(move |_| serve(seated, &socket))?;
            }
        }
    }
    if let Some(hooks) = restarts {
        host.server.restart_by(hooks)?;
    }
    host.accept_all(&address, &listener, Duration::from_secs(command.linger))?;
    end_children();
    Ok(Exit::Answered)
}

/// Tells all that wait for the host that it cannot start, and lets the next start another.
fn refuse_all(address: &HostAddress, listener: &UnixListener, why: &str) -> io::Result<()> {
    let lock = address.lock()?;
    let never = eventfd(0, EventfdFlags::CLOEXEC)?;
    while let Some(socket) = accept(listener, &never, Some(Duration::ZERO))? {
        let _ = take_over(&socket).and_then(|_| HostMessage::Refused(why.to_owned()).send(&socket));
    }
    lock.remove_socket()
}

impl Host {
    /// Serves all that join, until nobody has been there for `linger`.
    fn accept_all(
        self: &Arc<Self>,
        address: &HostAddress,
        listener: &UnixListener,
        linger: Duration,
    ) -> io::Result<()> {
        let mut alone_since = Instant::now();
        loop {
            let alone = self.present.load(Ordering::SeqCst) == 0;
            let patience = alone.then(|| linger.saturating_sub(alone_since.elapsed()));
            match accept(listener, &self.left, patience) {
                Ok(Some(socket)) => {
                    // Ignore the error, that there is no thread for it: its process hears that its socket is closed.
                    let _ = self.begin(socket);
                    continue;
                }
                // Those who are there need no listener. There may be a descriptor later, or none of its own any more.
                Err(_) if !alone => std::thread::sleep(PAUSE),
                told => drop(told?),
            }
            if !alone {
                alone_since = Instant::now();
            } else if alone_since.elapsed() >= linger {
                let lock = address.lock()?;
                // Look again: under the lock nobody joins.
                match accept(listener, &self.left, Some(Duration::ZERO))? {
                    Some(socket) => self.begin(socket)?,
                    None => return lock.remove_socket(),
                }
            }
        }
    }

    fn begin(self: &Arc<Self>, socket: UnixStream) -> io::Result<()> {
        self.spawn(move |host| {
            if own_users(&socket).is_ok()
                && let Err(error) = host.serve_new(&socket)
            {
                let why = format!("The shared Lisp does not serve this client: {}", error.message);
                let _ = HostMessage::Refused(why).send(&socket);
            }
        })
    }

    /// Runs `body` on a thread of its own, and counts it as a client.
    fn spawn(self: &Arc<Self>, body: impl FnOnce(&Self) + Send + 'static) -> io::Result<()> {
        self.present.fetch_add(1, Ordering::SeqCst);
        let host = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("share-client".into()).spawn(move || {
            body(&host);
            host.note_left();
        });
        spawned.map(drop).inspect_err(|_| self.note_left())
    }

    fn note_left(&self) {
        self.present.fetch_sub(1, Ordering::SeqCst);
        let _ = rustix::io::write(&self.left, &1_u64.to_ne_bytes());
    }

    fn serve_new(&self, socket: &UnixStream) -> Result<(), CommandError> {
        let (joining, streams) = take_over(socket)?;
        if joining.image != self.image {
            return Err(io::Error::other("it wants another image").into());
        }
        if let Some(port) = joining.settings.swank {
            self.open_swank(port, joining.settings.eval, socket)?;
        }
        let seat = Seat::new(&self.clients, peer_process(socket), joining.settings.permissions());
        serve(self.seat(socket, streams, &joining.settings, seat, None)?, socket);
        Ok(())
    }

    /// Opens the image's Swank for a client, which hears of it when it is open, or why it is not.
    fn open_swank(&self, port: u16, allowed: bool, socket: &UnixStream) -> Result<(), CommandError> {
        if !allowed {
            return Err(swank_not_allowed());
        }
        self.session.claim_swank(port)?;
        let (session, socket) = (self.session.clone(), socket.try_clone()?);
        let open = move || {
            let said = opened_swank(&session).map(HostMessage::Said);
            // Ignore the error: the process may have ended.
            let _ = said.map(|said| said.send(&socket));
        };
        std::thread::Builder::new().name("share-swank".into()).spawn(open)?;
        Ok(())
    }

    /// Seats a client of the image before this one.
    fn seat_again(
        &self,
        socket: &UnixStream,
        streams: [OwnedFd; 2],
        joined: &JoinedClient,
        client: &ClientHandover,
    ) -> Result<SeatedClient, CommandError> {
        let settings: ClientSettings = serde_json::from_str(&joined.settings).map_err(io::Error::from)?;
        let had = (joined.number, joined.edits.clone());
        let seat = Seat::again(&self.clients, had, peer_process(socket), settings.permissions());
        self.seat(socket, streams, &settings, seat, Some(client))
    }

    /// Seats a client: from then on its messages are answered.
    fn seat(
        &self,
        socket: &UnixStream,
        [input, output]: [OwnedFd; 2],
        settings: &ClientSettings,
        seat: Seat,
        handover: Option<&ClientHandover>,
    ) -> Result<SeatedClient, CommandError> {
        let permissions = settings.permissions();
        let session = self.session.clone().allowing(permissions).with_tools(chosen(settings)?).seated(seat);
        if permissions.edits {
            // Take back what was cut before. Status tells of it, also if this fails.
            let _ = session.bank()?.run(&RecoverEditsRequest::new(), &Control::default());
        }
        let joined = Joined {
            socket: out_of_reach(socket)?,
            settings: serde_json::to_string(settings).map_err(io::Error::from)?,
        };
        let welcome = || {
            if handover.is_none() {
                // Ignore the error: the client has left, which its socket tells.
                let _ = HostMessage::Welcome.send(socket);
            }
        };
        let (input, output) = (out_of_reach(&input)?, out_of_reach(&output)?);
        Ok(self.server.seat(input, output, session, Some(joined), handover, welcome)?)
    }
}

/// Serves a client until it has left, and says so to its process.
fn serve(client: SeatedClient, socket: &UnixStream) {
    let said = match client.wait() {
        Ok(()) => HostMessage::Left,
        Err(error) => HostMessage::Refused(error.to_string()),
    };
    // Ignore the errors: the process may have ended.
    let _ = said.send(socket);
    let _ = socket.shutdown(std::net::Shutdown::Both);
}
