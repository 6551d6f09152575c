//! `steelbank serve --share`: hands the standard streams to the host of the image, which it starts if there is none, and
//! waits until it has left.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use super::{CommandError, Exit, GlobalOptions, PROGRAM, Shell, installation};
use crate::doors::share::{ClientSettings, HostAddress, HostMessage, Joining, hand_over, messages};
use crate::doors::streams::take as take_streams;
use crate::tools::Permissions;

/// How often to try again when a host has ended, or was started again, before it said a word.
const ATTEMPTS: u32 = 10;
const PAUSE: Duration = Duration::from_millis(100);

/// What of the environment makes another image: where code, the user's files and the runtime are found.
const VARIABLES: [&str; 14] = [
    "ASDF_OUTPUT_TRANSLATIONS", "CL_SOURCE_REGISTRY", "HOME", "LD_LIBRARY_PATH", "PATH", "SBCL_HOME",
    "STEELBANK_CACHE", "STEELBANK_HOME", "TZ", "XDG_CACHE_HOME", "XDG_CONFIG_DIRS", "XDG_CONFIG_HOME",
    "XDG_DATA_DIRS", "XDG_DATA_HOME",
];

impl ClientSettings {
    /// Returns the permissions.
    pub(super) fn permissions(&self) -> Permissions {
        Permissions { eval: self.eval, edits: self.edits }
    }
}

impl GlobalOptions {
    /// Returns the options that make a process of the project in `folder` have the same image.
    fn arguments(&self, folder: &Path) -> Vec<std::ffi::OsString> {
        let mut arguments = self.project.arguments(folder);
        arguments.extend(self.text.argument().map(Into::into));
        if let Some(megabytes) = self.dynamic_space_size {
            arguments.extend(["--dynamic-space-size".into(), megabytes.to_string().into()]);
        }
        arguments
    }
}

/// Describes what the image of the project in `folder` is made of. Processes that agree in all of it may share one.
///
/// # Errors
/// The folder or the program cannot be looked at.
pub(super) fn image(shell: &Shell, folder: &Path) -> io::Result<String> {
    let program = std::fs::metadata(PROGRAM)?;
    let build = [program.dev(), program.ino(), program.size(), program.mtime().unsigned_abs()];
    let arguments = shell.options.arguments(&folder.canonicalize()?);
    let variables = VARIABLES.map(std::env::var_os);
    Ok(format!("{build:?} {arguments:?} {variables:?}"))
}

/// Has the host of the image serve the standard streams, and waits until the client has left.
pub(super) fn join(
    shell: &Shell,
    folder: &Path,
    settings: ClientSettings,
    linger: u64,
) -> Result<Exit, CommandError> {
    let failed = |message: String| CommandError { exit: Exit::Engine, message };
    let trouble = |error: io::Error| failed(format!("The Lisp of this project cannot be shared: {error}."));
    let cache = installation::cache().ok_or_else(|| {
        failed("There is no cache folder in which a shared Lisp is found. Set STEELBANK_CACHE.".to_owned())
    })?;
    let image = image(shell, folder).map_err(trouble)?;
    let mut hasher = DefaultHasher::new();
    image.hash(&mut hasher);
    let address = HostAddress::new(&cache, &format!("{:016x}", hasher.finish()));
    let joining = Joining { image, settings };
    let (input, output) = take_streams()?;
    for _ in 0..ATTEMPTS {
        let socket = connect(shell, folder, &address, linger).map_err(trouble)?;
        // Try again if this fails: the host has ended.
        let _ = hand_over(&socket, &joining, [input.as_fd(), output.as_fd()]);
        let mut said = messages(&socket).filter(|message| match message {
            HostMessage::Said(sentence) => {
                shell.output.error(sentence);
                false
            }
            _ => true,
        });
        match said.next() {
            Some(HostMessage::Welcome) => {
                drop((input, output));
                return match said.next() {
                    Some(HostMessage::Left) => Ok(Exit::Answered),
                    Some(HostMessage::Refused(why)) => Err(failed(why)),
                    _ => Err(failed(format!(
                        "The process that keeps the shared Lisp has ended. Its log is {}.",
                        address.log().display()
                    ))),
                };
            }
            Some(HostMessage::Refused(why)) => return Err(failed(why)),
            _ => std::thread::sleep(PAUSE),
        }
    }
    Err(failed(format!(
        "The process that keeps the shared Lisp ends before it serves this client. Its log is {}.",
        address.log().display()
    )))
}

/// Connects to the host, which is started if there is none.
fn connect(shell: &Shell, folder: &Path, address: &HostAddress, linger: u64) -> io::Result<UnixStream> {
    let lock = address.lock()?;
    if let Some(socket) = lock.connect()? {
        return Ok(socket);
    }
    let listener = lock.listen()?;
    let log = lock.open_log()?;
    Command::new(PROGRAM)
        .arg0("steelbank")
        .args(shell.options.arguments(&folder.canonicalize()?))
        .args(["serve", "--host", address.name(), "--linger", &linger.to_string()])
        .current_dir(folder)
        .stdin(OwnedFd::from(listener))
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()?;
    lock.connect()?.ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
}
