//! Walks a project's tree. Determines which files and nested repositories belong to the project.

use crate::git::{Nested, exclude_file, is_in_working_tree, nested};
use crate::lisp::defines_systems;
use crate::plain::{ReadRefusal, read_unlinked};
use crate::rules::{IGNORE_FILES, Rules, is_hidden, verdict};
use crate::vendored::is_vendored_folder;
use ignore::gitignore::Gitignore;
use std::collections::HashSet;
use std::ffi::{OsStr, OsString};
use std::fs::FileType;
use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use steelbank_reader::asd::{SystemDefinition, system_definitions};

/// The maximum size of an `.asd` file, in bytes. Handwritten files are smaller.
const LARGEST_ASD_FILE: u64 = 2 << 20;

/// A problem that the walk reports: a path is left out although no rule ignores it, or an ignore
/// file is not applied.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeftOut {
    /// A linked worktree.
    #[error("it is a linked Git worktree; open it as a separate project")]
    LinkedWorktree,
    /// A separate repository that the project does not depend on.
    #[error("it is a separate repository, and no system of the project depends on its systems")]
    Repository,
    /// An ignore file that has no effect because it was not read.
    #[error("its ignore rules are not applied: {0}")]
    IgnoreFile(ReadRefusal),
}

/// An entry found by a walk. The paths begin with the root's path, except those of ignore files
/// outside the root.
#[derive(Debug)]
pub enum Found<'a> {
    /// A folder of the project; the root comes first. Its entries are read after the visit.
    Folder(&'a Path),
    /// A folder with dependencies installed by a tool, or a folder inside such a folder. Its
    /// contents follow.
    Vendored(&'a Path),
    /// An ignore file for a folder visited before. It is read after the visit. The exclude file of
    /// a repository need not exist.
    Ignoring {
        /// The folder to which the rules apply.
        folder: &'a Path,
        /// The file, inside or outside the folder.
        file: &'a Path,
    },
    /// Anything else: a regular file, a link, or a special file.
    File(&'a Path, FileType),
    /// A path that does not belong to the project although no rule ignores it, or an ignore file
    /// that is not applied.
    LeftOut(&'a Path, &'a LeftOut),
    /// A folder or file that affects which repositories belong to the project, by its entries or
    /// its text. It may itself not belong to the project.
    Deciding(&'a Path),
    /// A folder that cannot be listed.
    Failed(&'a Path, &'a io::Error),
}

/// The visitor's decision on how to continue the walk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkState {
    /// Continue with the next entry.
    Continue,
    /// Skip the contents of this folder.
    Skip,
    /// Stop the walk.
    Quit,
}

/// Walks the project at `root`, a canonical path, without following links. Skips ignored files, and
/// hidden files unless a rule includes them explicitly. A linked worktree does not belong to the
/// project that contains it. Any other nested repository belongs to the project only if a system of
/// the project depends on a system that the project does not define itself and for which the
/// repository has an `.asd` file. The systems of a repository that belongs to the project count as
/// systems of the project. If the dependencies of a system cannot be determined without evaluation,
/// that system counts as depending on every system that the project does not define. A `root` that
/// is not a repository and defines no systems is a folder of projects, and all repositories in it
/// belong to it.
pub fn walk(root: &Path, visit: &mut dyn FnMut(Found<'_>) -> WalkState) {
    let mut refused = Vec::new();
    let mut note = |path: &Path, why| refused.push((path.to_owned(), LeftOut::IgnoreFile(why)));
    let above = is_in_working_tree(root).then(|| Rules::above(root, &mut note)).flatten();
    let user_rules = Rules::user_rules(root, &mut note);
    for (path, why) in &refused {
        visit(Found::LeftOut(path, why));
    }
    let mut walk = Walk { root, user_rules, visit, repositories: Vec::new(), definitions: Vec::new() };
    let _ = walk.all(above);
}

/// Returns whether [`walk`] would find the file at `path` in the project at `root`, assuming that
/// it finds the file's folder. Both paths must be canonical. `None` if only a walk can decide,
/// because the file is in a nested repository or linked worktree.
pub fn admits(root: &Path, path: &Path) -> Option<bool> {
    let mut below = path.ancestors().skip(1).take_while(|folder| *folder != root);
    if below.any(|folder| nested(folder).is_some()) {
        return None;
    }
    let mut note = |_: &Path, _| ();
    let mut rules = is_in_working_tree(root).then(|| Rules::above(root, &mut note)).flatten();
    let mut folders: Vec<&Path> =
        path.ancestors().skip(1).take_while(|each| each.starts_with(root)).collect();
    while let Some(folder) = folders.pop() {
        let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
        rules = Rules::new(rules, folder, has, &mut note);
    }
    let user_rules = Rules::user_rules(root, &mut note);
    let is_excluded = verdict(rules.as_ref(), &user_rules, path, false);
    Some(!is_excluded.unwrap_or_else(|| path.file_name().is_none_or(is_hidden)))
}

/// Returns the reason why `path`, a canonical path below the canonical `root`, does not belong to
/// the project: it is in a linked worktree, or in a repository that does not belong to the project.
/// `None` if neither is the case, or if `path` is not below `root`. Does not apply ignore rules to
/// `path`.
pub fn belonging(root: &Path, path: &Path) -> Option<LeftOut> {
    if !root.is_absolute() || !path.starts_with(root) {
        return None;
    }
    let mut repository = None;
    for folder in path.ancestors().take_while(|folder| *folder != root) {
        match nested(folder) {
            Some(Nested::LinkedWorktree) => return Some(LeftOut::LinkedWorktree),
            Some(Nested::Repository) => repository = repository.or(Some(folder)),
            None => {}
        }
    }
    let repository = repository?;
    let mut is_part = false;
    walk(root, &mut |found| match found {
        Found::Folder(folder) if folder == repository => {
            is_part = true;
            WalkState::Quit
        }
        Found::Vendored(_) => WalkState::Skip,
        _ => WalkState::Continue,
    });
    (!is_part).then_some(LeftOut::Repository)
}

/// Reads the systems defined by the `.asd` file at `path`, without running it. The file may be a
/// link to a file in the project at `root`, a canonical path.
///
/// # Errors
///
/// If it is not a regular file, is a link out of the project, is longer than 2 MiB, or cannot be
/// read.
pub fn read_definitions(root: &Path, path: &Path) -> Result<Vec<SystemDefinition>, ReadRefusal> {
    let text = match read_unlinked(path, LARGEST_ASD_FILE) {
        Err(ReadRefusal::Link) => {
            let real = path.canonicalize()?;
            if !real.starts_with(root) {
                return Err(ReadRefusal::Link);
            }
            read_unlinked(&real, LARGEST_ASD_FILE)
        }
        other => other,
    };
    Ok(system_definitions(&text?))
}

struct Walk<'a> {
    root: &'a Path,
    user_rules: Gitignore,
    visit: &'a mut dyn FnMut(Found<'_>) -> WalkState,
    /// The repositories that are not yet known to belong to the project.
    repositories: Vec<Repository>,
    /// The `.asd` files of the project from which no dependencies have been read yet.
    definitions: Vec<PathBuf>,
}

/// A repository inside the project's folder.
struct Repository {
    path: PathBuf,
    rules: Option<Arc<Rules>>,
    /// The folders of the repository.
    folders: Vec<PathBuf>,
    /// The names of its systems, taken from the names of its `.asd` files.
    systems: HashSet<String>,
}

/// A folder to walk.
struct Folder {
    path: PathBuf,
    rules: Option<Arc<Rules>>,
    vendored: bool,
    is_repository: bool,
}

impl Walk<'_> {
    fn all(&mut self, above: Option<Arc<Rules>>) -> ControlFlow<()> {
        let is_repository = nested(self.root).is_some();
        let root = Folder { path: self.root.to_owned(), rules: above, vendored: false, is_repository };
        self.tree(root)?;
        let mut dependencies = Dependencies::default();
        let is_folder_of_projects = !is_repository && self.definitions.is_empty();
        loop {
            self.repositories.sort_unstable_by(|left, right| left.path.cmp(&right.path));
            if !self.repositories.is_empty() {
                for definition in std::mem::take(&mut self.definitions) {
                    dependencies.add(self.root, &definition);
                    self.report(Found::Deciding(&definition))?;
                }
            }
            let is_part = |each: &Repository| is_folder_of_projects || dependencies.reach(&each.systems);
            let Some(next) = self.repositories.iter().position(is_part) else { break };
            let Repository { path, rules, .. } = self.repositories.remove(next);
            self.tree(Folder { path, rules, vendored: false, is_repository: true })?;
        }
        for repository in std::mem::take(&mut self.repositories) {
            self.report(Found::LeftOut(&repository.path, &LeftOut::Repository))?;
            for folder in &repository.folders {
                self.report(Found::Deciding(folder))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Reports an entry to the visitor. Returns whether to visit its contents.
    fn report(&mut self, found: Found<'_>) -> ControlFlow<(), bool> {
        match (self.visit)(found) {
            WalkState::Continue => ControlFlow::Continue(true),
            WalkState::Skip => ControlFlow::Continue(false),
            WalkState::Quit => ControlFlow::Break(()),
        }
    }

    /// Walks a tree that belongs to the project.
    fn tree(&mut self, top: Folder) -> ControlFlow<()> {
        let mut todo = vec![top];
        while let Some(folder) = todo.pop() {
            let path = &folder.path;
            if !self.report(if folder.vendored { Found::Vendored(path) } else { Found::Folder(path) })? {
                continue;
            }
            let entries = match entries(path) {
                Ok(entries) => entries,
                Err(error) => {
                    self.report(Found::Failed(path, &error))?;
                    continue;
                }
            };
            let named = IGNORE_FILES.iter().filter(|name| has(&entries, name)).map(|name| path.join(name));
            let exclude = folder.is_repository.then(|| exclude_file(path)).flatten();
            for file in named.chain(exclude) {
                self.report(Found::Ignoring { folder: path, file: &file })?;
            }
            let rules = self.rules(&folder, &entries)?;
            for (name, kind) in entries {
                let path = path.join(&name);
                if self.is_excluded(rules.as_ref(), &path, &name, kind) {
                    continue;
                }
                if !kind.is_dir() {
                    if !folder.vendored && defines_systems(&path) {
                        self.definitions.push(path.clone());
                    }
                    self.report(Found::File(&path, kind))?;
                    continue;
                }
                let rules = rules.clone();
                match nested(&path) {
                    None => {
                        let vendored = folder.vendored || is_vendored_folder(&folder.path, &name);
                        todo.push(Folder { path, rules, vendored, is_repository: false });
                    }
                    Some(Nested::LinkedWorktree) => {
                        self.report(Found::LeftOut(&path, &LeftOut::LinkedWorktree))?;
                        self.report(Found::Deciding(&path))?;
                        self.report(Found::Deciding(&path.join(".git")))?;
                    }
                    Some(Nested::Repository) => {
                        let repository = self.repository(path, rules)?;
                        self.repositories.push(repository);
                    }
                }
            }
        }
        ControlFlow::Continue(())
    }

    /// Collects the folders and the systems of the repository at `path`, except those in nested
    /// repositories and in folders where tools install dependencies.
    fn repository(&mut self, path: PathBuf, rules: Option<Arc<Rules>>) -> ControlFlow<(), Repository> {
        let mut found = Repository {
            path: path.clone(),
            rules: rules.clone(),
            folders: Vec::new(),
            systems: HashSet::new(),
        };
        let mut todo = vec![Folder { path, rules, vendored: false, is_repository: true }];
        while let Some(folder) = todo.pop() {
            let Ok(entries) = entries(&folder.path) else { continue };
            let rules = self.rules(&folder, &entries)?;
            for (name, kind) in entries {
                let path = folder.path.join(&name);
                if self.is_excluded(rules.as_ref(), &path, &name, kind) {
                    continue;
                }
                if kind.is_dir() {
                    if nested(&path).is_none() && !is_vendored_folder(&folder.path, &name) {
                        todo.push(Folder {
                            path,
                            rules: rules.clone(),
                            vendored: false,
                            is_repository: false,
                        });
                    }
                } else if defines_systems(&path) {
                    found.systems.extend(path.file_stem().and_then(OsStr::to_str).map(str::to_owned));
                }
            }
            found.folders.push(folder.path);
        }
        ControlFlow::Continue(found)
    }

    fn rules(
        &mut self,
        folder: &Folder,
        entries: &[(OsString, FileType)],
    ) -> ControlFlow<(), Option<Arc<Rules>>> {
        let has = |name: &str| match name {
            ".git" => folder.is_repository,
            _ => has(entries, name),
        };
        let mut refused = Vec::new();
        let mut note = |path: &Path, why| refused.push((path.to_owned(), LeftOut::IgnoreFile(why)));
        let rules = Rules::new(folder.rules.clone(), &folder.path, has, &mut note);
        for (path, why) in &refused {
            self.report(Found::LeftOut(path, why))?;
        }
        ControlFlow::Continue(rules)
    }

    fn is_excluded(&self, rules: Option<&Arc<Rules>>, path: &Path, name: &OsStr, kind: FileType) -> bool {
        name == ".git"
            || verdict(rules, &self.user_rules, path, kind.is_dir()).unwrap_or_else(|| is_hidden(name))
    }
}

fn entries(folder: &Path) -> io::Result<Vec<(OsString, FileType)>> {
    // Skip an entry that was removed meanwhile, or that has an unknown type.
    let entries = std::fs::read_dir(folder)?.flatten();
    Ok(entries.filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?))).collect())
}

fn has(entries: &[(OsString, FileType)], name: &str) -> bool {
    entries.iter().any(|(other, _)| other == name)
}

/// The systems that the project defines, and the systems that it depends on.
#[derive(Default)]
struct Dependencies {
    defined: HashSet<String>,
    needed: HashSet<String>,
    /// Whether the project may depend on other systems, because some dependencies are unknown.
    unknown: bool,
}

impl Dependencies {
    fn add(&mut self, root: &Path, definition: &Path) {
        self.defined.extend(definition.file_stem().and_then(OsStr::to_str).map(str::to_owned));
        for system in read_definitions(root, definition).unwrap_or_default() {
            self.unknown |= !system.dependencies_complete;
            // ASDF searches for the system a/b in the file a.asd.
            let primary = |name: &String| name.split('/').next().unwrap_or_default().to_owned();
            self.needed.extend(system.depends_on.iter().map(primary));
            self.defined.insert(system.name);
        }
    }

    /// Returns whether the project may depend on one of `systems` that it does not define itself.
    fn reach(&self, systems: &HashSet<String>) -> bool {
        let mut others = systems.difference(&self.defined);
        if self.unknown { others.next().is_some() } else { others.any(|system| self.needed.contains(system)) }
    }
}
