//! Loads systems and files into the image. A load runs on Lisp's lane of long work, reports
//! progress, and returns a [`LoadAnswer`] with diagnostics. After each load, this module refreshes
//! the index, records the loaded files in the project, and adds positions to the diagnostics. The
//! positions come from sidecars: files, one for each fasl, with the positions of the compiled
//! forms. `flights` coordinates concurrent loads of the same system.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::Steelbank;
use crate::answer::nearest;
use crate::answer::{Caution, Location, some_of};
use crate::engine::control::Control;
use crate::engine::read_json;
use crate::engine::{
    CallError, Expired, Lane, LispError, Progress, ProgressListener, deadline_after, trim_memory,
};
use crate::handle::Error;
use crate::handle::flights::{Flight, InFlightLoads};
use crate::handle::loaded::{
    Diagnostic, FailureKind, ImageContents, LoadAnswer, LoadFailure, LoadStatus, LoadTarget, SetUp, Severity,
};
use crate::handle::recovery::LoadedItem;
use crate::handle::requests::LoadOptions;
use crate::handle::snapshot::{Inputs, Snapshot};
use crate::workspace::systems::files_of_system;
use crate::workspace::{Contents, ImageSystem, Project, ProjectFiles, ProjectSettings};
use steelbank_reader::asd::clause;
use steelbank_reader::lines::{LineColumn, LineIndex, PositionEncoding, decode};
use steelbank_reader::structure::{ProblemKind, check_structure};
use steelbank_reader::{Dialect, Features, LispText, Range, Token, TokenKind};
use steelbank_tree::is_lisp_by_name;

/// The answers to the loads in a snapshot, used for the first load of each system.
pub(crate) struct RestoredLoads {
    answers: HashMap<String, LoadAnswer>,
    /// The inputs for which the answers are valid, checked at each load; `None` if they need no
    /// check.
    inputs: Option<Inputs>,
    /// The names of the project's systems, if the snapshot is complete and loading the project is
    /// its only load. The first load of the project takes the list.
    project: Option<Vec<String>>,
    /// Whether the snapshot contains all requested loads.
    pub(crate) complete: bool,
    /// The snapshot's core. The file stays open, because SBCL opens the core by the path of this
    /// descriptor while it starts.
    _core: std::fs::File,
}

/// The delay between the deadline of a load and its interrupt, so that the load can end between two
/// forms. Also the time limit for refreshing the index after a load that did not end.
const INTERRUPT_DELAY: Duration = Duration::from_millis(300);
/// The time that Lisp has after an interrupt to report which files were loaded. If no report
/// arrives in time, the answer lists no loaded files.
const REPORT_TIME: Duration = Duration::from_secs(2);
/// The time limit for refreshing the index after a load.
const REFRESH_TIME: Duration = Duration::from_secs(10);

impl Steelbank {
    /// Loads `system` through ASDF. This runs the system's code and, before the first load, the
    /// user's init file if the project's settings name one. Questions are answered meanwhile.
    ///
    /// If a load of the same system is in progress, waits for that load, shares its progress
    /// reports, and then loads again. The answer combines all these loads. With the options `force`
    /// or `keep_going`, waits only for announced loads. Unless `force`, returns the snapshot's
    /// answer if there is a valid answer that was not used yet.
    ///
    /// # Errors
    /// The load was cancelled, the setup before the first load failed, or Lisp has died. A load
    /// that fails or times out is an answer.
    pub(crate) fn load_system(
        &self,
        system: &str,
        options: LoadOptions,
        control: &Control,
    ) -> Result<LoadAnswer, Error> {
        let restored = if options.force { None } else { self.restored(&[system.to_owned()]) };
        if let Some(answer) = restored.and_then(|mut answers| answers.pop()) {
            return Ok(answer);
        }
        let item = LoadedItem::System(system.to_owned());
        self.join_load(&item, options, control, |control| self.load_through_asdf(system, options, control))
    }

