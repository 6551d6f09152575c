//! Creates snapshots. A copy of the program loads the systems and saves its image ([`save`]);
//! another copy starts from the result to test it ([`trial`]). [`SnapshotOrder`] controls both,
//! either while the user waits or in a background process.

use std::fs::File;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant, SystemTime};

use serde::Deserialize;

use super::format::{FilePart, OrderedSystem, Refusal, SnapshotManifest};
use super::inputs::{Inputs, InputsReport};
use super::{CheckedSnapshot, Snapshot, SnapshotKey, SnapshotKind, store};
use crate::answer::counted;
use crate::engine::control::Control;
use crate::engine::{Lane, SaveError, read_json};
use crate::handle::loaded::{FailureKind, ImageContents, LoadAnswer};
use crate::handle::recovery::LoadedItem;
use crate::handle::requests::LoadOptions;
use crate::handle::scratch::ScratchError;
use crate::handle::scratch::{Helper, HelperProgram, HelperStart, HelperTask, Reply};
use crate::{Builder, Installation, ProjectSettings, Steelbank};

/// The maximum number of attempts. An attempt is repeated if it had to compile files, if the inputs
/// changed meanwhile or could not be recorded, or if the new snapshot cannot be opened.
const ATTEMPTS: usize = 3;
/// A snapshot is created in the background only if no Lisp file of the project was written for this
/// time.
const QUIET: Duration = Duration::from_secs(10);
/// A duration longer than a tick of the file system's clock.
const TICK: Duration = Duration::from_millis(20);
/// The time limit of each step of an attempt, and of waiting for a lock.
const ATTEMPT_TIME: Duration = Duration::from_secs(3600);

/// A snapshot that was created.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct MadeSnapshot {
    /// The snapshot's folder.
    pub path: PathBuf,
    /// The size in bytes.
    pub bytes: u64,
}

