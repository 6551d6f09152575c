//! The handle to SBCL. [`Steelbank`] owns the process's SBCL, the index of its cross references,
//! and the project; [`Builder`] starts it from an [`Installation`]. Callers [`ask`](Steelbank::ask)
//! a [`Question`], which only reads, or [`run`](Steelbank::run) an action, which loads code,
//! evaluates code or writes files. The questions and actions themselves are in `crate::actions`.
//!
//! `load` loads systems and files and then refreshes the index. `snapshot` saves an image with its
//! systems loaded, so that the next process starts from it. `scratch` starts copies of the program
//! for code that must not run in this image. `recovery` carries the state over a restart of Lisp.

mod ask;
pub mod context;
mod error;
mod flights;
mod load;
pub mod loaded;
pub(crate) mod memo;
pub(crate) mod question;
pub mod recovery;
pub(crate) mod requests;
pub mod scratch;
pub mod snapshot;
pub(crate) mod swank;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant, SystemTime};

use parking_lot::{Mutex, RwLock};

use crate::answer::NotFound;
use crate::engine::control::Control;
#[cfg(feature = "embedded")]
use crate::engine::embedded;
use crate::engine::{
    Contribs, Core, EngineState, EngineStatus, Image, Lane, Lisp, LispError, RuntimeLibrary, Settings,
    deadline_after,
};
use crate::source::sbcl::SbclSources;
use crate::source::use_numbering_of;
#[cfg(all(feature = "embedded", not(feature = "server")))]
use crate::workspace::default_cache;
use crate::workspace::documents::Document;
use crate::workspace::{Project, ProjectSettings};
use steelbank_xref::Index;

pub(crate) use context::{DefinitionPlaces, QueryContext};
pub use error::{Error, ErrorKind, RequestError};
pub(crate) use load::LoadingGuard;
pub(crate) use question::Question;
pub use requests::LoadRequest;

/// The parts that are needed to start an SBCL. All must be of the same build.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Installation {
    /// The runtime library, the core and the contrib modules.
    pub image: Image,
    /// The index of the core's cross references.
    pub index: IndexData,
    /// SBCL's sources, for positions in SBCL's code.
    pub sources: Option<PathBuf>,
}

/// The prebuilt index of the core's cross references.
#[derive(Debug, Clone)]
pub enum IndexData {
    /// In a file.
    File(PathBuf),
    /// In memory.
    Memory(&'static [u8]),
}

impl Installation {
    /// The output folder of this crate's build: `libsteelbank-sbcl.so`, and the files that
    /// [`Installation::in_folder`] expects.
    pub const BUILT: &str = env!("STEELBANK_BUILT_IMAGE");

    /// The folder with the sources of the SBCL that this crate was built with. Its last component
    /// names the build.
    pub const BUILT_SBCL: &str = env!("STEELBANK_BUILT_SBCL");

    /// Returns the parts that this crate's build produced, for programs and tests that run on the
    /// build machine.
    pub fn built() -> Self {
        Self {
            sources: Some(PathBuf::from(Self::BUILT_SBCL)),
            ..Self::in_folder(Path::new(Self::BUILT), RuntimeLibrary::built())
        }
    }

    /// Returns the parts as files in one folder: `steelbank.core`, `steelbank.xref` and `contrib/`.
    /// `library` must be of the same build; see [`RuntimeLibrary::file`].
    pub fn in_folder(folder: &Path, library: RuntimeLibrary) -> Self {
        Self {
            image: Image {
                library,
                core: Core::File(folder.join("steelbank.core")),
                contribs: Contribs::Folder(folder.join("contrib")),
            },
            index: IndexData::File(folder.join("steelbank.xref")),
            sources: None,
        }
    }

    /// Returns the parts that feature `embedded` links into the calling program, so that the
    /// program is a single file without further requirements. SBCL needs contrib modules as files:
    /// all modules are unpacked into `cache` when the first module is required. Without `cache`, no
    /// contrib modules are available. SBCL's sources are used if they are in `cache`.
    /// ```no_run
    /// use steelbank::{Installation, Steelbank};
    ///
    /// # fn main() -> Result<(), steelbank::Error> {
    /// let bank = Steelbank::builder().installation(Installation::embedded(None)).start()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "embedded")]
    pub fn embedded(cache: Option<&Path>) -> Self {
        embedded::keep_core();
        let contribs = match cache {
            Some(cache) => Contribs::Packed {
                files: embedded::CONTRIBS,
                folder: cache.join(format!("contrib-{}", Self::build().display())),
            },
            None => Contribs::None,
        };
        Self {
            image: Image { library: RuntimeLibrary::embedded(), core: Core::Embedded, contribs },
            index: IndexData::Memory(embedded::INDEX),
            sources: cache.map(Self::sources_in),
        }
    }