    /// Runs `load`, the load of `item`, after waiting for a load of the same item in progress.
    /// Passes progress and answer to the callers that wait for it.
    fn join_load(
        &self,
        item: &LoadedItem,
        options: LoadOptions,
        control: &Control,
        load: impl Fn(&Control) -> Result<LoadAnswer, Error>,
    ) -> Result<LoadAnswer, Error> {
        let deadline = deadline_after(control.allowed());
        let timed_out = || {
            let message = "The time limit passed while this load waited for another load of the same system."
                .to_owned();
            let target = LoadTarget::System(item.to_string());
            let answer = LoadAnswer::timed_out(target, control.allowed(), message);
            let system = answer.system.clone().filter(|_| matches!(item, LoadedItem::System(_)));
            Ok(LoadAnswer { system, ..answer }.finished())
        };
        let mut first: Option<LoadAnswer> = None;
        if let Some(loads) = self.flights().announced() {
            loads.flight.listen(control);
            if loads.flight.wait(control, deadline)?.is_none() {
                return timed_out();
            }
            first = loads.answers.lock().get(item).cloned();
        }
        loop {
            let (flight, leads) =
                self.flights().join(item, control.progress(), options.force || options.keep_going);
            if leads {
                let mut landing = JoinGuard { flights: self.flights(), item, flight: &flight, answer: None };
                let reported = Arc::clone(&flight);
                let control = control.until(deadline);
                let control = control.reporting_to(Arc::new(move |progress| reported.report(&progress)));
                let answer = load(&control)?;
                landing.answer = Some(answer.clone());
                drop(landing);
                return Ok(match first {
                    Some(first) => first.followed_by(answer).finished(),
                    None => answer,
                });
            }
            let Some(answer) = flight.wait(control, deadline)? else { return timed_out() };
            // Load again after the joined load, because files may have changed since it started.
            first = first.map_or(Some(answer.clone()), |first| Some(first.followed_by(answer)));
        }
    }

