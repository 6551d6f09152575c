//! [`Session`]: the state that all calls share. It holds [`Steelbank`], started when a tool first
//! needs SBCL; the index of the project's text, opened when a tool first needs that index; the
//! permissions granted by the person who started the program; and the outcomes of loads. If several
//! clients share an image, each has a clone of the session with its own [`ClientSlot`] and
//! background jobs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use super::call::{Call, Failure};
use super::clients::ClientSlot;
use super::work::ClientWork;
use super::{Object, Tools};
use crate::Steelbank;
use crate::answer::lookup::Lookup;
use crate::answer::package_owner::PackageOwner;
use crate::answer::{Advice, Caution, Wording, some_of};
use crate::engine::{EngineState, EngineTrouble, submit_for_client};
use crate::handle::Error;
use crate::handle::recovery::{Cause, LoadedItem, Recovery};
use crate::workspace::NoProject;
use steelbank_text::TextIndex;

/// The state that all calls share. Cheap to clone.
#[derive(Clone)]
pub struct Session {
    lisp: Arc<LazyLisp>,
    text: Arc<LazyTextIndex>,
    project: Arc<ProjectRoot>,
    permissions: Permissions,
    tools: Tools,
    /// The outcomes of the loads of all clients, by system or file.
    loads: Arc<Mutex<BTreeMap<String, Load>>>,
    recovery: Arc<Recovery>,
    /// This client's state, if several clients share the image.
    client_slot: Option<Arc<ClientSlot>>,
    restart_notes_shown: Arc<AtomicUsize>,
    /// Whether this client has received the note on the missing text index.
    index_note_shown: Arc<AtomicBool>,
    /// This client's jobs that outlast the call that started them.
    work: Arc<ClientWork>,
    /// The reasons why configuration files are ignored, for `status`.
    pub(crate) config_errors: Arc<[String]>,
    /// The reason why Swank could not be started.
    pub(super) swank_trouble: Arc<Mutex<Option<String>>>,
}

debug_fields!(Session, project, permissions, tools);

/// The root folder of the project, once it is known.
#[derive(Debug, Default)]
pub struct ProjectRoot {
    folder: Mutex<Option<PathBuf>>,
}

impl ProjectRoot {
    /// Creates a root with the project's folder; `None` if the project is not known yet.
    pub fn new(folder: Option<PathBuf>) -> Arc<Self> {
        Arc::new(Self { folder: Mutex::new(folder) })
    }

    /// Returns the project's folder.
    pub fn folder(&self) -> Option<PathBuf> {
        self.folder.lock().clone()
    }
}

/// The index of the project's text, opened when first needed.
struct LazyTextIndex {
    index: OnceLock<Arc<TextIndex>>,
    open: Box<dyn Fn() -> Result<TextIndex, Failure> + Send + Sync>,
    opening: Mutex<()>,
}

type StartLisp = dyn FnOnce() -> Result<Steelbank, Error> + Send;

/// SBCL, started when first needed.
struct LazyLisp {
    bank: OnceLock<Result<Steelbank, Failure>>,
    start: Mutex<Option<Box<StartLisp>>>,
}

/// The permissions for anything beyond reading and loading. All are denied unless the person who
/// starts the program grants them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Permissions {
    /// Evaluate code that is not in a file.
    pub eval: bool,
    /// Write files of the project.
    pub edits: bool,
}

impl Permissions {
    /// All permissions, for a person at a terminal.
    pub const ALL: Self = Self { eval: true, edits: true };
}

/// A permission that a call needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permission {
    /// See [`Permissions::eval`].
    Eval,
    /// See [`Permissions::edits`].
    Edits,
}

impl Permission {
    /// Returns the option of `steelbank serve` that grants the permission.
    pub fn option(self) -> &'static str {
        match self {
            Self::Eval => "--allow-eval",
            Self::Edits => "--allow-edits",
        }
    }
}

/// The outcome of a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub(crate) struct Load {
    /// The system or file.
    pub(crate) name: String,
    /// True if everything was loaded.
    pub(crate) loaded: bool,
    /// The outcome, in one line.
    pub(crate) outcome: String,
}

impl Load {
    /// Returns the name under which a load's outcome is stored.
    pub(crate) fn name_of(what: &LoadedItem) -> String {
        match what {
            LoadedItem::System(name) | LoadedItem::File(name) => name.clone(),
            LoadedItem::Project => "the project".to_owned(),
        }
    }
}

impl Session {
    /// Creates a session for `bank`, which is already running.
    pub fn new(bank: Steelbank) -> Self {
        Self::starting(|| Ok(bank))
    }