    /// Returns the folder in the cache where the `bootstrap` script stores the sources of this
    /// build's SBCL.
    #[cfg(feature = "embedded")]
    pub fn sources_in(cache: &Path) -> PathBuf {
        cache.join(Self::build())
    }

    /// Returns the name of this build: the last component of [`Installation::BUILT_SBCL`].
    #[cfg(feature = "embedded")]
    fn build() -> &'static Path {
        Path::new(Path::new(Self::BUILT_SBCL).file_name().unwrap_or_default())
    }
}

/// The embedded parts in a library with feature `embedded`, otherwise the parts in the build's
/// folder. The program's tests load these, too.
impl Default for Installation {
    #[cfg(all(feature = "embedded", not(feature = "server")))]
    fn default() -> Self {
        Self::embedded(default_cache().as_deref())
    }

    #[cfg(not(all(feature = "embedded", not(feature = "server"))))]
    fn default() -> Self {
        Self::built()
    }
}

/// Configures and starts a [`Steelbank`].
#[derive(Debug, Clone)]
pub struct Builder {
    installation: Installation,
    dynamic_space_size: Option<usize>,
    control_stack_size: Option<usize>,
    project: Option<ProjectSettings>,
    program: Option<scratch::HelperProgram>,
    loads: Vec<recovery::LoadedItem>,
    snapshots: bool,
    watching: bool,
    brief: bool,
    key: Option<snapshot::SnapshotKey>,
    failed_snapshot: Option<String>,
}

impl Builder {
    /// Uses `installation` instead of the default.
    #[must_use]
    pub fn installation(self, installation: Installation) -> Self {
        Self { installation, ..self }
    }

    /// Sets the user's project. Its code is loaded and run only when a call requests this.
    #[must_use]
    pub fn project(self, project: ProjectSettings) -> Self {
        Self { project: Some(project), ..self }
    }

    /// Sets the path of the `steelbank` program, which must be of the same build as the
    /// installation. Copies of the program create snapshots and run scratch images.
    #[must_use]
    pub fn program(self, program: PathBuf) -> Self {
        Self { program: Some(scratch::HelperProgram { path: program, options: Vec::new() }), ..self }
    }

    /// Sets the command-line options that make the program start the installation's SBCL. They are
    /// needed only if the program would start another SBCL by default. Call [`Builder::program`]
    /// first.
    #[must_use]
    pub fn program_options(mut self, options: Vec<String>) -> Self {
        if let Some(program) = &mut self.program {
            program.options = options;
        }
        self
    }

    /// Declares the systems that the caller will load first; this does not load them. If there is
    /// an up-to-date snapshot of all these systems, SBCL starts from that snapshot, with the
    /// systems loaded. Otherwise, it may start from a snapshot of the dependencies.
    #[must_use]
    pub fn systems(self, systems: Vec<String>) -> Self {
        self.loads(systems.into_iter().map(recovery::LoadedItem::System).collect())
    }

    /// Like [`Builder::systems`], but for any loads, including
    /// [`LoadedItem::Project`](recovery::LoadedItem::Project). Ignores files, because a snapshot
    /// never includes them.
    #[must_use]
    pub fn loads(mut self, loads: Vec<recovery::LoadedItem>) -> Self {
        self.loads = loads;
        self.loads.retain(|load| !matches!(load, recovery::LoadedItem::File(_)));
        self
    }

    /// Sets whether snapshots are used and created. The default is true. Snapshots also require a
    /// project, a program and loads.
    #[must_use]
    pub fn snapshots(self, snapshots: bool) -> Self {
        Self { snapshots, ..self }
    }

    /// If `why` is `Some`, starts without a snapshot, because an earlier start from a snapshot
    /// failed for that reason. `why` is a sentence fragment. A new snapshot is created later.
    #[must_use]
    pub fn failed_snapshot(self, why: Option<String>) -> Self {
        Self { failed_snapshot: why, ..self }
    }