    /// Loads `system`, and looks for its definition in all of the project's `.asd` files.
    fn load_through_asdf(
        &self,
        system: &str,
        options: LoadOptions,
        control: &Control,
    ) -> Result<LoadAnswer, Error> {
        let deadline = deadline_after(control.allowed());
        let run = |asd: Option<&str>| {
            let arguments = vec![json!(system), json!(asd), json!(options.force), json!(options.keep_going)];
            let target = LoadTarget::System(system.to_owned());
            self.load_target(target, "load-system", arguments, options, &control.until(deadline))
        };
        let mut answer = run(None)?;
        if answer.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::UnknownSystem) {
            // ASDF finds a system only in the `.asd` file of the same name, so also look for a
            // definition in the project's other `.asd` files.
            match self.definition_of(system, control) {
                Ok(asd) => answer = run(Some(&asd))?,
                Err(known) => answer.suggest(system, &known),
            }
        }
        let is_unknown =
            answer.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::UnknownSystem);
        let mut unknown = self.inner.unknown_systems.lock();
        unknown.remove(system);
        unknown.extend(is_unknown.then(|| system.to_owned()));
        drop(unknown);
        if answer.status == LoadStatus::Loaded && !options.again {
            self.note_system(answer.system.as_deref().unwrap_or(system));
        }
        Ok(answer)
    }

    /// Loads `systems`, each with the file that defines it, one after the other.
    pub(crate) fn load_systems(
        &self,
        systems: Vec<(String, PathBuf)>,
        options: LoadOptions,
        control: &Control,
    ) -> Result<LoadAnswer, Error> {
        let name = systems.last().map(|(name, _)| name.clone()).unwrap_or_default();
        self.load_target(
            LoadTarget::System(name),
            "load-systems",
            vec![json!(systems), json!(false)],
            options,
            control,
        )
    }

    /// Restores the Rust state of the image that was saved as `snapshot`. SBCL has already started
    /// from the snapshot's core.
    pub(crate) fn restore(&self, snapshot: Snapshot, complete: bool) {
        *self.project().opened.lock() = true;
        note(self.project(), &snapshot.image, &HashSet::new(), true);
        let answers: Vec<(String, LoadAnswer)> = snapshot
            .answers
            .into_iter()
            .filter_map(|answer| Some((answer.system.clone()?, answer)))
            .collect();
        // The answers list exactly the project's systems only if the project is the only load.
        let project = (complete && snapshot.loads == [LoadedItem::Project])
            .then(|| answers.iter().map(|(name, _)| name.clone()).collect());
        self.note_load_time(answers.iter().map(|(_, answer)| answer.duration_ms).sum());
        let (answers, inputs) = (answers.into_iter().collect(), Some(snapshot.inputs));
        *self.inner.restored.lock() =
            Some(RestoredLoads { answers, inputs, project, complete, _core: snapshot.core });
    }

    /// Drops the snapshot's answers to loads, so that the next load runs ASDF.
    pub(crate) fn forget_restored_loads(&self) {
        if let Some(restored) = &mut *self.inner.restored.lock() {
            restored.answers.clear();
            restored.project = None;
        }
    }

    /// Disables the check of the snapshot's inputs at each later load. For a process that requested
    /// all its loads before the start, when the inputs were checked.
    pub(crate) fn trust_restored_loads(&self) {
        if let Some(restored) = &mut *self.inner.restored.lock() {
            restored.inputs = None;
        }
    }

    /// Takes the snapshot's answers to loading `systems`, if its inputs are unchanged. Each answer
    /// is used once; the next load runs ASDF. Returns `None` unless there is an answer for each
    /// system.
    fn restored(&self, systems: &[String]) -> Option<Vec<LoadAnswer>> {
        let begun = Instant::now();
        let mut restored = self.inner.restored.lock();
        let restored = restored.as_mut().filter(|restored| !restored.answers.is_empty())?;
        if !restored.inputs.as_ref().is_none_or(Inputs::hold) {
            restored.answers.clear();
        }
        let mut answers: Vec<LoadAnswer> =
            systems.iter().map_while(|system| restored.answers.remove(system)).collect();
        let duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        answers.iter_mut().for_each(|answer| answer.duration_ms = 0);
        answers.iter_mut().take(1).for_each(|answer| answer.duration_ms = duration_ms);
        (answers.len() == systems.len()).then(|| {
            let loaded =
                systems.iter().zip(&answers).filter(|(_, answer)| answer.status == LoadStatus::Loaded);
            loaded.for_each(|(system, _)| self.note_system(system));
            answers
        })
    }

    /// Finds the project's `.asd` file that defines `system`. If there is none, the error lists the
    /// names of all defined systems.
    fn definition_of(&self, system: &str, control: &Control) -> Result<String, Vec<String>> {
        let systems = self.list_systems(control).map(|answer| answer.systems).unwrap_or_default();
        let root = self.project().root();
        match (systems.iter().find(|entry| entry.name.eq_ignore_ascii_case(system)), root) {
            (Some(entry), Some(root)) => Ok(root.join(&entry.asd).display().to_string()),
            _ => Err(systems.into_iter().map(|entry| entry.name).collect()),
        }
    }

    /// Loads all systems that the project's `.asd` files define, including tests, one after the
    /// other, and lists the outcome of each. If such a load is in progress, waits for it as
    /// `load_system` does.
    ///
    /// # Errors
    /// There is no project, the load was cancelled, the setup before the first load failed, or Lisp
    /// has died. A load that fails or times out is an answer.
    pub(crate) fn load_project(&self, options: LoadOptions, control: &Control) -> Result<LoadAnswer, Error> {
        self.join_load(&LoadedItem::Project, options, control, |control| self.load_each(options, control))
    }

    /// Loads the project's systems one after the other.
    fn load_each(&self, options: LoadOptions, control: &Control) -> Result<LoadAnswer, Error> {
        let deadline = deadline_after(control.allowed());
        let mut all = LoadAnswer::default();
        let known = self.inner.restored.lock().as_mut().and_then(|restored| restored.project.take());
        if let Some(systems) = known.filter(|_| !options.force)
            && let Some(answers) = self.restored(&systems)
        {
            let each = systems.iter().zip(answers);
            return Ok(each.fold(all, |all, (system, answer)| all.with_system(system, answer)).finished());
        }
        let systems = self.list_systems(control)?.systems;
        if systems.is_empty() {
            let project = self.project();
            let mut files = project.lisp_files();
            files.retain(|path| is_lisp_by_name(path));
            if !files.is_empty() {
                all.status = LoadStatus::Failed;
                all.failure = Some(LoadFailure::no_system(&some_of(&files, |path| project.shown(path))));
            }
        }
        for system in systems.into_iter().map(|system| system.name) {
            let left = control.until(deadline);
            let answer = self.load_system(&system, options, &left)?;
            all = all.with_system(&system, answer);
        }
        Ok(all.finished())
    }

    /// Compiles and loads the file at `path`. This runs the file's code. A relative path refers to
    /// the project's root, or to the current folder if the file exists only there or there is no
    /// project.
    ///
    /// # Errors
    /// The load was cancelled, the setup before the first load failed, or Lisp has died. A load
    /// that fails or times out is an answer.
    pub(crate) fn load_file(
        &self,
        path: &str,
        options: LoadOptions,
        control: &Control,
    ) -> Result<LoadAnswer, Error> {
        let given = Path::new(path);
        let below = self.project().root().filter(|_| !path.is_empty()).map(|_| self.project().native(given));
        let absolute = match below {
            // Also accept a path relative to the current folder, because shells complete such
            // paths.
            Some(below) if below.exists() || !given.exists() => below,
            _ => std::path::absolute(given).unwrap_or_else(|_| given.to_owned()),
        };
        let absolute = absolute.display().to_string();
        let target = LoadTarget::File(absolute.clone());
        let outcome = self.load_target(
            target,
            "load-file",
            vec![json!(absolute), json!(!options.temporary)],
            options,
            control,
        );
        let loaded = outcome.as_ref().is_ok_and(|answer| answer.status == LoadStatus::Loaded);
        self.note_file(Path::new(&absolute), loaded);
        let mut answer = outcome?;
        if let Some(failure) = &mut answer.failure
            && failure.is_of_missing(Path::new(&absolute))
        {
            let near = nearest::paths_in(self.project(), path);
            let meant = (!near.is_empty()).then(|| format!("Did you mean {}?", near.join(" or ")));
            failure.remedies = meant.into_iter().chain([self.project().path_advice()]).collect();
        }
        Ok(answer)
    }

    /// Returns whether a load is in progress, so that answers may soon change.
    pub fn is_loading(&self) -> bool {
        self.project().is_loading()
    }

    /// Marks a load as in progress until the guard is dropped, for a server's loads that are about
    /// to begin. With `again`, they are repeated after a restart.
    pub(crate) fn announce_loads(&self, again: bool) -> LoadingGuard {
        let moving = LoadingGuard::new(self, true);
        self.flights().announce(again);
        moving.begin();
        moving
    }

    /// Returns whether the loads from before a restart are being repeated.
    pub(crate) fn is_repeating_loads(&self) -> bool {
        self.is_loading() && self.flights().announced().is_some_and(|loads| loads.again)
    }

    /// Waits until no load is running, at most as long as `control` allows. Reports the progress of
    /// announced loads. Returns whether all loads have ended.
    pub(crate) fn await_loads(&self, control: &Control) -> bool {
        const INTERVAL: Duration = Duration::from_millis(20);
        let deadline = deadline_after(control.allowed());
        self.flights().announced().iter().for_each(|loads| loads.flight.listen(control));
        while self.is_loading() && control.check().is_ok() && Instant::now() < deadline {
            std::thread::sleep(INTERVAL);
        }
        !self.is_loading()
    }

    fn load_target(
        &self,
        target: LoadTarget,
        question: &'static str,
        arguments: Vec<Value>,
        options: LoadOptions,
        control: &Control,
    ) -> Result<LoadAnswer, Error> {
        let (project, begun) = (self.project(), SystemTime::now());
        // Reloading a loaded system changes nothing until a file is compiled or loaded, so count
        // the reload as in progress only from then on.
        let is_reload = matches!(&target, LoadTarget::System(name) if project.is_loaded(name));
        let moving = Arc::new(LoadingGuard::new(self, false));
        if !is_reload {
            moving.begin();
        }
        let begins = Arc::clone(&moving);
        let at = Arc::new(Mutex::new(None::<String>));
        let reached = Arc::clone(&at);
        let told = control.clone();
        let reporting = control.reporting_to(Arc::new(move |progress: Progress| {
            begins.begin();
            if progress.path.is_some() {
                reached.lock().clone_from(&progress.path);
            }
            told.report(progress);
        }));
        let deadline = deadline_after(control.allowed());
        let outcome = self.open_project(control, deadline).and_then(|cautions| {
            let bytes = self.work(question, arguments, &reporting, deadline)?;
            let mut answer: LoadAnswer = read_json(&bytes)?;
            answer.cautions.splice(0..0, cautions);
            Ok(answer)
        });
        let is_stuck = matches!(
            &outcome,
            Err(Error::Lisp(LispError::DeadlinePassed { work: Expired::StillRunning, .. }))
        );
        let outcome = outcome.or_else(|error| timed_out(error, target, control.allowed()));
        // Refresh the index after a failure too, because definitions loaded before the failure
        // remain.
        let mut answer = match outcome {
            Ok(answer) => answer,
            Err(error) => {
                self.note_changed(begun);
                self.refresh_later(move || moving.end());
                let at = at.lock().as_deref().map(|path| project.shown(Path::new(path)));
                return Err(died_at(error, at));
            }
        };
        if answer.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::Heap) {
            self.lisp().note_heap_exhausted();
        }
        // Do not wait long for an unresponsive Lisp: the deadline has passed.
        let time = if is_stuck { INTERRUPT_DELAY } else { REFRESH_TIME.min(control.allowed() / 4) };
        let refresh = || self.refresh_within(&Control::new(time));
        let is_asked = !options.temporary && !options.saved;
        if is_asked && let Err(error) = refresh() {
            answer.cautions.push(Caution::IndexStaleAfterLoad(error.to_string()));
        }
        let image = answer.image.take();
        let anew: HashSet<&Path> = answer.compiled.iter().chain(&answer.cached).map(Path::new).collect();
        if !anew.is_empty() {
            self.note_changed(begun);
            self.note_load_time(answer.duration_ms);
        }
        if let Some(image) = image {
            note(project, &image, &anew, !options.temporary);
        }
        note_asked(project, &answer);
        project.delete_old_sidecars(answer.compiled.iter().map(Path::new));
        moving.end();
        if is_asked {
            let bank = self.clone();
            // Read the sidecars now, so that the first question does not wait for them. If no
            // thread can be created, that question reads them.
            let _ = std::thread::Builder::new().name("steelbank-sidecars".into()).spawn(move || {
                bank.project().write_names();
                trim_memory();
            });
        }
        // Drop diagnostics that were stored at an earlier compilation, unless they are about a file
        // of the project.
        if !answer.diagnostics.is_empty() {
            let own = project.project_files();
            answer.diagnostics.retain(|found| !found.kept || is_own(&own, found));
            let asd = answer.system.as_ref().and_then(|name| project.image_systems().remove(name));
            let folder = asd.as_ref().and_then(|system| system.asd.parent());
            let is_asked = |path: &Path| {
                answer.path.as_deref().is_some_and(|asked| Path::new(asked) == path)
                    || folder.is_some_and(|folder| path.starts_with(folder))
            };
            for found in answer.diagnostics.iter_mut().filter(|_| project.root().is_some()) {
                let path = found.place.as_ref().map(|place| Path::new(&place.file));
                found.library = path.is_some_and(|path| !own.contains(path) && !is_asked(path));
            }
        }
        let mut texts = HashMap::new();
        answer.diagnostics.iter_mut().for_each(|diagnostic| {
            place(project, diagnostic);
            end(project, diagnostic, &mut texts);
        });
        let diagnostics = &mut answer.diagnostics;
        answer.failure.iter_mut().for_each(|failure| locate(project, failure, diagnostics));
        let mut answer = answer.finished();
        if let Some(failure) = &mut answer.failure
            && failure.kind == FailureKind::MissingDependency
            && project.settings().is_some_and(|settings| settings.userinit.is_none())
        {
            failure
                .remedies
                .push("If the init file sets up your libraries, do not pass --no-userinit.".to_owned());
        }
        Ok(answer)
    }

    /// Passes the project's settings to Lisp and loads its qlot setup and the init file, before the
    /// first load. If this fails, the next load tries again. Returns the warnings and errors of the
    /// setup as cautions. The list is empty if there is no project or it was already open.
    pub(super) fn open_project(&self, control: &Control, deadline: Instant) -> Result<Vec<Caution>, Error> {
        let project = self.project();
        let Some(settings) = project.settings() else { return Ok(Vec::new()) };
        // Wait while another thread opens the project.
        let mut opened = loop {
            let soon = (Instant::now() + Duration::from_millis(20)).min(deadline);
            if let Some(opened) = project.opened.try_lock_until(soon) {
                break opened;
            }
            if control.cancellation().is_cancelled() {
                return Err(LispError::Cancelled.into());
            }
            if soon == deadline {
                return Err(Error::NeverBegan);
            }
        };
        if *opened {
            return Ok(Vec::new());
        }
        let text = |path: Option<&PathBuf>| json!(path.map(|path| path.display().to_string()));
        let arguments =
            vec![text(settings.root.as_ref()), text(Some(&settings.cache)), text(settings.userinit.as_ref())];
        let bytes = self.work("open-project", arguments, control, deadline)?;
        let set_up: SetUp = read_json(&bytes)?;
        if set_up.status != LoadStatus::Loaded {
            return Err(Error::SetUp(set_up_failed(settings, set_up)));
        }
        *opened = true;
        let warnings = set_up.diagnostics.into_iter().filter(|said| said.severity <= Severity::Warning);
        Ok(warnings.map(|said| Caution::Text(said.message)).collect())
    }

    /// Calls `question` on the lane of long work until `deadline`. Adds the remaining time, in
    /// milliseconds, as the last argument.
    pub(super) fn work(
        &self,
        question: &'static str,
        mut arguments: Vec<Value>,
        control: &Control,
        deadline: Instant,
    ) -> Result<Vec<u8>, Error> {
        let progress = control.progress().cloned().map(|listener| -> ProgressListener {
            Arc::new(move |json: &str| {
                if let Ok(progress) = serde_json::from_str(json) {
                    listener(progress);
                }
            })
        });
        let left = deadline.saturating_duration_since(Instant::now());
        let ticket = self.lisp().submit(Lane::Work, left, progress, move |on_lisp| {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(CallError::Interrupted);
            }
            on_lisp.grant(REPORT_TIME);
            arguments.push(json!(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)));
            on_lisp.call_within(left.saturating_add(INTERRUPT_DELAY), question, &arguments)
        });
        match control.wait(ticket) {
            Err(LispError::DeadlinePassed { work: Expired::NeverBegan, .. }) => Err(Error::NeverBegan),
            outcome => Ok(outcome?.bytes),
        }
    }
}

