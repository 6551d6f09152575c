//! Connects client processes to the host of a shared image, and passes their streams to it.
//!
//! Each host has three files in the cache folder: its socket, a lock and a log. A client connects
//! while it holds the lock. If there is no host, the client creates the socket and starts a host
//! that listens on the socket. A host ends while it holds the same lock, so that no client can
//! connect to a host that ends. A connected client sends a [`Joining`] message with two
//! descriptors, and the host replies with [`HostMessage`]s.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, IoSlice, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};
use serde::{Deserialize, Serialize};

use crate::tools::{Object, ToolAnswer};

/// The maximum size of a message between a client's process and the host, in bytes.
const MAX_HOST_MESSAGE: usize = 1 << 20;
/// The deadline for a connected process to send its first message.
const JOINING_TIME: Duration = Duration::from_secs(5);

/// The location of a host's files.
#[derive(Debug, Clone)]
pub(super) struct HostAddress {
    folder: PathBuf,
    name: String,
}

/// The lock of a host's address. A process holds it while it connects to the host, starts the host,
/// or ends as the host. Only one process holds it at a time.
pub(super) struct HostLock<'a> {
    address: &'a HostAddress,
    _lock: File,
}

/// The first message of a client's process, to which the descriptors of the client's streams are
/// attached.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Joining {
    /// The full description of the required image, because the hashes in two addresses may collide.
    pub(super) image: String,
    /// The settings of this client.
    pub(super) settings: ClientSettings,
    /// The tool and the arguments of a command's only call. The streams are then not used.
    #[serde(default)]
    pub(super) order: Option<(String, Object)>,
}

/// The settings that belong to one client, not to the image.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct ClientSettings {
    /// Whether the client may evaluate code.
    pub(super) eval: bool,
    /// Whether the client may write files.
    pub(super) edits: bool,
    /// The offered tools, as in `--tools`. `None`: the tools for daily use.
    pub(super) tools: Option<String>,
    /// The port for SLIME or Sly, if requested; 0 selects a free port.
    #[serde(default)]
    pub(super) swank: Option<u16>,
    /// The client's protocol.
    #[serde(default)]
    pub(super) protocol: ClientProtocol,
    /// The reasons why configuration files are ignored.
    #[serde(default)]
    pub(super) config_errors: Vec<String>,
}

/// The protocol of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ClientProtocol {
    /// The Model Context Protocol, in lines.
    #[default]
    Mcp,
    /// The Language Server Protocol.
    Lsp {
        /// Whether documents are compiled in copies of the image.
        compile: bool,
    },
}

/// A message from the host to a client's process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HostMessage {
    /// The host accepts the client and starts to serve the streams.
    Welcome,
    /// The host rejects the client or ends its session, with the reason.
    Refused(String),
    /// The host cannot serve the client at present, with the reason.
    Later(String),
    /// A text to print on the process's standard error.
    #[serde(rename = "said")]
    Text(String),
    /// The answer to a command's call.
    Answer(Box<ToolAnswer>),
    /// The client has disconnected.
    Left {
        /// Whether the client disconnected as its protocol requires.
        well: bool,
    },
}

impl HostAddress {
    /// Returns the address of the host called `name`.
    pub(super) fn new(cache: &Path, name: &str) -> Self {
        Self { folder: cache.join("hosts"), name: name.to_owned() }
    }

    /// Returns the host's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Returns the path of the host's log, which is its standard output and standard error.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    /// Returns whether there is a socket. Its host may have ended.
    pub(super) fn has_socket(&self) -> bool {
        self.folder.join(format!("{}.socket", self.name)).exists()
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// The folder or the lock file cannot be created, or the folder belongs to another user.
    pub(super) fn lock(&self) -> io::Result<HostLock<'_>> {
        steelbank_cache::create_folder(&self.folder)?;
        steelbank_cache::claim(&self.folder).map_err(io::Error::other)?;
        let lock = steelbank_cache::create_file(&self.folder.join(format!("{}.lock", self.name)))?;
        rustix::io::retry_on_intr(|| flock(&lock, FlockOperation::LockExclusive))?;
        Ok(HostLock { address: self, _lock: lock })
    }

