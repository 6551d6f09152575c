//! The listening address of the HTTP server, and the token that authenticates its clients.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// The listening address: a local port or a Unix socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HttpAddress {
    /// A loopback address.
    Port(SocketAddr),
    /// The path of a Unix socket.
    Socket(PathBuf),
}

impl FromStr for HttpAddress {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(path) = text.strip_prefix("unix:") {
            return match path {
                "" => Err("unix: needs the path of a socket.".to_owned()),
                path => Ok(Self::Socket(PathBuf::from(path))),
            };
        }
        let port = text.strip_prefix("localhost:").and_then(|port| port.parse().ok());
        let address = port.map(|port| SocketAddr::from((Ipv4Addr::LOCALHOST, port)));
        match address.or_else(|| text.parse().ok()) {
            Some(address) if is_local(address.ip()) => Ok(Self::Port(address)),
            Some(address) => Err(format!(
                "{} is reachable from other machines. Use a loopback address such as 127.0.0.1:{}.",
                address.ip(),
                address.port()
            )),
            None => Err("expected 127.0.0.1:PORT, [::1]:PORT or unix:PATH.".to_owned()),
        }
    }
}

/// Returns whether the address is reachable only from this machine.
pub(super) fn is_local(address: IpAddr) -> bool {
    address.is_loopback()
}

impl Display for HttpAddress {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(address) => write!(f, "http://{address}{PATH}"),
            Self::Socket(path) => write!(f, "{PATH} of the Unix socket {}", path.display()),
        }
    }
}

/// The listening socket.
pub(super) enum Listener {
    Port(TcpListener),
    /// A Unix socket. Its file is removed on drop.
    Socket(UnixListener, PathBuf),
}

/// A connection over TCP or a Unix socket.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl Listener {
    /// Listens at `address`. Replaces the Unix socket of a process that has ended.
    ///
    /// # Errors
    /// Another process listens there, a file that is not a socket exists at the path, or the socket
    /// cannot be created.
    pub(super) async fn bind(address: &HttpAddress) -> io::Result<Self> {
        match address {
            HttpAddress::Port(address) => TcpListener::bind(address).await.map(Self::Port),
            HttpAddress::Socket(path) => {
                remove_dead(path)?;
                let listener = Self::Socket(UnixListener::bind(path)?, path.clone());
                // Other users may connect before this call, but `accept` rejects them.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
                Ok(listener)
            }
        }
    }

    /// Returns the address, with the actual port if port 0 was requested.
    pub(super) fn address(&self) -> io::Result<HttpAddress> {
        Ok(match self {
            Self::Port(listener) => HttpAddress::Port(listener.local_addr()?),
            Self::Socket(_, path) => HttpAddress::Socket(path.clone()),
        })
    }

    /// Accepts a connection. Returns `None` for a connection of another user to the Unix socket.
    pub(super) async fn accept(&self) -> io::Result<Option<Box<dyn Connection>>> {
        match self {
            Self::Port(listener) => {
                let (stream, _) = listener.accept().await?;
                stream.set_nodelay(true)?;
                Ok(Some(Box::new(stream)))
            }
            Self::Socket(listener, _) => {
                let (stream, _) = listener.accept().await?;
                let own = stream.peer_cred()?.uid() == rustix::process::geteuid().as_raw();
                Ok(own.then(|| Box::new(stream) as Box<dyn Connection>))
            }
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Socket(_, path) = self {
            // Ignore the error: the next process that listens here replaces the dead socket.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Removes the socket of a process that has ended.
fn remove_dead(path: &Path) -> io::Result<()> {
    let taken =
        |why: &str| Err(io::Error::new(io::ErrorKind::AddrInUse, format!("{} {why}", path.display())));
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(found) if !found.file_type().is_socket() => taken("exists and is not a socket"),
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
            Err(error) => Err(error),
            Ok(_) => taken("is in use: another process listens on it"),
        },
    }
}

/// The path of the server's only endpoint.
pub(super) const PATH: &str = "/mcp";

/// Returns 32 random bytes as 64 hexadecimal digits.
///
/// # Errors
/// The system provides no random bytes.
pub(super) fn secret() -> io::Result<String> {
    use std::fmt::Write;
    let mut bytes = [0_u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // Ignore the result: writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Reads the token in `file`, or creates one there. The token persists, because MCP hosts store it
/// in their settings. Only the user can read the file.
///
/// # Errors
/// The file cannot be read or written, or the system provides no random bytes.
pub fn token(file: &Path) -> io::Result<String> {
    if let Ok(bytes) = steelbank_cache::read(file)
        && let Ok(text) = String::from_utf8(bytes)
        && text.trim().len() >= 32
    {
        steelbank_cache::restrict_to_owner(&steelbank_cache::open(file)?)?;
        return Ok(text.trim().to_owned());
    }
    let token = secret()?;
    if let Some(folder) = file.parent() {
        steelbank_cache::create_folder(folder)?;
    }
    steelbank_cache::write(file, format!("{token}\n").as_bytes())?;
    Ok(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_local_addresses_are_accepted() {
        for (text, told) in
            [("127.0.0.1:80", "127.0.0.1:80"), ("[::1]:0", "[::1]:0"), ("localhost:7", "127.0.0.1:7")]
        {
            assert_eq!(text.parse(), Ok(HttpAddress::Port(told.parse().unwrap())));
        }
        assert_eq!("unix:a/b".parse(), Ok(HttpAddress::Socket("a/b".into())));
        for text in ["0.0.0.0:80", "192.168.0.1:80", "[::]:80", "127.0.0.1", "8080", "unix:", "example:80"] {
            assert!(text.parse::<HttpAddress>().is_err(), "{text}");
        }
    }

    #[test]
    fn token_persists_and_is_private() {
        let home = tempfile::tempdir().unwrap();
        let file = home.path().join("a/b.token");
        let first = token(&file).unwrap();
        assert_eq!(first.len(), 64);
        std::fs::set_permissions(&file, PermissionsExt::from_mode(0o644)).unwrap();
        assert_eq!(token(&file).unwrap(), first);
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::remove_file(&file).unwrap();
        assert_ne!(token(&file).unwrap(), first);
    }

    #[tokio::test]
    async fn bind_replaces_only_dead_sockets() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("socket");
        let address = HttpAddress::Socket(path.clone());
        let told = |bound: io::Result<Listener>| bound.err().unwrap().to_string();
        let listener = Listener::bind(&address).await.unwrap();
        assert_eq!(listener.address().unwrap(), address);
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(told(Listener::bind(&address).await).contains("listens"));
        drop(listener);
        assert!(!path.exists());
        drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
        drop(Listener::bind(&address).await.unwrap());
        std::fs::write(&path, "text").unwrap();
        assert!(told(Listener::bind(&address).await).contains("not a socket"));
    }
}
