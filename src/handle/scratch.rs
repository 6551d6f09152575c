//! Scratch images: copies of the program, each with its own SBCL, for trials that must not change
//! the main image. They are discarded afterwards.
//!
//! ```no_run
//! # use std::time::Duration;
//! # use steelbank::scratch::{Overlay, ScratchRequest};
//! # use steelbank::Control;
//! # fn try_it(bank: &steelbank::Steelbank) -> Result<(), steelbank::Error> {
//! let overlay =
//!     Overlay { path: "src/shop.lisp".into(), text: Some("(defun price (x) x)".into()) };
//! let control = Control::new(Duration::from_secs(60));
//! let mut scratch = bank.run(&ScratchRequest::new().overlays([overlay]), &control)?;
//! // Any tool of the server can be called in it. Nothing is loaded until a call loads it.
//! let answer = scratch.call("load-system", serde_json::json!({ "system": "shop" }), &control)?;
//! println!("{}", answer.text);
//! # Ok(())
//! # }
//! ```
//!
//! A scratch image sees the project, the cache and the environment of the process that starts it.
//! It reads the cache's fasls and sidecars, but writes to its own folder, which is removed with it.
//! An *overlay* replaces the text of a file, or marks a file as deleted. Lisp reads the overlay's
//! text, and every position names the real path.
//!
//! A *confined* image ([`ScratchRequest::confined`]) and the programs that it starts may write only
//! in that folder and to `/dev/null`: the kernel refuses other writes (Landlock, seccomp). It is
//! used for code that the user has not permitted to run.
//!
//! A scratch image ends when the [`Scratch`] is dropped, or when the process that started it ends
//! in any way, because that closes the image's input pipe. After a call that timed out, the caller
//! must drop the `Scratch`. The image's memory is limited (`RLIMIT_AS`), and a process runs at most
//! [`MAX_SCRATCHES`] at a time. The start of a scratch image removes the folders that killed
//! scratch images have left in the cache.

mod messages;

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rustix::fs::{FlockOperation, Mode, OFlags, flock};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Steelbank;
use crate::engine::control::Control;
use crate::engine::{descendant_commands, end_descendants};
use crate::handle::Error;
use crate::handle::question::Action;
use crate::handle::snapshot::SnapshotKey;
pub(crate) use messages::{HelperStart, HelperTask, Reply, ScratchOrder};

/// The maximum number of scratch images that a process runs at a time. Further requests wait.
pub const MAX_SCRATCHES: usize = 2;

/// The environment variable with the folder for temporary files.
pub(crate) const TEMPORARY_FILES: &str = "TMPDIR";

/// The name of the order that calls a tool. Its arguments are the tool's name and arguments, and
/// its answer is a [`ScratchAnswer`].
pub(crate) const CALL: &str = "call";

/// The time limit for the start of a scratch image.
const START: Duration = Duration::from_secs(30);
/// The maximum length of a reply in bytes. The limit for a confined image is lower, because the
/// image's code is not trusted and a parsed reply takes much more memory.
const LONGEST_REPLY: u64 = 1 << 28;
const LONGEST_CONFINED_REPLY: u64 = 1 << 23;
/// The maximum number of unread replies. They are limited because code in the image can also write
/// replies.
const MAX_REPLIES: usize = 256;
/// The interval at which a waiting call checks whether it was cancelled.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The text of a file in a scratch image. It replaces the text on disk.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Overlay {
    /// The file. A relative path is relative to the project.
    pub path: PathBuf,
    /// The text; `None` if the file counts as deleted.
    pub text: Option<String>,
}

/// The outcome of a call in a scratch image.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ScratchOutcome {
    /// The tool answered.
    Answered,
    /// The subject of the question does not exist.
    NotFound,
    /// The action failed, and the answer explains why.
    Failed,
}

/// The answer of a tool in a scratch image.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ScratchAnswer {
    /// The text for people and models.
    pub text: String,
    /// The answer for programs, which matches the tool's output schema.
    pub structured: Value,
    /// The outcome.
    pub outcome: ScratchOutcome,
}

