//! The host of a shared image: a process in a session of its own, which serves the streams that clients' processes hand over.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use super::serve::{Source, StartedImage, chosen, opened_swank, swank_not_allowed};
use super::{CommandError, Exit, Serve, Shell, installation, share};
use crate::doors::lsp::{CheckCopies, FirstLoad, SeatedEditor, ServerOptions};
use crate::doors::mcp::{Joined, SeatedClient, ServeError, ServedClients};
use crate::doors::share::{
    ClientProtocol, ClientSettings, HostAddress, HostMessage, Joining, accept, own_users, peer_process,
    take_over,
};
use crate::doors::streams::{out_of_reach, take as take_streams};
use crate::engine::{StartError, adopt_descriptor, end_children, end_children_at_signals};
use crate::handle::Error;
use crate::handle::recovery::{ClientHandover, JoinedClient};
use crate::tools::clients::{ClientKind, Seat};
use crate::tools::session::Load;
use crate::tools::{Clients, Permissions, Session};
use crate::{Control, RecoverEditsRequest, Steelbank};

/// The time between two looks: whether the system accepts somebody again, as where Lisp code has used up the descriptors, and whether
/// a load is over.
const GLANCE: Duration = Duration::from_millis(100);

/// What all clients of the process share.
struct Host {
    served: Arc<ServedClients>,
    clients: Arc<Clients>,
    session: Session,
    /// What the image is made of, in full.
    image: String,
    /// The names of what is loaded first.
    loads: Vec<String>,
    /// Where the editors' files are compiled, as long as there are editors.
    copies: Mutex<Weak<CheckCopies>>,
    /// The number of clients and of those that are joining.
    present: AtomicUsize,
    /// An event descriptor, readable when a client has left.
    left: OwnedFd,
}

/// A client that is being served.
enum Seated {
    Agent(SeatedClient),
    Editor(SeatedEditor),
}

/// Why a client is not seated.
enum SeatError {
    Refused(String),
    /// The system lacks something now.
    Later(io::Error),
}

impl From<io::Error> for SeatError {
    fn from(error: io::Error) -> Self {
        Self::Later(error)
    }
}

impl From<CommandError> for SeatError {
    fn from(error: CommandError) -> Self {
        Self::Refused(error.message)
    }
}

impl From<ServeError> for SeatError {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::System(error) => Self::Later(error),
            error => Self::Refused(error.to_string()),
        }
    }
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
        served: ServedClients::new(&session),
        clients: Arc::default(),
        session,
        image,
        loads: {
            let again = handover.iter().flat_map(|handover| handover.loads.clone());
            shell.options.project.loads().into_iter().chain(again).map(|load| Load::name_of(&load)).collect()
        },
        copies: Mutex::default(),
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
        host.served.restart_by(hooks)?;
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
                Err(_) if !alone => std::thread::sleep(GLANCE),
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
            // Close the socket of one who hands nothing over, or whose streams find no descriptor: he tries again.
            let Ok((joining, streams)) = own_users(&socket).and_then(|()| take_over(&socket)) else { return };
            let answer = match host.serve_new(&socket, &joining, streams) {
                Ok(()) => return,
                Err(SeatError::Refused(why)) => {
                    HostMessage::Refused(format!("The shared Lisp does not serve this client: {why}"))
                }
                Err(SeatError::Later(error)) => HostMessage::Later(error.to_string()),
            };
            let _ = answer.send(&socket);
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

    fn serve_new(
        &self,
        socket: &UnixStream,
        joining: &Joining,
        streams: [OwnedFd; 2],
    ) -> Result<(), SeatError> {
        if joining.image != self.image {
            return Err(SeatError::Refused("it wants another image".to_owned()));
        }
        if let Some(port) = joining.settings.swank {
            self.open_swank(port, joining.settings.eval, socket)?;
        }
        let (kind, permissions) = (kind(&joining.settings), joining.settings.permissions());
        let seat = Seat::new(&self.clients, kind, peer_process(socket), permissions);
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
    ) -> Result<Seated, SeatError> {
        let settings: ClientSettings = serde_json::from_str(&joined.settings).map_err(io::Error::from)?;
        let had = (joined.number, joined.edits.clone());
        let permissions = settings.permissions();
        let seat = Seat::resume(&self.clients, had, kind(&settings), peer_process(socket), permissions);
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
    ) -> Result<Seated, SeatError> {
        let permissions = settings.permissions();
        let session = self.session.clone().allowing(permissions).with_tools(chosen(settings)?).seated(seat);
        if permissions.edits {
            // Take back what was cut before. Status tells of it, also if this fails.
            let _ = session
                .bank()
                .map_err(CommandError::from)?
                .run(&RecoverEditsRequest::new(), &Control::default());
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
        let streams = [out_of_reach(&input)?, out_of_reach(&output)?];
        let (served, joined) = (&self.served, Some(joined));
        Ok(match settings.protocol {
            ClientProtocol::Mcp => {
                Seated::Agent(SeatedClient::new(served, streams, session, joined, handover, welcome)?)
            }
            ClientProtocol::Lsp { compile } => {
                let (load, copies) = (self.first_load(), self.copies());
                let options = ServerOptions { compile, load, handover: handover.cloned(), copies };
                Seated::Editor(SeatedEditor::new(served, streams, session, joined, options, welcome)?)
            }
        })
    }

    /// Waits for an editor until what the host loads is loaded, and tells it what is not.
    fn first_load(&self) -> FirstLoad {
        let named = self.loads.clone();
        Box::new(move |session| {
            while session.started().is_some_and(Steelbank::is_loading) {
                std::thread::sleep(GLANCE);
            }
            let failed =
                session.loads().into_iter().filter(|load| !load.loaded && named.contains(&load.name));
            failed.map(|load| load.outcome).reduce(|all, next| format!("{all}\n{next}"))
        })
    }

    /// Returns the copies in which all editors' files are compiled.
    fn copies(&self) -> Arc<CheckCopies> {
        let mut known = self.copies.lock();
        known.upgrade().unwrap_or_else(|| {
            let copies = Arc::default();
            *known = Arc::downgrade(&copies);
            copies
        })
    }
}

/// What a client with these settings is.
fn kind(settings: &ClientSettings) -> ClientKind {
    match settings.protocol {
        ClientProtocol::Mcp => ClientKind::Agent,
        ClientProtocol::Lsp { .. } => ClientKind::Editor,
    }
}

/// Serves a client until it has left, and says so to its process.
fn serve(client: Seated, socket: &UnixStream) {
    let left = match client {
        Seated::Agent(client) => client.wait().map(|()| true).map_err(|error| error.to_string()),
        Seated::Editor(editor) => editor.wait().map_err(|error| error.to_string()),
    };
    let said = left.map_or_else(HostMessage::Refused, |well| HostMessage::Left { well });
    // Ignore the errors: the process may have ended.
    let _ = said.send(socket);
    let _ = socket.shutdown(std::net::Shutdown::Both);
}