    /// Declares that the process answers only a few questions and then exits: a snapshot's index is
    /// then memory-mapped instead of read.
    #[cfg(feature = "server")]
    pub(crate) fn brief(self, brief: bool) -> Self {
        Self { brief, ..self }
    }

    /// Sets the key of the snapshot to start from, instead of computing it from the loads. The
    /// snapshot is used only if it is up to date.
    pub(crate) fn key(self, key: Option<snapshot::SnapshotKey>) -> Self {
        Self { key, ..self }
    }

    /// Sets whether to watch the project's files from the first question on, so that a question
    /// checks only changed files. Useful for programs that ask many questions. If the files are not
    /// watched, each question checks every file.
    #[must_use]
    pub fn watching(self, watching: bool) -> Self {
        Self { watching, ..self }
    }

    /// Sets the maximum size of Lisp's heap, in bytes.
    #[must_use]
    pub fn dynamic_space_size(self, bytes: usize) -> Self {
        Self { dynamic_space_size: Some(bytes), ..self }
    }

    /// Sets the size of each Lisp thread's control stack, in bytes.
    #[must_use]
    pub fn control_stack_size(self, bytes: usize) -> Self {
        Self { control_stack_size: Some(bytes), ..self }
    }

    /// Starts SBCL, and returns when it is ready.
    ///
    /// # Errors
    /// The project's folder does not exist, a file is unusable, or SBCL did not start. If SBCL did
    /// not start from a snapshot, the error is [`Error::Snapshot`], and the snapshot is removed, so
    /// the next process starts without it.
    pub fn start(self) -> Result<Steelbank, Error> {
        let root = self.project.as_ref().and_then(|project| project.root.as_deref());
        if let Some(root) = root.filter(|root| !root.is_dir()) {
            return Err(NotFound::Path(root.display().to_string()).into());
        }
        let bank = self.launch()?;
        match (bank.lisp().wait_until_ready(), bank.discard_failed_snapshot()) {
            (Ok(()), _) => Ok(bank),
            (Err(error), None) => Err(error.into()),
            (Err(source), Some(path)) => Err(Error::Snapshot { path, source }),
        }
    }

    /// Starts SBCL, and returns immediately. Questions wait until SBCL is ready, and report errors
    /// of the start.
    ///
    /// # Errors
    /// Files are unusable, or SBCL was already started in this process. Only errors that are
    /// detected before SBCL runs are returned here.
    pub fn launch(self) -> Result<Steelbank, Error> {
        if let Some(project) = &self.project {
            steelbank_cache::claim(&project.cache)?;
        }
        let key = self.snapshot_key();
        let index_use = if self.brief { snapshot::IndexUse::Mapped } else { snapshot::IndexUse::Read };
        let snapshot::Choice { mut snapshot, without, refused, complete, is_edited } =
            match self.failed_snapshot {
                Some(why) => snapshot::Choice { without: Some(why), ..Default::default() },
                None => key.as_ref().map(|key| snapshot::Choice::of(key, index_use)).unwrap_or_default(),
            };
        let installation = match &snapshot {
            Some(snapshot) => snapshot.installation(&self.installation),
            None => self.installation,
        };
        let mut settings = Settings::new(installation.image);
        settings.dynamic_space_size = self.dynamic_space_size.unwrap_or(settings.dynamic_space_size);
        settings.control_stack_size = self.control_stack_size.unwrap_or(settings.control_stack_size);
        let kept = snapshot.as_mut().and_then(|snapshot| snapshot.index.take());
        let index = match (kept, &installation.index) {
            (Some(kept), _) => Index::open_snapshot(kept),
            (None, IndexData::Memory(bytes)) => Index::open(*bytes),
            (None, IndexData::File(path)) => {
                let bytes = std::fs::read(path)
                    .map_err(|error| Error::Index(format!("{}: {error}", path.display())))?;
                Index::open(bytes)
            }
        };
        let index = index.map_err(|error| Error::Index(error.to_string()))?;
        let lisp = Lisp::start(&settings)?;
        use_numbering_of(lisp.sbcl_version());
        let bank = Steelbank {
            inner: Arc::new(SharedBank {
                lisp,
                refreshing: Mutex::new(index.clone()),
                index: RwLock::new(index.clone()),
                refresh_waits: AtomicBool::new(false),
                changed_at: Mutex::default(),
                listeners: Mutex::default(),
                loads_took: AtomicU64::default(),
                sources: SbclSources::new(installation.sources).with_index(index),
                project: Project::new(self.project),
                flights: flights::InFlightLoads::default(),
                program: self.program,
                memo: Default::default(),
                systems: Mutex::default(),
                unknown_systems: Mutex::default(),
                unloaded: Mutex::default(),
                dynamic_space_size: self.dynamic_space_size,
                key,
                restored: Mutex::default(),
                without_snapshot: without,
                refused_snapshot: refused,
                has_all_snapshots: complete,
                is_edited,
                started_from: snapshot.as_ref().map(|snapshot| snapshot.path.clone()),
                swank: swank::Swank::default(),
            }),
        };
        if let Some(snapshot) = snapshot {
            let complete = bank.inner.without_snapshot.is_none();
            bank.restore(snapshot, complete);
        }
        if self.watching {
            bank.project().watch();
        }
        // Store the handle for `get`, because SBCL can be started only once in a process.
        *RUNNING.lock() = Some(bank.clone());
        Ok(bank)
    }

