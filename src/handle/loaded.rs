//! load-system and load-file: the questions that change the image.

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
    /// Something failed; what was loaded before stays.
    Failed,
    /// It was called off; what was loaded before stays.
    Cancelled,
    /// Its time was over; what was loaded before stays.
    TimedOut,
}

words! {
    /// How bad a diagnostic is.
    #[derive(PartialOrd, Ord)]
    Severity {
        /// The text could not be read; the rest of the file was not compiled.
        ReadError = "read-error",
        /// The form was replaced by a call of `error`, or the load stopped.
        Error = "error",
        /// The compiler is sure that something is wrong.
        Warning = "warning",
        /// The compiler suspects that something is wrong.
        StyleWarning = "style-warning",
        /// The compiler could not do something better. Loads do not tell of it.
        Note = "note",
    }
}

/// A diagnostic of the compiler, the reader or the load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The form concerned, or where the reader stood; its file as the operating system names it.
    #[serde(flatten)]
    pub place: Option<Location>,
    /// What was said.
    pub message: String,
    /// The form concerned, shortened.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub form: Option<String>,
    /// True for what was said when the file was compiled, which was before this load.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub kept: bool,
    /// The line, from 1, on which what is concerned ends.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_line: Option<u32>,
    /// The column, from 1, in characters, after its end.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub end_column: Option<u32>,
    /// The symbol's name that is undefined, if that is said: it stands in the form concerned.
    #[serde(skip_serializing, default)]
    #[schemars(skip)]
    pub(crate) subject: Option<String>,
    /// Where it is, if only the file's sidecar tells the line.
    #[serde(skip_serializing, default)]
    #[schemars(skip)]
    pub at: Option<FormNumber>,
}

/// A sub-form as SBCL numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct FormNumber {
    /// The write date (universal time) of the file that was compiled.
    pub write_date: u64,
    /// The top-level form.
    pub form: u32,
    /// The form in it.
    pub number: u32,
}

/// Why a load stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum FailureKind {
    /// A system that another one depends on is not found.
    MissingDependency,
    /// A component that another one depends on is not in the system.
    MissingComponent,
    /// A system is there in another version than is wanted.
    VersionMismatch,
    /// There is no such system.
    UnknownSystem,
    /// Systems or components depend on each other.
    CircularDependency,
    /// A file of system definitions cannot be read or loaded.
    SystemDefinition,
    /// A file does not compile.
    Compile,
    /// A file is not there or cannot be read.
    File,
    /// Lisp's heap is full.
    Heap,
    /// The folder for fasls cannot be written.
    Cache,
    /// What was loaded failed when it ran.
    Load,
    /// It was called off.
    Cancelled,
    /// Its time was over.
    TimedOut,
}

impl FailureKind {
    /// Whether a load of the same inputs fails the same, whatever else happens in the world.
    fn is_settled(self) -> bool {
        match self {
            Self::MissingDependency
            | Self::MissingComponent
            | Self::VersionMismatch
            | Self::UnknownSystem
            | Self::CircularDependency
            | Self::SystemDefinition
            | Self::Compile => true,
            Self::File | Self::Heap | Self::Cache | Self::Load | Self::Cancelled | Self::TimedOut => false,
        }
    }
}

/// What stopped a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LoadFailure {
    /// Why it stopped.
    #[schemars(with = "String")]
    pub kind: FailureKind,
    /// The system, component or package that is missing or of another version, or those in the circle.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub name: Option<String>,
    /// Who needs the system that is missing.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub required_by: Option<String>,
    /// The file at which it stopped.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// What happened, as a sentence.
    pub message: String,
    /// What can be tried.
    #[serde(rename = "try", default)]
    pub remedies: Vec<String>,
}

impl LoadFailure {
    /// Whether the load failed because there is no system called `name`.
    pub(crate) fn is_of_unknown(&self, name: &str) -> bool {
        let told = self.name.as_deref();
        self.kind == FailureKind::UnknownSystem && told.is_none_or(|told| told.eq_ignore_ascii_case(name))
    }

