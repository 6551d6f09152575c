//! What [`Steelbank`] does with a user's project: loads its systems, and answers with lines.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::Steelbank;
use crate::engine::{CallError, Lane, LispError, Operation, Progress};
use crate::query::code_find_references::{self, code_find_references};
use crate::query::control::Control;
use crate::query::find_definition::{self, ImageDefinitions, find_definition, resolve};
use crate::query::load_system::{
    Diagnostic, LoadAnswer, LoadNews, LoadStatus, LoadTarget, SetUp, Severity, SystemsAnswer,
};
use crate::query::project::{Project, ProjectSettings};
use crate::query::{Error, read_json};

/// Who hears which files are compiled or loaded. It must not wait.
pub type LoadListener = Arc<dyn Fn(LoadNews) + Send + Sync>;

/// How long after its time a load is left to end by itself between two forms, before it is interrupted.
const PATIENCE: Duration = Duration::from_millis(300);
/// How long after that Lisp may take to say what was loaded, before the load is answered without it.
const GRACE: Duration = Duration::from_secs(5);

impl Steelbank {
    /// Loads `system` through ASDF; `force` compiles its own files anew. This runs the system's code, and before the
    /// first load the user's init file if the project's settings name one. Questions are answered meanwhile.
    ///
    /// # Errors
    /// It was called off, or Lisp is gone. A system that does not load is an answer.
    pub fn load_system(
        &self,
        system: &str,
        force: bool,
        control: &Control,
        listener: Option<LoadListener>,
    ) -> Result<LoadAnswer, Error> {
        let force = if force { "force" } else { "" };
        let arguments = vec![system.to_owned(), force.to_owned()];
        self.load(LoadTarget::System(system.to_owned()), Operation::LoadSystem, arguments, control, listener)
    }

    /// Compiles and loads the file at `path`. This runs its code.
    ///
    /// # Errors
    /// It was called off, or Lisp is gone. A file that does not load is an answer.
    pub fn load_file(
        &self,
        path: &str,
        control: &Control,
        listener: Option<LoadListener>,
    ) -> Result<LoadAnswer, Error> {
        let path =
            std::path::absolute(path).map_or_else(|_| path.to_owned(), |path| path.display().to_string());
        let target = LoadTarget::File(path.clone());
        self.load(target, Operation::LoadFile, vec![path], control, listener)
    }

    /// What the project defines, what of it is loaded, and what has changed on disk since.
    ///
    /// # Errors
    /// There is no project, or Lisp cannot answer.
    pub fn list_systems(&self, control: &Control) -> Result<SystemsAnswer, Error> {
        let root = self.project().root().ok_or(code_find_references::Error::NoProject)?;
        let root = root.display().to_string();
        self.open_project(control, Instant::now() + control.allowed())?;
        let asked = root.clone();
        let ticket = self.lisp().submit(Lane::Query, control.allowed(), None, move |on_lisp| {
            on_lisp.call(Operation::ListSystems, &[&asked])
        });
        let systems: Vec<_> = read_json(&control.wait(ticket)?.octets)?;
        Ok(SystemsAnswer { root, count: systems.len(), systems })
    }

    /// Where a symbol is used, line by line. Answered from the index and the files: it does not wait for Lisp.
    ///
    /// # Errors
    /// There is no such symbol, or no project to limit the answer to.
    pub fn code_find_references(
        &self,
        request: &code_find_references::Request,
    ) -> Result<code_find_references::Answer, Error> {
        let mut answer = code_find_references(&self.index(), self.project(), self.sources(), request)?;
        answer.loading = self.is_loading();
        Ok(answer)
    }

    /// Every place where `name`, looked up in `package`, is defined.
    ///
    /// # Errors
    /// There is no such symbol, or Lisp cannot answer.
    pub fn find_definition(
        &self,
        name: &str,
        package: &str,
        control: &Control,
    ) -> Result<find_definition::Answer, Error> {
        let index = self.index();
        let resolved = resolve(&index, name, package)?;
        let (name, home) = (resolved.sought.name.clone(), resolved.sought.package.clone());
        let ticket = self.lisp().submit(Lane::Query, control.allowed(), None, move |on_lisp| {
            on_lisp.call(Operation::FindDefinitions, &[&name, &home])
        });
        let image: ImageDefinitions = read_json(&control.wait(ticket)?.octets)?;
        Ok(find_definition(self.project(), &resolved, &image))
    }

    /// Whether a system or file is being loaded now, so that answers may soon be others.
    pub fn is_loading(&self) -> bool {
        self.project().loading.load(Ordering::SeqCst) > 0
    }

