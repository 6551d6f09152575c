//! list-systems: the systems that the project's `.asd` files define, and which of them are loaded. Runs
//! nothing, and does not need Lisp.

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

/// A request for the project's systems, whether they are loaded, and which files have changed since. Reads the
/// files: it runs no code, and does not wait for Lisp.
#[derive(Debug, Clone, Default)]
pub struct ListSystemsRequest {
    files: bool,
}

impl ListSystemsRequest {
    /// Makes a request for all systems.
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists the files of each system, too, if `files`.
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
    /// Its name.
    pub name: String,
    /// The file that defines it, relative to the root.
    pub asd: String,
    /// Other files that define a system of this name, relative to the root: ASDF takes one.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub also_defined_in: Vec<String>,
    /// Whether it is loaded.
    pub loaded: bool,
    /// How many Lisp files it has, as far as is known.
    pub files: usize,
    /// True when its definition does not tell all of its files before it is loaded.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub incomplete: bool,
    /// The Lisp files, relative to the root, if they were asked for.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub components: Vec<String>,
    /// The systems that it depends on, as far as the text of its definition tells.
    #[serde(skip)]
    pub depends_on: Vec<String>,
    /// Files that are not what was loaded any more, relative to the root.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub changed: Vec<String>,
}

/// The answer to list-systems.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SystemsAnswer {
    /// The project's root.
    pub root: String,
    /// Its systems, by name.
    pub systems: Vec<SystemEntry>,
    /// How many there are.
    pub count: usize,
    /// Folders of vendored systems, which are dependencies and not listed.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub vendored: Vec<String>,
    /// What was not looked into or not read: at most 20.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub left_out: Vec<LeftOutPath>,
}

/// A folder that is no part of the project though it lies in it, or a file that was not read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct LeftOutPath {
    /// Its path, relative to the root.
    pub path: String,
    /// Why.
    pub reason: String,
}

/// How many paths that were left out an answer names.
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

/// Lists the systems of `project`; with `components`, the files of each too.
///
/// # Errors
/// There is no project, or the question was called off.
fn list_systems(project: &Project, components: bool, control: &Control) -> Result<SystemsAnswer, Error> {
    let root = project.own_root()?;
    let cancellation = control.cancellation();
    let found = definition_files(root, &|| cancellation.is_cancelled()).ok_or(LispError::Cancelled)?;
    let mut known: BTreeMap<String, SystemFacts> = BTreeMap::new();
    let own = project.own();
    for file in found.files.into_iter().filter(|file| own.contains(&file.path)) {
        let folder = file.path.parent().unwrap_or(root);
        // A primary system is found by its file's name, whatever the text tells.
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
        if !own.contains(&system.asd) {
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
        // Prefer ASDF's files for a loaded system; for others, what the text of the definition says now.
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

/// Removes `.` and `..` from `path` by its text alone, without following symbolic links.
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