/// The errors of creating a snapshot. They do not affect loading the systems.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MakeError {
    /// Another process is creating a snapshot.
    #[error("another process is making a snapshot")]
    Busy,
    /// No systems were given.
    #[error("a snapshot needs systems: pass them with --system")]
    NoSystems,
    /// The operating system could not create a file or a process.
    #[error("the snapshot cannot be stored: {0}")]
    System(#[from] std::io::Error),
    /// A load failed for a reason that may be temporary, the inputs changed in every attempt, the
    /// image cannot be saved or does not start, or the time limit passed.
    #[error("{0}")]
    Unfit(String),
    /// A copy of the program could not be run.
    #[error(transparent)]
    Copy(#[from] ScratchError),
}

/// A request to create a snapshot.
#[derive(Debug, Clone)]
pub(crate) struct SnapshotOrder {
    pub(crate) program: HelperProgram,
    pub(crate) start: HelperStart,
    pub(crate) key: SnapshotKey,
}

impl SnapshotOrder {
    /// Creates the complete snapshot and the snapshot of the dependencies, if they are not up to
    /// date. Returns the complete snapshot.
    ///
    /// If `urgent`, because a user waits, this waits while another process creates the same
    /// snapshot, and tries again to create a snapshot that was refused. If not `urgent`, both cases
    /// are errors, and this first waits until no Lisp file of the project has been written for
    /// [`QUIET`].
    pub(crate) fn run(&self, urgent: bool, mut tell: impl FnMut(&str)) -> Result<MadeSnapshot, MakeError> {
        if self.key.loads.is_empty() {
            return Err(MakeError::NoSystems);
        }
        let folder = &self.key.folder;
        let patience = if urgent { ATTEMPT_TIME } else { Duration::ZERO };
        let lock = store::SnapshotLock::wait(folder, &self.key.name(), patience)?.ok_or(MakeError::Busy)?;
        let _only = loop {
            if !urgent {
                while let Some(left) = self.time_until_quiet() {
                    std::thread::sleep(left + TICK);
                }
            }
            let only = store::SnapshotLock::wait(folder, store::ANY, ATTEMPT_TIME)?.ok_or(MakeError::Busy)?;
            // Files may have been written while this waited for the lock.
            if urgent || self.time_until_quiet().is_none() {
                break only;
            }
        };
        // Find the files that have changed since the last snapshot, before a new snapshot replaces
        // it.
        let changed = self.key.last_inputs().map(|known| known.changes(None).files).unwrap_or_default();
        let whole = match CheckedSnapshot::find(&self.key, &mut None) {
            // The snapshot is up to date; another process may have created it meanwhile.
            Ok(CheckedSnapshot { path, .. }) => Ok(MadeSnapshot { bytes: store::size(&path), path }),
            Err(_) => match Refusal::of(&self.key).filter(|_| !urgent) {
                Some(refusal) => Err(MakeError::Unfit(refusal.why)),
                None => self.make(&self.key, &[], &mut tell),
            },
        };
        // Ignore errors: without this snapshot, the next start only takes longer.
        let _ = self.make_dependencies(whole.as_ref().ok(), &changed);
        lock.reset_cost();
        whole
    }

    /// Returns the time until no Lisp file of the project has been written for [`QUIET`]; `None` if
    /// that time has passed.
    fn time_until_quiet(&self) -> Option<Duration> {
        let mut youngest = QUIET;
        steelbank_tree::walk(self.key.root.as_ref()?, &mut |found| {
            if let steelbank_tree::Found::File(path, _) = found
                && steelbank_tree::is_lisp_by_name(path)
                && let Ok(age) = std::fs::metadata(path).and_then(|metadata| metadata.modified())
                && let Ok(age) = age.elapsed()
            {
                youngest = youngest.min(age);
            }
            steelbank_tree::WalkState::Continue
        });
        QUIET.checked_sub(youngest).filter(|left| !left.is_zero())
    }

    /// Creates the snapshot of the dependencies. Keeps an existing snapshot of the dependencies
    /// that contains at least half as many systems as the new one would. Does nothing if creating
    /// it was refused and the inputs are unchanged. `whole` is the complete snapshot, if there is
    /// one.
    fn make_dependencies(&self, whole: Option<&MadeSnapshot>, changed: &[PathBuf]) -> Result<(), MakeError> {
        let loaded = match whole {
            Some(whole) => SnapshotManifest::read(&whole.path.join("manifest")).ok().map(|made| made.systems),
            None => Refusal::of(&self.key).map(|refusal| refusal.systems),
        };
        let Some(loaded) = loaded else { return Ok(()) };
        let (wanted, key) = (dependencies(&loaded, changed, whole.is_some()), self.key.dependencies());
        // Keep a snapshot with at least half as many systems. Otherwise editing two systems
        // alternately would create one each time.
        let kept = CheckedSnapshot::find(&key, &mut None)
            .is_ok_and(|kept| kept.manifest.systems.len() * 2 >= wanted.len());
        if !wanted.is_empty() && !kept && Refusal::of(&key).is_none() {
            self.make(&key, wanted, &mut |_: &str| ())?;
        }
        Ok(())
    }

    /// Creates the snapshot of `key`. `systems` are the systems to load for a snapshot of
    /// dependencies.
    fn make(
        &self,
        key: &SnapshotKey,
        systems: &[OrderedSystem],
        tell: &mut impl FnMut(&str),
    ) -> Result<MadeSnapshot, MakeError> {
        let (all, name) = (&key.folder, key.name());
        let making = all.join(format!("{name}.{}.making", steelbank_cache::unique_name()));
        let mut outcome = Err(MakeError::Unfit("no attempt was made".to_owned()));
        for attempt in 0..ATTEMPTS {
            let _ = std::fs::remove_dir_all(&making);
            steelbank_cache::create_folder(&making)?;
            let start = HelperStart {
                what: HelperTask::Save,
                key: Some(key.clone()),
                folder: Some(making.clone()),
                systems: systems.to_vec(),
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
                    tell(&format!("Trying again: {why}."));
                    outcome = Err(MakeError::Unfit(format!("Failed after {ATTEMPTS} attempts: {why}.")));
                }
                Err(error) => {
                    outcome = Err(error);
                    break;
                }
            }
        }
        // A failed attempt may have written a refusal: move it to its final place.
        let _ = std::fs::rename(making.join(store::REFUSED), key.refusal());
        if let (SnapshotKind::Whole, Some(root)) = (key.kind, &key.root) {
            let _ = std::fs::rename(making.join("index"), store::unsaved_index(all, root));
        }
        let _ = std::fs::remove_dir_all(&making);
        outcome
    }

    /// Makes one attempt in the folder `making`. Returns `None` if the snapshot was created, or the
    /// reason of the failure if another attempt may succeed. The last attempt accepts systems that
    /// compile something at every load.
    fn attempt(&self, start: HelperStart, making: &Path) -> Result<Option<String>, MakeError> {
        match self.ask(&start)? {
            Reply::Saved => {}
            Reply::Again(why) => return Ok(Some(why)),
            Reply::Broken(why) => return Err(MakeError::Unfit(why)),
            _ => return Err(MakeError::Unfit("the copy of the program sent an unexpected reply".to_owned())),
        }
        for name in ["core", "index", "manifest"] {
            File::open(making.join(name))?.sync_all()?;
        }
        File::open(making)?.sync_all()?;
        match self.ask(&HelperStart { what: HelperTask::Trial, ..start })? {
            Reply::Ready => Ok(None),
            Reply::Again(why) => Ok(Some(why)),
            Reply::Broken(why) => {
                Err(MakeError::Unfit(format!("The program does not start from the snapshot: {why}")))
            }
            _ => Err(MakeError::Unfit("the copy of the program sent an unexpected reply".to_owned())),
        }
    }

    /// Runs a helper with the task in `start` until it reports the outcome.
    fn ask(&self, start: &HelperStart) -> Result<Reply, MakeError> {
        let mut helper = Helper::start(&self.program, start)?;
        let until = Instant::now() + ATTEMPT_TIME;
        loop {
            if let Some(reply) = helper.reply()? {
                return Ok(reply);
            }
            if Instant::now() > until {
                return Err(MakeError::Unfit(format!(
                    "The snapshot was not created within {} s.",
                    ATTEMPT_TIME.as_secs()
                )));
            }
        }
    }

    /// Starts a copy of the program that creates the snapshot at low priority. The copy ends with
    /// this process or, if `outlives` is true, after at most five minutes.
    pub(crate) fn run_later(&self, outlives: bool) -> Result<(), MakeError> {
        let key = Some(self.key.clone());
        let start = HelperStart { what: HelperTask::Snapshot, key, outlives, ..self.start.clone() };
        let mut line = serde_json::to_string(&start).map_err(std::io::Error::from)?;
        line.push('\n');
        let mut child = self
            .program
            .command()
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .current_dir("/")
            // Do not forward the terminal's signals to the copy: they are for the foreground
            // program.
            .process_group(0)
            .spawn()?;
        let mut input = child.stdin.take();
        if let Some(input) = &mut input {
            std::io::Write::write_all(input, line.as_bytes())?;
        }
        std::thread::Builder::new().name("steelbank-snapshot".into()).spawn(move || {
            // Keep the pipe open: the copy ends when the pipe is closed.
            let _ = child.wait();
            drop(input);
        })?;
        Ok(())
    }
}

