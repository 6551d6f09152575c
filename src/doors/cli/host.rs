//! The host of a shared image: a background process, detached from any terminal, that serves the
//! clients of `--share` and `--http`.
//!
//! A client's process connects to the host's Unix socket and sends a [`Joining`] message with the
//! [`ClientSettings`]. The message also passes the client's input and output as descriptors. With
//! `--http`, one process does this for several clients. The host then serves MCP or LSP on these
//! descriptors. Each client has a thread, a [`ClientSlot`] and a copy of the [`Session`]; all
//! copies use the same Lisp. The host ends when it has had no client for `--linger` seconds. If
//! Lisp dies or becomes unusable, or a client requests a restart, the program is executed again in
//! place and continues with the same clients.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};

use super::serve::{Source, StartedImage, opened_swank, selected_tools, swank_not_allowed};
use super::{CommandError, Exit, Serve, Shell, installation, share};
use crate::answer::Wording;
use crate::doors::lsp::{CheckCopies, FirstLoad, ServedEditor, ServerOptions};
use crate::doors::mcp::{ServeError, ServedClient, ServedClients, SharedSocket};
use crate::doors::share::{
    ClientProtocol, ClientSettings, HostAddress, HostMessage, Joining, accept, check_user, peer_process,
    take_over,
};
use crate::doors::streams::{private_copy, take as take_streams};
use crate::engine::{StartError, adopt_descriptor, end_children_at_signals, end_descendants};
use crate::handle::Error;
use crate::handle::recovery::{ClientHandover, JoinedClient};
use crate::tools::clients::{ClientKind, ClientSlot};
use crate::tools::session::Load;
use crate::tools::{Call, Clients, Effect, Object, Permissions, Session, ToolAnswer};
use crate::{Control, RecoverEditsRequest, Steelbank};

/// How often to check whether a running load has ended, and how long to wait after a connection
/// could not be accepted, for example because Lisp code has used up the descriptors.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// State that all clients of the host share.
struct Host {
    served: Arc<ServedClients>,
    clients: Arc<Clients>,
    session: Session,
    /// Describes everything that the image depends on; see [`share::image`].
    image: String,
    /// The names of the items that are loaded at startup.
    loads: Vec<String>,
    /// The scratch copies that compile editors' files. They exist as long as there are editors.
    copies: Mutex<Weak<CheckCopies>>,
    /// The number of clients, including clients that are connecting.
    present: AtomicUsize,
    /// An event descriptor, readable after a client has disconnected.
    left: OwnedFd,
}

/// A client that is being served.
enum HostedClient {
    Agent(ServedClient),
    Editor(ServedEditor),
}

/// The reason why a client cannot be served.
enum JoinError {
    Refused(String),
    /// A temporary lack of resources; the client should retry.
    Later(io::Error),
}

impl From<io::Error> for JoinError {
    fn from(error: io::Error) -> Self {
        Self::Later(error)
    }
}

impl From<CommandError> for JoinError {
    fn from(error: CommandError) -> Self {
        Self::Refused(error.message)
    }
}

impl From<ServeError> for JoinError {
    fn from(error: ServeError) -> Self {
        match error {
            ServeError::System(error) => Self::Later(error),
            error => Self::Refused(error.to_string()),
        }
    }
}

/// Serves the image called `name` until it has had no client for `--linger` seconds.
pub(super) fn run(command: &Serve, shell: &Arc<Shell>, name: &str) -> Result<Exit, CommandError> {
    end_children_at_signals(|| ()).map_err(|error| Error::from(StartError::from(error)))?;
    // Ignore the error: after a restart the process is already the leader of its session.
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
        left: private_copy(
            &eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).map_err(io::Error::from)?,
        )?,
    });
    for client in handover.map(|handover| handover.clients).unwrap_or_default() {
        if let Some(joined) = &client.joined {
            let socket = UnixStream::from(adopt_descriptor(joined.socket)?);
            let streams = [adopt_descriptor(client.input)?, adopt_descriptor(client.output)?];
            // Ignore a client that cannot be resumed: the client's process notices that the socket
            // is closed.
            if let Ok(seated) = host.resume_client(&socket, streams, joined, &client) {
                host.spawn(move |_| serve(seated, &socket))?;
            }
        }
    }
    if let Some(hooks) = restarts {
        host.served.restart_by(hooks)?;
    }
    host.accept_all(&address, &listener, Duration::from_secs(command.linger))?;
    end_descendants(std::process::id());
    Ok(Exit::Answered)
}