/// A guard that counts a load as in progress, from `begin` until `end` or until the guard is
/// dropped.
pub(crate) struct LoadingGuard {
    bank: Steelbank,
    counted: AtomicBool,
    announced: bool,
}

impl LoadingGuard {
    pub(super) fn new(bank: &Steelbank, announced: bool) -> Self {
        Self { bank: bank.clone(), counted: AtomicBool::new(false), announced }
    }

    /// Makes this thread the one that runs the announced loads.
    pub(crate) fn run_here(&self) {
        self.bank.flights().run_announced_here();
    }

    pub(super) fn begin(&self) {
        if !self.counted.swap(true, Ordering::SeqCst) {
            self.bank.project().loading.fetch_add(1, Ordering::SeqCst);
        }
    }

    pub(super) fn end(&self) {
        if self.counted.swap(false, Ordering::SeqCst) {
            self.bank.project().loading.fetch_sub(1, Ordering::SeqCst);
            if self.announced {
                self.bank.flights().end_announced();
            }
        }
    }
}

impl Drop for LoadingGuard {
    fn drop(&mut self) {
        self.end();
    }
}

/// A guard for the flight of a load. Dropping the guard ends the flight, so that waiting callers
/// never wait forever.
struct JoinGuard<'a> {
    flights: &'a InFlightLoads,
    item: &'a LoadedItem,
    flight: &'a Arc<Flight>,
    answer: Option<LoadAnswer>,
}

