//! Making a snapshot: a copy of the program loads and saves, another one is started from what it has saved.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;

use super::format::{Manifest, Part};
use super::inputs::{Inputs, Told};
use super::{Key, Snapshot, store};
use crate::engine::{Lane, Operation};
use crate::query::control::Control;
use crate::query::load_system::{ImageContents, LoadStatus};
use crate::query::read_json;
use crate::scratch::ScratchError;
use crate::steelbank::scratch::{Helper, Reply, Start, What};
use crate::{Builder, Installation, ProjectSettings, Steelbank};

/// How often a snapshot is tried: the first load may compile, and files may be written meanwhile.
const ATTEMPTS: usize = 3;
/// More than the time between two ticks of the clock that dates files.
const TICK: Duration = Duration::from_millis(20);
/// How long one try may take.
const ALLOWED: Duration = Duration::from_secs(3600);

/// A snapshot that was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MadeSnapshot {
    /// Its folder.
    pub path: PathBuf,
    /// Its size in bytes.
    pub bytes: u64,
}

/// Why no snapshot was made. Nothing else changes for the systems.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// Somebody else is making it.
    #[error("another process is making this snapshot")]
    Busy,
    /// There is nothing to make one of.
    #[error("a snapshot is of systems: name them with --system")]
    NoSystems,
    /// The system refused something.
    #[error("the snapshot cannot be kept: {0}")]
    System(#[from] std::io::Error),
    /// The systems do not load, or their image cannot be saved.
    #[error("{0}")]
    Unfit(String),
    /// The copy of the program could not be run.
    #[error(transparent)]
    Copy(#[from] ScratchError),
}

/// What snapshot to make, and how.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub(crate) program: PathBuf,
    pub(crate) start: Start,
    pub(crate) key: Key,
}