/// Sends the reason for the failed start to all waiting clients, and removes the socket so that the
/// next client can start another host.
fn refuse_all(address: &HostAddress, listener: &UnixListener, why: &str) -> io::Result<()> {
    let lock = address.lock()?;
    let never = eventfd(0, EventfdFlags::CLOEXEC)?;
    while let Some(socket) = accept(listener, &never, Some(Duration::ZERO))? {
        let _ = take_over(&socket).and_then(|_| HostMessage::Refused(why.to_owned()).send(&socket));
    }
    lock.remove_socket()
}

impl Host {
    /// Serves all clients that connect, until there has been none for `linger`.
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
                    // Ignore the error that no thread could be started: the client's process
                    // notices that the socket is closed.
                    let _ = self.begin(socket);
                    continue;
                }
                // Continue without the listener while there are clients. The error may be
                // temporary, if no descriptor is free, or permanent, if Lisp code has closed the
                // listener.
                Err(_) if !alone => std::thread::sleep(POLL_INTERVAL),
                told => drop(told?),
            }
            if !alone {
                alone_since = Instant::now();
            } else if alone_since.elapsed() >= linger {
                let lock = address.lock()?;
                // Check again under the lock, which new clients need to connect.
                match accept(listener, &self.left, Some(Duration::ZERO))? {
                    Some(socket) => self.begin(socket)?,
                    None => return lock.remove_socket(),
                }
            }
        }
    }

    fn begin(self: &Arc<Self>, socket: UnixStream) -> io::Result<()> {
        self.spawn(move |host| {
            // If the client belongs to another user or passes no descriptors, or if this process
            // has no room for them, the socket is closed. The client's process then retries.
            let Ok((joining, streams)) = check_user(&socket).and_then(|()| take_over(&socket)) else {
                return;
            };
            let answer = match host.serve_new(&socket, &joining, streams) {
                Ok(()) => return,
                Err(JoinError::Refused(why)) => {
                    HostMessage::Refused(format!("The shared Lisp rejected this client: {why}"))
                }
                Err(JoinError::Later(error)) => HostMessage::Later(error.to_string()),
            };
            let _ = answer.send(&socket);
        })
    }

    /// Runs `body` on a new thread, and counts the thread as a client.
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
    ) -> Result<(), JoinError> {
        if joining.image != self.image {
            return Err(JoinError::Refused("it needs an image with other settings".to_owned()));
        }
        if let Some((tool, arguments)) = &joining.order {
            let answer = self.answer(tool, arguments.clone());
            let answer = answer.ok_or_else(|| JoinError::Refused("it cannot answer this call".to_owned()))?;
            return Ok(HostMessage::Answer(Box::new(answer)).send(socket)?);
        }
        if let Some(port) = joining.settings.swank {
            self.open_swank(port, joining.settings.eval, socket)?;
        }
        let (kind, permissions) = (kind(&joining.settings), joining.settings.permissions());
        let seat = ClientSlot::new(&self.clients, kind, peer_process(socket), permissions);
        serve(self.start_client(socket, streams, &joining.settings, seat, None)?, socket);
        Ok(())
    }

    /// Answers a command's call as if the command had loaded the project. Returns `None` if the
    /// image is in another state, or if the call fails.
    fn answer(&self, tool: &str, arguments: Object) -> Option<ToolAnswer> {
        let tool = crate::actions::tools().get(tool).ok()?;
        if tool.about().effect != Effect::Reads || self.first_load()(&self.session).is_some() {
            return None;
        }
        let call = Call::default().without_limit().with_wording(Wording::CommandLine);
        let answer = tool.call(&self.session, arguments, &call.with_one_time_notes(false)).ok()?;
        let states = ["project_gone", "older_image", "only_in_image", "as_of", "loading"];
        states.iter().all(|state| answer.structured[state].is_null()).then_some(answer)
    }

    /// Opens the image's Swank for a client. Sends the client a message when Swank is open or has
    /// failed to open.
    fn open_swank(&self, port: u16, allowed: bool, socket: &UnixStream) -> Result<(), CommandError> {
        if !allowed {
            return Err(swank_not_allowed());
        }
        self.session.claim_swank(port)?;
        let (session, socket) = (self.session.clone(), socket.try_clone()?);
        let open = move || {
            let said = opened_swank(&session).map(HostMessage::Text);
            // Ignore the error: the client's process may have ended.
            let _ = said.map(|said| said.send(&socket));
        };
        std::thread::Builder::new().name("share-swank".into()).spawn(open)?;
        Ok(())
    }

    /// Resumes a client after a restart of this program.
    fn resume_client(
        &self,
        socket: &UnixStream,
        streams: [OwnedFd; 2],
        joined: &JoinedClient,
        client: &ClientHandover,
    ) -> Result<HostedClient, JoinError> {
        let settings: ClientSettings = serde_json::from_str(&joined.settings).map_err(io::Error::from)?;
        let had = (joined.number, joined.edits.clone());
        let permissions = settings.permissions();
        let seat = ClientSlot::resume(&self.clients, had, kind(&settings), peer_process(socket), permissions);
        self.start_client(socket, streams, &settings, seat, Some(client))
    }

    /// Creates the server of a client. Sends `Welcome` to a new client.
    fn start_client(
        &self,
        socket: &UnixStream,
        [input, output]: [OwnedFd; 2],
        settings: &ClientSettings,
        seat: ClientSlot,
        handover: Option<&ClientHandover>,
    ) -> Result<HostedClient, JoinError> {
        let permissions = settings.permissions();
        let mut session =
            self.session.clone().allowing(permissions).with_tools(selected_tools(settings)?).for_client(seat);
        session.config_errors = settings.config_errors.clone().into();
        if permissions.edits {
            // Roll back an interrupted edit. Ignore a failure, which `status` reports.
            let _ = session
                .bank()
                .map_err(CommandError::from)?
                .run(&RecoverEditsRequest::new(), &Control::default());
        }
        let joined = SharedSocket {
            socket: private_copy(socket)?,
            settings: serde_json::to_string(settings).map_err(io::Error::from)?,
        };
        let welcome = || {
            if handover.is_none() {
                // Ignore the error: it means that the client has disconnected, which the socket
                // reports.
                let _ = HostMessage::Welcome.send(socket);
            }
        };
        let streams = [private_copy(&input)?, private_copy(&output)?];
        let (served, joined) = (&self.served, Some(joined));
        Ok(match settings.protocol {
            ClientProtocol::Mcp => {
                HostedClient::Agent(ServedClient::new(served, streams, session, joined, handover, welcome)?)
            }
            ClientProtocol::Lsp { compile } => {
                let (load, copies) = (self.first_load(), self.copies());
                let options = ServerOptions { compile, load, handover: handover.cloned(), copies };
                HostedClient::Editor(ServedEditor::new(served, streams, session, joined, options, welcome)?)
            }
        })
    }

    /// Returns a function for an editor's session that waits until the host's loads have ended and
    /// returns the errors of the failed loads.
    fn first_load(&self) -> FirstLoad {
        let named = self.loads.clone();
        Box::new(move |session| {
            while session.started().is_some_and(Steelbank::is_loading) {
                std::thread::sleep(POLL_INTERVAL);
            }
            let failed =
                session.loads().into_iter().filter(|load| !load.loaded && named.contains(&load.name));
            failed.map(|load| load.outcome).reduce(|all, next| format!("{all}\n{next}"))
        })
    }

    /// Returns the scratch copies that compile the files of all editors.
    fn copies(&self) -> Arc<CheckCopies> {
        let mut known = self.copies.lock();
        known.upgrade().unwrap_or_else(|| {
            let copies = Arc::default();
            *known = Arc::downgrade(&copies);
            copies
        })
    }
}

/// Returns the kind of a client with these settings.
fn kind(settings: &ClientSettings) -> ClientKind {
    match settings.protocol {
        ClientProtocol::Mcp => ClientKind::Agent,
        ClientProtocol::Lsp { .. } => ClientKind::Editor,
    }
}

/// Serves a client until it disconnects, and reports the outcome to its process.
fn serve(client: HostedClient, socket: &UnixStream) {
    let left = match client {
        HostedClient::Agent(client) => client.wait().map(|()| true).map_err(|error| error.to_string()),
        HostedClient::Editor(editor) => editor.wait().map_err(|error| error.to_string()),
    };
    let said = left.map_or_else(HostMessage::Refused, |well| HostMessage::Left { well });
    // Ignore the errors: the client's process may have ended.
    let _ = said.send(socket);
    let _ = socket.shutdown(std::net::Shutdown::Both);
}