    /// Returns the key under which a snapshot of the builder's loads is stored; `None` if snapshots
    /// are not used.
    fn snapshot_key(&self) -> Option<snapshot::SnapshotKey> {
        if self.key.is_some() {
            return self.key.clone();
        }
        match (&self.project, &self.program) {
            (Some(project), Some(program)) if self.snapshots && !self.loads.is_empty() => {
                let heap = self.dynamic_space_size;
                Some(snapshot::SnapshotKey::new(
                    project, &self.loads, &self.installation, &program.path, heap,
                ))
            }
            _ => None,
        }
    }
}

/// The process's SBCL, once started.
static RUNNING: Mutex<Option<Steelbank>> = Mutex::new(None);

/// A handle to the process's SBCL. Clones are cheap and share the SBCL; any thread may use a clone.
#[derive(Clone)]
pub struct Steelbank {
    pub(crate) inner: Arc<SharedBank>,
}

impl std::fmt::Debug for Steelbank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Steelbank")
            .field("project", &self.inner.project.settings())
            .field("records", &self.index().record_count())
            .finish_non_exhaustive()
    }
}

/// A callback that runs after each change of the index.
pub(crate) type ChangeListener = dyn Fn() + Send + Sync;

pub(crate) struct SharedBank {
    lisp: Lisp,
    index: RwLock<Index>,
    /// Locked while the index is refreshed, because only one export may run at a time. Holds the
    /// last index that was exported while no other code was being compiled; the next export
    /// contains only the changes since that index.
    refreshing: Mutex<Index>,
    /// Whether a thread is waiting to refresh the index after loads that ended with an error. One
    /// refresh covers all loads that end before it begins.
    refresh_waits: AtomicBool,
    /// The start time of the last operation that loaded or defined something. Snapshots that were
    /// created earlier lack the new definitions.
    changed_at: Mutex<Option<SystemTime>>,
    /// The callbacks for changes of the index.
    listeners: Mutex<Vec<Weak<ChangeListener>>>,
    /// The total duration of the loads in this image, in milliseconds.
    loads_took: AtomicU64,
    sources: SbclSources,
    project: Project,
    flights: flights::InFlightLoads,
    program: Option<scratch::HelperProgram>,
    /// Cached results of expensive work, such as answers to paged questions.
    pub(crate) memo: memo::Memo,
    /// The systems that were loaded on request, in order.
    systems: Mutex<Vec<String>>,
    /// The systems that ASDF did not find at their last load.
    unknown_systems: Mutex<BTreeSet<String>>,
    /// The files for which the last requested load did not complete, by their real paths.
    unloaded: Mutex<BTreeSet<PathBuf>>,
    dynamic_space_size: Option<usize>,
    /// The key of the snapshot that this image was started from, or under which a snapshot with its
    /// loads will be stored.
    key: Option<snapshot::SnapshotKey>,
    /// The answers to the loads in that snapshot, used for the first load of each system; `None` if
    /// the image did not start from a snapshot.
    restored: Mutex<Option<load::RestoredLoads>>,
    /// The reason why the image did not start from a complete snapshot; `None` if it did, or if no
    /// snapshot was expected.
    without_snapshot: Option<String>,
    /// The reason why no complete snapshot can be created, as a sentence.
    refused_snapshot: Option<String>,
    /// Whether all snapshots that can be created exist.
    has_all_snapshots: bool,
    /// Whether, when this image was started, inputs had changed since a complete snapshot was
    /// created or refused.
    is_edited: bool,
    /// The folder of the snapshot that the image started from.
    started_from: Option<PathBuf>,
    /// The Swank server for editors.
    swank: swank::Swank,
}

