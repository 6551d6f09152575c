//! [`Steelbank`]: SBCL and the indexes over it, behind one handle.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::{Mutex, RwLock};

use crate::engine::{Contribs, Core, Image, Lane, Lisp, Operation, RuntimeLibrary, Settings, Status};
use crate::query::Error;
use crate::query::control::Control;
use crate::query::describe_symbol::{DescribeSymbolAnswer, DescribeSymbolRequest};
use crate::query::evaluate::{EvaluateAnswer, EvaluateRequest};
use crate::query::project::{Project, ProjectSettings};
use crate::query::who::{WhoAnswer, WhoRequest};
use crate::source::sbcl::SbclSources;
use crate::xref::{Index, Kind};

/// Everything that an SBCL needs to run and to be asked: all of one build.
#[derive(Debug, Clone)]
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
    /// Its octets.
    Memory(&'static [u8]),
}

impl Installation {
    /// The parts that this crate's build made. Right for programs and tests that run where they were built.
    pub fn built() -> Self {
        Self {
            sources: Some(PathBuf::from(env!("STEELBANK_BUILT_SBCL"))),
            ..Self::in_folder(Path::new(env!("STEELBANK_BUILT_IMAGE")))
        }
    }

    /// The split form: `libsteelbank-sbcl.so`, `steelbank.core`, `steelbank.xref` and `contrib/` in one folder.
    pub fn in_folder(folder: &Path) -> Self {
        Self {
            image: Image {
                library: RuntimeLibrary::File(folder.join("libsteelbank-sbcl.so")),
                core: Core::File(folder.join("steelbank.core")),
                contribs: Contribs::Folder(folder.join("contrib")),
            },
            index: IndexData::File(folder.join("steelbank.xref")),
            sources: None,
        }
    }
}

/// Builds a [`Steelbank`].
#[derive(Debug, Clone)]
pub struct Builder {
    installation: Installation,
    dynamic_space_size: Option<usize>,
    control_stack_size: Option<usize>,
    project: Option<ProjectSettings>,
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

    /// The most that Lisp's heap can grow to, in octets.
    #[must_use]
    pub fn dynamic_space_size(mut self, octets: usize) -> Self {
        self.dynamic_space_size = Some(octets);
        self
    }

    /// The control stack of each Lisp thread, in octets.
    #[must_use]
    pub fn control_stack_size(mut self, octets: usize) -> Self {
        self.control_stack_size = Some(octets);
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
        let mut settings = Settings::new(self.installation.image);
        settings.dynamic_space_size = self.dynamic_space_size.unwrap_or(settings.dynamic_space_size);
        settings.control_stack_size = self.control_stack_size.unwrap_or(settings.control_stack_size);
        let index = match &self.installation.index {
            IndexData::Memory(octets) => Index::open(*octets),
            IndexData::File(path) => {
                let octets = std::fs::read(path)
                    .map_err(|error| Error::Index(format!("{}: {error}", path.display())))?;
                Index::open(Arc::<[u8]>::from(octets))
            }
        };
        let index = index.map_err(|error| Error::Index(error.to_string()))?;
        let lisp = Lisp::start(&settings)?;
        Ok(Steelbank {
            inner: Arc::new(Inner {
                lisp,
                index: RwLock::new(index),
                refreshing: Mutex::new(()),
                sources: SbclSources::new(self.installation.sources),
                project: Project::new(self.project),
            }),
        })
    }
}

/// A handle to the process's SBCL. Clones are cheap and mean the same one; any thread may ask.
#[derive(Clone)]
pub struct Steelbank {
    inner: Arc<Inner>,
}

struct Inner {
    lisp: Lisp,
    index: RwLock<Index>,
    /// Held by whoever brings the index up to date: exports continue each other, so there is one at a time.
    refreshing: Mutex<()>,
    sources: SbclSources,
    project: Project,
}

impl Steelbank {
    /// A builder, set to run what this crate's build made.
    pub fn builder() -> Builder {
        Builder {
            installation: Installation::built(),
            dynamic_space_size: None,
            control_stack_size: None,
            project: None,
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
        request.answer(self.inner.lisp, &self.index(), &self.inner.sources, control)
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
        Ok(request.answer(&self.index())?)
    }

    /// Adds lines and columns to the places of `answer`, which is the answer to `request`, as far as the sources can
    /// be read.
    pub fn locate(&self, request: &WhoRequest, answer: &mut WhoAnswer) {
        request.locate(answer, &self.index(), &self.inner.project, &self.inner.sources);
    }

    /// Evaluates `source`, forms in CL-USER, and brings the index up to date. This runs the code.
    ///
    /// # Errors
    /// The code failed, did not end within `allowed`, or Lisp is gone.
    pub fn evaluate(&self, source: &str, allowed: Duration) -> Result<EvaluateAnswer, Error> {
        let outcome =
            EvaluateRequest::new(source).answer(self.inner.lisp, Lane::Work, &Control::new(allowed));
        // A form that failed may have defined something before.
        let refreshed = self.refresh();
        let answer = outcome?;
        refreshed?;
        Ok(answer)
    }

    /// Brings the index up to date with code that was loaded since. The crate's own operations that load code do it.
    ///
    /// # Errors
    /// Lisp cannot answer, or its answer does not fit the index.
    pub fn refresh(&self) -> Result<(), Error> {
        let _one_at_a_time = self.inner.refreshing.lock();
        let index = self.index();
        let since = index.since().to_string();
        let control = Control::default();
        let ticket = self.inner.lisp.submit(Lane::Query, control.allowed(), None, move |on_lisp| {
            on_lisp.call(Operation::XrefExport, &[&since])
        });
        let export = control.wait(ticket)?;
        *self.inner.index.write() = index.apply(&export.octets)?;
        Ok(())
    }

    /// The index as it is now.
    pub fn index(&self) -> Index {
        self.inner.index.read().clone()
    }

    /// The project, and what is known of its files.
    pub fn project(&self) -> &Project {
        &self.inner.project
    }

    /// SBCL's own sources.
    pub(crate) fn sources(&self) -> &SbclSources {
        &self.inner.sources
    }

    /// The Lisp behind the questions, for jobs of one's own.
    pub fn lisp(&self) -> Lisp {
        self.inner.lisp
    }

    /// What Lisp is doing. Works in every state, also when Lisp has died.
    pub fn status(&self) -> Status {
        self.inner.lisp.status()
    }
}