impl Drop for JoinGuard<'_> {
    fn drop(&mut self) {
        self.flights.finish(self.item, self.flight, self.answer.take());
    }
}

/// Adds the file that was being loaded to the error of a load during which Lisp died.
fn died_at(error: Error, path: Option<String>) -> Error {
    match (error, path) {
        (Error::Lisp(LispError::Dead { reason }), Some(path)) => {
            Error::Lisp(LispError::Dead { reason: format!("{reason}, while {path} was being loaded") })
        }
        (error, _) => error,
    }
}

/// Converts `error` to an answer if the load timed out before Lisp reported. Returns other errors
/// unchanged.
fn timed_out(error: Error, target: LoadTarget, allowed: Duration) -> Result<LoadAnswer, Error> {
    let message = match error {
        Error::NeverBegan => {
            "The load never began, because another load was in progress until the time limit.".to_owned()
        }
        Error::Lisp(error @ LispError::DeadlinePassed { .. }) => format!("{error}."),
        other => return Err(other),
    };
    Ok(LoadAnswer::timed_out(target, allowed, message))
}

/// Formats the failure of the setup, with a remedy.
fn set_up_failed(settings: &ProjectSettings, set_up: SetUp) -> String {
    let place = set_up.diagnostics.iter().rev().find(|said| said.severity <= Severity::Error);
    let (message, path) = set_up.failure.map(|failure| (failure.message, failure.path)).unwrap_or_default();
    let message = message.trim_end_matches('.');
    let place = place.and_then(|said| said.place.clone()).or(path.map(Location::new));
    let at = place.map(|place| format!(" (at {})", place.whole_line())).unwrap_or_default();
    let how = match set_up.status {
        LoadStatus::TimedOut => "did not end in time",
        LoadStatus::Cancelled => "was cancelled",
        LoadStatus::Failed | LoadStatus::Loaded => "failed",
    };
    let init = settings.userinit.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    match set_up.step.as_str() {
        "init-file" => {
            format!("The init file {init} {how}: {message}{at}. Correct it, or skip it with --no-userinit.")
        }
        "qlot" => format!("The project's qlot setup, .qlot/setup.lisp, {how}: {message}{at}. Correct it."),
        _ => format!("{message}. Correct ASDF's configuration and start again."),
    }
}

