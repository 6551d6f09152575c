//! How a client's process finds the host of an image, and hands its streams over.
//!
//! A host has a folder entry of three names: the socket that clients join at, the lock of the socket, and the host's log. Who
//! joins does so under the lock: it connects, or takes the socket's place and starts a host that listens there. A host ends
//! under the same lock, so none ends with a client in its queue.

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

/// The most bytes of a message between a client's process and the host.
const LONGEST_HOST_MESSAGE: usize = 1 << 20;
/// How long a process that has connected may take to say who it is.
const JOINING_TIME: Duration = Duration::from_secs(5);

/// Where the host of an image is found.
#[derive(Debug, Clone)]
pub(super) struct HostAddress {
    folder: PathBuf,
    name: String,
}

/// The right to connect to the host, to start one, or to end as one. One process has it at a time.
pub(super) struct HostLock<'a> {
    address: &'a HostAddress,
    _lock: File,
}

/// What a client's process says when it joins, beside its streams.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Joining {
    /// What the image is made of, in full: two images may have one address.
    pub(super) image: String,
    /// What the client may do, and see.
    pub(super) settings: ClientSettings,
}

/// What of the settings is the client's, and not the image's.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ClientSettings {
    /// Whether it may evaluate.
    pub(super) eval: bool,
    /// Whether it may write files.
    pub(super) edits: bool,
    /// The tools that it is offered, as `--tools` names them; those of every day if nobody has.
    pub(super) tools: Option<String>,
    /// The port at which it wants a person's editor to come in; 0 is any.
    #[serde(default)]
    pub(super) swank: Option<u16>,
    /// What it speaks.
    #[serde(default)]
    pub(super) protocol: ClientProtocol,
}

/// What a client speaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum ClientProtocol {
    /// The Model Context Protocol, in lines.
    #[default]
    Mcp,
    /// The Language Server Protocol.
    Lsp {
        /// Whether files are compiled in copies.
        compile: bool,
    },
}

/// What the host says to a client's process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum HostMessage {
    /// The host serves the streams now.
    Welcome,
    /// The client is not served, or is served no longer: why.
    Refused(String),
    /// The host cannot serve the client now: why.
    Later(String),
    /// A sentence for the process's standard error.
    Said(String),
    /// The client has left, as its protocol wants it or not.
    Left {
        /// Whether it is as the protocol wants it.
        well: bool,
    },
}

impl HostAddress {
    /// Makes the address of the host called `name`, in `cache`.
    pub(super) fn new(cache: &Path, name: &str) -> Self {
        Self { folder: cache.join("hosts"), name: name.to_owned() }
    }

    /// The host's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The file of the host's standard error.
    pub(super) fn log(&self) -> PathBuf {
        self.folder.join(format!("{}.log", self.name))
    }

    /// Waits for the lock.
    ///
    /// # Errors
    /// The folder cannot be made, or is another user's.
    pub(super) fn lock(&self) -> io::Result<HostLock<'_>> {
        steelbank_cache::create_folder(&self.folder)?;
        steelbank_cache::claim(&self.folder).map_err(io::Error::other)?;
        let lock = steelbank_cache::create_file(&self.folder.join(format!("{}.lock", self.name)))?;
        rustix::io::retry_on_intr(|| flock(&lock, FlockOperation::LockExclusive))?;
        Ok(HostLock { address: self, _lock: lock })
    }

    /// Does `act` with a path of the socket that is short enough for a socket's address, however long the folder's is.
    fn at_socket<T>(&self, act: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<T> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::open(&self.folder, flags, Mode::empty())?;
        act(Path::new(&format!("/proc/self/fd/{}/{}.socket", folder.as_raw_fd(), self.name)))
    }
}

