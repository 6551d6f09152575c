//! Makes snapshots: a copy of the program loads and saves, and another one is started from the result.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;

use super::format::{FilePart, SnapshotManifest};
use super::inputs::{Inputs, InputsReport};
use super::{Layer, Snapshot, SnapshotKey, store};
use crate::engine::Lane;
use crate::query::control::Control;
use crate::query::counted;
use crate::query::load_system::{ImageContents, LoadStatus};
use crate::query::read_json;
use crate::scratch::ScratchError;
use crate::steelbank::scratch::{Helper, HelperStart, HelperTask, Reply};
use crate::{Builder, Installation, ProjectSettings, Steelbank};

/// The number of attempts: the first load may compile, and files may be written meanwhile.
const ATTEMPTS: usize = 3;
/// The number of recently changed files that are remembered.
const MOST_CHANGED: usize = 8;
/// Longer than a tick of the file system's clock.
const TICK: Duration = Duration::from_millis(20);
/// The time limit of one attempt.
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

/// The errors of making a snapshot. Loading the systems works as before.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// Another process is making it.
    #[error("another process is making this snapshot")]
    Busy,
    /// No systems are named.
    #[error("a snapshot is of systems: name them with --system")]
    NoSystems,
    /// The system refused a file or a process.
    #[error("the snapshot cannot be kept: {0}")]
    System(#[from] std::io::Error),
    /// The systems do not load, or their image cannot be saved.
    #[error("{0}")]
    Unfit(String),
    /// The copy of the program could not be run.
    #[error(transparent)]
    Copy(#[from] ScratchError),
}

/// An order to make a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotOrder {
    pub(crate) program: PathBuf,
    pub(crate) start: HelperStart,
    pub(crate) key: SnapshotKey,
}

impl SnapshotOrder {
    /// Makes the snapshot and waits for it; then makes the parts to start from when files have changed.
    pub(crate) fn carry_out(&self, mut tell: impl FnMut(&str)) -> Result<MadeSnapshot, MakeError> {
        if self.key.systems.is_empty() {
            return Err(MakeError::NoSystems);
        }
        let Some(_right) = store::MakingRight::take(&self.key.folder, &self.key.name())? else {
            return Err(MakeError::Busy);
        };
        // Find the changed files now: the next snapshot counts none as changed.
        let changed = self.changed_files();
        let whole = match Snapshot::find_fresh(&self.key).and(self.key.path()) {
            // Use the snapshot that another process has made meanwhile.
            Some(path) => Ok(MadeSnapshot { bytes: store::size(&path), path }),
            None => self.make(&self.key, &[], &mut tell),
        };
        // Make the parts also if the whole fails: a project that does not load, or cannot be saved, may still
        // have them. Ignore their errors: the next start only takes longer.
        for (layer, before) in [(Layer::BeforeProject, Vec::new()), (Layer::BeforeChanges, changed)] {
            let key = self.key.of(layer);
            let is_fresh = Snapshot::find_fresh(&key).is_some_and(|snapshot| snapshot.before == before);
            if !is_fresh && (layer == Layer::BeforeProject || !before.is_empty()) {
                let _ = self.make(&key, &before, &mut |_: &str| ());
            }
        }
        whole
    }

    /// Lists the files that have changed since the last snapshot, then those that had before that: edited
    /// files tend to be edited again.
    fn changed_files(&self) -> Vec<PathBuf> {
        let known = self.key.path().and_then(|path| SnapshotManifest::read(&path.join("manifest")).ok());
        let mut files = known.map(|known| known.inputs.changes().files).unwrap_or_default();
        files.retain(|path| path.extension().is_none_or(|extension| extension != "asd"));
        let part = self.key.of(Layer::BeforeChanges).path();
        let before = part.and_then(|path| SnapshotManifest::read(&path.join("manifest")).ok());
        for path in before.into_iter().flat_map(|manifest| manifest.before) {
            if !files.contains(&path) {
                files.push(path);
            }
        }
        files.truncate(MOST_CHANGED);
        files
    }

