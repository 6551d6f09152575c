//! The client side of `--share`: passes the standard streams to the host of the image, starts the
//! host if there is none, and waits until the client's session ends.

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
use crate::tools::{Effect, Object, Permissions, Tool, ToolAnswer};

/// How long to retry while a host ends, starts or lacks descriptors.
const HOST_WAIT: Duration = Duration::from_secs(20);
/// The time between two attempts.
const RETRY_PAUSE: Duration = Duration::from_millis(100);

/// The environment variables that affect the image: the locations of code, of the user's files and
/// of the runtime, and the time zone.
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
    /// Returns the options that give another process the same image of the project in `folder`.
    fn arguments(&self, folder: &Path) -> Vec<std::ffi::OsString> {
        let mut arguments = self.project.arguments(folder);
        arguments.extend(self.text.argument().map(Into::into));
        if let Some(megabytes) = self.dynamic_space_size {
            arguments.extend(["--dynamic-space-size".into(), megabytes.to_string().into()]);
        }
        arguments
    }
}

/// Describes everything that the image of the project in `folder` depends on. Processes with equal
/// descriptions may share an image.
///
/// # Errors
/// The metadata of the folder or the program cannot be read.
pub(super) fn image(shell: &Shell, folder: &Path) -> io::Result<String> {
    let program = std::fs::metadata(PROGRAM)?;
    let build = [program.dev(), program.ino(), program.size(), program.mtime().unsigned_abs()];
    let arguments = shell.options.arguments(&folder.canonicalize()?);
    let variables = VARIABLES.map(std::env::var_os);
    Ok(format!("{build:?} {arguments:?} {variables:?}"))
}

/// Returns the address of the host of an image with this description.
fn address(cache: &Path, image: &str) -> HostAddress {
    let mut hasher = DefaultHasher::new();
    image.hash(&mut hasher);
    HostAddress::new(cache, &format!("{:016x}", hasher.finish()))
}

/// Lets the host of the image answer a command's call, so that the command loads nothing. Returns
/// `None` if no host runs, if it has another state of the project, or if the tool runs or writes
/// code.
pub(super) fn ask(shell: &Shell, tool: &Tool, arguments: &Object) -> Option<ToolAnswer> {
    if !shell.options.project.any() || tool.about().effect != Effect::Reads {
        return None;
    }
    let folder = shell.options.project.root().ok()?.folder()?;
    let image = image(shell, &folder).ok()?;
    let address = address(&installation::cache()?, &image);
    let lock = address.has_socket().then(|| address.lock().ok())??;
    let socket = lock.connect().ok()??;
    drop(lock);
    let settings = ClientSettings::default();
    let order = Some((tool.name().to_owned(), arguments.clone()));
    let (input, output) = (io::stdin(), io::stdout());
    hand_over(&socket, &Joining { image, settings, order }, [input.as_fd(), output.as_fd()]).ok()?;
    match messages(socket).next()? {
        HostMessage::Answer(answer) => Some(*answer),
        _ => None,
    }
}

fn failed(message: String) -> CommandError {
    CommandError { exit: Exit::Engine, message }
}

/// Lets the host of the image serve the standard streams, and waits until the client has
/// disconnected. `None` if there is no project.
pub(super) fn join(
    shell: &Arc<Shell>,
    settings: ClientSettings,
    linger: u64,
) -> Result<Option<Exit>, CommandError> {
    let Some(folder) = shell.options.project.root()?.folder() else {
        shell.output.error("There is no project here, so this client gets a separate Lisp.");
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
            "The host process of the shared Lisp has ended. Its log is {}.",
            joiner.address.log().display()
        ))),
    }
}

/// Connects clients to the host of an image.
pub(super) struct Joiner {
    shell: Arc<Shell>,
    folder: PathBuf,
    address: HostAddress,
    joining: Joining,
    linger: u64,
    /// The last text from the host that was printed. The host sends the same text to each client,
    /// so a text that equals the last text is not printed again.
    last: Arc<Mutex<String>>,
}

impl Joiner {
    /// Creates a joiner. Its clients have `settings` and use the image of the project in `folder`.
    ///
    /// # Errors
    /// There is no cache folder, or the metadata of the folder or the program cannot be read.
    pub(super) fn new(
        shell: &Arc<Shell>,
        folder: &Path,
        settings: ClientSettings,
        linger: u64,
    ) -> Result<Self, CommandError> {
        let cache = installation::cache().ok_or_else(|| {
            failed("A shared Lisp needs a cache folder, and there is none. Set STEELBANK_CACHE.".to_owned())
        })?;
        let image = image(shell, folder).map_err(|error| trouble(&error))?;
        let address = address(&cache, &image);
        let joining = Joining { image, settings, order: None };
        let (shell, last) = (Arc::clone(shell), Arc::default());
        Ok(Self { shell, folder: folder.to_owned(), address, joining, linger, last })
    }

    /// Lets the host serve a pair of streams. Returns the socket, which the host closes when the
    /// client has disconnected, and an iterator over the host's further messages. The iterator
    /// prints texts on standard error and omits them.
    ///
    /// # Errors
    /// The host cannot be started, rejects the client, or does not answer in time.
    pub(super) fn join(
        &self,
        streams: [BorrowedFd<'_>; 2],
    ) -> Result<(UnixStream, impl Iterator<Item = HostMessage> + Send + use<>), CommandError> {
        let end = Instant::now() + HOST_WAIT;
        loop {
            let socket = self.connect().map_err(|error| trouble(&error))?;
            // Ignore a failure, which means that the host has ended or is ending: the loop retries.
            let _ = hand_over(&socket, &self.joining, streams);
            let (shell, last) = (Arc::clone(&self.shell), Arc::clone(&self.last));
            let own = socket.try_clone().map_err(|error| trouble(&error))?;
            let mut said = messages(own).filter(move |message| match message {
                HostMessage::Text(sentence) => {
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
                _ => "it closed the connection without an answer".to_owned(),
            };
            if Instant::now() >= end {
                return Err(failed(format!(
                    "The host process of the shared Lisp did not accept this client within {} s: {why}. Its log is {}.",
                    HOST_WAIT.as_secs(),
                    self.address.log().display()
                )));
            }
            std::thread::sleep(RETRY_PAUSE);
        }
    }

    /// Connects to the host. Starts it if there is none.
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
        // Wait on a thread for the host's end, so that the host does not become a zombie. Ignore
        // the error: without a thread, only a zombie remains.
        let _ = std::thread::Builder::new().name("share-host".into()).spawn(move || host.wait());
        lock.connect()?.ok_or_else(|| io::ErrorKind::ConnectionRefused.into())
    }
}

fn trouble(error: &io::Error) -> CommandError {
    failed(format!("This project's Lisp cannot be shared: {error}."))
}