impl HostLock<'_> {
    /// Connects to the host; none if nobody listens.
    ///
    /// # Errors
    /// The system's; the host is another user's.
    pub(super) fn connect(&self) -> io::Result<Option<UnixStream>> {
        match self.address.at_socket(|path| UnixStream::connect(path)) {
            Ok(stream) => own_users(&stream).map(|()| Some(stream)),
            Err(error)
                if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) =>
            {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// Listens where the host is looked for. What lies there is the socket of one that has ended.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn listen(&self) -> io::Result<UnixListener> {
        self.remove_socket()?;
        self.address.at_socket(|path| UnixListener::bind(path))
    }

    /// Removes the socket.
    ///
    /// # Errors
    /// The system's. That there is none is no error.
    pub(super) fn remove_socket(&self) -> io::Result<()> {
        match self.address.at_socket(|path| std::fs::remove_file(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => Ok(()),
        }
    }

    /// Opens the host's log, empty.
    ///
    /// # Errors
    /// The system's.
    pub(super) fn open_log(&self) -> io::Result<File> {
        drop(steelbank_cache::create_file(&self.address.log())?);
        OpenOptions::new().append(true).open(self.address.log())
    }
}

/// Checks that the process at the other end is one of this user's.
///
/// # Errors
/// It is another user's.
pub(super) fn own_users(stream: &UnixStream) -> io::Result<()> {
    let (peer, own) = (socket_peercred(stream)?.uid, rustix::process::geteuid());
    match peer == own {
        true => Ok(()),
        false => Err(io::Error::new(
            io::ErrorKind::PermissionDenied,
            format!(
                "the other end of the socket is of user {}, and this process of user {}",
                peer.as_raw(),
                own.as_raw()
            ),
        )),
    }
}

/// Returns the number of the process at the other end.
pub(super) fn peer_process(stream: &UnixStream) -> i32 {
    socket_peercred(stream).map_or(0, |peer| peer.pid.as_raw_nonzero().get())
}

/// Hands the two `streams` over with `joining`.
///
/// # Errors
/// The host is gone.
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

/// Takes what [`hand_over`] has handed over.
///
/// # Errors
/// It is something else, the client is gone, or it has not said all in time.
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
        if got.bytes == 0 || line.len() > LONGEST_HOST_MESSAGE {
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
    /// The other end is gone.
    pub(super) fn send(&self, mut socket: &UnixStream) -> io::Result<()> {
        let mut line = serde_json::to_vec(self)?;
        line.push(b'\n');
        socket.write_all(&line)
    }
}

/// Reads the messages of the host, until its end of the socket is closed.
pub(super) fn messages(socket: UnixStream) -> impl Iterator<Item = HostMessage> + Send {
    let lines = BufReader::new(socket).lines();
    lines.map_while(Result::ok).filter_map(|line| serde_json::from_str(&line).ok())
}

/// Waits for a process that joins. None if the time is over first, or `wake` is readable.
///
/// # Errors
/// The system's.
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
        };
        // Who names no protocol speaks MCP.
        let named = serde_json::from_str::<ClientSettings>(r#"{"eval":false,"edits":false,"tools":null}"#);
        assert_eq!(named.unwrap().protocol, ClientProtocol::Mcp);
        Joining { image: "x".repeat(10_000), settings }
    }

    #[test]
    fn streams_arrive_with_what_was_said() {
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
        // What is no handover, and what is cut.
        for line in [&b"{}\n"[..], b"GET / HTTP/1.1\r\n\r\n", b"{\"image\":"] {
            let (mut client, host) = UnixStream::pair().unwrap();
            client.write_all(line).unwrap();
            drop(client);
            assert!(take_over(&host).is_err(), "{line:?}");
        }
        // One that stays, and says no more.
        let (mut client, host) = UnixStream::pair().unwrap();
        client.write_all(b"{\"image\":").unwrap();
        assert_eq!(take_over(&host).unwrap_err().kind(), io::ErrorKind::WouldBlock);
    }

    #[test]
    fn one_listens_and_others_find_it_however_long_the_path() {
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
        // The socket of one that was killed.
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