/// The source from which an image was started.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartedFrom {
    /// An up-to-date snapshot of all requested systems, which are therefore loaded.
    Snapshot,
    /// A snapshot of only the first loads: those before the project's first system, before the
    /// first system with changed files, or before the first system that prevents saving.
    PartOfSnapshot {
        /// The reason why the complete snapshot was not used, as a sentence fragment.
        why: Option<String>,
    },
    /// SBCL's core.
    Core {
        /// The reason why no snapshot was used, as a sentence fragment. `None`: no snapshot was
        /// expected.
        why: Option<String>,
    },
}

impl Steelbank {
    /// Returns a builder that runs the SBCL of this crate's build.
    pub fn builder() -> Builder {
        Builder {
            installation: Installation::default(),
            dynamic_space_size: None,
            control_stack_size: None,
            project: None,
            program: None,
            loads: Vec::new(),
            snapshots: true,
            watching: false,
            key: None,
            failed_snapshot: None,
            brief: false,
        }
    }

    /// Returns the handle to this process's SBCL, if SBCL was started.
    pub fn get() -> Option<Self> {
        RUNNING.lock().clone()
    }

    /// Returns the handle to this process's SBCL. If SBCL was not started yet, starts it with
    /// `builder`. Several threads may call this concurrently, for example in tests.
    ///
    /// # Errors
    /// SBCL did not start.
    pub fn get_or_start(builder: Builder) -> Result<Self, Error> {
        static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
        let _one_at_a_time = ONE_AT_A_TIME.lock();
        match Self::get() {
            Some(bank) => {
                bank.lisp().wait_until_ready()?;
                Ok(bank)
            }
            None => builder.start(),
        }
    }

    /// Refreshes the index after code was loaded by other means. The loads of this crate refresh
    /// the index themselves.
    ///
    /// # Errors
    /// Lisp cannot answer in time, or its answer does not match the index.
    pub fn refresh(&self) -> Result<(), Error> {
        self.refresh_within(&Control::default())
    }

    /// Refreshes the index until `deadline`. If Lisp does not answer in time, continues in the
    /// background, and answers have the note about a load meanwhile.
    pub(crate) fn refresh_until(&self, deadline: Instant) -> Result<(), Error> {
        let left = deadline.saturating_duration_since(Instant::now());
        match self.refresh_within(&Control::new(left)) {
            Err(Error::NeverBegan | Error::Lisp(LispError::DeadlinePassed { .. })) => {
                let moving = LoadingGuard::new(self, false);
                moving.begin();
                self.refresh_later(move || moving.end());
                Ok(())
            }
            refreshed => refreshed,
        }
    }

    fn refresh_within(&self, control: &Control) -> Result<(), Error> {
        let deadline = deadline_after(control.allowed());
        let mut complete = self.inner.refreshing.try_lock_until(deadline).ok_or(Error::NeverBegan)?;
        let since = complete.since();
        let left = || control.until(deadline);
        let begun = self.inner.lisp.long_jobs_started();
        let made = self.code_made_by_others(&left());
        let control = left();
        let ticket = self.inner.lisp.submit(Lane::Query, control.allowed(), None, move |on_lisp| {
            on_lisp.call("xref-export", &[since])
        });
        let export = control.wait(ticket)?;
        let index = complete.apply(&export.bytes)?;
        let before = std::mem::replace(&mut *self.inner.index.write(), index.clone());
        if before.stamp() != index.stamp() {
            self.inner.listeners.lock().retain(|listener| {
                listener.upgrade().is_some_and(|listener| {
                    listener();
                    true
                })
            });
        }
        // Continue from this export only if nothing was compiled meanwhile. Otherwise this export
        // may contain half-defined code, which the next export must include again.
        let quiet = begun.is_some() && begun == self.inner.lisp.long_jobs_started();
        if quiet && made == self.code_made_by_others(&left()) {
            *complete = index;
        }
        Ok(())
    }

    /// Calls `listener` after each change of the index, for as long as the caller keeps its `Arc`.
    /// The listener must not block.
    pub(crate) fn subscribe(&self, listener: &Arc<ChangeListener>) {
        self.inner.listeners.lock().push(Arc::downgrade(listener));
    }

