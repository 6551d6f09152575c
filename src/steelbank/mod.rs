//! [`Steelbank`]: SBCL and the indexes over it, behind one handle.

mod ask;
mod check;
mod edit;
mod flights;
mod load;
pub mod recovery;
mod reload;
mod rename;
mod requests;
pub mod scratch;
pub mod snapshot;
#[cfg(feature = "text")]
mod text;
mod trial;
mod verify;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::{Mutex, RwLock};

use crate::engine::{
    Contribs, Core, EngineStatus, Image, Lane, Lisp, Operation, RuntimeLibrary, Settings, deadline_after,
};
use crate::project::{Project, ProjectSettings};
use crate::query::Error;
use crate::query::control::{ALLOWED, Control};
use crate::query::describe_symbol::{DescribeSymbolAnswer, DescribeSymbolRequest};
use crate::query::evaluate::{EvaluateAnswer, EvaluateRequest};
use crate::query::who::{WhoAnswer, WhoRequest};
use crate::source::sbcl::SbclSources;
use steelbank_xref::places::PlaceTable;
use steelbank_xref::{Index, Kind};

pub use load::LoadListener;
pub(crate) use load::Moving;
pub use requests::LoadRequest;

/// Everything that an SBCL needs to run and to be asked: all of one build.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Installation {
    /// Runtime, core and contribs.
    pub image: Image,
    /// The index of the core's cross references.
    pub index: IndexData,
    /// SBCL's sources, for positions in its own code.
    pub sources: Option<PathBuf>,
    /// Where the core's functions stand in those sources: without it, they are read for that.
    pub places: Option<IndexData>,
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
    /// The parts that this crate's build made. Right for programs and tests that run where they were built.
    pub fn built() -> Self {
        Self {
            sources: Some(PathBuf::from(steelbank_image::SBCL)),
            ..Self::in_folder(Path::new(steelbank_image::FOLDER))
        }
    }

    /// The split form: `libsteelbank-sbcl.so`, `steelbank.core`, `steelbank.xref`, `steelbank.places` and `contrib/` in one folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            image: Image {
                library: RuntimeLibrary::File(folder.join("libsteelbank-sbcl.so")),
                core: Core::File(folder.join("steelbank.core")),
                contribs: Contribs::Folder(folder.join("contrib")),
            },
            index: IndexData::File(folder.join("steelbank.xref")),
            sources: None,
            places: Some(IndexData::File(folder.join("steelbank.places"))),
        }
    }

    /// The parts that feature `embedded` puts into the program that calls this: the program is one file that runs
    /// anywhere. `cache` is a folder for what SBCL wants as files: the contrib modules are unpacked into it when the
    /// first one is required; without it there are none. The sources of SBCL, if they are there, are used as well.
    ///
    /// ```no_run
    /// use steelbank::{Installation, Steelbank};
    ///
    /// # fn main() -> Result<(), steelbank::query::Error> {
    /// let bank = Steelbank::builder().installation(Installation::embedded(None)).start()?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "embedded")]
    pub fn embedded(cache: Option<&Path>) -> Self {
        steelbank_image::keep_core();
        let contribs = match cache {
            Some(cache) => Contribs::Packed {
                files: steelbank_image::CONTRIBS,
                folder: cache.join(format!("contrib-{}", Self::build().display())),
            },
            None => Contribs::None,
        };
        Self {
            image: Image {
                library: RuntimeLibrary::Memory(steelbank_image::LIBRARY),
                core: Core::Embedded,
                contribs,
            },
            index: IndexData::Memory(steelbank_image::INDEX),
            sources: cache.map(Self::sources_in),
            places: Some(IndexData::Memory(steelbank_image::PLACES)),
        }
    }

    /// Where `bootstrap` keeps the sources of this build's SBCL, in its cache.
    #[cfg(feature = "embedded")]
    pub fn sources_in(cache: &Path) -> PathBuf {
        cache.join(Self::build())
    }

    /// What names this build: the last part of the tree that its SBCL was built in.
    #[cfg(feature = "embedded")]
    fn build() -> &'static Path {
        Path::new(Path::new(steelbank_image::SBCL).file_name().unwrap_or_default())
    }
}