    /// Creates a session that calls `start` when a tool first needs SBCL.
    pub fn starting(start: impl FnOnce() -> Result<Steelbank, Error> + Send + 'static) -> Self {
        let lisp = LazyLisp { bank: OnceLock::new(), start: Mutex::new(Some(Box::new(start))) };
        Self {
            lisp: Arc::new(lisp),
            text: text(|| Err(NoProject)),
            project: Arc::default(),
            permissions: Permissions::default(),
            tools: Tools::default(),
            loads: Arc::default(),
            recovery: Arc::default(),
            client_slot: None,
            restart_notes_shown: Arc::default(),
            index_note_shown: Arc::default(),
            work: Arc::default(),
            config_errors: Arc::default(),
            swank_trouble: Arc::default(),
        }
    }

    /// Adds the index of the project's text. `open` runs when a tool first needs the index, and
    /// again after an error.
    #[must_use]
    pub fn with_text<E: Into<Failure>>(
        mut self,
        open: impl Fn() -> Result<TextIndex, E> + Send + Sync + 'static,
    ) -> Self {
        self.text = text(open);
        self
    }

    /// Grants `permissions` to the session's tools.
    #[must_use]
    pub fn allowing(self, permissions: Permissions) -> Self {
        Self { permissions, ..self }
    }

    /// Sets the project. SBCL and the text index use the same root when they start.
    #[must_use]
    pub fn with_project(self, project: Arc<ProjectRoot>) -> Self {
        Self { project, ..self }
    }

    /// Makes this the session of one client of a shared image.
    #[must_use]
    pub(crate) fn for_client(mut self, slot: ClientSlot) -> Self {
        self.client_slot = Some(Arc::new(slot));
        self.work = Arc::default();
        self.index_note_shown = Arc::default();
        self
    }

    /// Returns this client's background jobs.
    pub(crate) fn work(&self) -> &ClientWork {
        &self.work
    }

    /// Returns a clone for use in a background job. The clone does not keep the client's jobs
    /// alive, so that a disconnect still cancels them.
    pub(crate) fn for_work(&self) -> Self {
        Self { work: Arc::default(), ..self.clone() }
    }

    /// Returns this client's state, if several clients share the image.
    pub(crate) fn client_slot(&self) -> Option<&ClientSlot> {
        self.client_slot.as_deref()
    }

    /// Makes this thread submit its jobs for this client.
    pub(crate) fn submit_as_client(&self) {
        submit_for_client(self.client_slot().map_or(0, ClientSlot::number));
    }

    /// Returns whether this client may inspect the object of `handle`. In a shared image, a client
    /// may use only handles from its answers.
    pub(crate) fn owns_handle(&self, handle: &str) -> bool {
        self.client_slot().is_none_or(|slot| slot.has_handle(handle))
    }

    /// Returns the note on the last restart for an answer to this client, and counts it. `None`:
    /// Lisp was not restarted, or the client has received the note `MAX_RESTART_NOTES` times.
    pub(super) fn take_restart_note(&self) -> Option<String> {
        let told = self.client_slot().map_or(&*self.restart_notes_shown, |slot| &slot.restart_notes_shown);
        self.recovery.take_note(told)
    }

    /// Returns the note that text was not searched, the first time for this client.
    pub(crate) fn take_index_note(&self) -> Option<String> {
        let note =
            "There is no text index, so text that is not Lisp was not searched. Build it with index-project.";
        (!self.index_note_shown.swap(true, Ordering::Relaxed)).then(|| note.to_owned())
    }

    /// Returns whether the project is unknown and a client may still set it.
    pub fn awaits_project(&self) -> bool {
        self.project.folder().is_none() && self.lisp.bank.get().is_none()
    }

    /// Returns a warning if the project's folder no longer exists. Every answer and every error
    /// includes the warning, because results about files may be wrong.
    pub(crate) fn missing_project(&self) -> Option<String> {
        let started = self.started().and_then(|bank| bank.root().map(Path::to_path_buf));
        let folder = started.or_else(|| self.project.folder())?;
        (!folder.is_dir()).then(|| {
            format!(
                "The project folder {} is gone: it was moved or removed, so its files cannot be found. Move it back, or restart steelbank in the new place.",
                folder.display()
            )
        })
    }

    /// Returns a warning if files of the project have changed since they were loaded. Checks the
    /// files again unless they were checked at `then` or later. Returns `None` if the project's
    /// tree is not watched.
    pub(crate) fn older_image(&self, then: Instant, wording: Wording) -> Option<String> {
        let project = self.started()?.project();
        let changed = project.changed_files(then);
        let shown = |path: &PathBuf| {
            format!("{}{}", project.shown(path), if path.is_file() { "" } else { " (gone)" })
        };
        (!changed.is_empty()).then(|| {
            let why = format!("Files that changed since they were loaded: {}.", some_of(&changed, shown));
            Advice::ReloadImage.added_to(&why, wording)
        })
    }