    /// Records the start time of an operation that loaded or defined something.
    pub(crate) fn note_changed(&self, time: SystemTime) {
        *self.inner.changed_at.lock() = Some(time);
    }

    /// Adds the duration of a load to the total.
    pub(crate) fn note_load_time(&self, milliseconds: u64) {
        self.inner.loads_took.fetch_add(milliseconds, Ordering::Relaxed);
    }

    /// Returns the total duration of the loads in this image.
    pub(crate) fn load_time(&self) -> Duration {
        Duration::from_millis(self.inner.loads_took.load(Ordering::Relaxed))
    }

    /// Returns the start time of the last operation that loaded or defined something.
    pub(crate) fn changed_at(&self) -> Option<SystemTime> {
        *self.inner.changed_at.lock()
    }

    /// Refreshes the index on a new thread and then calls `then`. If another thread is about to
    /// refresh it, calls `then` without waiting for that. Does not block.
    fn refresh_later(&self, then: impl FnOnce() + Send + 'static) {
        let bank = self.clone();
        // Ignore the error: if no thread can be created, the next load refreshes the index.
        let _ = std::thread::Builder::new().name("steelbank-refresh".into()).spawn(move || {
            // One refresh is enough for all loads that end with an error before it begins.
            if !bank.inner.refresh_waits.swap(true, Ordering::SeqCst) {
                drop(bank.inner.refreshing.lock());
                bank.inner.refresh_waits.store(false, Ordering::SeqCst);
                let _ = bank.refresh();
            }
            then();
        });
    }

    /// Returns the current index.
    pub fn index(&self) -> Index {
        self.inner.index.read().clone()
    }

    /// Returns the project's root folder as a canonical path; `None` without a project.
    pub fn root(&self) -> Option<&Path> {
        self.project().root()
    }

    /// Lists the loaded source files, each with the write date of the loaded version (universal
    /// time, in seconds).
    pub fn loaded_files(&self) -> Vec<(PathBuf, u64)> {
        self.project().loaded()
    }

    /// Returns the write date (universal time) of the loaded version of the file at `path`; `None`
    /// if the file is not loaded.
    pub(crate) fn loaded_date(&self, path: &Path) -> Option<u64> {
        self.project().loaded_date(path)
    }

    /// Returns the loaded system of the project that contains the file at `path`.
    pub(crate) fn system_of(&self, path: &Path) -> Option<String> {
        self.project().system_of(path)
    }

    /// Drops the cached positions from sidecars, for tests that damage sidecars.
    #[doc(hidden)]
    pub fn forget_positions(&self) {
        let loaded = self.project().loaded();
        self.project().note_loaded(loaded, |_| true);
    }

    /// Returns the project and the state of its files.
    pub(crate) fn project(&self) -> &Project {
        &self.inner.project
    }

    /// Returns the loads in progress.
    fn flights(&self) -> &flights::InFlightLoads {
        &self.inner.flights
    }

    /// Returns SBCL's sources.
    pub(crate) fn sources(&self) -> &SbclSources {
        &self.inner.sources
    }

    /// Returns the `steelbank` program, if it was set.
    pub(crate) fn program(&self) -> Option<&scratch::HelperProgram> {
        self.inner.program.as_ref()
    }

    /// Returns the key under which a snapshot of the builder's loads is stored; `None` if snapshots
    /// are not used.
    pub(crate) fn snapshot_key(&self) -> Option<snapshot::SnapshotKey> {
        self.inner.key.clone()
    }

    /// Returns the source from which this image was started.
    pub fn started_from(&self) -> StartedFrom {
        let why = self.inner.without_snapshot.clone();
        match &*self.inner.restored.lock() {
            Some(restored) if restored.complete => StartedFrom::Snapshot,
            Some(_) => StartedFrom::PartOfSnapshot { why },
            None => StartedFrom::Core { why },
        }
    }

    /// Returns the reason, as a sentence, why no complete snapshot of the builder's loads can be
    /// created, as of the start; `None` if no reason was known.
    pub fn refused_snapshot(&self) -> Option<&str> {
        self.inner.refused_snapshot.as_deref()
    }

    /// Returns whether all snapshots that can be created exist.
    pub(crate) fn has_all_snapshots(&self) -> bool {
        self.inner.has_all_snapshots
    }