impl Order {
    /// Makes it, and waits until it is made.
    pub(crate) fn carry_out(&self, mut tell: impl FnMut(&str)) -> Result<MadeSnapshot, MakeError> {
        if self.key.systems.is_empty() {
            return Err(MakeError::NoSystems);
        }
        let all = &self.key.folder;
        let name = self.key.name();
        let Some(_right) = store::MakingRight::take(all, &name)? else { return Err(MakeError::Busy) };
        let making = all.join(format!("{name}.{}.making", std::process::id()));
        let mut outcome = Err(MakeError::Unfit("no try was made".to_owned()));
        for attempt in 0..ATTEMPTS {
            let _ = std::fs::remove_dir_all(&making);
            std::fs::create_dir_all(&making)?;
            match self.attempt(&making, attempt + 1 == ATTEMPTS) {
                Ok(None) => {
                    outcome = store::publish(all, &name, &making)
                        .map_err(MakeError::from)
                        .map(|path| MadeSnapshot { bytes: store::size(&path), path });
                    break;
                }
                Ok(Some(why)) => {
                    tell(&format!("Once more: {why}."));
                    outcome = Err(MakeError::Unfit(format!("After {ATTEMPTS} tries: {why}.")));
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        let _ = std::fs::remove_dir_all(&making);
        outcome
    }

    /// One try in the folder `making`. Why another is worth while, if it is. The last one takes what always compiles.
    fn attempt(&self, making: &Path, last: bool) -> Result<Option<String>, MakeError> {
        let start = Start {
            what: What::Save,
            key: Some(self.key.clone()),
            folder: Some(making.to_path_buf()),
            last,
            ..self.start.clone()
        };
        match self.ask(&start)? {
            Reply::Saved => {}
            Reply::Again(why) => return Ok(Some(why)),
            Reply::Broken(why) => return Err(MakeError::Unfit(why)),
            _ => return Err(MakeError::Unfit("the copy of the program said something else".to_owned())),
        }
        for name in ["core", "index", "manifest"] {
            File::open(making.join(name))?.sync_all()?;
        }
        File::open(making)?.sync_all()?;
        match self.ask(&Start { what: What::Trial, ..start })? {
            Reply::Ready => Ok(None),
            Reply::Again(why) => Ok(Some(why)),
            Reply::Broken(why) => Err(MakeError::Unfit(format!("The program does not start from it: {why}"))),
            _ => Err(MakeError::Unfit("the copy of the program said something else".to_owned())),
        }
    }

    /// Runs a copy as `start` says until it has said how it went.
    fn ask(&self, start: &Start) -> Result<Reply, MakeError> {
        let mut helper = Helper::start(&self.program, start)?;
        let until = Instant::now() + ALLOWED;
        loop {
            if let Some(reply) = helper.reply()? {
                return Ok(reply);
            }
            if Instant::now() > until {
                return Err(MakeError::Unfit(format!("It was not made within {} s.", ALLOWED.as_secs())));
            }
        }
    }

    /// Has a copy of the program make it, of low priority, which goes on when this process ends.
    pub(crate) fn carry_out_later(&self) -> Result<(), MakeError> {
        let start = Start { what: What::Snapshot, key: Some(self.key.clone()), ..self.start.clone() };
        let mut line = serde_json::to_string(&start).map_err(std::io::Error::from)?;
        line.push('\n');
        let mut child = Command::new(&self.program)
            .arg("helper")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            // What ends the terminal's program is not meant for it.
            .process_group(0)
            .spawn()?;
        if let Some(mut input) = child.stdin.take() {
            std::io::Write::write_all(&mut input, line.as_bytes())?;
        }
        std::thread::Builder::new().name("steelbank-snapshot".into()).spawn(move || child.wait())?;
        Ok(())
    }
}

/// What Lisp tells before it saves.
#[derive(Deserialize)]
struct Making {
    #[serde(flatten)]
    inputs: Told,
    #[serde(default)]
    image: ImageContents,
}

/// In the copy: loads the systems and saves the image. The process is of no other use then.
pub(crate) fn save(builder: Builder, start: &Start) -> Reply {
    let (Some(key), Some(folder)) = (&start.key, &start.folder) else {
        return Reply::Broken("it was not told what to save".to_owned());
    };
    try_to_save(builder, key, folder, start.last).unwrap_or_else(|reply| reply)
}

fn try_to_save(builder: Builder, key: &Key, folder: &Path, last: bool) -> Result<Reply, Reply> {
    let broken = |error: &dyn std::fmt::Display| Reply::Broken(error.to_string());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // A file's date comes from a clock that ticks.
    let before = i128::try_from(now.saturating_sub(TICK).as_nanos()).unwrap_or(i128::MAX);
    let bank = builder.start().map_err(|error| broken(&error))?;
    let control = Control::new(ALLOWED);
    let ask = |operation: Operation| -> Result<Vec<u8>, Reply> {
        let ticket =
            bank.lisp().submit(Lane::Query, ALLOWED, None, move |on_lisp| on_lisp.call(operation, &[]));
        Ok(control.wait(ticket).map_err(|error| broken(&error))?.octets)
    };
    ask(Operation::RecordInputs)?;
    let mut answers = Vec::new();
    for system in &key.systems {
        let answer = bank.load_system(system, false, &control, None).map_err(|error| broken(&error))?;
        if answer.status != LoadStatus::Loaded {
            let why = answer.failure.map(|failure| failure.message).unwrap_or_default();
            return Err(Reply::Broken(format!("System {system} does not load: {why}")));
        }
        if !answer.compiled.is_empty() && !last {
            // What a load from fasls leaves behind is what it is to be compared with.
            return Err(Reply::Again(format!("{} files had to be compiled", answer.compiled.len())));
        }
        answers.push(answer);
    }
    let cache = key.folder.parent().map(Path::to_path_buf).unwrap_or_default();
    let told: Making = read_json(&ask(Operation::SnapshotInputs)?).map_err(|error| broken(&error))?;
    let inputs = Inputs::gather(told.inputs, &cache, before).map_err(Reply::Again)?;
    let export = ask(Operation::XrefBaseline)?;
    let index = steelbank_xref::bake::bake(&export).map_err(|error| broken(&error))?;
    std::fs::write(folder.join("index"), index).map_err(|error| broken(&error))?;
    bank.lisp().save(&folder.join("core"), ALLOWED).map_err(|error| broken(&error))?;
    let part = |name: &str| File::open(folder.join(name)).and_then(|file| Part::of(&file));
    let manifest = Manifest {
        core: part("core").map_err(|error| broken(&error))?,
        index: part("index").map_err(|error| broken(&error))?,
        root: key.root.clone(),
        systems: key.systems.clone(),
        inputs,
        answers,
        image: told.image,
    };
    manifest.write(&folder.join("manifest")).map_err(|error| broken(&error))?;
    Ok(Reply::Saved)
}

/// In another copy: starts from what was saved, as those will who use it.
pub(crate) fn trial(builder: Builder, installation: &Installation, folder: &Path) -> Reply {
    let outcome = Snapshot::open(folder, None).map_err(Reply::Again).and_then(|snapshot| {
        let broken = |error: &dyn std::fmt::Display| Reply::Broken(error.to_string());
        let bank = builder
            .installation(snapshot.installation(installation))
            .start()
            .map_err(|error| broken(&error))?;
        let described = bank.describe_symbol("car", "CL").map_err(|error| broken(&error))?;
        let is_whole = described.description.is_some()
            && bank.who_calls("mapcar", "CL").is_ok_and(|answer| answer.count > 0);
        if is_whole {
            Ok(Reply::Ready)
        } else {
            Err(Reply::Broken("it does not answer as it should".to_owned()))
        }
    });
    outcome.unwrap_or_else(|reply| reply)
}

/// The order to make the snapshot of `key`.
fn order(
    project: Option<&ProjectSettings>,
    program: Option<&Path>,
    heap: Option<usize>,
    key: Option<Key>,
) -> Result<Order, MakeError> {
    let (project, program) = (project.ok_or(ScratchError::NoCache)?, program.ok_or(ScratchError::NoProgram)?);
    let start = Start {
        what: What::Snapshot,
        root: project.root.clone(),
        cache: project.cache.clone(),
        userinit: project.userinit.clone(),
        key: None,
        folder: None,
        last: false,
        dynamic_space_size: heap,
        overlays: Vec::new(),
    };
    Ok(Order { program: program.to_path_buf(), start, key: key.ok_or(MakeError::NoSystems)? })
}

impl Builder {
    /// Makes the snapshot of the builder's systems, in a copy of the program. Nothing is started in this process. `tell` hears
    /// of tries that failed.
    ///
    /// # Errors
    /// [`MakeError`]: the systems do not load, or something in their image forbids saving it, by name.
    pub fn make_snapshot(self, tell: impl FnMut(&str)) -> Result<MadeSnapshot, MakeError> {
        let key = self.snapshot_key();
        order(self.project.as_ref(), self.program.as_deref(), self.dynamic_space_size, key)?.carry_out(tell)
    }
}

impl Steelbank {
    /// Has a copy of the program make the snapshot of the builder's systems, unless this image was started from a fresh one. It
    /// has a low priority, and goes on when this process ends.
    ///
    /// # Errors
    /// The copy cannot be started.
    pub fn make_snapshot_later(&self) -> Result<(), MakeError> {
        match self.snapshot_key() {
            Some(key) if !self.is_from_fresh_snapshot() => {
                let heap = self.dynamic_space_size();
                order(self.project().settings(), self.program(), heap, Some(key))?.carry_out_later()
            }
            _ => Ok(()),
        }
    }
}