    /// Makes the snapshot of `key`; without the files `before`, and what is loaded after them, if it is a
    /// part.
    fn make(
        &self,
        key: &SnapshotKey,
        before: &[PathBuf],
        tell: &mut impl FnMut(&str),
    ) -> Result<MadeSnapshot, MakeError> {
        let (all, name) = (&key.folder, key.name());
        let making = all.join(format!("{name}.{}.making", steelbank_cache::unique_name()));
        let mut outcome = Err(MakeError::Unfit("no try was made".to_owned()));
        for attempt in 0..ATTEMPTS {
            let _ = std::fs::remove_dir_all(&making);
            steelbank_cache::create_folder(&making)?;
            let start = HelperStart {
                what: HelperTask::Save,
                key: Some(key.clone()),
                folder: Some(making.clone()),
                before: before.to_vec(),
                last: attempt + 1 == ATTEMPTS,
                ..self.start.clone()
            };
            match self.attempt(start, &making) {
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

    /// Makes one attempt in the folder `making`. Returns the reason for another one, if that may do better.
    /// The last attempt accepts systems that always compile.
    fn attempt(&self, start: HelperStart, making: &Path) -> Result<Option<String>, MakeError> {
        match self.ask(&start)? {
            Reply::Saved => {}
            Reply::Again(why) => return Ok(Some(why)),
            Reply::Broken(why) => return Err(MakeError::Unfit(why)),
            _ => return Err(MakeError::Unfit("the copy of the program said something else".to_owned())),
        }
        for name in ["core", "index", "names", "manifest"] {
            File::open(making.join(name))?.sync_all()?;
        }
        File::open(making)?.sync_all()?;
        match self.ask(&HelperStart { what: HelperTask::Trial, ..start })? {
            Reply::Ready => Ok(None),
            Reply::Again(why) => Ok(Some(why)),
            Reply::Broken(why) => Err(MakeError::Unfit(format!("The program does not start from it: {why}"))),
            _ => Err(MakeError::Unfit("the copy of the program said something else".to_owned())),
        }
    }

    /// Runs a helper with the task in `start`, until it reports the outcome.
    fn ask(&self, start: &HelperStart) -> Result<Reply, MakeError> {
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

    /// Has a copy of the program make the snapshot, at low priority. It ends with this process, unless it `outlives` it.
    pub(crate) fn carry_out_later(&self, outlives: bool) -> Result<(), MakeError> {
        let key = Some(self.key.clone());
        let start = HelperStart { what: HelperTask::Snapshot, key, outlives, ..self.start.clone() };
        let mut line = serde_json::to_string(&start).map_err(std::io::Error::from)?;
        line.push('\n');
        let mut child = Command::new(&self.program)
            .arg("helper")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            // Shield it from the terminal's signals, which are for the foreground program.
            .process_group(0)
            .spawn()?;
        let mut input = child.stdin.take();
        if let Some(input) = &mut input {
            std::io::Write::write_all(input, line.as_bytes())?;
        }
        std::thread::Builder::new().name("steelbank-snapshot".into()).spawn(move || {
            // Keep the pipe open: the copy ends when it is closed.
            let _ = child.wait();
            drop(input);
        })?;
        Ok(())
    }
}

/// Holds the right to make snapshots in `folder` beyond the life of the process that wanted them, which one process has at a
/// time. None if another has it.
pub(crate) fn take_background(folder: &Path) -> std::io::Result<Option<store::MakingRight>> {
    store::MakingRight::take(folder, "background")
}

/// Lisp's report before the image is saved.
#[derive(Deserialize)]
struct Making {
    #[serde(flatten)]
    inputs: InputsReport,
    #[serde(default)]
    image: ImageContents,
}

/// Loads the systems and saves the image, in a copy of the program. The process can do nothing else
/// afterwards.
pub(crate) fn save(builder: Builder, start: &HelperStart) -> Reply {
    let (Some(key), Some(folder)) = (&start.key, &start.folder) else {
        return Reply::Broken("it was not told what to save".to_owned());
    };
    try_to_save(builder, start, key, folder).unwrap_or_else(|reply| reply)
}

fn try_to_save(
    builder: Builder,
    start: &HelperStart,
    key: &SnapshotKey,
    folder: &Path,
) -> Result<Reply, Reply> {
    let broken = |error: &dyn std::fmt::Display| Reply::Broken(error.to_string());
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    // Allow for the file system's clock, which ticks.
    let begun = i128::try_from(now.saturating_sub(TICK).as_nanos()).unwrap_or(i128::MAX);
    let bank = builder.start().map_err(|error| broken(&error))?;
    let control = Control::new(ALLOWED);
    let ask = |question: &'static str, arguments: &'static [bool]| -> Result<Vec<u8>, Reply> {
        let ticket =
            bank.lisp().submit(Lane::Query, ALLOWED, None, move |on_lisp| on_lisp.call(question, arguments));
        Ok(control.wait(ticket).map_err(|error| broken(&error))?.bytes)
    };
    let before = match key.layer {
        Layer::Whole => None,
        Layer::BeforeChanges => Some(start.before.clone()),
        Layer::BeforeProject => Some(bank.project().own_files()),
    };
    ask("record-inputs", &[])?;
    let (mut answers, mut partial) = (Vec::new(), None);
    for system in &key.systems {
        let answer = match &before {
            None => bank.load_system(system, false, &control, None),
            Some(before) => bank.load_system_before(system, before, &control),
        };
        let answer = answer.map_err(|error| broken(&error))?;
        if answer.status != LoadStatus::Loaded {
            let why = answer.failure.map(|failure| failure.message).unwrap_or_default();
            return Err(Reply::Broken(format!("System {system} does not load: {why}")));
        }
        if !answer.compiled.is_empty() && !start.last {
            // Try again from fasls: a snapshot is compared with what a load from fasls leaves behind.
            return Err(Reply::Again(format!(
                "{} had to be compiled",
                counted(answer.compiled.len(), "file", "files")
            )));
        }
        if before.is_some() && !bank.project().is_loaded(answer.system.as_deref().unwrap_or(system)) {
            partial = Some(answer);
            break;
        }
        answers.push(answer);
    }
    if answers.is_empty() && partial.as_ref().is_some_and(|answer| answer.cached.is_empty()) {
        return Err(Reply::Broken("Nothing is loaded before the files that may change.".to_owned()));
    }
    let cache = key.folder.parent().map(Path::to_path_buf).unwrap_or_default();
    let told: Making = read_json(&ask("snapshot-inputs", if before.is_some() { &[true] } else { &[false] })?)
        .map_err(|error| broken(&error))?;
    let inputs = Inputs::gather(told.inputs, &cache, begun).map_err(Reply::Again)?;
    let export = ask("xref-baseline", &[])?;
    let index = steelbank_xref::bake::bake(&export).map_err(|error| broken(&error))?;
    steelbank_cache::write(&folder.join("index"), &index).map_err(|error| broken(&error))?;
    steelbank_cache::write(&folder.join("names"), &bank.project().bake_names())
        .map_err(|error| broken(&error))?;
    bank.lisp().save(&folder.join("core"), ALLOWED).map_err(|error| broken(&error))?;
    let part = |name: &str| File::open(folder.join(name)).and_then(|file| FilePart::of(&file));
    let core = File::open(folder.join("core")).and_then(|core| {
        steelbank_cache::close_to_others(&core)?;
        FilePart::of(&core)
    });
    let manifest = SnapshotManifest {
        core: core.map_err(|error| broken(&error))?,
        index: part("index").map_err(|error| broken(&error))?,
        names: part("names").map_err(|error| broken(&error))?,
        root: key.root.clone(),
        systems: key.systems.clone(),
        inputs,
        answers,
        partial,
        before: start.before.clone(),
        image: told.image,
    };
    manifest.write(&folder.join("manifest")).map_err(|error| broken(&error))?;
    Ok(Reply::Saved)
}

/// Starts from the saved image as a user's process does, in another copy of the program.
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

/// Makes the order for the snapshot of `key`.
fn order(
    project: Option<&ProjectSettings>,
    program: Option<&Path>,
    heap: Option<usize>,
    key: Option<SnapshotKey>,
) -> Result<SnapshotOrder, MakeError> {
    let (project, program) = (project.ok_or(ScratchError::NoCache)?, program.ok_or(ScratchError::NoProgram)?);
    let start = HelperStart {
        what: HelperTask::Snapshot,
        root: project.root.clone(),
        cache: project.cache.clone(),
        userinit: project.userinit.clone(),
        key: None,
        outlives: false,
        folder: None,
        before: Vec::new(),
        last: false,
        dynamic_space_size: heap,
        overlays: Vec::new(),
        texts: Vec::new(),
        confined: false,
    };
    Ok(SnapshotOrder { program: program.to_path_buf(), start, key: key.ok_or(MakeError::NoSystems)? })
}

impl Builder {
    /// Makes the snapshot of the builder's systems, in a copy of the program; starts no SBCL in this process.
    /// Reports failed attempts to `tell`.
    ///
    /// # Errors
    /// [`MakeError`]: the systems do not load, or something in their image forbids saving it, by name.
    pub fn make_snapshot(self, tell: impl FnMut(&str)) -> Result<MadeSnapshot, MakeError> {
        let key = self.snapshot_key();
        order(self.project.as_ref(), self.program.as_deref(), self.dynamic_space_size, key)?.carry_out(tell)
    }
}

impl Steelbank {
    /// Has a copy of the program make the snapshot of the builder's systems, unless this image was started
    /// from a fresh one. The copy has a low priority. It ends with this process; or, if it `outlives` it, after five minutes at
    /// most, and only one such copy runs at a time.
    ///
    /// # Errors
    /// The copy cannot be started.
    pub fn make_snapshot_later(&self, outlives: bool) -> Result<(), MakeError> {
        match self.snapshot_key() {
            Some(key) if !self.is_from_fresh_snapshot() => {
                let heap = self.dynamic_space_size();
                order(self.project().settings(), self.program(), heap, Some(key))?.carry_out_later(outlives)
            }
            _ => Ok(()),
        }
    }
}
