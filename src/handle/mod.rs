//! [`Steelbank`]: SBCL and the indexes over it, behind one handle.

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

use crate::engine::control::{ALLOWED, Control};
#[cfg(feature = "embedded")]
use crate::engine::embedded;
use crate::engine::{
    Contribs, Core, EngineState, EngineStatus, Image, Lane, Lisp, RuntimeLibrary, Settings, deadline_after,
};
use crate::source::number_as;
use crate::source::sbcl::SbclSources;
use crate::workspace::documents::Document;
use crate::workspace::{Project, ProjectSettings};
use steelbank_xref::Index;

pub(crate) use context::{DefinitionPlaces, QueryContext};
pub use error::{Error, ErrorKind, RequestError};
pub(crate) use load::LoadingGuard;
pub(crate) use question::Question;
pub use requests::LoadRequest;

/// The parts of an SBCL that can be started and asked. All must be of one build.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Installation {
    /// Runtime, core and contribs.
    pub image: Image,
    /// The index of the core's cross references.
    pub index: IndexData,
    /// SBCL's sources, for positions in its own code.
    pub sources: Option<PathBuf>,
}

/// The baked index of the core's cross references.
#[derive(Debug, Clone)]
pub enum IndexData {
    /// A file.
    File(PathBuf),
    /// Its bytes.
    Memory(&'static [u8]),
}

impl Installation {
    /// The folder that this crate's build made: `libsteelbank-sbcl.so`, and what [`Installation::in_folder`] names.
    pub const BUILT: &str = env!("STEELBANK_BUILT_IMAGE");

    /// The SBCL that made it: a folder with SBCL's sources in it. Its last component names the build.
    pub const BUILT_SBCL: &str = env!("STEELBANK_BUILT_SBCL");

    /// The parts that this crate's build made, for programs and tests that run where they were built.
    pub fn built() -> Self {
        Self {
            sources: Some(PathBuf::from(Self::BUILT_SBCL)),
            ..Self::in_folder(Path::new(Self::BUILT), RuntimeLibrary::built())
        }
    }

    /// The parts as files in one folder: `steelbank.core`, `steelbank.xref` and `contrib/`; and the library, of
    /// the same build, which [`RuntimeLibrary::file`] can name.
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

    /// The parts that feature `embedded` puts into the program that calls this, so that it is one file that
    /// runs anywhere. `cache` is a folder for the parts that SBCL needs as files: the contrib modules are
    /// unpacked into it when the first one is required; without it there are none. SBCL's sources are used if
    /// they are there.
    ///
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

    /// Returns the folder in the cache where `bootstrap` keeps the sources of this build's SBCL.
    #[cfg(feature = "embedded")]
    pub fn sources_in(cache: &Path) -> PathBuf {
        cache.join(Self::build())
    }

    /// Returns the name of this build: the last part of the path that its SBCL was built in.
    #[cfg(feature = "embedded")]
    fn build() -> &'static Path {
        Path::new(Path::new(Self::BUILT_SBCL).file_name().unwrap_or_default())
    }
}