/// The errors of scratch images and of calls in them.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ScratchError {
    /// No program was set with [`Builder::program`](crate::Builder::program).
    #[error("no scratch image can be started: set the path of the steelbank program with Builder::program")]
    NoProgram,
    /// There is no cache folder to work in.
    #[error("no scratch image can be started without a cache folder: set STEELBANK_CACHE or HOME")]
    NoCache,
    /// The operating system could not create a file or a process.
    #[error("cannot start a scratch image: {0}")]
    System(#[from] std::io::Error),
    /// An overlay is invalid.
    #[error("{path}: {why}", path = path.display())]
    Overlay {
        /// The file.
        path: PathBuf,
        /// The reason.
        why: String,
    },
    /// The operating system cannot confine a process, so the code was not run.
    #[error("the text cannot be tried in a confined copy: {0}")]
    Unconfined(String),
    /// The image started, but could not be set up.
    #[error("the scratch image could not be set up: {0}")]
    Broken(String),
    /// The image's Lisp died, or its process exited.
    #[error("the scratch image ended: {0}")]
    Ended(String),
    /// The time limit passed.
    #[error("the scratch image did not answer within {milliseconds} ms, and was ended")]
    DeadlinePassed {
        /// The time limit in milliseconds.
        milliseconds: u128,
    },
    /// The call was cancelled.
    #[error("the request was cancelled")]
    Cancelled,
    /// The tool could not answer.
    #[error("{0}")]
    Call(String),
}

static RUNNING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

/// A permit to run one of at most [`MAX_SCRATCHES`] images.
#[derive(Debug)]
struct Permit;

impl Permit {
    fn wait(control: &Control, until: Instant) -> Result<Self, ScratchError> {
        let mut running = RUNNING.lock();
        while *running >= MAX_SCRATCHES {
            ENDED.wait_for(&mut running, POLL_INTERVAL);
            check(control, until)?;
        }
        *running += 1;
        Ok(Self)
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        *RUNNING.lock() -= 1;
        ENDED.notify_one();
    }
}

fn check(control: &Control, until: Instant) -> Result<(), ScratchError> {
    if control.cancellation().is_cancelled() {
        return Err(ScratchError::Cancelled);
    }
    if Instant::now() >= until {
        return Err(ScratchError::DeadlinePassed { milliseconds: control.allowed().as_millis() });
    }
    Ok(())
}

/// The folder of a scratch image, in the cache. It has `fasls/` and `taps/` like a cache,
/// `overlays/`, `tmp/`, and `lower`, a link to the cache that is read in addition. It is locked
/// while in use.
#[derive(Debug)]
struct ScratchFolder {
    path: PathBuf,
    _lock: File,
}

impl ScratchFolder {
    fn new(cache: &Path) -> std::io::Result<Self> {
        let all = cache.join("scratch");
        steelbank_cache::create_folder(&all)?;
        sweep(&all);
        let path = all.join(steelbank_cache::unique_name());
        steelbank_cache::create_new_folder(&path)?;
        steelbank_cache::create_new_folder(&path.join("overlays"))?;
        steelbank_cache::create_new_folder(&path.join("tmp"))?;
        // Lock the file before it gets its name: another process considers an unlocked file to
        // belong to a dead process.
        let unnamed = path.join("lock.new");
        let lock = steelbank_cache::create_file(&unnamed)?;
        flock(&lock, FlockOperation::LockShared)?;
        std::fs::rename(&unnamed, path.join("lock"))?;
        std::os::unix::fs::symlink(std::fs::canonicalize(cache)?, path.join("lower"))?;
        Ok(Self { path, _lock: lock })
    }
}

impl Drop for ScratchFolder {
    fn drop(&mut self) {
        // The next sweep removes anything that cannot be removed now.
        let _ = std::fs::remove_dir_all(&self.path);
    }
}

