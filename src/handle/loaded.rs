//! The answers of loads: [`LoadAnswer`] with its status, diagnostics, failure and remedies. Lisp
//! reports an answer as JSON; this module parses it, merges the answers of several loads, and adds
//! remedies. `text` formats it.

pub(crate) mod text;

use std::path::{Path, PathBuf};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::nearest;
use crate::answer::words::words;
use crate::answer::{Caution, Location};
use crate::workspace::write::is_nothing;

/// The outcome of a load.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadStatus {
    /// Everything is loaded.
    #[default]
    Loaded,
    /// Something failed. Definitions loaded before the failure remain.
    Failed,
    /// The load was cancelled. Definitions that were loaded before remain.
    Cancelled,
    /// The time limit passed. Definitions that were loaded before remain.
    TimedOut,
}

words! {
    /// The severity of a diagnostic.
    #[derive(PartialOrd, Ord)]
    Severity {
        /// The text could not be read, so the rest of the file was not compiled.
        ReadError = "read-error",
        /// The form does not compile and was replaced by a call of `error`, or the load stopped.
        Error = "error",
        /// The compiler is sure that something is wrong.
        Warning = "warning",
        /// The compiler suspects that something is wrong.
        StyleWarning = "style-warning",
        /// The compiler could not optimize something. Loads do not report these.
        Note = "note",
    }
}

/// A diagnostic of the compiler, the reader or the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Diagnostic {
    /// The severity.
    pub severity: Severity,
    /// The position of the name that the message is about, of the form, or of the text that could
    /// not be read. The file is an absolute native path.
    #[serde(flatten)]
    pub place: Option<Location>,
    /// The message.
    pub message: String,
    /// The form, shortened.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub form: Option<String>,
    /// True if the message is from an earlier compilation of the file, before this load.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub kept: bool,
    /// The line, from 1, on which the range ends.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_line: Option<u32>,
    /// The column after the end of the range, from 1, in characters.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_column: Option<u32>,
    /// Whether the file belongs neither to the project nor to the requested system.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub library: bool,
    /// The undefined or unused name that the message is about. It may occur in the form.
    #[serde(skip_serializing, default)]
    #[schemars(skip)]
    pub(crate) subject: Option<String>,
    /// The form's number, if the line must be looked up in the file's sidecar.
    #[serde(skip_serializing, default)]
    #[schemars(skip)]
    pub at: Option<FormNumber>,
}

/// The number of a sub-form, as assigned by SBCL.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct FormNumber {
    /// The write date (universal time) of the file that was compiled.
    pub write_date: u64,
    /// The number of the top-level form.
    pub form: u32,
    /// The number of the sub-form in the top-level form.
    pub number: u32,
}

/// The reason why a load stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureKind {
    /// A required system is not found.
    MissingDependency,
    /// A required component is not in the system.
    MissingComponent,
    /// A system has another version than required.
    VersionMismatch,
    /// The system does not exist.
    UnknownSystem,
    /// The project defines no system.
    NoSystem,
    /// Systems or components depend on each other.
    CircularDependency,
    /// A file of system definitions cannot be read or loaded.
    SystemDefinition,
    /// A file does not compile.
    Compile,
    /// A file does not exist or cannot be read.
    File,
    /// Lisp's heap is full.
    Heap,
    /// A file in the folder for fasls cannot be read or written.
    Cache,
    /// Loaded code failed while it ran, or the load failed for any other reason.
    Load,
    /// The load was cancelled.
    Cancelled,
    /// The time limit passed.
    TimedOut,
}

impl FailureKind {
    /// Returns whether a load of the same inputs always fails in the same way.
    fn is_reproducible(self) -> bool {
        match self {
            Self::MissingDependency
            | Self::MissingComponent
            | Self::VersionMismatch
            | Self::UnknownSystem
            | Self::NoSystem
            | Self::CircularDependency
            | Self::SystemDefinition
            | Self::Compile => true,
            Self::File | Self::Heap | Self::Cache | Self::Load | Self::Cancelled | Self::TimedOut => false,
        }
    }
}

