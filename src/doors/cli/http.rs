//! `steelbank serve --http`: serves MCP over HTTP. Each HTTP session connects to the host of the
//! image, as a client of `--share` does.

use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::Arc;

use super::share::Joiner;
use super::{CommandError, Exit, Serve, Shell, installation};
use crate::doors::mcp::http::{HttpAddress, HttpConnection, HttpError, serve, token};
use crate::doors::share::ClientSettings;

/// The socket to the host. Dropping it shuts the connection down, even if other processes have
/// copies of the descriptor.
struct HostSocket(UnixStream);

impl Drop for HostSocket {
    fn drop(&mut self) {
        // Ignore the error: the host may have closed its end.
        let _ = self.0.shutdown(Shutdown::Both);
    }
}

/// Serves until the process ends.
pub(super) fn run(
    command: &Serve,
    shell: &Arc<Shell>,
    address: &HttpAddress,
    settings: ClientSettings,
) -> Result<Exit, CommandError> {
    let folder = shell.options.project.root()?.folder().ok_or_else(|| CommandError {
        exit: Exit::Usage,
        message: "--http needs a project, and there is none here. Name one with --project.".to_owned(),
    })?;
    let joiner = Joiner::new(shell, &folder, settings, command.linger)?;
    let file = match address {
        HttpAddress::Port(address) => Some(token_file(&address.to_string())?),
        HttpAddress::Socket(_) => None,
    };
    let token = file.as_deref().map(token).transpose()?;
    let announce = |address: &HttpAddress| {
        let shown = file.map(|file| format!(" Clients must send the bearer token from {}.", file.display()));
        shell.output.error(&format!("serving MCP at {address}.{}", shown.unwrap_or_default()));
    };
    let join = move || joined(&joiner).map_err(|trouble| trouble.message);
    serve(address, token, Arc::new(join), announce)?;
    Ok(Exit::Answered)
}

fn joined(joiner: &Joiner) -> Result<HttpConnection, CommandError> {
    let (stream, image) = UnixStream::pair()?;
    let (socket, said) = joiner.join([image.as_fd(), image.as_fd()])?;
    // The iterator prints the host's texts. Run it until the client has disconnected.
    std::thread::Builder::new().name("http-said".into()).spawn(move || said.for_each(drop))?;
    Ok(HttpConnection { stream, guard: Box::new(HostSocket(socket)) })
}

/// Returns the path of the file that stores the access token for an address. The token is kept
/// between runs, so that users can put it in the settings of MCP hosts.
fn token_file(address: &str) -> Result<PathBuf, CommandError> {
    let cache = installation::cache().ok_or_else(|| CommandError {
        exit: Exit::Engine,
        message: "There is no cache folder for the token. Set STEELBANK_CACHE.".to_owned(),
    })?;
    let name: String =
        address.chars().map(|c| if c.is_ascii_alphanumeric() || c == '.' { c } else { '-' }).collect();
    Ok(cache.join("http").join(format!("{name}.token")))
}

impl From<HttpError> for CommandError {
    fn from(error: HttpError) -> Self {
        Self { exit: Exit::Engine, message: error.to_string() }
    }
}