/// Builds a [`Steelbank`].
#[derive(Debug, Clone)]
pub struct Builder {
    installation: Installation,
    dynamic_space_size: Option<usize>,
    control_stack_size: Option<usize>,
    project: Option<ProjectSettings>,
    program: Option<PathBuf>,
    systems: Vec<String>,
    snapshots: bool,
    key: Option<snapshot::SnapshotKey>,
}

impl Builder {
    /// Uses `installation` in place of what the build made.
    #[must_use]
    pub fn installation(mut self, installation: Installation) -> Self {
        self.installation = installation;
        self
    }

    /// The user's project. Nothing of it is loaded or run before it is asked for.
    #[must_use]
    pub fn project(mut self, project: ProjectSettings) -> Self {
        self.project = Some(project);
        self
    }

    /// The `steelbank` program, of the same build as the installation: copies of it make snapshots and are scratch images.
    #[must_use]
    pub fn program(mut self, program: PathBuf) -> Self {
        self.program = Some(program);
        self
    }

    /// The systems that will be loaded first. If there is a snapshot of them that is fresh, the image starts from it, and
    /// loading them is done already.
    #[must_use]
    pub fn systems(mut self, systems: Vec<String>) -> Self {
        self.systems = systems;
        self
    }

    /// Whether snapshots are used and made. They are, unless this says otherwise, if systems and program are named.
    #[must_use]
    pub fn snapshots(mut self, snapshots: bool) -> Self {
        self.snapshots = snapshots;
        self
    }

    /// Starts from the snapshot `key` if it can be.
    pub(crate) fn key(mut self, key: Option<snapshot::SnapshotKey>) -> Self {
        self.key = key;
        self
    }

    /// The most that Lisp's heap can grow to, in bytes.
    #[must_use]
    pub fn dynamic_space_size(mut self, bytes: usize) -> Self {
        self.dynamic_space_size = Some(bytes);
        self
    }

    /// The control stack of each Lisp thread, in bytes.
    #[must_use]
    pub fn control_stack_size(mut self, bytes: usize) -> Self {
        self.control_stack_size = Some(bytes);
        self
    }

    /// Starts SBCL, and returns when it is ready.
    ///
    /// # Errors
    /// SBCL did not start: the error names the file and the remedy.
    pub fn start(self) -> Result<Steelbank, Error> {
        let bank = self.launch()?;
        bank.lisp().wait_until_ready()?;
        Ok(bank)
    }

    /// Starts SBCL, and returns at once: questions wait until it is ready. What goes wrong later, they tell.
    ///
    /// # Errors
    /// What can be seen before: unfit files, and a second start in the process.
    pub fn launch(self) -> Result<Steelbank, Error> {
        let key = self.snapshot_key();
        let (snapshot, without) = key.as_ref().map(snapshot::Snapshot::choose).unwrap_or_default();
        let installation = match &snapshot {
            Some(snapshot) => snapshot.installation(&self.installation),
            None => self.installation,
        };
        let mut settings = Settings::new(installation.image);
        settings.dynamic_space_size = self.dynamic_space_size.unwrap_or(settings.dynamic_space_size);
        settings.control_stack_size = self.control_stack_size.unwrap_or(settings.control_stack_size);
        let index = match &installation.index {
            IndexData::Memory(bytes) if snapshot.is_some() => Index::open_snapshot(*bytes),
            IndexData::Memory(bytes) => Index::open(*bytes),
            IndexData::File(path) => {
                let bytes = std::fs::read(path)
                    .map_err(|error| Error::Index(format!("{}: {error}", path.display())))?;
                Index::open(Arc::<[u8]>::from(bytes))
            }
        };
        let index = index.map_err(|error| Error::Index(error.to_string()))?;
        let places = match installation.places {
            Some(IndexData::Memory(bytes)) => PlaceTable::open(bytes),
            // Without it, the sources are read. Lisp starts once in a process, and so does this.
            Some(IndexData::File(path)) => {
                std::fs::read(path).ok().and_then(|bytes| PlaceTable::open(Vec::leak(bytes)))
            }
            None => None,
        };
        let lisp = Lisp::start(&settings)?;
        let bank = Steelbank {
            inner: Arc::new(SharedBank {
                lisp,
                index: RwLock::new(index),
                refreshing: Mutex::new(()),
                refresh_waits: AtomicBool::new(false),
                sources: SbclSources::new(installation.sources).with_places(places),
                project: Project::new(self.project),
                flights: flights::Flights::default(),
                #[cfg(feature = "text")]
                text: std::sync::OnceLock::new(),
                program: self.program,
                before: Mutex::default(),
                #[cfg(feature = "text")]
                outlined: Default::default(),
                #[cfg(feature = "text")]
                impacts: Default::default(),
                systems: Mutex::default(),
                dynamic_space_size: self.dynamic_space_size,
                key,
                restored: Mutex::default(),
                without_snapshot: without,
            }),
        };
        if let Some(snapshot) = snapshot {
            let whole = bank.inner.without_snapshot.is_none();
            bank.restore(snapshot, whole);
        }
        // Lisp starts once in a process, so nothing else is there.
        *RUNNING.lock() = Some(bank.clone());
        Ok(bank)
    }

