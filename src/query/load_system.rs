//! load-system, load-file and list-systems: the questions that change the image, and what a project holds.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How a load ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum LoadStatus {
    /// Everything is loaded.
    Loaded,
    /// Something failed; what was loaded before stays.
    Failed,
    /// It was called off; what was loaded before stays.
    Cancelled,
    /// Its time was over; what was loaded before stays.
    TimedOut,
}

/// How bad a diagnostic is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// The text could not be read; the rest of the file was not compiled.
    ReadError,
    /// The form was replaced by a call of `error`, or the load stopped.
    Error,
    /// The compiler is sure that something is wrong.
    Warning,
    /// The compiler suspects that something is wrong.
    StyleWarning,
}

impl Severity {
    /// The name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Severity::ReadError => "read-error",
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::StyleWarning => "style-warning",
        }
    }
}

/// What the compiler, the reader or the load said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnostic {
    /// How bad it is.
    pub severity: Severity,
    /// The file, as the operating system names it.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub path: Option<String>,
    /// The line, from 1.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub line: Option<u32>,
    /// The column, from 1, in characters: of the form concerned, or of where the reader stood.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub column: Option<u32>,
    /// What was said.
    pub message: String,
    /// The form concerned, shortened.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub form: Option<String>,
    /// Where it is, if only the file's sidecar tells the line.
    #[serde(skip_serializing, default)]
    #[schemars(skip)]
    pub at: Option<FormNumber>,
}

/// A sub-form as SBCL numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct FormNumber {
    /// The write date (universal time) of the file that was compiled.
    pub write_date: u64,
    /// The top-level form.
    pub form: u32,
    /// The form in it.
    pub number: u32,
}

/// What stopped a load.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoadFailure {
    /// `missing-dependency`, `missing-component`, `version-mismatch`, `unknown-system`, `circular-dependency`,
    /// `system-definition`, `compile`, `file`, `cache`, `load`, `cancelled` or `timed-out`.
    pub kind: String,
    /// The system or component that is missing or of another version, or those in the circle.
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
    fn advise(&mut self) {
        let name = self.name.as_deref().unwrap_or("it");
        let path = self.path.as_deref().unwrap_or("the file");
        self.remedies = match self.kind.as_str() {
            "missing-dependency" => vec![
                format!(
                    "Put {name} where ASDF looks: below the project, in a folder of CL_SOURCE_REGISTRY, or in your Quicklisp, ocicl or qlot set-up; then load again."
                ),
                "If the set-up is made in your init file, do not pass --no-userinit.".to_owned(),
            ],
            "missing-component" => {
                vec![format!("Add {name} to the :components, or take it out of :depends-on; then load again.")]
            }
            "version-mismatch" => vec![
                format!("Put the version of {name} that is wanted where ASDF looks, or ask for another one."),
            ],
            "cache" => vec![
                "Make that folder writable, and room on its disk; or set STEELBANK_CACHE to another folder and \
                 start again."
                    .to_owned(),
            ],
            "cancelled" => vec!["Load again: what is compiled is kept.".to_owned()],
            "timed-out" => vec![
                "Load again with a larger timeout_seconds: what is compiled is kept. If it never ends, correct it."
                    .to_owned(),
            ],
            "unknown-system" => vec![
                "list-systems shows what the project defines; secondary systems are named primary/secondary."
                    .to_owned(),
                "If it is not below the project, add its folder to CL_SOURCE_REGISTRY.".to_owned(),
            ],
            "circular-dependency" => {
                vec!["Take one of these out of the other's :depends-on, and load again.".to_owned()]
            }
            "system-definition" => vec![format!("Correct {path} and load again.")],
            "compile" => vec![format!(
                "Correct the errors and warnings of {path} in the diagnostics and load again: what is compiled is kept."
            )],
            _ => vec![format!(
                "Correct what {path} does when it is loaded, and load again: what is compiled is kept."
            )],
        };
    }
}

/// A file that is loaded.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoadedFile {
    /// As the operating system names it.
    pub path: PathBuf,
    /// The write date (universal time) that it had when it was loaded.
    #[serde(default)]
    pub write_date: Option<u64>,
}

/// The answer to load-system and load-file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// All files that are loaded.
    #[serde(skip_serializing, default)]
    #[schemars(skip)]
    pub files: Vec<LoadedFile>,
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

/// The most diagnostics that an answer lists.
const MOST_DIAGNOSTICS: usize = 200;

impl LoadAnswer {
    /// A load whose time was over; `message` says what it did.
    pub(crate) fn timed_out(target: LoadTarget, allowed: Duration, message: String) -> LoadAnswer {
        let (system, path) = match target {
            LoadTarget::System(name) => (Some(name), None),
            LoadTarget::File(path) => (None, Some(path)),
        };
        let failure = LoadFailure {
            kind: "timed-out".to_owned(),
            name: None,
            required_by: None,
            path: None,
            message,
            remedies: Vec::new(),
        };
        LoadAnswer {
            system,
            path,
            status: LoadStatus::TimedOut,
            duration_ms: u64::try_from(allowed.as_millis()).unwrap_or(u64::MAX),
            compiled: Vec::new(),
            cached: Vec::new(),
            diagnostics: Vec::new(),
            diagnostics_total: None,
            failure: Some(failure),
            files: Vec::new(),
        }
    }

    /// Puts the worst first, cuts what nobody would read, and says what can be tried.
    pub(crate) fn finished(mut self) -> LoadAnswer {
        self.diagnostics.sort_by_key(|diagnostic| diagnostic.severity);
        if self.diagnostics.len() > MOST_DIAGNOSTICS {
            self.diagnostics_total = Some(self.diagnostics.len());
            self.diagnostics.truncate(MOST_DIAGNOSTICS);
        }
        if let Some(failure) = &mut self.failure {
            failure.advise();
        }
        self
    }
}

/// A piece of news while a system loads.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct LoadNews {
    /// Steps begun.
    pub done: u64,
    /// Steps in all; 0 if unknown.
    #[serde(default)]
    pub total: u64,
    /// `compile` or `load`.
    pub what: String,
    /// The file.
    #[serde(default)]
    pub path: String,
}

/// A system of the project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SystemEntry {
    /// Its name.
    pub name: String,
    /// The file that defines it.
    pub asd: String,
    /// Whether its definition has been read.
    pub known: bool,
    /// Whether it is loaded.
    pub loaded: bool,
    /// How many Lisp files it has; 0 while its definition has not been read.
    #[serde(default)]
    pub files: u64,
    /// Files that have changed on disk since they were loaded.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub changed: Vec<String>,
}

/// The answer to list-systems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SystemsAnswer {
    /// The project's root.
    pub root: String,
    /// Its systems, by name.
    pub systems: Vec<SystemEntry>,
    /// How many there are.
    pub count: usize,
}