    /// Warns if a symbol in the call's arguments has a user's package as its home, and loaded files
    /// contain the package's name but not the symbol's: the symbol may have been defined only in
    /// the image. Gives no warning if a sidecar is missing or incomplete, because the symbol may
    /// occur in that file.
    pub(crate) fn only_in_image(&self, arguments: &Object) -> Option<Caution> {
        let bank = self.started()?;
        let (index, project) = (bank.index(), bank.project());
        let package = arguments.get("package").and_then(Value::as_str);
        let is_in_none = |name: &str| {
            let Lookup { asked, found, .. } = Lookup::resolved(&index, name, package).ok()?;
            let home = index.package_name(index.symbol_package(found.ok()?.0)?);
            // The package's name alone occurs in many files, so also check the symbol's name.
            Some(
                PackageOwner::of(&home) == PackageOwner::User
                    && project.naming(&asked.name).is_empty()
                    && !project.naming(&home).is_empty(),
            )
        };
        let one = ["name", "symbol", "from", "to"].iter().filter_map(|key| arguments.get(*key));
        let several = arguments.get("names").and_then(Value::as_array).into_iter().flatten();
        let mut names = one.chain(several).filter_map(Value::as_str);
        let name = names.find(|name| is_in_none(name) == Some(true))?;
        project.sidecar_gaps().is_empty().then(|| Caution::OnlyInImage(name.to_owned()))
    }

    /// Sets the project to `folder`, if the project is unknown.
    pub fn name_project(&self, folder: PathBuf) {
        if self.awaits_project() {
            *self.project.folder.lock() = Some(folder);
        }
    }

    /// Limits the session to these tools.
    #[must_use]
    pub fn with_tools(self, tools: Tools) -> Self {
        Self { tools, ..self }
    }

    /// Returns the tools that the session offers.
    pub fn tools(&self) -> &Tools {
        &self.tools
    }

    /// Returns the handle to SBCL; starts SBCL if necessary.
    ///
    /// # Errors
    /// SBCL did not start, now or at an earlier call.
    pub fn bank(&self) -> Result<&Steelbank, Failure> {
        let started = self.lisp.bank.get_or_init(|| match self.lisp.start.lock().take() {
            Some(start) => {
                let bank = start().map_err(Failure::from)?;
                if let Ok(index) = self.text() {
                    bank.project().share_text_index(index);
                }
                self.spawn_death_watch(&bank);
                Ok(bank)
            }
            // `start` was taken without a result only if it panicked.
            None => Err(Failure::engine("SBCL did not start.")),
        });
        started.as_ref().map_err(Clone::clone)
    }

    /// Starts a thread that requests a restart when Lisp dies or can no longer work. No effect if
    /// the program cannot be restarted.
    fn spawn_death_watch(&self, bank: &Steelbank) {
        if !self.recovery.is_armed() {
            return;
        }
        let (lisp, recovery) = (bank.lisp(), Arc::clone(&self.recovery));
        // Continue without the thread if it cannot be created: restart-lisp still works.
        let _ = std::thread::Builder::new().name("steelbank-death".into()).spawn(move || {
            let mut seen = EngineTrouble::default();
            loop {
                seen = lisp.wait_for_trouble(&seen);
                if let Some(reason) = &seen.death {
                    // An SBCL that was never ready would fail again, so do not restart it.
                    if lisp.status().start_microseconds.is_some() {
                        recovery.ask(Cause::Died(reason.clone()));
                    }
                    return;
                }
                if seen.given_up > 0 {
                    recovery.ask(Cause::Unusable(
                        "a Lisp thread was abandoned because its job could not be stopped".to_owned(),
                    ));
                    return;
                }
                if lisp.is_full() {
                    recovery.ask(Cause::Unusable("its heap was full and could not be freed".to_owned()));
                    return;
                }
            }
        });
    }

    /// Returns whether Lisp has died and will be restarted.
    pub fn will_restart(&self) -> bool {
        let status = self.started().map(Steelbank::status);
        self.recovery.is_armed()
            && status.is_some_and(|status| {
                matches!(status.state, EngineState::Dead { .. }) && status.start_microseconds.is_some()
            })
    }

    /// Returns the handle to SBCL, if a tool has started SBCL.
    pub fn started(&self) -> Option<&Steelbank> {
        self.lisp.bank.get()?.as_ref().ok()
    }