/// The failure that stopped a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LoadFailure {
    /// The kind of failure.
    #[schemars(with = "String")]
    pub kind: FailureKind,
    /// The system, component or package that the failure concerns, or the members of the cycle.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// The system or component with the failed dependency.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub required_by: Option<String>,
    /// The file at which the load stopped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// A description of the failure, as a sentence.
    pub message: String,
    /// The keyword and the names with which the list in the file `clause_path`, or else `path`,
    /// starts that causes the failure.
    #[serde(skip_serializing, default)]
    #[schemars(skip)]
    pub(crate) clause: Vec<String>,
    /// The file with that list.
    #[serde(skip_serializing, default)]
    #[schemars(skip)]
    pub(crate) clause_path: Option<String>,
    /// Whether the message starts with the position of that list.
    #[serde(skip)]
    pub(crate) located: bool,
    /// Suggested remedies.
    #[serde(rename = "try", default)]
    pub remedies: Vec<String>,
}

impl LoadFailure {
    /// Creates the failure of a project that defines no system but has Lisp `files`.
    pub(crate) fn no_system(files: &str) -> Self {
        let message = format!("No .asd file of the project defines a system. Its Lisp files: {files}.");
        Self::plain(FailureKind::NoSystem, None, message)
    }

    /// Creates a failure without names and remedies.
    fn plain(kind: FailureKind, path: Option<String>, message: String) -> Self {
        Self {
            kind,
            name: None,
            required_by: None,
            path,
            message,
            clause: Vec::new(),
            clause_path: None,
            located: false,
            remedies: Vec::new(),
        }
    }

    /// Returns whether the message names the path.
    pub(crate) fn names_path(&self) -> bool {
        use FailureKind::{Cache, Compile, File, SystemDefinition};
        self.located || matches!(self.kind, Cache | Compile | File | SystemDefinition)
    }

    /// Returns whether the load failed because there is no system called `name`.
    pub(crate) fn is_of_unknown(&self, name: &str) -> bool {
        let told = self.name.as_deref();
        self.kind == FailureKind::UnknownSystem && told.is_none_or(|told| told.eq_ignore_ascii_case(name))
    }

    /// Returns whether the load failed because the file to load, `path`, does not exist.
    pub(crate) fn is_of_missing(&self, path: &Path) -> bool {
        let is_told = self.path.as_deref().is_none_or(|told| Path::new(told) == path);
        self.kind == FailureKind::File
            && is_told
            && std::fs::metadata(path).is_err_and(|why| is_nothing(&why))
    }

    fn advise(&mut self) {
        let name = self.name.as_deref().unwrap_or("it");
        let path = self.path.as_deref().unwrap_or("the file");
        self.remedies = match self.kind {
            FailureKind::MissingDependency => vec![provide(&[name])],
            FailureKind::MissingComponent => {
                vec![format!("Add {name} to the :components, or remove it from :depends-on; then load again.")]
            }
            FailureKind::VersionMismatch if matches!(name, "asdf" | "uiop") => vec![
                "Install a newer ASDF where ASDF finds systems, for example with apt install cl-asdf; then restart Lisp and load again."
                    .to_owned(),
            ],
            FailureKind::VersionMismatch => vec![
                format!("Install the required version of {name} where ASDF finds it, or require another version."),
            ],
            FailureKind::Cache => vec![
                "Make that folder writable and free space on its disk, or set STEELBANK_CACHE to another folder and start again."
                    .to_owned(),
            ],
            FailureKind::Cancelled => vec!["Load again: compiled files are reused.".to_owned()],
            FailureKind::TimedOut => vec![
                "Load again with a larger timeout_seconds: compiled files are reused. If the load never ends, correct its code."
                    .to_owned(),
            ],
            FailureKind::UnknownSystem => vec![
                "list-systems lists the project's systems; secondary systems are named primary/secondary."
                    .to_owned(),
                "If the system is outside the project, add its folder to CL_SOURCE_REGISTRY.".to_owned(),
            ],
            FailureKind::CircularDependency => {
                vec!["Break the cycle: remove one member from another member's :depends-on, and load again.".to_owned()]
            }
            FailureKind::NoSystem => vec!["Load one of the files with load-file.".to_owned()],
            FailureKind::SystemDefinition => vec![format!("Correct {path} and load again.")],
            FailureKind::Heap => vec![
                format!("If {path} allocates that much by mistake, correct it."),
                "Start again with a larger --dynamic-space-size.".to_owned(),
            ],
            FailureKind::File => vec![format!("Create {path}, or correct the reference to it; then load again.")],
            FailureKind::Compile => vec![format!(
                "Correct the errors and warnings that the diagnostics list for {path}, and load again: compiled files are reused."
            )],
            FailureKind::Load => {
                let package = self.name.as_deref().map(|package| {
                    format!("If a system defines package {package}, load that system; {path} may be one of its files.")
                });
                let correct =
                    format!("Correct the code that {path} runs at load time, and load again: compiled files are reused.");
                package.into_iter().chain([correct]).collect()
            }
        };
    }
}