    /// Whether the load failed because there is no file at `path`, which was to be loaded.
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
                vec![format!("Add {name} to the :components, or take it out of :depends-on; then load again.")]
            }
            FailureKind::VersionMismatch => vec![
                format!("Put the version of {name} that is wanted where ASDF looks, or ask for another one."),
            ],
            FailureKind::Cache => vec![
                "Make that folder writable, and room on its disk; or set STEELBANK_CACHE to another folder and \
                 start again."
                    .to_owned(),
            ],
            FailureKind::Cancelled => vec!["Load again: what is compiled is kept.".to_owned()],
            FailureKind::TimedOut => vec![
                "Load again with a larger timeout_seconds: what is compiled is kept. If it never ends, correct it."
                    .to_owned(),
            ],
            FailureKind::UnknownSystem => vec![
                "list-systems shows what the project defines; secondary systems are named primary/secondary."
                    .to_owned(),
                "If it is not below the project, add its folder to CL_SOURCE_REGISTRY.".to_owned(),
            ],
            FailureKind::CircularDependency => {
                vec!["Take one of these out of the other's :depends-on, and load again.".to_owned()]
            }
            FailureKind::SystemDefinition => vec![format!("Correct {path} and load again.")],
            FailureKind::Heap => vec![
                format!("If {path} asks for that much by mistake, correct it."),
                "Start again with a larger --dynamic-space-size.".to_owned(),
            ],
            FailureKind::File => vec![format!("Put {path} where it is looked for, or correct what names it; then load again.")],
            FailureKind::Compile => vec![format!(
                "Correct the errors and warnings of {path} in the diagnostics and load again: what is compiled is kept."
            )],
            FailureKind::Load => {
                let package = self.name.as_deref().map(|package| {
                    format!("If a system makes package {package}, load that system, which may have {path} as well.")
                });
                let correct =
                    format!("Correct what {path} does when it is loaded, and load again: what is compiled is kept.");
                package.into_iter().chain([correct]).collect()
            }
        };
    }
}

/// Says how to bring libraries to where ASDF looks.
fn provide(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| format!("\"{name}\"")).collect();
    let quicklisp = match &quoted[..] {
        [only] => only.clone(),
        several => format!("'({})", several.join(" ")),
    };
    let debian: Vec<String> =
        names.iter().map(|name| format!("cl-{}", name.strip_prefix("cl-").unwrap_or(name))).collect();
    format!(
        "(ql:quickload {quicklisp}) with Quicklisp, apt install {} as far as Debian has it, or put it below the project or \
         in a folder of CL_SOURCE_REGISTRY; then load again.",
        debian.join(" ")
    )
}

/// A file that is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct LoadedFile {
    /// As the operating system names it.
    pub path: PathBuf,
    /// The write date (universal time) that it had when it was loaded.
    #[serde(default)]
    pub write_date: Option<u64>,
    /// Its size in bytes then.
    #[serde(default)]
    pub size: Option<u64>,
    /// The FNV-1a hash of its bytes then.
    #[serde(default)]
    pub hash: Option<u64>,
}

/// A system that ASDF knows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct ListedSystem {
    /// Its name.
    pub name: String,
    /// The file that defines it.
    pub asd: PathBuf,
    /// Whether it is loaded.
    pub loaded: bool,
    /// Its Lisp files, if it is the project's.
    #[serde(default)]
    pub files: Option<Vec<PathBuf>>,
}

/// The contents of the image: files and systems.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ImageContents {
    /// All files that were loaded through us.
    #[serde(default)]
    pub(crate) files: Vec<LoadedFile>,
    /// The systems that ASDF knows.
    #[serde(default)]
    pub(crate) systems: Vec<ListedSystem>,
}

/// The answer to load-system and load-file.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadAnswer {
    /// The system, if it was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub system: Option<String>,
    /// The file, if it was one.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// How it ended.
    pub status: LoadStatus,
    /// How long it took, in milliseconds.
    pub duration_ms: u64,
    /// The files that were compiled.
    #[serde(default)]
    pub compiled: Vec<String>,
    /// The files that were loaded from the cache.
    #[serde(default)]
    pub cached: Vec<String>,
    /// What was said, the worst first, then in order.
    #[serde(default)]
    pub diagnostics: Vec<Diagnostic>,
    /// How many diagnostics there were, if not all are listed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub diagnostics_total: Option<usize>,
    /// What stopped it, if it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<LoadFailure>,
    /// How each system ended, if several were to be loaded.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub systems: Vec<SystemOutcome>,
    /// What must be known beside it.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    #[schemars(with = "Vec<String>")]
    pub cautions: Vec<Caution>,
    /// What the image holds now, if Lisp could tell.
    #[serde(skip_serializing, default)]
    #[schemars(skip)]
    pub(crate) image: Option<ImageContents>,
}

/// How the load of one system among several ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SystemOutcome {
    /// The system.
    pub system: String,
    /// How it ended.
    pub status: LoadStatus,
    /// What stopped it, if it failed.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub failure: Option<LoadFailure>,
}

/// Why systems of a project are not loaded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct LoadCause {
    /// The library that they lack, if it is that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<String>,
    /// What happened, if it is not that.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The first of the systems.
    pub system: String,
    /// How many there are.
    pub systems: usize,
}

/// What is to be loaded.
#[derive(Debug, Clone)]
pub(crate) enum LoadTarget {
    /// A system, by name.
    System(String),
    /// A file, by path.
    File(String),
}