/// Returns the systems of `loaded` before the first system with a file in `changed`. Without such a
/// system, returns the systems before the project's first system if `whole` is true, otherwise all
/// systems.
fn dependencies<'a>(loaded: &'a [OrderedSystem], changed: &[PathBuf], whole: bool) -> &'a [OrderedSystem] {
    let first_changed = loaded.iter().position(|system| system.own.iter().any(|file| changed.contains(file)));
    let first_own = || loaded.iter().position(|system| !system.own.is_empty()).filter(|_| whole);
    let end = first_changed.or_else(first_own).unwrap_or(loaded.len());
    loaded.get(..end).unwrap_or_default()
}

/// Lisp's report of the image's inputs and contents, made before the image is saved.
#[derive(Deserialize)]
struct Making {
    #[serde(flatten)]
    inputs: InputsReport,
    #[serde(default)]
    image: ImageContents,
}

/// A system in Lisp's report of the load order. `keeps` is true if the system holds memory outside
/// the heap, which prevents saving.
#[derive(Deserialize)]
struct Ordered {
    name: String,
    #[serde(default)]
    keeps: bool,
}

/// Loads the systems and saves the image, in a copy of the program. The process cannot be used for
/// anything else afterwards.
pub(crate) fn save(builder: Builder, start: &HelperStart) -> Reply {
    let (Some(key), Some(folder)) = (&start.key, &start.folder) else {
        return Reply::Broken("the request has no key or no folder for the snapshot".to_owned());
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
    // Subtract a tick, because the file system's clock may be behind.
    let begun = i128::try_from(now.saturating_sub(TICK).as_nanos()).unwrap_or(i128::MAX);
    let bank = builder.start().map_err(|error| broken(&error))?;
    let control = Control::new(ATTEMPT_TIME);
    let ask = |question: &'static str| -> Result<Vec<u8>, Reply> {
        let none: &'static [bool] = &[];
        let ticket =
            bank.lisp().submit(Lane::Query, ATTEMPT_TIME, None, move |on_lisp| on_lisp.call(question, none));
        Ok(control.wait(ticket).map_err(|error| broken(&error))?.bytes)
    };
    ask("record-inputs")?;
    let answers = match key.kind {
        SnapshotKind::Whole => answers(&bank, &key.loads, &control),
        SnapshotKind::Dependencies => {
            let pairs =
                start.systems.iter().map(|system| (system.name.clone(), system.asd.clone())).collect();
            bank.load_systems(pairs, SAVED, &control).map(|answer| vec![answer])
        }
    };
    let mut answers = answers.map_err(|error| broken(&error))?;
    // Write neither a snapshot nor a refusal for a name that is probably misspelled.
    let mut failures = answers.iter().filter_map(|answer| answer.failure.as_ref());
    if let Some(failure) = failures.find(|failure| failure.kind == FailureKind::UnknownSystem) {
        return Err(Reply::Broken(failure.message.clone()));
    }
    let refuse = |why: String, inputs: Inputs, all: bool| {
        let order: Vec<Ordered> = read_json(&ask("load-order")?).map_err(|error| broken(&error))?;
        let keeps = order.iter().position(|system| system.keeps);
        let systems = ordered(&bank, order);
        let systems = match keeps {
            Some(keeps) => systems.get(..keeps).unwrap_or_default(),
            None if all => &systems,
            None => dependencies(&systems, &[], true),
        };
        let refusal = Refusal { why: why.clone(), systems: systems.to_vec(), inputs };
        refusal.write(&folder.join(store::REFUSED)).map_err(|error| broken(&error))?;
        Err(Reply::Broken(why))
    };
    // If a load failed in a way that another load may not, do not save the image. Store the failure
    // as a refusal, so that saving is not tried again until an input changes.
    let failed = answers.iter().find(|answer| !answer.is_reproducible()).map(|answer| {
        let why = answer.failure.as_ref().map(|failure| failure.message.as_str()).unwrap_or_default();
        format!("System {} does not load: {why}", answer.system.as_deref().unwrap_or_default())
    });
    let compiled: usize = answers.iter().map(|answer| answer.compiled.len()).sum();
    if failed.is_none() && compiled > 0 && !start.last {
        // Try again with the fasls, because a snapshot must match the state after a load from
        // fasls.
        return Err(Reply::Again(format!("{} had to be compiled", counted(compiled, "file", "files"))));
    }
    let cache = key.folder.parent().map(Path::to_path_buf).unwrap_or_default();
    let told: Making = read_json(&ask("snapshot-inputs")?).map_err(|error| broken(&error))?;
    let inputs = Inputs::gather(told.inputs, &cache, begun).map_err(Reply::Again)?;
    if let Some(why) = failed {
        return refuse(why, inputs, true);
    }
    let systems = ordered(&bank, read_json(&ask("load-order")?).map_err(|error| broken(&error))?);
    let export = ask("xref-baseline")?;
    let index = steelbank_xref::bake::bake(&export, bank.index().places()).map_err(|error| broken(&error))?;
    steelbank_cache::write(&folder.join("index"), &index).map_err(|error| broken(&error))?;
    bank.project().write_names();
    match bank.lisp().save(&folder.join("core"), ATTEMPT_TIME) {
        Ok(()) => {}
        Err(error @ SaveError::Unsaveable(_)) => return refuse(error.to_string(), inputs, false),
        Err(error) => return Err(broken(&error)),
    }
    let part = |name: &str| File::open(folder.join(name)).and_then(|file| FilePart::of(&file));
    let core = File::open(folder.join("core")).and_then(|core| {
        steelbank_cache::restrict_to_owner(&core)?;
        FilePart::of(&core)
    });
    if key.kind == SnapshotKind::Dependencies {
        answers.clear();
    }
    let manifest = SnapshotManifest {
        core: core.map_err(|error| broken(&error))?,
        index: part("index").map_err(|error| broken(&error))?,
        root: key.root.clone(),
        kind: key.kind,
        loads: key.loads.clone(),
        systems,
        inputs,
        answers,
        image: told.image,
    };
    manifest.write(&folder.join("manifest")).map_err(|error| broken(&error))?;
    Ok(Reply::Saved)
}

