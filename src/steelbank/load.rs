//! Loads a project's systems and files, and answers questions about its files line by line.

use std::collections::{HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use serde_json::{Value, json};

use super::flights::{Flight, Flights};
use super::snapshot::Snapshot;
use crate::Steelbank;
use crate::answer::{Caution, Location};
use crate::engine::{
    CallError, Expired, Lane, LispError, ProgressListener, deadline_after, give_back_memory,
};
use crate::project::systems::files_of_system;
use crate::project::{Contents, ImageSystem, Project, ProjectSettings};
use crate::query::code_find_references;
use crate::query::control::Control;
use crate::query::find_definition;
use crate::query::list_systems::{SystemsAnswer, list_systems};
use crate::query::load_system::{
    Diagnostic, FailureKind, ImageContents, LoadAnswer, LoadNews, LoadStatus, LoadTarget, SetUp, Severity,
};
use crate::query::{Error, nearest, read_json};

/// A progress listener of loads: receives each file that is compiled or loaded. It must not block.
pub type LoadListener = Arc<dyn Fn(LoadNews) + Send + Sync>;

/// The answers to loads of a snapshot's systems, kept for the first load of each.
pub(super) struct RestoredLoads {
    answers: HashMap<String, LoadAnswer>,
    /// The answer so far of the load that the snapshot was made in.
    partial: Option<LoadAnswer>,
    /// Whether all systems are loaded.
    pub(super) whole: bool,
    /// Kept open: SBCL opens it by its descriptor's name while it starts.
    _core: std::fs::File,
}

impl RestoredLoads {
    /// Forgets the answers, so that ASDF decides again.
    pub(super) fn forget(&mut self) {
        self.answers.clear();
        self.partial = None;
    }
}

/// The time after its deadline in which a load may end between two forms, before it is interrupted.
const PATIENCE: Duration = Duration::from_millis(300);
/// The time after an interruption in which Lisp may report what was loaded, before the load is answered
/// without it.
const GRACE: Duration = Duration::from_secs(2);
/// The time limit for refreshing the index after a load.
const REFRESH: Duration = Duration::from_secs(10);

impl Steelbank {
    /// Loads `system` through ASDF; `force` compiles its own files anew. This runs the system's code, and before the
    /// first load the user's init file if the project's settings name one. Questions are answered meanwhile.
    ///
    /// If a load of the same system is under way, joins it, and shares its news and outcome.
    ///
    /// # Errors
    /// It was cancelled, or Lisp is gone. A failed load is an answer.
    pub fn load_system(
        &self,
        system: &str,
        force: bool,
        control: &Control,
        listener: Option<LoadListener>,
    ) -> Result<LoadAnswer, Error> {
        if !force && let Some(answer) = self.restored(system) {
            return Ok(answer);
        }
        let deadline = deadline_after(control.allowed());
        let mut first: Option<LoadAnswer> = None;
        loop {
            let (flight, leads) = self.flights().join(system, listener.as_ref(), force);
            if !leads {
                match flight.wait(control, deadline)? {
                    // Load once more: files may have changed since that load began.
                    Some(answer) => {
                        first = first.map_or(Some(answer.clone()), |first| Some(first.followed_by(answer)))
                    }
                    None => {
                        let message =
                            "Its time was over while it waited for a load of the same system.".to_owned();
                        let target = LoadTarget::System(system.to_owned());
                        return Ok(LoadAnswer::timed_out(target, control.allowed(), message).finished());
                    }
                }
                continue;
            }
            let flying = Landing { flights: self.flights(), system, flight: &flight, answer: None };
            return self.lead_load(system, force, control, deadline, flying, first);
        }
    }

    /// Loads `system` for all callers that have joined.
    fn lead_load(
        &self,
        system: &str,
        force: bool,
        control: &Control,
        deadline: Instant,
        mut landing: Landing<'_>,
        first: Option<LoadAnswer>,
    ) -> Result<LoadAnswer, Error> {
        let flight = Arc::clone(landing.flight);
        let listener: LoadListener = Arc::new(move |news: LoadNews| flight.tell(&news));
        let mode = if force { "force" } else { "load" };
        let run = |asd: Option<&str>| {
            let control = control.until(deadline);
            let arguments = vec![json!(system), json!(asd), json!(mode), json!([])];
            let target = LoadTarget::System(system.to_owned());
            self.load_target(target, "load-system", arguments, &control, Some(Arc::clone(&listener)))
        };
        let mut answer = run(None)?;
        if answer.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::UnknownSystem) {
            // Try the project's own definitions: ASDF finds a system only by the name of its file.
            match self.definition_of(system, control) {
                Ok(asd) => answer = run(Some(&asd))?,
                Err(known) => answer.suggest(system, &known),
            }
        }
        if answer.status == LoadStatus::Loaded {
            self.note_system(answer.system.as_deref().unwrap_or(system));
        }
        answer = self.with_partial(answer);
        landing.answer = Some(answer.clone());
        drop(landing);
        Ok(match first {
            Some(first) => first.followed_by(answer).finished(),
            None => answer,
        })
    }

    /// Loads all that `system` loads before the first of the files `before`, and answers as a load does.
    pub(super) fn load_system_before(
        &self,
        system: &str,
        before: &[PathBuf],
        control: &Control,
    ) -> Result<LoadAnswer, Error> {
        let files: Vec<String> = before.iter().map(|path| path.display().to_string()).collect();
        let arguments = vec![json!(system), Value::Null, json!("before"), json!(files)];
        let target = LoadTarget::System(system.to_owned());
        self.load_target(target, "load-system", arguments, control, None)
    }

    /// Restores the Rust half of the image that was saved as `snapshot`; SBCL has started from its core
    /// already.
    pub(super) fn restore(&self, snapshot: Snapshot, whole: bool) {
        *self.project().opened.lock() = true;
        note(self.project(), &snapshot.image, &HashSet::new());
        // Leaking is right: an image is restored once in a process.
        self.project().restore_names(Vec::leak(snapshot.names));
        let answers =
            snapshot.answers.into_iter().filter_map(|answer| Some((answer.system.clone()?, answer)));
        let partial = snapshot.partial;
        let restored = RestoredLoads { answers: answers.collect(), partial, whole, _core: snapshot.core };
        *self.inner.restored.lock() = Some(restored);
    }

    /// Adds the loads and diagnostics from before the snapshot to `answer`, if it is the system's first.
    fn with_partial(&self, answer: LoadAnswer) -> LoadAnswer {
        let mut restored = self.inner.restored.lock();
        let partial = restored
            .as_mut()
            .and_then(|restored| restored.partial.take_if(|partial| partial.system == answer.system));
        match partial {
            Some(partial) => answer.continuing(partial).finished(),
            None => answer,
        }
    }

    /// Takes the answer to loading `system` that the fresh snapshot has. None at the next load, for which
    /// ASDF is asked.
    fn restored(&self, system: &str) -> Option<LoadAnswer> {
        let begun = Instant::now();
        let mut answer = self.inner.restored.lock().as_mut()?.answers.remove(system)?;
        self.note_system(system);
        answer.duration_ms = u64::try_from(begun.elapsed().as_millis()).unwrap_or(u64::MAX);
        Some(answer)
    }

    /// Finds the project's `.asd` file whose text defines `system`; else returns the names of the systems
    /// that are defined.
    fn definition_of(&self, system: &str, control: &Control) -> Result<String, Vec<String>> {
        let systems = self.list_systems(control).map(|answer| answer.systems).unwrap_or_default();
        let root = self.project().root();
        match (systems.iter().find(|entry| entry.name.eq_ignore_ascii_case(system)), root) {
            (Some(entry), Some(root)) => Ok(root.join(&entry.asd).display().to_string()),
            _ => Err(systems.into_iter().map(|entry| entry.name).collect()),
        }
    }

    /// Loads all systems that the project's own `.asd` files define, tests included, one after the other, and
    /// lists the outcome of each.
    ///
    /// # Errors
    /// There is no project, it was cancelled, or Lisp is gone. A failed load is an answer.
    pub fn load_project(
        &self,
        force: bool,
        control: &Control,
        listener: Option<LoadListener>,
    ) -> Result<LoadAnswer, Error> {
        let deadline = deadline_after(control.allowed());
        let systems = self.list_systems(control)?.systems;
        let mut all = LoadAnswer::of_project();
        for system in systems {
            let left = control.until(deadline);
            let answer = self.load_system(&system.name, force, &left, listener.clone())?;
            all = all.with_system(&system.name, answer);
        }
        Ok(all.finished())
    }

    /// Compiles and loads the file at `path`, relative to the project's root. This runs its code.
    ///
    /// # Errors
    /// It was cancelled, or Lisp is gone. A failed load is an answer.
    pub fn load_file(
        &self,
        path: &str,
        control: &Control,
        listener: Option<LoadListener>,
    ) -> Result<LoadAnswer, Error> {
        let given = Path::new(path);
        let below = self.project().root().filter(|_| !path.is_empty()).map(|_| self.project().native(given));
        let absolute = match below {
            // Accept a path from the current folder, as the shell completes it.
            Some(below) if below.exists() || !given.exists() => below,
            _ => std::path::absolute(given).unwrap_or_else(|_| given.to_owned()),
        };
        let absolute = absolute.display().to_string();
        let target = LoadTarget::File(absolute.clone());
        let outcome = self.load_target(target, "load-file", vec![json!(absolute)], control, listener);
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

    /// Lists the project's systems, whether they are loaded, and which files have changed since. Reads the
    /// files: it runs no code, and does not wait for Lisp.
    ///
    /// # Errors
    /// There is no project, or it was cancelled.
    pub fn list_systems(&self, control: &Control) -> Result<SystemsAnswer, Error> {
        list_systems(self.project(), false, control)
    }

    /// Like [`Steelbank::list_systems`], with the files of each system.
    ///
    /// # Errors
    /// As for [`Steelbank::list_systems`].
    pub fn list_systems_with_files(&self, control: &Control) -> Result<SystemsAnswer, Error> {
        list_systems(self.project(), true, control)
    }

    /// Lists the uses of a symbol, line by line. Answered from the index and the files: it does not wait for
    /// Lisp.
    ///
    /// # Errors
    /// There is no such symbol, or no project to limit the answer to.
    pub fn code_find_references(
        &self,
        request: &code_find_references::CodeFindReferencesRequest,
    ) -> Result<code_find_references::CodeFindReferencesAnswer, Error> {
        let mut answer = self.ask(request, &Control::default())?;
        answer.loading = self.is_loading();
        Ok(answer)
    }

    /// Finds every definition of `name`, looked up in `package`.
    ///
    /// # Errors
    /// There is no such symbol, or Lisp cannot answer.
    pub fn find_definition(
        &self,
        name: &str,
        package: &str,
        control: &Control,
    ) -> Result<find_definition::FindDefinitionAnswer, Error> {
        self.ask(&find_definition::FindDefinitionRequest::new(name).package(package), control)
    }

    /// Whether a load is under way, so that answers may soon change.
    pub fn is_loading(&self) -> bool {
        self.project().loading.load(Ordering::SeqCst) > 0
    }

    /// Marks a load as under way until the guard is dropped, for loads that are about to begin.
    pub(crate) fn announce_loads(&self) -> Moving {
        let moving = Moving { bank: self.clone(), counted: AtomicBool::new(false) };
        moving.begin();
        moving
    }

    fn load_target(
        &self,
        target: LoadTarget,
        question: &'static str,
        arguments: Vec<Value>,
        control: &Control,
        listener: Option<LoadListener>,
    ) -> Result<LoadAnswer, Error> {
        let project = self.project();
        // Count the load of a loaded system only once it compiles or loads a file: before, it changes
        // nothing.
        let settled = matches!(&target, LoadTarget::System(name) if project.is_loaded(name));
        let moving = Arc::new(Moving { bank: self.clone(), counted: AtomicBool::new(false) });
        if !settled {
            moving.begin();
        }
        let begins = Arc::clone(&moving);
        let at = Arc::new(Mutex::new(None::<String>));
        let reached = Arc::clone(&at);
        let listener: LoadListener = Arc::new(move |news| {
            begins.begin();
            if !news.path.is_empty() {
                *reached.lock() = Some(news.path.clone());
            }
            if let Some(listener) = &listener {
                listener(news);
            }
        });
        let deadline = deadline_after(control.allowed());
        let outcome = self.open_project(control, deadline).and_then(|cautions| {
            let bytes = self.work(question, arguments, control, deadline, Some(listener))?;
            let mut answer: LoadAnswer = read_json(&bytes)?;
            answer.cautions.splice(0..0, cautions);
            Ok(answer)
        });
        let is_stuck = matches!(
            &outcome,
            Err(Error::Lisp(LispError::DeadlinePassed { work: Expired::StillRunning, .. }))
        );
        let outcome = outcome.or_else(|error| timed_out(error, target, control.allowed()));
        // Refresh the index after a failure too: whatever was loaded before it stays.
        let mut answer = match outcome {
            Ok(answer) => answer,
            Err(error) => {
                self.refresh_later(move || moving.end());
                let at = at.lock().as_deref().map(|path| project.shown(Path::new(path)));
                return Err(died_at(error, at));
            }
        };
        if answer.failure.as_ref().is_some_and(|failure| failure.kind == FailureKind::Heap) {
            self.lisp().note_filled();
        }
        // Wait no longer for a Lisp that does not react: the answer's time is over.
        let refreshed = self.refresh_within(if is_stuck { PATIENCE } else { REFRESH });
        if let Err(error) = refreshed {
            answer.cautions.push(Caution::IndexBehindLoad(error.to_string()));
        }
        let image = answer.image.take();
        let anew: HashSet<&Path> = answer.compiled.iter().chain(&answer.cached).map(Path::new).collect();
        if let Some(image) = image {
            note(project, &image, &anew);
        }
        note_asked(project, &answer);
        project.delete_old_sidecars(answer.compiled.iter().map(Path::new));
        moving.end();
        let bank = self.clone();
        // Read the sidecars now, so that the first question does not wait for them. Without a thread, that
        // question reads them.
        let _ = std::thread::Builder::new().name("steelbank-sidecars".into()).spawn(move || {
            bank.project().read_new_files();
            bank.project().unseen_files();
            give_back_memory();
        });
        // Drop the kept diagnostics of dependencies: they are not the project's.
        answer.diagnostics.retain(|found| !found.kept || is_own(project, found));
        answer.diagnostics.iter_mut().for_each(|diagnostic| place(project, diagnostic));
        Ok(answer.finished())
    }

    /// Tells Lisp of the project and loads the init file, once, before the first load. Returns what is wrong with ASDF's
    /// configuration.
    fn open_project(&self, control: &Control, deadline: Instant) -> Result<Vec<Caution>, Error> {
        let project = self.project();
        let Some(settings) = project.settings() else { return Ok(Vec::new()) };
        // Wait for another thread that opens the project.
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
        let bytes = self.work("open-project", arguments, control, deadline, None)?;
        let set_up: SetUp = read_json(&bytes)?;
        if set_up.status != LoadStatus::Loaded {
            return Err(Error::SetUp(set_up_failed(settings, set_up)));
        }
        *opened = true;
        let warnings = set_up.diagnostics.into_iter().filter(|said| said.severity <= Severity::Warning);
        Ok(warnings.map(|said| Caution::Said(said.message)).collect())
    }

    /// Asks `question` on the lane of long work until `deadline`. The remaining time is its last argument.
    fn work(
        &self,
        question: &'static str,
        mut arguments: Vec<Value>,
        control: &Control,
        deadline: Instant,
        listener: Option<LoadListener>,
    ) -> Result<Vec<u8>, Error> {
        let progress = listener.map(|listener| -> ProgressListener {
            Arc::new(move |json: &str| {
                if let Ok(news) = serde_json::from_str::<LoadNews>(json) {
                    listener(news);
                }
            })
        });
        let left = deadline.saturating_duration_since(Instant::now());
        let ticket = self.lisp().submit(Lane::Work, left, progress, move |on_lisp| {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(CallError::Interrupted);
            }
            on_lisp.grant(GRACE);
            arguments.push(json!(u64::try_from(left.as_millis()).unwrap_or(u64::MAX)));
            on_lisp.call_within(left.saturating_add(PATIENCE), question, &arguments)
        });
        match control.wait(ticket) {
            Err(LispError::DeadlinePassed { work: Expired::NeverBegan, .. }) => Err(Error::NeverBegan),
            outcome => Ok(outcome?.bytes),
        }
    }
}