    /// Calls `act` with a path of the socket that fits into a socket address, even if the folder's
    /// path is too long.
    fn at_socket<T>(&self, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&self.folder, flags, Mode::empty())?;
        act(Path::new(&format!("/proc/self/fd/{}/{}.socket", folder.as_raw_fd(), self.name)))
    }
}

impl HostLock<'_> {
    /// Connects to the host. Returns `None` if no host listens.
    ///
    /// # Errors
    /// The connection fails, or the host belongs to another user.
    pub(super) fn connect(&self) -> io::Result<Option<UnixStream>> {
        match self.address.at_socket(|path| UnixStream::connect(path)) {
            Ok(stream) => check_user(&stream).map(|()| Some(stream)),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Listens on the host's socket. Replaces the socket of a host that has ended.
    ///
    /// # Errors
    /// The socket cannot be removed or created.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        self.remove_socket()?;
        self.address.at_socket(|path| UnixListener::bind(path))
    }

    /// Removes the socket, if it exists.
    ///
    /// # Errors
    /// The socket cannot be removed.
    pub(super) fn remove_socket(&self) -> io::Result<()> {
        match self.address.at_socket(|path| std::fs::remove_file(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Opens the host's log and truncates it.
    ///
    /// # Errors
    /// The file cannot be created.
    pub(super) fn open_log(&self) -> io::Result<File> {
        drop(steelbank_cache::create_file(&self.address.log())?);
        OpenOptions::new().append(true).open(self.address.log())
    }
}

/// Checks that the process at the other end belongs to this user.
///
/// # Errors
/// The process belongs to another user, or its user cannot be determined.
pub(super) fn check_user(stream: &UnixStream) -> io::Result<()> {
    let (peer, own) = (socket_peercred(stream)?.uid, rustix::process::geteuid());
    match peer == own {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "the other end of the socket belongs to user {}, but this process to user {}",
                peer.as_raw(),
                own.as_raw()
            ),
        )),
    }
}

/// Returns the process id of the other end, or 0 if it is not available.
pub(super) fn peer_process(stream: &UnixStream) -> i32 {
    socket_peercred(stream).map_or(0, |peer| peer.pid.as_raw_nonzero().get())
}

/// Passes the two `streams` to the host, with `joining`.
///
/// # Errors
/// The host has ended.
pub(super) fn hand_over(
    socket: &UnixStream,
    joining: &Joining,
    streams: [BorrowedFd<'_>; 2],
) -> io::Result<()> {
    let mut line = serde_json::to_vec(joining)?;
    line.push(b'\n');
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let mut rights = SendAncillaryBuffer::new(&mut space);
    if !rights.push(SendAncillaryMessage::ScmRights(&streams)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    let sent = rustix::io::retry_on_intr(|| {
        sendmsg(socket, &[IoSlice::new(&line)], &mut rights, SendFlags::NOSIGNAL)
    })?;
    let mut rest = socket;
    rest.write_all(&line[sent..])
}

/// Receives the message that [`hand_over`] sends. Fails if it is not complete after
/// [`JOINING_TIME`].
pub(super) fn take_over(socket: &UnixStream) -> io::Result<(Joining, [OwnedFd; 2])> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(2))];
    let (mut line, mut streams) = (Vec::new(), Vec::new());
    let mut chunk = vec![0; 4096];
    let end = Instant::now() + JOINING_TIME;
    while !line.ends_with(b"\n") {
        let left = end.saturating_duration_since(Instant::now());
        socket.set_read_timeout(Some(left.max(Duration::from_millis(1))))?;
        let mut rights = RecvAncillaryBuffer::new(&mut space);
        let got = rustix::io::retry_on_intr(|| {
            recvmsg(socket, &mut [IoSliceMut::new(&mut chunk)], &mut rights, RecvFlags::CMSG_CLOEXEC)
        })?;
        for message in rights.drain() {
            if let RecvAncillaryMessage::ScmRights(received) = message {
                streams.extend(received);
            }
        }
        line.extend_from_slice(&chunk[..got.bytes]);
        if got.bytes == 0 || line.len() > MAX_HOST_MESSAGE {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    socket.set_read_timeout(None)?;
    let streams = streams.try_into().map_err(|_| io::Error::from(io::ErrorKind::InvalidData))?;
    Ok((serde_json::from_slice(&line)?, streams))
}

impl HostMessage {
    /// Sends the message.
    ///
    /// # Errors
    /// The other end is closed.
    pub(super) fn send(&self, mut socket: &UnixStream) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        socket.write_all(&line)
    }
}