/// Builds a [`Steelbank`].
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
    /// Uses `installation` in place of the one that the build made.
    #[must_use]
    pub fn installation(mut self, installation: Installation) -> Self {
        self.installation = installation;
        self
    }

    /// Sets the user's project. None of its code is loaded or run before a call asks for it.
    #[must_use]
    pub fn project(mut self, project: ProjectSettings) -> Self {
        self.project = Some(project);
        self
    }

    /// Sets the `steelbank` program, of the same build as the installation. Copies of it make snapshots and
    /// are scratch images.
    #[must_use]
    pub fn program(mut self, program: PathBuf) -> Self {
        self.program = Some(scratch::HelperProgram { path: program, options: Vec::new() });
        self
    }

    /// Sets the options by which the program, which is to be named before, starts the SBCL of the installation if that is not
    /// its own.
    #[must_use]
    pub fn program_options(mut self, options: Vec<String>) -> Self {
        if let Some(program) = &mut self.program {
            program.options = options;
        }
        self
    }

    /// Names the systems that will be loaded first. If there is a fresh snapshot of them, the image starts
    /// from it, and has them loaded.
    #[must_use]
    pub fn systems(self, systems: Vec<String>) -> Self {
        self.loads(systems.into_iter().map(recovery::LoadedItem::System).collect())
    }

    /// Like [`Builder::systems`], for loads of which one may be that of all the project's own systems. Files are none of a
    /// snapshot's loads.
    #[must_use]
    pub fn loads(mut self, loads: Vec<recovery::LoadedItem>) -> Self {
        self.loads = loads;
        self.loads.retain(|load| !matches!(load, recovery::LoadedItem::File(_)));
        self
    }

    /// Sets whether snapshots are used and made. They are by default, if systems and program are named.
    #[must_use]
    pub fn snapshots(mut self, snapshots: bool) -> Self {
        self.snapshots = snapshots;
        self
    }

    /// Starts from no snapshot, as a start from one has failed: the reason is a sentence's end. One is made anew.
    #[must_use]
    pub fn failed_snapshot(mut self, why: Option<String>) -> Self {
        self.failed_snapshot = why;
        self
    }

    /// Has the process ask a few questions and end: a snapshot's index is read as far as it is used.
    #[cfg(feature = "server")]
    pub(crate) fn brief(mut self, brief: bool) -> Self {
        self.brief = brief;
        self
    }

    /// Starts from the snapshot `key`, if there is a fresh one.
    pub(crate) fn key(mut self, key: Option<snapshot::SnapshotKey>) -> Self {
        self.key = key;
        self
    }

    /// Sets whether the project's files are watched from the first question on, so that a question looks only at changed
    /// files: for programs that ask many questions. Without it, each question looks at every file.
    #[must_use]
    pub fn watching(mut self, watching: bool) -> Self {
        self.watching = watching;
        self
    }

    /// Sets the most that Lisp's heap can grow to, in bytes.
    #[must_use]
    pub fn dynamic_space_size(mut self, bytes: usize) -> Self {
        self.dynamic_space_size = Some(bytes);
        self
    }

    /// Sets the size of each Lisp thread's control stack, in bytes.
    #[must_use]
    pub fn control_stack_size(mut self, bytes: usize) -> Self {
        self.control_stack_size = Some(bytes);
        self
    }

    /// Starts SBCL, and returns when it is ready.
    ///
    /// # Errors
    /// SBCL did not start: the error names the file and the remedy. [`Error::Snapshot`]: it did not start from a snapshot,
    /// which is removed: the next process does without.
    pub fn start(self) -> Result<Steelbank, Error> {
        let bank = self.launch()?;
        match (bank.lisp().wait_until_ready(), bank.discard_failed_snapshot()) {
            (Ok(()), _) => Ok(bank),
            (Err(error), None) => Err(error.into()),
            (Err(source), Some(path)) => Err(Error::Snapshot { path, source }),
        }
    }

    /// Starts SBCL, and returns at once: questions wait until it is ready. They report errors that come
    /// later.
    ///
    /// # Errors
    /// Unfit files, and a second start in the process: what can be seen before SBCL runs.
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
        number_as(lisp.sbcl_version());
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
            let whole = bank.inner.without_snapshot.is_none();
            bank.restore(snapshot, whole);
        }
        if self.watching {
            bank.project().watch();
        }
        // Remember the handle: Lisp starts once in a process, so there is no other.
        *RUNNING.lock() = Some(bank.clone());
        Ok(bank)
    }

    /// Returns the key of the snapshot of the builder's systems.
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

/// A handle to the process's SBCL. Clones are cheap and share it; any thread may ask.
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

/// What hears that the index has changed.
pub(crate) type ChangeListener = dyn Fn() + Send + Sync;

pub(crate) struct SharedBank {
    lisp: Lisp,
    index: RwLock<Index>,
    /// Locked while the index is brought up to date: exports continue each other, so there is one at a time. Holds the last index whose
    /// export met no code in the making, from which the next export continues.
    refreshing: Mutex<Index>,
    /// Whether a thread waits to bring the index up to date for all callers.
    refresh_waits: AtomicBool,
    /// When what was loaded or defined last began to be: a snapshot from before does not have it.
    changed_at: Mutex<Option<SystemTime>>,
    /// Those who hear when the index has changed.
    listeners: Mutex<Vec<Weak<ChangeListener>>>,
    /// The milliseconds that the loads took of which the image is made.
    loads_took: AtomicU64,
    sources: SbclSources,
    project: Project,
    flights: flights::InFlightLoads,
    program: Option<scratch::HelperProgram>,
    /// The last answers to questions whose pages are asked for one after the other.
    pub(crate) memo: memo::Memo,
    /// The systems that were loaded on request, in order.
    systems: Mutex<Vec<String>>,
    /// The files whose last load on request did not come to its end, by their real paths.
    unloaded: Mutex<BTreeSet<PathBuf>>,
    dynamic_space_size: Option<usize>,
    /// The snapshot that this image was started from, or is to be saved as.
    key: Option<snapshot::SnapshotKey>,
    /// The answers of that snapshot, until the first load.
    restored: Mutex<Option<load::RestoredLoads>>,
    /// The reason for which the image started from no whole snapshot.
    without_snapshot: Option<String>,
    /// The reason for which none can be made: a sentence.
    refused_snapshot: Option<String>,
    /// Whether all snapshots that can be made are there.
    has_all_snapshots: bool,
    /// Whether, at the start, inputs had changed since a whole snapshot was made or refused.
    is_edited: bool,
    /// The snapshot that it started from.
    started_from: Option<PathBuf>,
    /// The way of a person's editor into the image.
    swank: swank::Swank,
}