/// A guard that counts a load as changing the image, from `begin` until `end` or its drop.
pub(crate) struct Moving {
    bank: Steelbank,
    counted: AtomicBool,
}

impl Moving {
    fn begin(&self) {
        if !self.counted.swap(true, Ordering::SeqCst) {
            self.bank.project().loading.fetch_add(1, Ordering::SeqCst);
        }
    }

    fn end(&self) {
        if self.counted.swap(false, Ordering::SeqCst) {
            self.bank.project().loading.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Moving {
    fn drop(&mut self) {
        self.end();
    }
}

/// A guard that ends a flight when it is dropped, on every path.
struct Landing<'a> {
    flights: &'a Flights,
    system: &'a str,
    flight: &'a Arc<Flight>,
    answer: Option<LoadAnswer>,
}

impl Drop for Landing<'_> {
    fn drop(&mut self) {
        self.flights.land(self.system, self.flight, self.answer.take());
    }
}

/// Adds to the error of a load during which Lisp died the file that it was at, if it was at one.
fn died_at(error: Error, path: Option<String>) -> Error {
    match (error, path) {
        (Error::Lisp(LispError::Dead { reason }), Some(path)) => {
            Error::Lisp(LispError::Dead { reason: format!("{reason}, when {path} was being loaded") })
        }
        (error, _) => error,
    }
}

/// Turns the error of a load whose deadline passed before Lisp reported into an answer; other errors stay.
fn timed_out(error: Error, target: LoadTarget, allowed: Duration) -> Result<LoadAnswer, Error> {
    let message = match error {
        Error::NeverBegan => {
            "It never began: another load was under way all the time that it was given.".to_owned()
        }
        Error::Lisp(error @ LispError::DeadlinePassed { .. }) => format!("{error}."),
        other => return Err(other),
    };
    Ok(LoadAnswer::timed_out(target, allowed, message))
}

/// Renders a set-up that failed or was stopped as a sentence.
fn set_up_failed(settings: &ProjectSettings, set_up: SetUp) -> String {
    let place = set_up.diagnostics.iter().rev().find(|said| said.severity <= Severity::Error);
    let (message, path) = set_up.failure.map(|failure| (failure.message, failure.path)).unwrap_or_default();
    let message = message.trim_end_matches('.');
    let place = place.and_then(|said| said.place.clone()).or(path.map(Location::new));
    let at = place.map(|place| format!(" (at {})", place.whole_line())).unwrap_or_default();
    let how = match set_up.status {
        LoadStatus::TimedOut => "did not end in time",
        LoadStatus::Cancelled => "was called off",
        LoadStatus::Failed | LoadStatus::Loaded => "failed",
    };
    let init = settings.userinit.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
    match set_up.step.as_str() {
        "init-file" => format!(
            "The init file {init} {how}: {message}{at}. Correct it, or leave it out with --no-userinit."
        ),
        "qlot" => format!("The project's qlot set-up, .qlot/setup.lisp, {how}: {message}{at}. Correct it."),
        _ => format!("{message}. Correct ASDF's configuration, and start again."),
    }
}

/// Looks a diagnostic's line up in the sidecar of the file that was compiled.
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

/// Whether a diagnostic is about a file of the project's own.
fn is_own(project: &Project, diagnostic: &Diagnostic) -> bool {
    diagnostic.place.as_ref().is_some_and(|place| project.contains(Path::new(&place.file)))
}

/// Remembers the files of the system or file that was to be loaded: the ones that were not loaded are
/// searched as text.
fn note_asked(project: &Project, answer: &LoadAnswer) {
    let failed = answer.failure.as_ref().and_then(|failure| failure.path.as_deref());
    project.note_asked(answer.compiled.iter().map(String::as_str).chain(failed).map(PathBuf::from));
    let asd = answer.system.as_ref().and_then(|name| Some((name, project.image_systems().remove(name)?.asd)));
    if let Some((name, asd)) = asd
        && !project.contains(&asd)
    {
        project.note_asked(files_of_system(&asd, name));
    }
}

/// Remembers the image's contents; `anew` are the files that this load compiled or loaded.
fn note(project: &Project, image: &ImageContents, anew: &HashSet<&Path>) {
    let contents = image
        .files
        .iter()
        .filter_map(|file| Some((file.path.clone(), Contents { size: file.size?, hash: file.hash? })));
    let systems = image.systems.iter().map(|system| {
        let known =
            ImageSystem { asd: system.asd.clone(), loaded: system.loaded, files: system.files.clone() };
        (system.name.clone(), known)
    });
    project.note_image(contents, systems);
    let dated = image.files.iter().filter_map(|file| Some((file.path.clone(), file.write_date?)));
    project.note_loaded(dated, |path| anew.contains(path));
}
