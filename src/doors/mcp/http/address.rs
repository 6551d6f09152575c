//! Where the server listens, and the token that its clients show.

use std::fmt::{self, Display, Formatter};
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;

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

/// A socket at which the server listens.
#[derive(Debug)]
pub enum HttpListener {
    /// At a port.
    Port(TcpListener),
    /// At a path, which is removed in the end.
    Socket(UnixListener, PathBuf),
}

impl HttpAddress {
    /// Listens here. The socket of a process that has ended is replaced.
    ///
    /// # Errors
    /// The system's; another process listens there, or something else lies at the path.
    pub fn listen(&self) -> io::Result<HttpListener> {
        match self {
            Self::Port(address) => {
                let listener = TcpListener::bind(address)?;
                listener.set_nonblocking(true)?;
                Ok(HttpListener::Port(listener))
            }
            Self::Socket(path) => {
                remove_dead(path)?;
                let listener = UnixListener::bind(path)?;
                // Other users who connected before this are sent away all the same: each one's user is asked for.
                std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
                listener.set_nonblocking(true)?;
                Ok(HttpListener::Socket(listener, path.clone()))
            }
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

impl HttpListener {
    /// Returns the address that clients are told.
    ///
    /// # Errors
    /// The system's.
    pub fn url(&self) -> io::Result<Url> {
        Ok(match self {
            Self::Port(listener) => Url::Port(listener.local_addr()?),
            Self::Socket(_, path) => Url::Socket(path.clone()),
        })
    }
}

/// The address that clients are told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Url {
    /// That of a port.
    Port(SocketAddr),
    /// That of a Unix socket.
    Socket(PathBuf),
}

impl Display for Url {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Self::Port(address) => write!(f, "http://{address}{PATH}"),
            Self::Socket(path) => write!(f, "{PATH} of the Unix socket {}", path.display()),
        }
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

    #[test]
    fn a_dead_socket_is_replaced_and_a_live_one_is_not() {
        let home = tempfile::tempdir().unwrap();
        let path = home.path().join("socket");
        let address = HttpAddress::Socket(path.clone());
        let listener = address.listen().unwrap();
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert!(address.listen().unwrap_err().to_string().contains("listens"));
        drop(listener);
        drop(address.listen().unwrap());
        std::fs::remove_file(&path).unwrap();
        std::fs::write(&path, "text").unwrap();
        assert!(address.listen().unwrap_err().to_string().contains("no socket"));
    }
}