/// The load options for an image that will be saved.
const SAVED: LoadOptions =
    LoadOptions { force: false, keep_going: false, again: false, temporary: false, saved: true };

/// Runs `loads`, and returns the answer for each system.
fn answers(
    bank: &Steelbank,
    loads: &[LoadedItem],
    control: &Control,
) -> Result<Vec<LoadAnswer>, crate::Error> {
    let mut answers = Vec::new();
    for load in loads {
        let systems = match load {
            LoadedItem::System(name) => vec![name.clone()],
            LoadedItem::Project => {
                bank.list_systems(control)?.systems.into_iter().map(|system| system.name).collect()
            }
            LoadedItem::File(_) => Vec::new(),
        };
        for system in systems {
            answers.push(bank.load_system(&system, SAVED, control)?);
        }
    }
    Ok(answers)
}

/// Combines Lisp's report of the load order with the files of the systems. Omits inferred systems.
fn ordered(bank: &Steelbank, order: Vec<Ordered>) -> Vec<OrderedSystem> {
    let mut known = bank.project().image_systems();
    let known = order.into_iter().filter_map(|Ordered { name, .. }| Some((known.remove(&name)?, name)));
    let known = known.filter(|(system, _)| !system.inferred);
    let own = bank.project().project_files();
    known
        .map(|(system, name)| {
            let own = own.contains(&system.asd);
            let files = system.files.into_iter().flatten().chain([system.asd.clone()]);
            OrderedSystem { name, own: files.filter(|_| own).collect(), asd: system.asd }
        })
        .collect()
}

