//! `steelbank serve --share` and `steelbank lsp --share`: hands the standard streams to the host of the image, which it starts if there is none, and
//! waits until it has left.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::{CommandError, Exit, GlobalOptions, PROGRAM, Shell, installation};
use crate::doors::share::{ClientSettings, HostAddress, HostMessage, Joining, hand_over, messages};
use crate::doors::streams::take as take_streams;
use crate::tools::Permissions;

/// How long to try again where a host ends, or is started again, before it says a word, or lacks descriptors.
const HOST_WAIT: Duration = Duration::from_secs(20);
/// The time between two tries.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

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

fn failed(message: String) -> CommandError {
    CommandError { exit: Exit::Engine, message }
}

/// Has the host of the image serve the standard streams, and waits until the client has left. None if there is no project.
pub(super) fn join(
    shell: &Arc<Shell>,
    settings: ClientSettings,
    linger: u64,
) -> Result<Option<Exit>, CommandError> {
    let Some(folder) = shell.options.project.root()?.folder() else {
        shell.output.error("There is no project here whose Lisp could be shared: this client has its own.");
        return Ok(None);
    };
    let joiner = Joiner::new(shell, &folder, settings, linger)?;
    let (input, output) = take_streams()?;
    let (_, mut said) = joiner.join([input.as_fd(), output.as_fd()])?;
    drop((input, output));
    match said.next() {
        Some(HostMessage::Left { well }) => Ok(Some(Exit::of_editor(well))),
        Some(HostMessage::Refused(why)) => Err(failed(why)),
        _ => Err(failed(format!(
            "The process that keeps the shared Lisp has ended. Its log is {}.",
            joiner.address.log().display()
        ))),
    }
}

/// What joins clients to the host of an image.
pub(super) struct Joiner {
    shell: Arc<Shell>,
    folder: PathBuf,
    address: HostAddress,
    joining: Joining,
    linger: u64,
    /// The sentence that the host has said last: it says the same to each client.
    last: Arc<Mutex<String>>,
}

impl Joiner {
    /// Makes the joiner of clients with `settings` to the image of the project in `folder`.
    ///
    /// # Errors
    /// There is no cache, or the folder or the program cannot be looked at.
    pub(super) fn new(
        shell: &Arc<Shell>,
        folder: &Path,
        settings: ClientSettings,
        linger: u64,
    ) -> Result<Self, CommandError> {
        let cache = installation::cache().ok_or_else(|| {
            failed(
                "There is no cache folder in which a shared Lisp is found. Set STEELBANK_CACHE.".to_owned(),
            )
        })?;
        let image = image(shell, folder).map_err(|error| trouble(&error))?;
        let mut hasher = DefaultHasher::new();
        image.hash(&mut hasher);
        let address = HostAddress::new(&cache, &format!("{:016x}", hasher.finish()));
        let joining = Joining { image, settings };
        let (shell, last) = (Arc::clone(shell), Arc::default());
        Ok(Self { shell, folder: folder.to_owned(), address, joining, linger, last })
    }

    /// Has the host serve a pair of streams. Returns the socket whose end is the client's leaving, and what the host says from now
    /// on; sentences for standard error go there.
    ///
    /// # Errors
    /// The host does not serve the client.
    pub(super) fn join(
        &self,
        streams: [BorrowedFd<'_>; 2],
    ) -> Result<(UnixStream, impl Iterator<Item = HostMessage> + Send + use<>), CommandError> {
        let end = Instant::now() + HOST_WAIT;
        loop {
            let socket = self.connect().map_err(|error| trouble(&error))?;
            // Try again if this fails: the host has ended.
            let _ = hand_over(&socket, &self.joining, streams);
            let (shell, last) = (Arc::clone(&self.shell), Arc::clone(&self.last));
            let own = socket.try_clone().map_err(|error| trouble(&error))?;
            let mut said = messages(own).filter(move |message| match message {
                HostMessage::Said(sentence) => {
                    let mut last = last.lock();
                    if *last != *sentence {
                        shell.output.error(sentence);
                        last.clone_from(sentence);
                    }
                    false
                }
                _ => true,
            });
            let why = match said.next() {
                Some(HostMessage::Welcome) => return Ok((socket, said)),
                Some(HostMessage::Refused(why)) => return Err(failed(why)),
                Some(HostMessage::Later(why)) => why,
                _ => "it ends, or closes the socket, before it says a word".to_owned(),
            };
            if Instant::now() >= end {
                return Err(failed(format!(
                    "The process that keeps the shared Lisp did not serve this client within {} s: {why}. Its log is {}.",
                    HOST_WAIT.as_secs(),
                    self.address.log().display()
                )));
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    /// Connects to the host, which is started if there is none.
    fn connect(&self) -> io::Result<UnixStream> {
        let Self { shell, folder, address, linger, .. } = self;
        let lock = address.lock()?;
        if let Some(socket) = lock.connect()? {
            return Ok(socket);
        }
        let listener = lock.listen()?;
        let log = lock.open_log()?;
        let mut host = Command::new(PROGRAM)
            .arg0("steelbank")
            .args(shell.options.arguments(&folder.canonicalize()?))
            .args(["serve", "--host", address.name(), "--linger", &linger.to_string()])
            .current_dir(folder)
            .stdin(OwnedFd::from(listener))
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        // Leave no zombie where this process outlives the host. Ignore the error: without a thread there is one.
        let _ = std::thread::Builder::new().name("share-host".into()).spawn(move || host.wait());
        lock.connect()?.ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}

fn trouble(error: &io::Error) -> CommandError {
    failed(format!("The Lisp of this project cannot be shared: {error}."))
}