    fn load(
        &self,
        target: LoadTarget,
        operation: Operation,
        arguments: Vec<String>,
        control: &Control,
        listener: Option<LoadListener>,
    ) -> Result<LoadAnswer, Error> {
        let project = self.project();
        project.loading.fetch_add(1, Ordering::SeqCst);
        let deadline = Instant::now() + control.allowed();
        let outcome = self
            .open_project(control, deadline)
            .and_then(|()| self.work(operation, arguments, control, deadline, listener))
            .and_then(|octets| Ok(read_json::<LoadAnswer>(&octets)?))
            .or_else(|error| timed_out(error, target, control.allowed()));
        // Whatever was loaded before a failure stays, so the index must hear of it in every case.
        let refreshed = self.refresh();
        project.loading.fetch_sub(1, Ordering::SeqCst);
        let mut answer = outcome?;
        refreshed?;
        note(project, &answer);
        let bank = self.clone();
        // So that the first question does not wait for it. Without a thread, that question does it.
        let _ = std::thread::Builder::new()
            .name("steelbank-sidecars".into())
            .spawn(move || bank.project().read_new_files());
        answer.diagnostics.iter_mut().for_each(|diagnostic| place(project, diagnostic));
        Ok(answer.finished())
    }

    /// Tells Lisp of the project and loads the init file, once, before anything that needs it.
    fn open_project(&self, control: &Control, deadline: Instant) -> Result<(), Error> {
        let project = self.project();
        let Some(settings) = project.settings() else { return Ok(()) };
        // Somebody else may be at it.
        let Some(mut opened) = project.opened.try_lock_until(deadline) else {
            return Err(Error::NeverBegan);
        };
        if *opened {
            return Ok(());
        }
        let text = |path: Option<&PathBuf>| path.map(|path| path.display().to_string()).unwrap_or_default();
        let arguments =
            vec![text(settings.root.as_ref()), text(Some(&settings.cache)), text(settings.userinit.as_ref())];
        let octets = self.work(Operation::OpenProject, arguments, control, deadline, None)?;
        let set_up: SetUp = read_json(&octets)?;
        if set_up.status != LoadStatus::Loaded {
            return Err(Error::SetUp(set_up_failed(settings, set_up)));
        }
        *opened = true;
        Ok(())
    }

    /// Has the lane of long work do `operation` until `deadline`. The time that is left is its last argument.
    fn work(
        &self,
        operation: Operation,
        arguments: Vec<String>,
        control: &Control,
        deadline: Instant,
        listener: Option<LoadListener>,
    ) -> Result<Vec<u8>, Error> {
        let progress = listener.map(|listener| -> Progress {
            Arc::new(move |json: &str| {
                if let Ok(news) = serde_json::from_str::<LoadNews>(json) {
                    listener(news);
                }
            })
        });
        let begun = Arc::new(AtomicBool::new(false));
        let begins = Arc::clone(&begun);
        let left = deadline.saturating_duration_since(Instant::now());
        let ticket = self.lisp().submit(Lane::Work, left, progress, move |on_lisp| {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(CallError::Interrupted);
            }
            begins.store(true, Ordering::SeqCst);
            on_lisp.grant(GRACE);
            let milliseconds = left.as_millis().to_string();
            let arguments: Vec<&str> =
                arguments.iter().map(String::as_str).chain([milliseconds.as_str()]).collect();
            on_lisp.call_within(left + PATIENCE, operation, &arguments)
        });
        match control.wait(ticket) {
            Err(LispError::DeadlinePassed { .. }) if !begun.load(Ordering::SeqCst) => Err(Error::NeverBegan),
            outcome => Ok(outcome?.octets),
        }
    }
}

/// What became of a load whose time was over before Lisp could tell; other errors stay what they are.
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

/// A sentence for a set-up that did not come to its end.
fn set_up_failed(settings: &ProjectSettings, set_up: SetUp) -> String {
    let place = set_up.diagnostics.iter().rev().find(|said| said.severity <= Severity::Error);
    let (message, path) = set_up.failure.map(|failure| (failure.message, failure.path)).unwrap_or_default();
    let message = message.trim_end_matches('.');
    let at = match (place.and_then(|place| place.path.clone()).or(path), place.and_then(|place| place.line)) {
        (Some(path), Some(line)) => format!(" (at {path}:{line})"),
        (Some(path), None) => format!(" (at {path})"),
        (None, _) => String::new(),
    };
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
    let (Some(at), Some(path), None) = (diagnostic.at, &diagnostic.path, diagnostic.line) else { return };
    let Ok(file) = project.positions(Path::new(path), at.write_date) else { return };
    if file.is_fresh()
        && let Some(place) = file.form_place(at.form, at.number)
    {
        (diagnostic.line, diagnostic.column) = (Some(place.line), Some(place.column));
    }
}

fn note(project: &Project, answer: &LoadAnswer) {
    let anew: HashSet<&Path> = answer.compiled.iter().chain(&answer.cached).map(Path::new).collect();
    let files = answer.files.iter().filter_map(|file| Some((file.path.clone(), file.write_date?)));
    project.note_loaded(files, |path| anew.contains(path));
    project.delete_old_sidecars(answer.compiled.iter().map(Path::new));
}