/// What an image was started from.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StartedFrom {
    /// A fresh snapshot of all the builder's systems: they are loaded.
    Snapshot,
    /// A part of a snapshot: the loads before the files that have changed.
    PartOfSnapshot {
        /// Why it is not the whole, as a sentence's end.
        why: Option<String>,
    },
    /// SBCL's core.
    Core {
        /// Why it is no snapshot, as a sentence's end, if there was to be one.
        why: Option<String>,
    },
}

impl Steelbank {
    /// Makes a builder, set to run the SBCL that this crate's build made.
    pub fn builder() -> Builder {
        Builder {
            installation: Installation::built(),
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

    /// Returns the SBCL that was started in this process, if one was.
    pub fn get() -> Option<Self> {
        RUNNING.lock().clone()
    }

    /// Returns the SBCL that runs in this process, or else starts `builder`'s. Any number of threads may call
    /// it at once, as the tests of a program do.
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

    /// Brings the index up to date with code that was loaded since. The crate's own operations that load code
    /// do so themselves.
    ///
    /// # Errors
    /// Lisp cannot answer, or its answer does not fit the index.
    pub fn refresh(&self) -> Result<(), Error> {
        self.refresh_within(ALLOWED)
    }

    fn refresh_within(&self, allowed: Duration) -> Result<(), Error> {
        let deadline = deadline_after(allowed);
        let mut complete = self.inner.refreshing.try_lock_until(deadline).ok_or(Error::NeverBegan)?;
        let since = complete.since();
        let control = Control::new(deadline.saturating_duration_since(Instant::now()));
        let begun = self.inner.lisp.work_begun();
        let made = self.code_made_by_others();
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
        // Export again what was compiled beside this export: it may have been half made, and older than what was whole.
        let quiet = begun.is_some() && begun == self.inner.lisp.work_begun();
        if quiet && made == self.code_made_by_others() {
            *complete = index;
        }
        Ok(())
    }

    /// Has `listener` hear whenever the index has changed, for as long as somebody keeps it. It must not wait.
    pub(crate) fn tell_changes_to(&self, listener: &Arc<ChangeListener>) {
        self.inner.listeners.lock().push(Arc::downgrade(listener));
    }

    /// Notes that what began at `time` has loaded or defined something.
    pub(crate) fn note_changed(&self, time: SystemTime) {
        *self.inner.changed_at.lock() = Some(time);
    }

    /// Notes that a load of which the image is made took so long.
    pub(crate) fn note_load_time(&self, milliseconds: u64) {
        self.inner.loads_took.fetch_add(milliseconds, Ordering::Relaxed);
    }

    /// Returns how long the loads took of which the image is made.
    pub(crate) fn load_time(&self) -> Duration {
        Duration::from_millis(self.inner.loads_took.load(Ordering::Relaxed))
    }

    /// Returns when what was loaded or defined last began to be.
    pub(crate) fn changed_at(&self) -> Option<SystemTime> {
        *self.inner.changed_at.lock()
    }

    /// Brings the index up to date on a thread, without blocking the caller. Calls `then` afterwards.
    fn refresh_later(&self, then: impl FnOnce() + Send + 'static) {
        let bank = self.clone();
        // Ignore the error: without a thread, the next load refreshes the index.
        let _ = std::thread::Builder::new().name("steelbank-refresh".into()).spawn(move || {
            // Refresh once for all loads that were cancelled meanwhile.
            if !bank.inner.refresh_waits.swap(true, Ordering::SeqCst) {
                drop(bank.inner.refreshing.lock());
                bank.inner.refresh_waits.store(false, Ordering::SeqCst);
                let _ = bank.refresh();
            }
            then();
        });
    }

    /// Returns the index as it is now.
    pub fn index(&self) -> Index {
        self.inner.index.read().clone()
    }

    /// Returns the project's root folder, canonical; none without a project.
    pub fn root(&self) -> Option<&Path> {
        self.project().root()
    }

    /// Lists the source files that were loaded, each with the write date (universal time, in seconds) that it
    /// had then.
    pub fn loaded_files(&self) -> Vec<(PathBuf, u64)> {
        self.project().loaded()
    }

    /// Returns the write date (universal time) that the file at `path` had when it was loaded, if it was.
    pub(crate) fn loaded_date(&self, path: &Path) -> Option<u64> {
        self.project().loaded_date(path)
    }

    /// Returns the loaded system of the project that has the file at `path`.
    pub(crate) fn system_of(&self, path: &Path) -> Option<String> {
        self.project().system_of(path)
    }

    /// Drops the cached positions from sidecars. For tests that damage sidecars.
    #[doc(hidden)]
    pub fn forget_positions(&self) {
        let loaded = self.project().loaded();
        self.project().note_loaded(loaded, |_| true);
    }

    /// Returns the project and what is known of its files.
    pub(crate) fn project(&self) -> &Project {
        &self.inner.project
    }

    /// Returns the loads under way.
    fn flights(&self) -> &flights::InFlightLoads {
        &self.inner.flights
    }

    /// Returns SBCL's own sources.
    pub(crate) fn sources(&self) -> &SbclSources {
        &self.inner.sources
    }

    /// Returns the `steelbank` program, if it was named.
    pub(crate) fn program(&self) -> Option<&scratch::HelperProgram> {
        self.inner.program.as_ref()
    }

    /// Returns the key of the snapshot of the builder's systems.
    pub(crate) fn snapshot_key(&self) -> Option<snapshot::SnapshotKey> {
        self.inner.key.clone()
    }

    /// Returns what this image was started from.
    pub fn started_from(&self) -> StartedFrom {
        let why = self.inner.without_snapshot.clone();
        match &*self.inner.restored.lock() {
            Some(restored) if restored.whole => StartedFrom::Snapshot,
            Some(_) => StartedFrom::PartOfSnapshot { why },
            None => StartedFrom::Core { why },
        }
    }

    /// Returns the reason for which no whole snapshot can be made of the systems as they are, as a sentence.
    pub fn refused_snapshot(&self) -> Option<&str> {
        self.inner.refused_snapshot.as_deref()
    }

    /// Whether all snapshots that can be made are there.
    pub(crate) fn has_all_snapshots(&self) -> bool {
        self.inner.has_all_snapshots
    }

    /// Whether inputs had changed since a whole snapshot was made or refused, at the start.
    pub(crate) fn is_edited(&self) -> bool {
        self.inner.is_edited
    }

    /// Removes the snapshot that this image was started from, and returns its folder, if Lisp has died before it was ready:
    /// no other start is to try it.
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

    /// Whether the last load of the file on request came to its end, if there was one.
    pub(crate) fn is_whole(&self, path: &Path) -> bool {
        !self.inner.unloaded.lock().contains(path)
    }

    /// Remembers how a load of the file at `path` on request ended.
    fn note_file(&self, path: &Path, loaded: bool) {
        let (path, mut unloaded) = (self.project().real(path), self.inner.unloaded.lock());
        if loaded {
            unloaded.remove(&path)
        } else {
            unloaded.insert(path)
        };
    }

    /// Remembers that `system` was loaded on request.
    fn note_system(&self, system: &str) {
        let mut systems = self.inner.systems.lock();
        if !systems.iter().any(|known| known == system) {
            systems.push(system.to_owned());
        }
    }

    /// Returns the most that Lisp's heap can grow to, in bytes, if it was set.
    pub(crate) fn dynamic_space_size(&self) -> Option<usize> {
        self.inner.dynamic_space_size
    }

    /// Returns the files to which Lisp's writes were refused since this was asked first.
    pub(crate) fn refused_writes(&self) -> Result<Vec<String>, Error> {
        #[derive(serde::Deserialize)]
        struct Refused {
            #[serde(default)]
            paths: Vec<String>,
        }
        let refused: Refused = self.context().ask("refused-writes", Vec::new(), &Control::default())?;
        Ok(refused.paths)
    }

    /// Makes this a scratch image. Its compiled files go to `cache`, which lies over the cache that it was
    /// started from. For files of `overlays`, by their real paths, Lisp and the positions in answers read the
    /// file beside the path; without one, the file counts as deleted. Answers to loads that the snapshot had
    /// are dropped.
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

    /// Returns the Lisp behind the questions, for jobs of one's own.
    pub fn lisp(&self) -> Lisp {
        self.inner.lisp
    }

    /// Returns a snapshot of the engine's state. Works in every state, also when Lisp has died.
    pub fn status(&self) -> EngineStatus {
        self.inner.lisp.status()
    }
}

/// Renders the reason for which the project's tree is not watched, with a remedy.
pub(crate) fn unwatched(refusal: steelbank_watch::WatchRefusal) -> String {
    format!(
        "The project's tree is not watched, as {refusal}: each question looks at every file. To have it watched, {}, and \
         start steelbank again.",
        refusal.remedy()
    )
}