/// Sets the place of a diagnostic without a line, from the sidecar of the compiled file, unless the
/// file has changed since it was compiled.
fn place(project: &Project, diagnostic: &mut Diagnostic) {
    let (Some(at), Some(place)) =
        (diagnostic.at, diagnostic.place.as_mut().filter(|place| place.line.is_none()))
    else {
        return;
    };
    let Ok(file) = project.positions(Path::new(&place.file), at.write_date) else { return };
    if file.is_fresh()
        && let Some(range) = file.form_range(at.form, at.number)
    {
        *place = Location::placed(std::mem::take(&mut place.file), &file, range);
    }
}

/// Adds the position of a failure's clause to its message, and to a diagnostic that repeats the
/// message without a line.
fn locate(project: &Project, failure: &mut LoadFailure, diagnostics: &mut [Diagnostic]) {
    let path = failure.clause_path.as_ref().or(failure.path.as_ref());
    let (Some(path), [keyword, names @ ..]) = (path, &failure.clause[..]) else { return };
    let Ok(text) = project.read(Path::new(path)) else { return };
    if let Some(range) = clause(&text, keyword, names) {
        let place = Location::in_text(path.clone(), &LineIndex::new(&text), &text, range);
        for found in diagnostics.iter_mut().filter(|found| found.message == failure.message) {
            if found.place.as_ref().is_none_or(|at| at.line.is_none()) {
                found.place = Some(place.clone());
            }
        }
        failure.message = format!("{place}: {}", failure.message);
        failure.located = true;
    }
}