/// Describes how to install libraries where ASDF finds them.
fn provide(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let quicklisp = match &quoted[..] {
        [only] => only.clone(),
        several => format!("'({})", several.join(" ")),
    };
    let debian: Vec<String> =
        names.iter().map(|name| format!("cl-{}", name.strip_prefix("cl-").unwrap_or(name))).collect();
    format!(
        "Run (ql:quickload {quicklisp}) with Quicklisp, run apt install {} if Debian has it, or copy the sources below the project or \
         into a folder of CL_SOURCE_REGISTRY; then load again.",
        debian.join(" ")
    )
}

/// A loaded file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoadedFile {
    /// The file's native path.
    pub path: PathBuf,
    /// The file's write date when it was loaded (universal time).
    #[serde(default)]
    pub write_date: Option<u64>,
    /// The file's size at that time, in bytes.
    #[serde(default)]
    pub size: Option<u64>,
    /// The FNV-1a hash of the file's bytes at that time.
    #[serde(default)]
    pub hash: Option<u64>,
}

/// A system that ASDF has found.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListedSystem {
    /// The name.
    pub name: String,
    /// The `.asd` file that defines the system.
    pub asd: PathBuf,
    /// Whether the system is loaded.
    pub loaded: bool,
    /// Whether ASDF inferred it from a file of a package-inferred system.
    #[serde(default)]
    pub inferred: bool,
    /// The system's Lisp files, if its `.asd` file is below the project's root.
    #[serde(default)]
    pub files: Option<Vec<PathBuf>>,
}

/// The files and systems in the image.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageContents {
    /// The files that were loaded through steelbank.
    #[serde(default)]
    pub(crate) files: Vec<LoadedFile>,
    /// The systems that ASDF has found.
    #[serde(default)]
    pub(crate) systems: Vec<ListedSystem>,
}

/// The answer of a load.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadAnswer {
    /// The system, for load-system.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system: Option<String>,
    /// The file, for load-file.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// The outcome.
    pub status: LoadStatus,
    /// The duration in milliseconds.
    pub duration_ms: u64,
    /// The files that were compiled.
    #[serde(default)]
    pub compiled: Vec<String>,
    /// The files that were loaded from the cache.
    #[serde(default)]
    pub cached: Vec<String>,
    /// The diagnostics, those of libraries last, most severe first, then in order of occurrence.
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
    /// The total number of diagnostics, if not all are listed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub diagnostics_total: Option<usize>,
    /// The failure that stopped the load, if there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<LoadFailure>,
    /// The outcome of each system, if the request was for several.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub systems: Vec<SystemOutcome>,
    /// Cautions about the answer.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schemars(with = "Vec<String>")]
    pub cautions: Vec<Caution>,
    /// The current contents of the image, if Lisp could report them.
    #[serde(skip_serializing, default)]
    #[schemars(skip)]
    pub(crate) image: Option<ImageContents>,
}