/// How the set-up before the first load ended.
#[derive(Debug, Clone, Deserialize)]
pub(crate) struct SetUp {
    /// Its last step: `qlot`, `init-file` or `source-registry`.
    pub(crate) step: String,
    /// How that step ended.
    pub(crate) status: LoadStatus,
    /// What stopped it.
    #[serde(default)]
    pub(crate) failure: Option<LoadFailure>,
    /// What was said.
    #[serde(default)]
    pub(crate) diagnostics: Vec<Diagnostic>,
}

/// Adds those of `from` that `to` lacks.
fn add_new<T: PartialEq>(to: &mut Vec<T>, from: Vec<T>) {
    let new: Vec<T> = from.into_iter().filter(|one| !to.contains(one)).collect();
    to.extend(new);
}

/// The most diagnostics that an answer lists.
const MOST_DIAGNOSTICS: usize = 200;

impl LoadAnswer {
    /// Makes the answer of a load that ran out of time; `message` says what it did.
    pub(crate) fn timed_out(target: LoadTarget, allowed: Duration, message: String) -> LoadAnswer {
        let duration_ms = u64::try_from(allowed.as_millis()).unwrap_or(u64::MAX);
        let answer = Self::stopped(target, FailureKind::TimedOut, None, message);
        LoadAnswer { status: LoadStatus::TimedOut, duration_ms, ..answer }
    }

    /// Makes the answer of a load that Lisp could not give, as something of `kind` stopped it at the file `path`.
    pub(crate) fn stopped(
        target: LoadTarget,
        kind: FailureKind,
        path: Option<String>,
        message: String,
    ) -> LoadAnswer {
        let failure =
            LoadFailure { kind, name: None, required_by: None, path, message, remedies: Vec::new() };
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

    /// Whether a load of the same inputs ends the same.
    pub(crate) fn is_settled(&self) -> bool {
        self.status == LoadStatus::Loaded
            || self.failure.as_ref().is_some_and(|failure| failure.kind.is_settled())
    }

    /// How many of several systems are loaded.
    pub fn systems_loaded(&self) -> usize {
        self.systems.iter().filter(|system| system.status == LoadStatus::Loaded).count()
    }

    /// Why the others are not, the cause that stops most first.
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

    /// What can be tried where libraries are missing: all of them at once, then what each failure has beside that.
    pub(crate) fn remedies_of_missing(&self, causes: &[LoadCause]) -> Vec<String> {
        let missing: Vec<&str> = causes.iter().filter_map(|cause| cause.missing.as_deref()).collect();
        let failures = self.systems.iter().filter_map(|system| system.failure.as_ref());
        let of_one = failures.clone().find(|failure| failure.kind == FailureKind::MissingDependency);
        let others = of_one.into_iter().flat_map(|failure| failure.remedies.iter().skip(1).cloned());
        (!missing.is_empty()).then(|| provide(&missing)).into_iter().chain(others).collect()
    }

    /// Adds what `later`, another load of the same system, did and said; the outcome is that of `later`.
    pub(crate) fn followed_by(self, later: LoadAnswer) -> LoadAnswer {
        let (system, path) = (later.system.clone(), later.path.clone());
        let (status, failure) = (later.status, later.failure.clone());
        LoadAnswer { system, path, status, failure, ..self.and(later) }
    }

    /// Adds the answer about one more file.
    pub(crate) fn followed_by_file(self, answer: LoadAnswer) -> LoadAnswer {
        let status = if answer.status == LoadStatus::Loaded { self.status } else { answer.status };
        LoadAnswer { status, ..self.and(answer) }
    }

    /// Adds the files, diagnostics, cautions and time of `other`.
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

    /// Adds the answer about one more system of the project, `name`.
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

    /// Suggests those of `known` systems whose names are like `system`, which does not exist.
    pub(crate) fn suggest(&mut self, system: &str, known: &[String]) {
        let alike = nearest::systems(system, known.iter().map(String::as_str));
        if let (Some(failure), false) = (&mut self.failure, alike.is_empty()) {
            failure.remedies.insert(0, format!("Did you mean {}?", alike.join(" or ")));
        }
    }

    /// Sorts the diagnostics, the worst first, cuts them at [`MOST_DIAGNOSTICS`], and adds remedies.
    pub(crate) fn finished(mut self) -> LoadAnswer {
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.severity);
        if self.diagnostics.len() > MOST_DIAGNOSTICS {
            self.diagnostics_total = Some(self.diagnostics.len());
            self.diagnostics.truncate(MOST_DIAGNOSTICS);
        }
        if let Some(failure) = &mut self.failure
            && failure.remedies.is_empty()
        {
            failure.advise();
        }
        self
    }
}