/// The texts read so far, by file name; `None` if a file cannot be read.
type ReadTexts = HashMap<String, Option<(Vec<u8>, LineIndex, LispText)>>;

/// Sets the end of a diagnostic: the end of the form, or else of the token, that begins at the
/// diagnostic's start. If the diagnostic is about an undefined or unused name, narrows its range to
/// that name in the form, because the compiler does not report the name's position; prefers an
/// occurrence outside nested forms. For a read error, first sets the start and the message to those
/// that [`misread`] returns.
fn end(project: &Project, diagnostic: &mut Diagnostic, texts: &mut ReadTexts) {
    let Some(place) = &mut diagnostic.place else { return };
    let (Some(line), Some(column)) = (place.line, place.column) else { return };
    let read = || {
        let bytes = project.read(Path::new(&place.file)).ok()?;
        let bytes = decode(&bytes).into_owned().into_bytes();
        let read = LispText::read(&bytes, Dialect::CommonLisp, &Features::sbcl());
        let lines = LineIndex::new(&bytes);
        Some((bytes, lines, read))
    };
    let Some((bytes, lines, read)) = texts.entry(place.file.clone()).or_insert_with(read) else { return };
    let start = lines.offset(bytes, LineColumn { line, column }, PositionEncoding::Characters);
    let Some(mut start) = start else { return };
    if diagnostic.severity == Severity::ReadError {
        (start, diagnostic.message) = misread(start, bytes, read, std::mem::take(&mut diagnostic.message));
        *place = Location::in_text(std::mem::take(&mut place.file), lines, bytes, Range::new(start, start));
    }
    let form = read.forms().partition_point(|form| form.span.start < start);
    let form = read.forms().get(form).filter(|form| form.span.start == start);
    let whole = match form {
        Some(form) => Some(form.span),
        None => read.token_at(start).map(|token| token.span),
    };
    let named = diagnostic.subject.as_deref().zip(form).and_then(|(name, form)| {
        let inside = &read.tokens()[form.tokens()];
        let mut named = inside.iter().filter(|token| token.active && token.is_named(bytes, name));
        let own = named.clone().find(|token| {
            let around = token.form.and_then(|around| read.form(around));
            around.is_some_and(|around| around.span == form.span)
        });
        own.or_else(|| named.next()).map(|token| token.span)
    });
    if let Some(range) = named.or(whole) {
        *place = Location::in_text(std::mem::take(&mut place.file), lines, bytes, range);
        let after = lines.position(bytes, range.end);
        (diagnostic.end_line, diagnostic.end_column) = (Some(after.line), Some(after.column));
    }
}