    /// The snapshot that is meant.
    fn snapshot_key(&self) -> Option<snapshot::SnapshotKey> {
        if self.key.is_some() {
            return self.key.clone();
        }
        match (&self.project, &self.program) {
            (Some(project), Some(program)) if self.snapshots && !self.systems.is_empty() => {
                let heap = self.dynamic_space_size;
                Some(snapshot::SnapshotKey::new(project, &self.systems, &self.installation, program, heap))
            }
            _ => None,
        }
    }
}

/// The process's one SBCL, once it was started.
static RUNNING: Mutex<Option<Steelbank>> = Mutex::new(None);

/// A handle to the process's SBCL. Clones are cheap and mean the same one; any thread may ask.
#[derive(Clone)]
pub struct Steelbank {
    inner: Arc<SharedBank>,
}

impl std::fmt::Debug for Steelbank {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Steelbank")
            .field("project", &self.inner.project.settings())
            .field("records", &self.index().record_count())
            .finish_non_exhaustive()
    }
}

struct SharedBank {
    lisp: Lisp,
    index: RwLock<Index>,
    /// Held by whoever brings the index up to date: exports continue each other, so there is one at a time.
    refreshing: Mutex<()>,
    /// Whether somebody waits to do so for all who want it.
    refresh_waits: AtomicBool,
    sources: SbclSources,
    project: Project,
    flights: flights::Flights,
    #[cfg(feature = "text")]
    text: std::sync::OnceLock<steelbank_text::TextIndex>,
    program: Option<PathBuf>,
    /// The traces of a load of the unchanged project, which renames are compared with.
    before: Mutex<Option<Arc<verify::Before>>>,
    #[cfg(feature = "text")]
    outlined: crate::query::kept::LastAnswer<crate::query::outline::OutlineRequest>,
    #[cfg(feature = "text")]
    impacts: crate::query::kept::LastAnswer<crate::query::impact::ImpactRequest>,
    /// The systems that were loaded, in order.
    systems: Mutex<Vec<String>>,
    dynamic_space_size: Option<usize>,
    /// The snapshot that this image is, or is to be kept as.
    key: Option<snapshot::SnapshotKey>,
    /// The answers of the snapshot that it started from, until the first load.
    restored: Mutex<Option<load::RestoredLoads>>,
    /// Why it started from no whole snapshot, though there could be one.
    without_snapshot: Option<String>,
}

impl Steelbank {
    /// A builder, set to run what this crate's build made.
    pub fn builder() -> Builder {
        Builder {
            installation: Installation::built(),
            dynamic_space_size: None,
            control_stack_size: None,
            project: None,
            program: None,
            systems: Vec::new(),
            snapshots: true,
            key: None,
        }
    }

    /// The SBCL that was started in this process, if one was.
    pub fn get() -> Option<Self> {
        RUNNING.lock().clone()
    }

    /// The SBCL that runs in this process, or else the one that `builder` starts. Any number of threads may ask at once:
    /// what each test of a test program does first.
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