    /// Returns whether, when this image was started, inputs had changed since a complete snapshot
    /// was created or refused.
    pub(crate) fn is_edited(&self) -> bool {
        self.inner.is_edited
    }

    /// Removes the snapshot that this image was started from if Lisp died, or the time limit of the
    /// start passed, before Lisp was ready. Otherwise, later starts would use the snapshot and
    /// fail, too. Returns the removed folder.
    pub(crate) fn discard_failed_snapshot(&self) -> Option<PathBuf> {
        let path = self.inner.started_from.as_ref()?;
        let status = self.status();
        let failed = status.start_microseconds.is_none() && status.state != EngineState::Ready;
        let is_over = matches!(status.state, EngineState::Dead { .. }) || self.lisp().has_timed_out();
        (failed && is_over).then(|| {
            snapshot::discard(path);
            path.clone()
        })
    }

    /// Returns the systems that were loaded on request, in order.
    pub fn loaded_systems(&self) -> Vec<String> {
        self.inner.systems.lock().clone()
    }

    /// Returns false only if the last requested load of the file did not complete.
    pub(crate) fn is_loaded_completely(&self, path: &Path) -> bool {
        !self.inner.unloaded.lock().contains(path)
    }

    /// Records whether a requested load of the file at `path` completed.
    fn note_file(&self, path: &Path, loaded: bool) {
        let (path, mut unloaded) = (self.project().real(path), self.inner.unloaded.lock());
        if loaded {
            unloaded.remove(&path)
        } else {
            unloaded.insert(path)
        };
    }

    /// Records that `system` was loaded on request.
    fn note_system(&self, system: &str) {
        let mut systems = self.inner.systems.lock();
        if !systems.iter().any(|known| known == system) {
            systems.push(system.to_owned());
        }
    }

    /// Returns the maximum size of Lisp's heap in bytes, if it was set.
    pub(crate) fn dynamic_space_size(&self) -> Option<usize> {
        self.inner.dynamic_space_size
    }

    /// Returns the first files (at most 20) to which the operating system denied Lisp write access
    /// since the first call of this function.
    pub(crate) fn refused_writes(&self) -> Result<Vec<String>, Error> {
        #[derive(serde::Deserialize)]
        struct Refused {
            #[serde(default)]
            paths: Vec<String>,
        }
        let refused: Refused = self.context().ask("refused-writes", Vec::new(), &Control::default())?;
        Ok(refused.paths)
    }

    /// Turns this image into a scratch image. Its compiled files go to `cache`, which is layered
    /// over the cache of the process that started it. `overlays` maps real paths to files with
    /// other text: Lisp and the positions in answers use that text. A path that is mapped to `None`
    /// counts as deleted. With overlays, the snapshot's answers to loads are dropped.
    pub(crate) fn become_scratch(
        &self,
        cache: &Path,
        overlays: &[(PathBuf, Option<PathBuf>)],
    ) -> Result<(), Error> {
        if !overlays.is_empty() {
            self.forget_restored_loads();
        }
        let named = |path: &PathBuf| path.display().to_string();
        let texts: Vec<(String, Option<String>)> =
            overlays.iter().map(|(path, text)| (named(path), text.as_ref().map(named))).collect();
        let cache = cache.display().to_string();
        let control = Control::default();
        let ticket = self.inner.lisp.submit(Lane::Query, control.allowed(), None, move |on_lisp| {
            on_lisp.call("set-overlays", &(cache, texts))
        });
        control.wait(ticket)?;
        for (path, text) in overlays.iter().filter_map(|(path, text)| Some((path, text.as_ref()?))) {
            let text = steelbank_tree::read_source(text)
                .map_err(|error| Error::SetUp(format!("{} cannot be read: {error}", text.display())))?;
            self.inner.project.set_document(path, Document::new(text));
        }
        Ok(())
    }

    /// Returns the handle to Lisp, to submit custom jobs.
    pub fn lisp(&self) -> Lisp {
        self.inner.lisp
    }

    /// Returns the engine's current state. Works in every state, also after Lisp has died.
    pub fn status(&self) -> EngineStatus {
        self.inner.lisp.status()
    }
}

/// Formats the reason why the project's tree is not watched, with a remedy.
pub(crate) fn unwatched(refusal: steelbank_watch::WatchRefusal) -> String {
    format!(
        "The project's tree is not watched because {refusal}, so each question checks every file. To have it watched, {}, and restart steelbank.",
        refusal.remedy()
    )
}