/// Tests the new snapshot in `folder`, in another copy of the program: starts from the snapshot as
/// a user's process does, and calls `answers` to check that the image answers correctly.
pub(crate) fn trial(
    builder: Builder,
    installation: &Installation,
    folder: &Path,
    answers: impl FnOnce(&Steelbank) -> Result<bool, crate::Error>,
) -> Reply {
    let outcome = Snapshot::open(folder).map_err(Reply::Again).and_then(|snapshot| {
        let broken = |error: &dyn std::fmt::Display| Reply::Broken(error.to_string());
        let bank = builder
            .installation(snapshot.installation(installation))
            .start()
            .map_err(|error| broken(&error))?;
        if answers(&bank).map_err(|error| broken(&error))? {
            Ok(Reply::Ready)
        } else {
            Err(Reply::Broken("it does not answer correctly".to_owned()))
        }
    });
    outcome.unwrap_or_else(|reply| reply)
}

/// Creates the request for the snapshot of `key`.
fn order(
    project: Option<&ProjectSettings>,
    program: Option<&HelperProgram>,
    heap: Option<usize>,
    key: Option<SnapshotKey>,
) -> Result<SnapshotOrder, MakeError> {
    let (project, program) = (project.ok_or(ScratchError::NoCache)?, program.ok_or(ScratchError::NoProgram)?);
    let start = HelperStart::new(HelperTask::Snapshot, project, heap);
    Ok(SnapshotOrder { program: program.clone(), start, key: key.ok_or(MakeError::NoSystems)? })
}