    /// Everything known about the symbol `name` of `package`.
    ///
    /// # Errors
    /// The name cannot be read, or Lisp cannot answer. Not to find the symbol is an answer.
    pub fn describe_symbol(&self, name: &str, package: &str) -> Result<DescribeSymbolAnswer, Error> {
        self.describe(&DescribeSymbolRequest::new(name).package(package), &Control::default())
    }

    /// Like [`Steelbank::describe_symbol`], with a time limit and a way to call it off.
    ///
    /// # Errors
    /// As there, and that it was called off.
    pub fn describe(
        &self,
        request: &DescribeSymbolRequest,
        control: &Control,
    ) -> Result<DescribeSymbolAnswer, Error> {
        self.ask(request, control)
    }

    /// The functions that call `name`.
    ///
    /// # Errors
    /// The name cannot be read. Not to find the symbol is an answer.
    pub fn who_calls(&self, name: &str, package: &str) -> Result<WhoAnswer, Error> {
        self.who(&WhoRequest::new(Kind::Calls, name).package(package))
    }

    /// The functions that read the variable `name`.
    ///
    /// # Errors
    /// The name cannot be read. Not to find the symbol is an answer.
    pub fn who_references(&self, name: &str, package: &str) -> Result<WhoAnswer, Error> {
        self.who(&WhoRequest::new(Kind::References, name).package(package))
    }

    /// Any question of the who-calls family. Answered from the index: it does not wait for Lisp, nor need it alive.
    ///
    /// # Errors
    /// The name cannot be read. Not to find the symbol is an answer.
    pub fn who(&self, request: &WhoRequest) -> Result<WhoAnswer, Error> {
        self.ask(request, &Control::default())
    }

    /// Evaluates `source`, forms in CL-USER, and brings the index up to date. This runs the code.
    ///
    /// # Errors
    /// The code failed, did not end within `allowed`, or Lisp is gone.
    pub fn evaluate(&self, source: &str, allowed: Duration) -> Result<EvaluateAnswer, Error> {
        self.evaluate_request(&EvaluateRequest::new(source), &Control::new(allowed))
    }

    /// Brings the index up to date with code that was loaded since. The crate's own operations that load code do it.
    ///
    /// # Errors
    /// Lisp cannot answer, or its answer does not fit the index.
    pub fn refresh(&self) -> Result<(), Error> {
        self.refresh_within(ALLOWED)
    }

    fn refresh_within(&self, allowed: Duration) -> Result<(), Error> {
        let deadline = deadline_after(allowed);
        let _one_at_a_time = self.inner.refreshing.try_lock_until(deadline).ok_or(Error::NeverBegan)?;
        let index = self.index();
        let since = index.since().to_string();
        let control = Control::new(deadline.saturating_duration_since(Instant::now()));
        let ticket = self.inner.lisp.submit(Lane::Query, control.allowed(), None, move |on_lisp| {
            on_lisp.call(Operation::XrefExport, &[&since])
        });
        let export = control.wait(ticket)?;
        *self.inner.index.write() = index.apply(&export.bytes)?;
        Ok(())
    }

    /// Brings the index up to date without keeping the caller, who has nothing to answer. Calls `then` when it is.
    fn refresh_later(&self, then: impl FnOnce() + Send + 'static) {
        let bank = self.clone();
        // Without a thread, the next load does it.
        let _ = std::thread::Builder::new().name("steelbank-refresh".into()).spawn(move || {
            // One for all that were called off meanwhile.
            if !bank.inner.refresh_waits.swap(true, Ordering::SeqCst) {
                drop(bank.inner.refreshing.lock());
                bank.inner.refresh_waits.store(false, Ordering::SeqCst);
                let _ = bank.refresh();
            }
            then();
        });
    }

    /// The index as it is now.
    pub fn index(&self) -> Index {
        self.inner.index.read().clone()
    }

    /// The project's root folder, canonical; none without a project.
    pub fn root(&self) -> Option<&Path> {
        self.project().root()
    }