/// The outcome of the load of one system among several.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SystemOutcome {
    /// The system.
    pub system: String,
    /// The outcome.
    pub status: LoadStatus,
    /// The failure, if there was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<LoadFailure>,
}

/// A reason why systems of a project are not loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LoadCause {
    /// The missing library, if that is the reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// The failure's message, for any other reason.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The first system with this reason.
    pub system: String,
    /// The number of systems with this reason.
    pub systems: usize,
}

/// The target of a load.
#[derive(Debug, Clone)]
pub(crate) enum LoadTarget {
    /// A system, by name.
    System(String),
    /// A file, by path.
    File(String),
}

/// The outcome of the setup before the first load.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SetUp {
    /// The last step: `qlot`, `init-file` or `source-registry`.
    pub(crate) step: String,
    /// The outcome of that step.
    pub(crate) status: LoadStatus,
    /// The failure that stopped the step.
    #[serde(default)]
    pub(crate) failure: Option<LoadFailure>,
    /// The diagnostics.
    #[serde(default)]
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Appends the elements of `from` that `to` does not contain.
fn add_new<T: PartialEq>(to: &mut Vec<T>, from: Vec<T>) {
    let new: Vec<T> = from.into_iter().filter(|one| !to.contains(one)).collect();
    to.extend(new);
}

/// The maximum number of diagnostics in an answer.
const MAX_DIAGNOSTICS: usize = 200;

impl LoadAnswer {
    /// Creates the answer of a load that exceeded its time limit. `message` describes the state of
    /// the load.
    pub(crate) fn timed_out(target: LoadTarget, allowed: Duration, message: String) -> LoadAnswer {
        let duration_ms = u64::try_from(allowed.as_millis()).unwrap_or(u64::MAX);
        let answer = Self::stopped(target, FailureKind::TimedOut, None, message);
        LoadAnswer { status: LoadStatus::TimedOut, duration_ms, ..answer }
    }

    /// Creates the answer of a load that stopped with a failure of `kind` at the file `path`,
    /// before Lisp could report an answer.
    pub(crate) fn stopped(
        target: LoadTarget,
        kind: FailureKind,
        path: Option<String>,
        message: String,
    ) -> LoadAnswer {
        let failure = LoadFailure::plain(kind, path, message);
        let (system, path) = match target {
            LoadTarget::System(name) => (Some(name), None),
            LoadTarget::File(path) => (None, Some(path)),
        };
        LoadAnswer {
            system,
            path,
            status: LoadStatus::Failed,
            failure: Some(failure),
            ..LoadAnswer::default()
        }
    }

    /// Returns whether a load of the same inputs always has the same outcome.
    pub(crate) fn is_reproducible(&self) -> bool {
        self.status == LoadStatus::Loaded
            || self.failure.as_ref().is_some_and(|failure| failure.kind.is_reproducible())
    }

    /// Returns the number of loaded systems among [`LoadAnswer::systems`].
    pub fn systems_loaded(&self) -> usize {
        self.systems.iter().filter(|system| system.status == LoadStatus::Loaded).count()
    }

    /// Returns the reasons why systems are not loaded. The reason that affects the most systems
    /// comes first.
    pub fn causes(&self) -> Vec<LoadCause> {
        let mut causes: Vec<LoadCause> = Vec::new();
        for SystemOutcome { system, failure, .. } in
            self.systems.iter().filter(|system| system.status != LoadStatus::Loaded)
        {
            let is_missing = |failure: &&LoadFailure| failure.kind == FailureKind::MissingDependency;
            let missing = failure.as_ref().filter(is_missing).and_then(|failure| failure.name.clone());
            let message =
                failure.as_ref().filter(|_| missing.is_none()).map(|failure| failure.message.clone());
            match causes.iter_mut().find(|cause| (&cause.missing, &cause.message) == (&missing, &message)) {
                Some(cause) => cause.systems += 1,
                None => causes.push(LoadCause { missing, message, system: system.clone(), systems: 1 }),
            }
        }
        causes.sort_by_key(|cause| std::cmp::Reverse(cause.systems));
        causes
    }