impl Builder {
    /// Creates the snapshot of the builder's systems in a copy of the program. Does not start SBCL
    /// in this process. Reports failed attempts to `tell`.
    ///
    /// # Errors
    /// No systems were given, or the snapshot cannot be created; the message names the reason.
    pub fn make_snapshot(self, tell: impl FnMut(&str)) -> Result<MadeSnapshot, MakeError> {
        let key = self.snapshot_key();
        order(self.project.as_ref(), self.program.as_ref(), self.dynamic_space_size, key)?.run(true, tell)
    }
}

impl Steelbank {
    /// Starts a copy of the program that creates the snapshot of the builder's systems. No effect
    /// if snapshots are not used, or if a system does not exist. Also no effect if all snapshots
    /// that can be created existed at the start, and either nothing was loaded since or saving was
    /// refused. The copy has a low priority. It waits until no Lisp file of the project has been
    /// written for 10 s, and for other processes that create snapshots. It ends with this process
    /// or, if `outlives` is true, after at most five minutes.
    ///
    /// # Errors
    /// The copy cannot be started.
    pub(crate) fn make_snapshot_later(&self, outlives: bool) -> Result<(), MakeError> {
        self.make_snapshot_if(outlives, |_| true)
    }

    /// Like [`Steelbank::make_snapshot_later`], but only if [`SnapshotKey::is_worth_saving`]
    /// returns true for the loads of this image.
    ///
    /// # Errors
    /// The copy cannot be started.
    pub(crate) fn make_snapshot_if_it_pays(&self, outlives: bool) -> Result<(), MakeError> {
        self.make_snapshot_if(outlives, |key| key.is_worth_saving(self.load_time(), self.is_edited()))
    }

    fn make_snapshot_if(
        &self,
        outlives: bool,
        is_wanted: impl FnOnce(&SnapshotKey) -> bool,
    ) -> Result<(), MakeError> {
        let Some(key) = self.snapshot_key() else { return Ok(()) };
        let unknown = self.inner.unknown_systems.lock().clone();
        if key.loads.iter().any(|load| matches!(load, LoadedItem::System(name) if unknown.contains(name))) {
            return Ok(());
        }
        let lacks_one =
            !self.has_all_snapshots() || self.changed_at().is_some() && Refusal::of(&key).is_none();
        if !(lacks_one && is_wanted(&key)) {
            return Ok(());
        }
        let heap = self.dynamic_space_size();
        order(self.project().settings(), self.program(), heap, Some(key))?.run_later(outlives)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_end_before_changed_or_own_systems() {
        let system = |name: &str, own: &[&str]| OrderedSystem {
            name: name.to_owned(),
            asd: PathBuf::from(format!("{name}.asd")),
            own: own.iter().map(PathBuf::from).collect(),
        };
        let loaded = [
            system("library", &[]),
            system("a", &["a.asd", "a.lisp"]),
            system("late", &[]),
            system("b", &["b.lisp"]),
        ];
        let end = |changed: &[&str], whole: bool| {
            let changed: Vec<PathBuf> = changed.iter().map(PathBuf::from).collect();
            dependencies(&loaded, &changed, whole).len()
        };
        assert_eq!(end(&[], true), 1);
        assert_eq!(end(&["b.lisp"], true), 3);
        assert_eq!(end(&["b.lisp", "a.asd"], true), 1);
        // A file of a library belongs to no system of the project.
        assert_eq!(end(&["library.lisp"], true), 1);
        // For a refused snapshot: the systems that do not prevent saving.
        assert_eq!(end(&[], false), 4);
        assert_eq!(end(&["a.lisp"], false), 1);
        assert_eq!(dependencies(&[], &[], true), []);
    }
}