    /// The source files that were loaded, each with the write date (universal time, in seconds) that it had then.
    pub fn loaded_files(&self) -> Vec<(PathBuf, u64)> {
        self.project().loaded()
    }

    /// Watches the project's files from the next question on, so that a question looks only at what has changed. For programs
    /// that ask many questions: without it, each question looks at every file.
    pub fn watch(&self) {
        self.project().watch();
    }

    /// Forgets the positions that were read from sidecars. For tests that damage those.
    #[doc(hidden)]
    pub fn forget_positions(&self) {
        let loaded = self.project().loaded();
        self.project().note_loaded(loaded, |_| true);
    }

    /// The project, and what is known of its files.
    pub(crate) fn project(&self) -> &Project {
        &self.inner.project
    }

    /// The loads that are under way.
    fn flights(&self) -> &flights::Flights {
        &self.inner.flights
    }

    /// SBCL's own sources.
    pub(crate) fn sources(&self) -> &SbclSources {
        &self.inner.sources
    }

    /// The `steelbank` program, if it was named.
    pub(crate) fn program(&self) -> Option<&Path> {
        self.inner.program.as_deref()
    }

    /// The snapshot that is meant by the builder's systems.
    pub(crate) fn snapshot_key(&self) -> Option<snapshot::SnapshotKey> {
        self.inner.key.clone()
    }

    /// Whether this image was started from a snapshot that was fresh.
    pub fn is_from_fresh_snapshot(&self) -> bool {
        self.inner.restored.lock().as_ref().is_some_and(|restored| restored.whole)
    }

    /// Whether this image was started from a part of a snapshot: from what is loaded before the files that have changed.
    pub fn is_from_part_of_snapshot(&self) -> bool {
        self.inner.restored.lock().as_ref().is_some_and(|restored| !restored.whole)
    }

    /// Why this image did not start from a whole snapshot, though there could be one; a sentence's end.
    pub fn without_snapshot(&self) -> Option<&str> {
        self.inner.without_snapshot.as_deref()
    }

    /// The systems that were loaded on request, in order.
    pub fn loaded_systems(&self) -> Vec<String> {
        self.inner.systems.lock().clone()
    }

    /// Remembers that `system` was loaded on request.
    fn note_system(&self, system: &str) {
        let mut systems = self.inner.systems.lock();
        if !systems.iter().any(|known| known == system) {
            systems.push(system.to_owned());
        }
    }

    /// The most that Lisp's heap can grow to, if that was said.
    pub(crate) fn dynamic_space_size(&self) -> Option<usize> {
        self.inner.dynamic_space_size
    }

    /// Makes this a scratch image: what it compiles goes to `cache`, which lies over the cache that it was started from, and Lisp
    /// and the answers' positions read the files of `overlays`, by their real paths, from the files beside them; none: the file
    /// counts as deleted. What a snapshot knows of loads is no longer known.
    pub(crate) fn become_scratch(
        &self,
        cache: &Path,
        overlays: &[(PathBuf, Option<PathBuf>)],
    ) -> Result<(), Error> {
        if !overlays.is_empty()
            && let Some(restored) = &mut *self.inner.restored.lock()
        {
            restored.forget();
        }
        let mut lines = String::new();
        for (path, text) in overlays {
            let text = text.as_ref().map(|text| text.display().to_string()).unwrap_or_default();
            lines.push_str(&format!("{}\n{text}\n", path.display()));
        }
        let cache = cache.display().to_string();
        let control = Control::default();
        let ticket = self.inner.lisp.submit(Lane::Query, control.allowed(), None, move |on_lisp| {
            on_lisp.call(Operation::SetOverlays, &[&cache, &lines])
        });
        control.wait(ticket)?;
        let texts = overlays.iter().filter_map(|(path, text)| Some((path.clone(), text.clone()?)));
        self.inner.project.set_overlays(texts);
        Ok(())
    }

    /// The Lisp behind the questions, for jobs of one's own.
    pub fn lisp(&self) -> Lisp {
        self.inner.lisp
    }

    /// Takes a snapshot of the engine's state. Works in every state, also when Lisp has died.
    pub fn status(&self) -> EngineStatus {
        self.inner.lisp.status()
    }
}