    /// Returns the index of the project's text; opens it if necessary.
    ///
    /// # Errors
    /// There is no project, or the index cannot be opened.
    pub fn text(&self) -> Result<&Arc<TextIndex>, Failure> {
        let _one_at_a_time = self.text.opening.lock();
        if self.text.index.get().is_none() {
            let index = (self.text.open)()?;
            let _ = self.text.index.set(Arc::new(index));
        }
        self.text.index.get().ok_or_else(|| Failure::engine("The text index did not open."))
    }

    /// Returns the index of the project's text, if a tool has opened it.
    pub(crate) fn opened_text(&self) -> Option<&TextIndex> {
        self.text.index.get().map(Arc::as_ref)
    }

    /// Returns whether the session has `permission`.
    pub fn allows(&self, permission: Permission) -> bool {
        match permission {
            Permission::Eval => self.permissions.eval,
            Permission::Edits => self.permissions.edits,
        }
    }

    /// Checks that the session has `permission`.
    ///
    /// # Errors
    /// The session lacks the permission: the message names the option that grants it.
    pub fn permit(&self, permission: Permission) -> Result<(), Failure> {
        self.permit_to("this call", permission)
    }

    /// Checks that the session has `permission`, which the operation named `who` needs.
    pub(super) fn permit_to(&self, who: &str, permission: Permission) -> Result<(), Failure> {
        if self.allows(permission) {
            return Ok(());
        }
        let option = permission.option();
        let what = match permission {
            Permission::Eval => "evaluates code",
            Permission::Edits => "writes files of the project",
        };
        Err(Failure::engine(format!(
            "Not allowed on this server: {who} {what}. Ask the user to start it with `steelbank serve {option}`."
        )))
    }

    /// Returns the [`Recovery`], which records loads, deaths and restarts, and requests restarts.
    pub fn recovery(&self) -> &Arc<Recovery> {
        &self.recovery
    }

    /// Returns the folder of the project.
    pub fn project_folder(&self) -> Option<PathBuf> {
        self.project.folder()
    }

    /// Repeats the loads of the previous image, in order, with the load tools among `tools`.
    /// `status` lists the loads that fail.
    pub fn repeat_loads(&self, tools: &Tools, loads: &[LoadedItem]) {
        const LOAD_AGAIN_SECONDS: u64 = 3600;
        for loaded in loads {
            let (tool, arguments) = match loaded {
                LoadedItem::System(name) => {
                    ("load-system", Object::from_iter([("system".to_owned(), name.as_str().into())]))
                }
                LoadedItem::Project => ("load-system", Object::new()),
                LoadedItem::File(path) => {
                    ("load-file", Object::from_iter([("path".to_owned(), path.as_str().into())]))
                }
            };
            let mut arguments = arguments;
            arguments.insert("timeout_seconds".to_owned(), LOAD_AGAIN_SECONDS.into());
            if let Ok(tool) = tools.get(tool) {
                // Ignore the answer: the session has recorded the outcome, as for every load.
                let _ = tool.call(self, arguments, &Call::default());
            }
        }
    }

    /// Returns the reason why Swank could not be started.
    pub(crate) fn swank_trouble(&self) -> Option<String> {
        self.swank_trouble.lock().clone()
    }

    /// Records the outcome of a load, and notifies a connected editor.
    pub(crate) fn note_load(&self, load: Load) {
        if let Some(bank) = self.started() {
            bank.notify_editor(&load.outcome);
        }
        self.loads.lock().insert(load.name.clone(), load);
    }

    /// Returns the outcomes of the loads, sorted by name.
    pub(crate) fn loads(&self) -> Vec<Load> {
        self.loads.lock().values().cloned().collect()
    }
}

fn text<E: Into<Failure>>(
    open: impl Fn() -> Result<TextIndex, E> + Send + Sync + 'static,
) -> Arc<LazyTextIndex> {
    let open = Box::new(move || open().map_err(E::into));
    Arc::new(LazyTextIndex { index: OnceLock::new(), open, opening: Mutex::new(()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sbcl_starts_once_and_its_error_is_cached() {
        let session = Session::starting(|| Err(Error::Index("no file".to_owned())));
        assert!(session.started().is_none());
        let why = session.bank().err();
        assert!(why.as_ref().is_some_and(|why| why.to_string().contains("no file")), "{why:?}");
        assert_eq!(session.bank().err(), why);
    }

    #[test]
    fn missing_permissions_name_the_option_to_grant_them() {
        let session = Session::starting(|| Err(Error::NeverBegan));
        let why = session.permit(Permission::Edits).unwrap_err().to_string();
        assert!(why.contains("serve --allow-edits"), "{why}");
        let allowed = session.allowing(Permissions { edits: true, ..Permissions::default() });
        assert_eq!(allowed.permit(Permission::Edits), Ok(()));
        assert!(allowed.permit(Permission::Eval).is_err());
    }
}