/// Returns the host's messages until the host closes its end of the socket.
pub(super) fn messages(socket: UnixStream) -> impl Iterator<Item = HostMessage> + Send {
    let lines = BufReader::new(socket).lines();
    lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok())
}

/// Waits for a connection. Returns `None` if `timeout` passes, or if `wake` becomes readable and no
/// connection is waiting.
pub(super) fn accept(
    listener: &UnixListener,
    wake: &impl AsFd,
    timeout: Option<Duration>,
) -> io::Result<Option<UnixStream>> {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let mut ends = [PollFd::new(listener, PollFlags::IN), PollFd::new(wake, PollFlags::IN)];
    let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
    rustix::io::retry_on_intr(|| poll(&mut ends, timeout.as_ref()))?;
    if !ends[1].revents().is_empty() {
        let _ = rustix::io::read(wake, &mut [0; 8]);
    }
    if ends[0].revents().is_empty() {
        return Ok(None);
    }
    listener.accept().map(|(stream, _)| Some(stream))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    fn joining() -> Joining {
        let settings = ClientSettings {
            eval: true,
            edits: false,
            tools: Some("read".to_owned()),
            swank: Some(0),
            protocol: ClientProtocol::Lsp { compile: true },
            config_errors: vec!["why".to_owned()],
        };
        // The default protocol is MCP.
        let named = serde_json::from_str::<ClientSettings>(r#"{"eval":false,"edits":false,"tools":null}"#);
        assert_eq!(named.unwrap().protocol, ClientProtocol::Mcp);
        Joining { image: "x".repeat(10_000), settings, order: None }
    }

    #[test]
    fn streams_arrive_with_message() {
        let (client, host) = UnixStream::pair().unwrap();
        let ((read, mut their_input), (mut their_output, write)) = (io::pipe().unwrap(), io::pipe().unwrap());
        hand_over(&client, &joining(), [read.as_fd(), write.as_fd()]).unwrap();
        drop((read, write));
        let (said, [input, output]) = take_over(&host).unwrap();
        assert_eq!(said, joining());
        their_input.write_all(b"asked").unwrap();
        drop(their_input);
        let mut text = String::new();
        File::from(input).read_to_string(&mut text).unwrap();
        File::from(output).write_all(b"answered").unwrap();
        their_output.read_to_string(&mut text).unwrap();
        assert_eq!(text, "askedanswered");
        // Invalid and incomplete messages are rejected.
        for line in [&b"{}\n"[..], b"GET / HTTP/1.1\r\n\r\n", b"{\"image\":"] {
            let (mut client, host) = UnixStream::pair().unwrap();
            client.write_all(line).unwrap();
            drop(client);
            assert!(take_over(&host).is_err(), "{line:?}");
        }
        // A client that does not complete its message is rejected after the deadline.
        let (mut client, host) = UnixStream::pair().unwrap();
        client.write_all(b"{\"image\":").unwrap();
        assert_eq!(take_over(&host).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn clients_find_host_under_long_path() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("a".repeat(120));
        let address = HostAddress::new(&cache, "0123456789abcdef");
        let lock = address.lock().unwrap();
        assert!(lock.connect().unwrap().is_none());
        let listener = lock.listen().unwrap();
        let stream = lock.connect().unwrap().unwrap();
        assert_eq!(peer_process(&stream), i32::try_from(std::process::id()).unwrap());
        let wake = rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC).unwrap();
        assert!(accept(&listener, &wake, None).unwrap().is_some());
        // Leave the socket of a host that was killed.
        drop((stream, listener));
        assert!(lock.connect().unwrap().is_none());
        drop(lock.listen().unwrap());
        lock.remove_socket().unwrap();
        lock.remove_socket().unwrap();
        drop(lock);
        let mode =
            std::os::unix::fs::PermissionsExt::mode(&cache.join("hosts").metadata().unwrap().permissions());
        assert_eq!(mode & 0o777, 0o700);
    }
}
