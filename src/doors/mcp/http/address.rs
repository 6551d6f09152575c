//! Where the server listens, and the token that its clients show.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, UnixListener};

/// Where to listen: at a port of this machine alone, or at a Unix socket.
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
            Some(address) if is_own(address.ip()) => Ok(Self::Port(address)),
            Some(address) => Err(format!(
                "{} can be reached from other machines: only a loopback address is served, as 127.0.0.1:{}.",
                address.ip(),
                address.port()
            )),
            None => Err("name 127.0.0.1:PORT, [::1]:PORT or unix:PATH.".to_owned()),
        }
    }
}

/// Whether only this machine reaches the address.
pub(super) fn is_own(address: IpAddr) -> bool {
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

/// A socket at which the server listens.
pub(super) enum Listener {
    Port(TcpListener),
    /// The socket's file is removed in the end.
    Socket(UnixListener, PathBuf),
}

/// A connection, at a port or at a socket.
pub(super) trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

impl Listener {
    /// Listens at `address`. The socket of a process that has ended is replaced.
    ///
    /// # Errors
    /// The system's; another process listens there, or something else lies at the path.
    pub(super) async fn bind(address: &HttpAddress) -> io::Result<Self> {
        match address {
            HttpAddress::Port(address) => TcpListener::bind(address).await.map(Self::Port),
            HttpAddress::Socket(path) => {
                remove_dead(path)?;
                let listener = Self::Socket(UnixListener::bind(path)?, path.clone());
                // Others who connect before this are sent away all the same: each one's user is asked for.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
                Ok(listener)
            }
        }
    }

    /// Returns the address, with the port that was free if any was asked for.
    pub(super) fn address(&self) -> io::Result<HttpAddress> {
        Ok(match self {
            Self::Port(listener) => HttpAddress::Port(listener.local_addr()?),
            Self::Socket(_, path) => HttpAddress::Socket(path.clone()),
        })
    }

    /// Accepts a connection; none if it is another user's.
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
            // Ignore the error: whoever listens there next finds nobody, and replaces the socket.
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
        Ok(found) if !found.file_type().is_socket() => taken("is there, and is no socket"),
        Ok(_) => match UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => std::fs::remove_file(path),
            Err(error) => Err(error),
            Ok(_) => taken("is the socket of a process that listens"),
        },
    }
}

/// The path of the server's one endpoint.
pub(super) const PATH: &str = "/mcp";

/// Returns 32 random bytes as 64 hexadecimal digits: nobody guesses them.
///
/// # Errors
/// The system gives no random bytes.
pub(super) fn secret() -> io::Result<String> {
    use std::fmt::Write;
    let mut bytes = [0_u8; 32];
    let mut filled = 0;
    while filled < bytes.len() {
        filled += rustix::rand::getrandom(&mut bytes[filled..], rustix::rand::GetRandomFlags::empty())?;
    }
    Ok(bytes.iter().fold(String::new(), |mut text, byte| {
        // A String takes all that is written to it.
        let _ = write!(text, "{byte:02x}");
        text
    }))
}

/// Reads the token in `file`, or makes one there, which stays: hosts have it in their settings. The file is its user's alone.
///
/// # Errors
/// The system's.
pub fn token(file: &Path) -> io::Result<String> {
    if let Ok(bytes) = steelbank_cache::read(file)
        && let Ok(text) = String::from_utf8(bytes)
        && text.trim().len() >= 32
    {
        steelbank_cache::close_to_others(&steelbank_cache::open(file)?)?;
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
    fn only_this_machine_reaches_the_server() {
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
    fn a_token_stays_and_is_its_users_alone() {
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
    async fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
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
        assert!(told(Listener::bind(&address).await).contains("no socket"));
    }
}
