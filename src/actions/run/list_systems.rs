//! Implements list-systems, which lists the systems that the project's `.asd` files define and
//! whether they are loaded. It parses the files, runs no code and does not wait for Lisp.

mod text;
pub(crate) mod tool;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::Steelbank;
use crate::engine::LispError;
use crate::engine::control::Control;
use crate::handle::Error;
use crate::handle::context::QueryContext;
use crate::handle::question::Question;
use crate::workspace::Project;
use crate::workspace::systems::definition_files;

/// A request for the project's systems, their load state, and the files that changed after they
/// were loaded. Parses the files; runs no code and does not wait for Lisp.
#[derive(Debug, Clone, Default)]
pub struct ListSystemsRequest {
    files: bool,
}

impl ListSystemsRequest {
    /// Creates a request for all systems.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets whether the files of each system are listed.
    #[must_use]
    pub fn files(mut self, files: bool) -> Self {
        self.files = files;
        self
    }
}

/// A system of the project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SystemEntry {
    /// The system's name.
    pub name: String,
    /// The file that defines it, relative to the root.
    pub asd: String,
    /// Other files that define a system of this name, relative to the root. ASDF uses only one of
    /// the files.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub also_defined_in: Vec<String>,
    /// Whether it is loaded.
    pub loaded: bool,
    /// Number of its Lisp files; a lower bound if `incomplete`.
    pub files: usize,
    /// True if the files cannot all be listed before the system is loaded.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub incomplete: bool,
    /// With `files`, its Lisp files, relative to the root.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub components: Vec<String>,
    /// The systems it depends on, as its definition lists them.
    #[serde(skip)]
    pub depends_on: Vec<String>,
    /// Files that changed after they were loaded, relative to the root.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub changed: Vec<String>,
}

/// The answer to list-systems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SystemsAnswer {
    /// The project's root folder.
    pub root: String,
    /// The systems, sorted by name.
    pub systems: Vec<SystemEntry>,
    /// Number of systems.
    pub count: usize,
    /// Folders of vendored systems, which are treated as dependencies and not listed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub vendored: Vec<String>,
    /// Folders that were not searched and files that were not read; at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left_out: Vec<LeftOutPath>,
}

/// A folder inside the root that does not belong to the project, or a file that was not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LeftOutPath {
    /// The path, relative to the root.
    pub path: String,
    /// The reason.
    pub reason: String,
}

/// The maximum number of left-out paths in an answer.
const SHOWN_PATHS: usize = 20;

/// Facts about a system, gathered from its definition and from the image.
struct SystemFacts {
    asd: PathBuf,
    others: BTreeSet<PathBuf>,
    loaded: bool,
    files: Vec<PathBuf>,
    depends_on: Vec<String>,
    complete: bool,
}

/// Lists the systems of `project`. With `components`, also lists the files of each.
///
/// # Errors
/// Fails if there is no project or the request was cancelled.
fn list_systems(project: &Project, components: bool, control: &Control) -> Result<SystemsAnswer, Error> {
    let root = project.project_root()?;
    let cancellation = control.cancellation();
    let found = definition_files(root, &|| cancellation.is_cancelled()).ok_or(LispError::Cancelled)?;
    let mut known: BTreeMap<String, SystemFacts> = BTreeMap::new();
    let own = project.project_files();
    for file in found.files.into_iter().filter(|file| own.contains(&file.path)) {
        let folder = file.path.parent().unwrap_or(root);
        // ASDF finds a primary system by the name of its file, so list the system even if the text
        // could not be parsed.
        if let Some(name) = file.path.file_stem().map(|name| name.to_string_lossy().into_owned())
            && !file.systems.iter().any(|system| system.name == name)
        {
            let unread = file.systems.is_empty();
            if unread {
                known.insert(
                    name,
                    SystemFacts {
                        asd: file.path.clone(),
                        others: BTreeSet::new(),
                        loaded: false,
                        files: Vec::new(),
                        depends_on: Vec::new(),
                        complete: false,
                    },
                );
            }
        }
        for system in &file.systems {
            let facts = known.entry(system.name.clone()).or_insert_with(|| SystemFacts {
                asd: file.path.clone(),
                others: BTreeSet::new(),
                loaded: false,
                files: system.files.iter().map(|path| normal(&folder.join(path))).collect(),
                depends_on: system.depends_on.clone(),
                complete: system.complete,
            });
            facts.others.insert(file.path.clone());
        }
    }
    for (name, system) in project.image_systems() {
        if system.inferred || !own.contains(&system.asd) {
            continue;
        }
        let files = system.files.unwrap_or_default();
        let entry = known.entry(name).or_insert_with(|| SystemFacts {
            asd: system.asd.clone(),
            others: BTreeSet::new(),
            loaded: false,
            files: Vec::new(),
            depends_on: Vec::new(),
            complete: true,
        });
        entry.asd = system.asd;
        entry.loaded = system.loaded;
        // For a loaded system, use ASDF's file list. Otherwise use the list from the definition's
        // current text, unless that list is incomplete.
        if system.loaded || !entry.complete {
            entry.files = files;
            entry.complete = true;
        }
    }
    let systems: Vec<SystemEntry> = known
        .into_iter()
        .map(|(name, known)| {
            let of_system = known.files.iter().chain(std::iter::once(&known.asd));
            let mut changed: Vec<String> =
                of_system.filter(|path| project.has_changed(path)).map(|path| project.shown(path)).collect();
            changed.sort();
            SystemEntry {
                name,
                asd: project.shown(&known.asd),
                also_defined_in: known
                    .others
                    .iter()
                    .filter(|asd| **asd != known.asd)
                    .map(|asd| project.shown(asd))
                    .collect(),
                loaded: known.loaded,
                files: known.files.len(),
                incomplete: !known.complete,
                depends_on: known.depends_on,
                components: match components {
                    true => known.files.iter().map(|path| project.shown(path)).collect(),
                    false => Vec::new(),
                },
                changed,
            }
        })
        .collect();
    Ok(SystemsAnswer {
        root: root.display().to_string(),
        count: systems.len(),
        systems,
        vendored: found.vendored.iter().map(|path| path.display().to_string()).collect(),
        left_out: found
            .left_out
            .into_iter()
            .take(SHOWN_PATHS)
            .map(|(path, reason)| LeftOutPath { path: path.display().to_string(), reason })
            .collect(),
    })
}

/// Resolves `.` and `..` in `path` by text alone, without following symbolic links.
fn normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::CurDir => {}
            std::path::Component::ParentDir => {
                normal.pop();
            }
            other => normal.push(other),
        }
    }
    normal
}

impl Question for ListSystemsRequest {
    type Answer = SystemsAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<SystemsAnswer, Error> {
        list_systems(context.project, self.files, control)
    }
}

impl Steelbank {
    /// Lists the project's systems without their files.
    pub(crate) fn list_systems(&self, control: &Control) -> Result<SystemsAnswer, Error> {
        list_systems(self.project(), false, control)
    }
}