/// Removes the folders of scratch images that have ended.
fn sweep(all: &Path) {
    for entry in std::fs::read_dir(all).into_iter().flatten().flatten() {
        // Open without blocking or following links, because code that ran there may have replaced
        // the lock.
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let Ok(lock) = rustix::fs::open(entry.path().join("lock"), flags, Mode::empty()) else {
            // Keep a folder without a lock unless it is old: another process may be creating it.
            let age = entry.metadata().and_then(|metadata| metadata.modified());
            if age.is_ok_and(|age| age.elapsed().is_ok_and(|age| age > Duration::from_secs(60))) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
            continue;
        };
        if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// The program that helper processes run.
#[derive(Debug, Clone)]
pub(crate) struct HelperProgram {
    pub(crate) path: PathBuf,
    /// The command-line options that make a copy start the same SBCL.
    pub(crate) options: Vec<String>,
}

impl HelperProgram {
    /// Returns the command that starts a copy.
    pub(crate) fn command(&self) -> Command {
        let mut command = Command::new(&self.path);
        command.arg("helper").args(&self.options);
        command
    }
}

/// A helper process, and the pipes to it.
#[derive(Debug)]
pub(crate) struct Helper {
    child: Child,
    input: Option<ChildStdin>,
    replies: Receiver<Reply>,
}

impl Helper {
    /// Starts `program` with the task in `start`.
    pub(crate) fn start(program: &HelperProgram, start: &HelperStart) -> Result<Self, ScratchError> {
        let mut command = program.command();
        if start.confined {
            // This is the only place for temporary files where a confined process may write.
            command.env(TEMPORARY_FILES, start.cache.join("tmp"));
        }
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let (sender, replies) = sync_channel(MAX_REPLIES);
        let longest = if start.confined { LONGEST_CONFINED_REPLY } else { LONGEST_REPLY };
        let output = child.stdout.take();
        let input = child.stdin.take();
        let mut helper = Self { child, input, replies };
        let output = output.ok_or_else(|| ScratchError::Broken("it has no output".to_owned()))?;
        std::thread::Builder::new().name("steelbank-scratch".into()).spawn(move || {
            let mut output = BufReader::new(output);
            loop {
                let mut line = Vec::new();
                // Code in the copy can also write to this pipe. Only complete lines can be replies.
                let read = output.by_ref().take(longest).read_until(b'\n', &mut line);
                if read.is_err() || !line.ends_with(b"\n") {
                    break;
                }
                if serde_json::from_slice(&line).is_ok_and(|reply| sender.send(reply).is_err()) {
                    break;
                }
            }
        })?;
        helper.send(start)?;
        Ok(helper)
    }

    pub(crate) fn send<T: Serialize>(&mut self, line: &T) -> Result<(), ScratchError> {
        let mut text =
            serde_json::to_string(line).map_err(|error| ScratchError::Broken(error.to_string()))?;
        text.push('\n');
        let input = self.input.as_mut().ok_or_else(|| ScratchError::Ended("it has no input".to_owned()))?;
        input.write_all(text.as_bytes()).map_err(|error| ScratchError::Ended(error.to_string()))
    }

    /// Waits for the next reply; returns `None` if none arrives within [`POLL_INTERVAL`].
    pub(crate) fn reply(&mut self) -> Result<Option<Reply>, ScratchError> {
        match self.replies.recv_timeout(POLL_INTERVAL) {
            Ok(reply) => Ok(Some(reply)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => {
                let how =
                    self.child.wait().map_or_else(|error| error.to_string(), |status| status.to_string());
                Err(ScratchError::Ended(how))
            }
        }
    }
}

impl Helper {
    /// Waits until the image accepts orders, at most for [`START`].
    fn ready(&mut self, control: &Control, until: Instant) -> Result<(), ScratchError> {
        let until = until.min(Instant::now() + START);
        loop {
            match self.reply()? {
                Some(Reply::Ready) => return Ok(()),
                Some(Reply::Broken(why)) => return Err(ScratchError::Broken(why)),
                Some(Reply::Unconfined(why)) => return Err(ScratchError::Unconfined(why)),
                _ => check(control, until)?,
            }
        }
    }

    fn end(&mut self) {
        end_descendants(self.child.id());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.end();
    }
}

/// A running scratch image. Dropping it ends the process and removes its files.
#[derive(Debug)]
pub struct Scratch {
    helper: Helper,
    program: HelperProgram,
    start: HelperStart,
    calls: u64,
    // Declared after `helper`, so that these fields are dropped after the helper process has ended.
    _folder: ScratchFolder,
    _permit: Permit,
}

/// A request for a scratch image of this project. The image accepts calls after about 20 ms.
/// Nothing is loaded in the image, unless it starts from an up-to-date snapshot of the builder's
/// loads. A request with overlays or confinement starts without a snapshot.
#[derive(Debug, Clone, Default)]
pub struct ScratchRequest {
    overlays: Vec<Overlay>,
    confined: bool,
    as_loaded: bool,
}

impl ScratchRequest {
    /// Requests an image that sees the files on disk and has this process's rights.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds `overlays`, which replace files on disk.
    #[must_use]
    pub fn overlays(mut self, overlays: impl IntoIterator<Item = Overlay>) -> Self {
        self.overlays.extend(overlays);
        self
    }

    /// If `confined` is true, the image and the programs that it starts can write only in the
    /// image's folder and to `/dev/null`: the kernel refuses other writes. They can read everything
    /// that this process can read.
    #[must_use]
    pub fn confined(self, confined: bool) -> Self {
        Self { confined, ..self }
    }

    /// Starts from the snapshot of this image's loads even if loaded files have changed since, and
    /// even with overlays or confinement.
    #[must_use]
    pub(crate) fn of_loaded(self) -> Self {
        Self { as_loaded: true, ..self }
    }
}

impl Action for ScratchRequest {
    type Answer = Scratch;

    /// Starts the image. Fails with [`ScratchError::Unconfined`] if it must be confined and the
    /// kernel does not support that.
    fn run(&self, bank: &Steelbank, control: &Control) -> Result<Scratch, Error> {
        Ok(bank.scratch(self, control)?)
    }
}

impl Steelbank {
    /// Starts the scratch image of `request`.
    pub(crate) fn scratch(
        &self,
        request: &ScratchRequest,
        control: &Control,
    ) -> Result<Scratch, ScratchError> {
        let ScratchRequest { overlays, confined, as_loaded } = request.clone();
        let key = self.snapshot_key().filter(|_| as_loaded || overlays.is_empty() && !confined);
        let key = key.map(|key| key.with_changes(as_loaded));
        self.start_scratch(all_real(self.project().root(), overlays)?, &[], key, confined, control)
    }

    /// Starts a scratch image without a snapshot. `texts` lists real paths of files with the
    /// contents that the image sees instead of those on disk.
    pub(crate) fn scratch_of(
        &self,
        texts: &[(PathBuf, &[u8])],
        control: &Control,
    ) -> Result<Scratch, ScratchError> {
        self.start_scratch(Vec::new(), texts, None, false, control)
    }

    fn start_scratch(
        &self,
        overlays: Vec<Overlay>,
        texts: &[(PathBuf, &[u8])],
        key: Option<SnapshotKey>,
        confined: bool,
        control: &Control,
    ) -> Result<Scratch, ScratchError> {
        let until = Instant::now() + control.allowed();
        let program = self.program().ok_or(ScratchError::NoProgram)?;
        let settings = self.project().settings().ok_or(ScratchError::NoCache)?;
        let permit = Permit::wait(control, until)?;
        let folder = ScratchFolder::new(&settings.cache)?;
        let mut held = Vec::with_capacity(texts.len());
        for (number, (path, text)) in texts.iter().enumerate() {
            let file = folder.path.join(format!("overlays/text-{number}.lisp"));
            steelbank_cache::write(&file, text)?;
            // Give the text the date of the file on disk. Otherwise code that queries ASDF, such as
            // a test, finds the source newer than its fasl.
            let written = std::fs::metadata(path).and_then(|metadata| metadata.modified());
            if let Ok(written) = written {
                File::options().write(true).open(&file)?.set_modified(written)?;
            }
            held.push((path.clone(), file));
        }
        let heap = self.dynamic_space_size();
        let mut start = HelperStart {
            cache: folder.path.clone(),
            key,
            overlays,
            texts: held,
            confined,
            ..HelperStart::new(HelperTask::Scratch, settings, heap)
        };
        let mut helper = Helper::start(program, &start)?;
        if let Err(error) = helper.ready(control, until) {
            let (ScratchError::Broken(_) | ScratchError::Ended(_), Some(_)) = (&error, start.key.take())
            else {
                return Err(error);
            };
            // Retry without the snapshot, which may be damaged.
            helper = Helper::start(program, &start)?;
            helper.ready(control, until)?;
        }
        let program = program.clone();
        Ok(Scratch { helper, program, start, calls: 0, _folder: folder, _permit: permit })
    }
}

/// Resolves the overlays' paths. Rejects two overlays of the same file.
fn all_real(root: Option<&Path>, overlays: Vec<Overlay>) -> Result<Vec<Overlay>, ScratchError> {
    let mut resolved: Vec<Overlay> = Vec::with_capacity(overlays.len());
    for overlay in overlays {
        let overlay = real(root, overlay)?;
        if resolved.iter().any(|other| other.path == overlay.path) {
            return Err(ScratchError::Overlay {
                path: overlay.path,
                why: "more than one text is given for it".to_owned(),
            });
        }
        resolved.push(overlay);
    }
    Ok(resolved)
}

/// Resolves an overlay's path to the real path. The file need not exist, but its folder must.
fn real(root: Option<&Path>, overlay: Overlay) -> Result<Overlay, ScratchError> {
    let given = crate::workspace::native(root, &overlay.path);
    let unfit = |why: &str| ScratchError::Overlay { path: given.clone(), why: why.to_owned() };
    if !given.is_absolute() {
        return Err(unfit("a relative path needs a project"));
    }
    if given.is_dir() {
        return Err(unfit("it is a folder"));
    }
    let path = match std::fs::canonicalize(&given) {
        Ok(path) => path,
        Err(_) => {
            let (Some(parent), Some(name)) = (given.parent(), given.file_name()) else {
                return Err(unfit("it names no file"));
            };
            let parent = std::fs::canonicalize(parent).map_err(|_| unfit("its folder does not exist"))?;
            parent.join(name)
        }
    };
    if path.to_string_lossy().contains('\n') {
        return Err(unfit("its name has a line break"));
    }
    Ok(Overlay { path, text: overlay.text })
}

impl Scratch {
    /// Calls the server's tool `tool` in the image with `arguments`, and waits for its answer as
    /// long as `control` allows.
    ///
    /// # Errors
    /// The tool cannot answer, the image ended, or `control` ended the wait. In the last two cases,
    /// the image is unusable: drop it.
    pub fn call(
        &mut self,
        tool: &str,
        arguments: Value,
        control: &Control,
    ) -> Result<ScratchAnswer, ScratchError> {
        self.order(CALL, &(tool, arguments), control)
    }

    /// Restarts the image. The new image has only the loads of its snapshot, if it starts from a
    /// snapshot, but its cache has the compiled files of the old image.
    pub(crate) fn restart(&mut self, control: &Control) -> Result<(), ScratchError> {
        let until = Instant::now() + control.allowed();
        self.helper.end();
        self.helper = Helper::start(&self.program, &self.start)?;
        self.helper.ready(control, until)
    }

    /// Returns the first files (at most 20) to which the kernel refused writes, if the image is
    /// confined. Does not include attempts by foreign code and other programs.
    ///
    /// # Errors
    /// The image ended, or `control` ended the wait.
    pub fn refused(&mut self, control: &Control) -> Result<Vec<String>, ScratchError> {
        self.order("refused-writes", &(), control)
    }

    /// Runs the order called `name` in the image. `crate::actions` dispatches orders.
    pub(crate) fn order<A: DeserializeOwned>(
        &mut self,
        name: &str,
        arguments: &impl Serialize,
        control: &Control,
    ) -> Result<A, ScratchError> {
        let unreadable = |error: serde_json::Error| ScratchError::Call(error.to_string());
        self.calls += 1;
        let id = self.calls;
        let milliseconds = u64::try_from(control.allowed().as_millis()).unwrap_or(u64::MAX);
        let arguments = serde_json::to_value(arguments).map_err(unreadable)?;
        self.helper.send(&ScratchOrder::Order { id, name: name.to_owned(), arguments, milliseconds })?;
        serde_json::from_value(self.wait(id, control)?).map_err(unreadable)
    }

    /// Waits for the result of the order `id`.
    fn wait(&mut self, id: u64, control: &Control) -> Result<Value, ScratchError> {
        let until = Instant::now() + control.allowed();
        loop {
            match self.helper.reply()? {
                Some(Reply::Failure { id: of, message }) if of == id => {
                    return Err(ScratchError::Call(message));
                }
                Some(Reply::Died { id: of, reason }) if of == id => return Err(ScratchError::Ended(reason)),
                Some(Reply::Done { id: of, answer }) if of == id => return Ok(answer),
                Some(Reply::Progress { id: of, progress }) if of == id => control.report(progress),
                _ => {}
            }
            if let Err(error) = check(control, until) {
                // Also cancel the call in the image. Ignore an error: if the image has ended, the
                // next call reports it.
                let _ = self.helper.send(&ScratchOrder::Cancel { id });
                return Err(error);
            }
        }
    }

    /// Returns the commands of the processes that code in the image has started and that still run.
    /// They end with the image.
    pub fn started_processes(&self) -> Vec<String> {
        descendant_commands(self.process_id())
    }

    /// Returns the ID of the image's process.
    pub fn process_id(&self) -> u32 {
        self.helper.child.id()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweeping_keeps_folders_created_concurrently() {
        let cache = tempfile::tempdir().unwrap();
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..200 {
                        let folder = ScratchFolder::new(cache.path()).unwrap();
                        assert!(folder.path.join("lower").is_dir());
                    }
                });
            }
        });
    }

    #[test]
    fn sweeping_removes_only_folders_of_dead_processes() {
        let cache = tempfile::tempdir().unwrap();
        let used = ScratchFolder::new(cache.path()).unwrap();
        let dead = cache.path().join("scratch/999999-0");
        std::fs::create_dir_all(&dead).unwrap();
        File::create(dead.join("lock")).unwrap();
        let other = ScratchFolder::new(cache.path()).unwrap();
        assert!(used.path.join("lower").exists() && other.path.exists());
        assert!(!dead.exists());
        let path = used.path.clone();
        drop(used);
        assert!(!path.exists());
    }

    #[test]
    fn folders_with_the_same_process_id_are_kept() {
        let cache = tempfile::tempdir().unwrap();
        let all = cache.path().join("scratch");
        let mut theirs = Vec::new();
        for number in 0..20 {
            let path = all.join(format!("{}-{number}", std::process::id()));
            std::fs::create_dir_all(&path).unwrap();
            let lock = File::create(path.join("lock")).unwrap();
            flock(&lock, FlockOperation::LockShared).unwrap();
            theirs.push((path, lock));
        }
        let ours = ScratchFolder::new(cache.path()).unwrap();
        assert!(theirs.iter().all(|(path, _)| path.exists() && *path != ours.path));
    }

    #[test]
    fn overlay_paths_are_resolved_and_unique() {
        let root = tempfile::tempdir().unwrap();
        let canonical = root.path().canonicalize().unwrap();
        let overlay = |path: &str| Overlay { path: path.into(), text: None };
        let path = |given: &str| real(Some(root.path()), overlay(given)).map(|overlay| overlay.path);
        assert_eq!(path("new.lisp").unwrap(), canonical.join("new.lisp"));
        assert!(path("no/folder.lisp").unwrap_err().to_string().contains("its folder does not exist"));
        assert!(path(".").unwrap_err().to_string().contains("it is a folder"));
        assert!(real(None, overlay("a.lisp")).unwrap_err().to_string().contains("needs a project"));
        let both =
            all_real(Some(root.path()), vec![overlay("a.lisp"), overlay("b.lisp"), overlay("./a.lisp")]);
        let twice = both.unwrap_err().to_string();
        assert!(twice.ends_with("a.lisp: more than one text is given for it"), "{twice}");
    }
}