    /// Returns the remedies for missing libraries. The first remedy installs all of them. The
    /// others come from the first failure that is about a missing library, without its first
    /// remedy.
    pub(crate) fn remedies_of_missing(&self, causes: &[LoadCause]) -> Vec<String> {
        let missing: Vec<&str> = causes.iter().filter_map(|cause| cause.missing.as_deref()).collect();
        let failures = self.systems.iter().filter_map(|system| system.failure.as_ref());
        let of_one = failures.clone().find(|failure| failure.kind == FailureKind::MissingDependency);
        let others = of_one.into_iter().flat_map(|failure| failure.remedies.iter().skip(1).cloned());
        (!missing.is_empty()).then(|| provide(&missing)).into_iter().chain(others).collect()
    }

    /// Adds the files and diagnostics of `later`, another load of the same system. The result has
    /// the outcome of `later`.
    pub(crate) fn followed_by(self, later: LoadAnswer) -> LoadAnswer {
        let (system, path) = (later.system.clone(), later.path.clone());
        let (status, failure) = (later.status, later.failure.clone());
        LoadAnswer { system, path, status, failure, ..self.and(later) }
    }

    /// Adds the answer for a file that was loaded next. If that load failed, its status becomes the
    /// status of the result.
    pub(crate) fn followed_by_file(self, answer: LoadAnswer) -> LoadAnswer {
        let status = if answer.status == LoadStatus::Loaded { self.status } else { answer.status };
        LoadAnswer { status, ..self.and(answer) }
    }

    /// Adds the files, diagnostics, cautions and duration of `other`.
    fn and(mut self, other: LoadAnswer) -> LoadAnswer {
        add_new(&mut self.compiled, other.compiled);
        add_new(&mut self.cached, other.cached);
        self.cached.retain(|path| !self.compiled.contains(path));
        add_new(&mut self.cautions, other.cautions);
        for found in other.diagnostics {
            let same = |said: &Diagnostic| {
                (said.severity, &said.place, &said.message) == (found.severity, &found.place, &found.message)
            };
            if !self.diagnostics.iter().any(same) {
                self.diagnostics.push(found);
            }
        }
        self.duration_ms = self.duration_ms.saturating_add(other.duration_ms);
        self
    }

    /// Adds the answer for another system of the project, `name`. If that system is not loaded, the
    /// result does not count as loaded either.
    pub(crate) fn with_system(self, name: &str, answer: LoadAnswer) -> LoadAnswer {
        let outcome =
            SystemOutcome { system: name.to_owned(), status: answer.status, failure: answer.failure.clone() };
        let mut all = self.and(answer);
        if outcome.status != LoadStatus::Loaded && all.status == LoadStatus::Loaded {
            all.status = LoadStatus::Failed;
        }
        all.systems.push(outcome);
        all
    }

    /// Suggests the `known` systems with names similar to `system`, which does not exist.
    pub(crate) fn suggest(&mut self, system: &str, known: &[String]) {
        let alike = nearest::systems(system, known.iter().map(String::as_str));
        if let (Some(failure), false) = (&mut self.failure, alike.is_empty()) {
            failure.remedies.insert(0, format!("Did you mean {}?", alike.join(" or ")));
        }
    }

    /// Sorts the diagnostics by severity, those of libraries last, and truncates them to
    /// [`MAX_DIAGNOSTICS`]. Adds remedies to a failure that has none.
    pub(crate) fn finished(mut self) -> LoadAnswer {
        self.diagnostics.sort_by_key(|diagnostic| (diagnostic.library, diagnostic.severity));
        if self.diagnostics.len() > MAX_DIAGNOSTICS {
            self.diagnostics_total = Some(self.diagnostics.len());
            self.diagnostics.truncate(MAX_DIAGNOSTICS);
        }
        if let Some(failure) = &mut self.failure
            && failure.remedies.is_empty()
        {
            failure.advise();
        }
        self
    }
}