/// Returns the start of the text that the reader could not read, and the message. The position `at`
/// that the reader reports is after that text, or at the start of the enclosing form. If a string,
/// symbol or comment is not closed, the message names it.
fn misread(at: u32, bytes: &[u8], read: &LispText, message: String) -> (u32, String) {
    let unclosed = check_structure(bytes, Dialect::CommonLisp).problem.and_then(|problem| {
        let what = match problem.kind {
            ProblemKind::UnclosedString => "string",
            ProblemKind::UnclosedBar => "symbol in bars",
            ProblemKind::UnclosedComment => "comment",
            ProblemKind::Unclosed | ProblemKind::ExtraClose => return None,
        };
        (problem.start >= at).then(|| (problem.start, format!("The {what} that begins here has no end.")))
    });
    let behind = |token: &&Token| token.span.start < at && token.kind != TokenKind::Comment;
    let token = || (1..=2).find_map(|back| read.token_at(at.checked_sub(back)?)).filter(behind);
    // For a problem at the end of the file, the reader reports the top-level form, so keep that
    // position.
    let is_form = read.forms().binary_search_by_key(&at, |form| form.span.start).is_ok();
    match unclosed {
        Some(found) => found,
        None if is_form => (at, message),
        None => (token().map_or(at, |token| token.span.start), message),
    }
}

/// Returns whether a diagnostic is about a file of the project.
fn is_own(own: &ProjectFiles, diagnostic: &Diagnostic) -> bool {
    diagnostic.place.as_ref().is_some_and(|place| own.contains(Path::new(&place.file)))
}

/// Records files that are searched as text if they are not loaded: the files that the load
/// compiled, the file at which it failed, and all files of a system outside the project.
fn note_asked(project: &Project, answer: &LoadAnswer) {
    let failed = answer.failure.as_ref().and_then(|failure| failure.path.as_deref());
    project.note_requested(answer.compiled.iter().map(String::as_str).chain(failed).map(PathBuf::from));
    let asd = answer.system.as_ref().and_then(|name| Some((name, project.image_systems().remove(name)?.asd)));
    if let Some((name, asd)) = asd
        && !project.contains(&asd)
    {
        project.note_requested(files_of_system(&asd, name));
    }
}

/// Records the image's contents. `anew` lists the files that this load compiled or loaded. Updates
/// the list of systems only if `are_listed`.
pub(super) fn note(project: &Project, image: &ImageContents, anew: &HashSet<&Path>, are_listed: bool) {
    let contents = image
        .files
        .iter()
        .filter_map(|file| Some((file.path.clone(), Contents { size: file.size?, hash: file.hash? })));
    let systems = image.systems.iter().map(|system| {
        let known = ImageSystem {
            asd: system.asd.clone(),
            loaded: system.loaded,
            inferred: system.inferred,
            files: system.files.clone(),
        };
        (system.name.clone(), known)
    });
    project.note_image(contents, are_listed.then(|| systems.collect()));
    let dated = image.files.iter().filter_map(|file| Some((file.path.clone(), file.write_date?)));
    project.note_loaded(dated, |path| anew.contains(path));
}
