//! list-systems: the systems that the project's `.asd` files define, and which of them are loaded. Runs
//! nothing, and does not need Lisp.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Error;
use super::control::Control;
use crate::engine::LispError;
use crate::project::Project;
use crate::project::systems::definition_files;

/// A system of the project.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct SystemEntry {
    /// Its name.
    pub name: String,
    /// The file that defines it, relative to the root.
    pub asd: String,
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
const SHOWN: usize = 20;

/// Facts about a system, gathered from its definition and from the image.
struct SystemFacts {
    asd: PathBuf,
    loaded: bool,
    files: Vec<PathBuf>,
    complete: bool,
}

/// Lists the systems of `project`; with `components`, the files of each too.
///
/// # Errors
/// There is no project, or the question was called off.
pub(crate) fn list_systems(
    project: &Project,
    components: bool,
    control: &Control,
) -> Result<SystemsAnswer, Error> {
    let root = project.own_root()?;
    let cancellation = control.cancellation();
    let found = definition_files(root, &|| cancellation.is_cancelled()).ok_or(LispError::Cancelled)?;
    let mut known: BTreeMap<String, SystemFacts> = BTreeMap::new();
    for file in found.files.into_iter().filter(|file| project.contains(&file.path)) {
        let folder = file.path.parent().unwrap_or(root);
        // A primary system is found by its file's name, whatever the text tells.
        if let Some(name) = file.path.file_stem().map(|name| name.to_string_lossy().into_owned())
            && !file.systems.iter().any(|system| system.name == name)
        {
            let unread = file.systems.is_empty();
            if unread {
                known.insert(
                    name,
                    SystemFacts { asd: file.path.clone(), loaded: false, files: Vec::new(), complete: false },
                );
            }
        }
        for system in &file.systems {
            known.entry(system.name.clone()).or_insert_with(|| SystemFacts {
                asd: file.path.clone(),
                loaded: false,
                files: system.files.iter().map(|path| normal(&folder.join(path))).collect(),
                complete: system.complete,
            });
        }
    }
    for (name, system) in project.image_systems() {
        if !project.contains(&system.asd) {
            continue;
        }
        let files = system.files.unwrap_or_default();
        let entry = known.entry(name).or_insert_with(|| SystemFacts {
            asd: system.asd.clone(),
            loaded: false,
            files: Vec::new(),
            complete: true,
        });
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
                loaded: known.loaded,
                files: known.files.len(),
                incomplete: !known.complete,
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
            .take(SHOWN)
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
