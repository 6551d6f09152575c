//! The walk through a project's tree.

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

/// The longest `.asd` file that is read, in bytes: hand-written ones are shorter.
const LARGEST_ASD_FILE: u64 = 2 << 20;

/// Why a file or folder is no part of the project, though nothing says that it is to be ignored.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LeftOut {
    /// A linked worktree.
    #[error("it is a linked worktree of Git's: open it as a project of its own")]
    LinkedWorktree,
    /// Another repository.
    #[error("it is a repository of its own, and no system of the project depends on one of its systems")]
    Repository,
    /// An ignore file that says nothing, as it was not read.
    #[error("what it says to ignore is not known: {0}")]
    IgnoreFile(ReadRefusal),
}

/// What a walk finds. All paths begin with the root's.
#[derive(Debug)]
pub enum Found<'a> {
    /// A folder that is the project's own, the root first. It is read after that.
    Folder(&'a Path),
    /// A folder with other people's systems, which are dependencies. What is in it is found after that.
    Vendored(&'a Path),
    /// A file that says what to ignore in the folder, which was found before. It is read after that; the exclude file of a
    /// repository need not be there.
    Ignoring {
        /// The folder.
        folder: &'a Path,
        /// The file, in the folder or not.
        file: &'a Path,
    },
    /// Anything else: a plain file, a link, a special file.
    File(&'a Path, FileType),
    /// What is no part of the project.
    LeftOut(&'a Path, &'a LeftOut),
    /// A folder or file that is no part of the project, or of which it is not known, and decides with its entries or its
    /// text which repositories are.
    Deciding(&'a Path),
    /// A folder that cannot be listed.
    Failed(&'a Path, &'a io::Error),
}

/// How a walk goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WalkState {
    /// With what is next.
    Continue,
    /// Without what is in this folder.
    Skip,
    /// It ends.
    Quit,
}

/// Walks through the project at `root`, a canonical path, and follows no links. Hidden and ignored files are left out.
///
/// A linked worktree is no part of the project in which it lies. Any other repository in it is one only if a system of
/// the project depends on one that an `.asd` file there is named after. (Where a definition does not tell its
/// dependencies without being run, it may depend on any system that the project itself has not.) A `root` that is
/// neither a repository nor has systems is a folder of projects: their repositories are part of it.
pub fn walk(root: &Path, visit: &mut dyn FnMut(Found<'_>) -> WalkState) {
    let mut refused = Vec::new();
    let mut note = |path: &Path, why| refused.push((path.to_owned(), LeftOut::IgnoreFile(why)));
    let above = is_in_working_tree(root).then(|| Rules::above(root, &mut note)).flatten();
    let of_user = Rules::of_user(root, &mut note);
    for (path, why) in &refused {
        visit(Found::LeftOut(path, why));
    }
    let mut walk = Walk { root, of_user, visit, repositories: Vec::new(), definitions: Vec::new() };
    let _ = walk.all(above);
}

/// Whether [`walk`] finds the file at `path` in the project at `root`, both canonical, as it finds its folder. `None` if
/// only a walk can tell: the file lies in a repository in the project.
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
    let of_user = Rules::of_user(root, &mut note);
    let is_left_out = verdict(rules.as_ref(), &of_user, path, false);
    Some(!is_left_out.unwrap_or_else(|| path.file_name().is_none_or(is_hidden)))
}

/// Why what is at `path`, a canonical path below the canonical `root`, is no part of the project: it is, or lies in, a
/// repository that is none.
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

/// Reads the systems that the `.asd` file at `path` defines, without running it. It may be a link to a file in the
/// project at `root`, a canonical path.
///
/// # Errors
/// It is no such file, is longer than 2 MiB, or cannot be read.
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
    of_user: Gitignore,
    visit: &'a mut dyn FnMut(Found<'_>) -> WalkState,
    /// The repositories of which it is not known yet whether they are part of the project.
    repositories: Vec<Repository>,
    /// The `.asd` files of the project that were found since they were last read.
    definitions: Vec<PathBuf>,
}

/// A repository in the project's folder.
struct Repository {
    path: PathBuf,
    rules: Option<Arc<Rules>>,
    /// Its folders.
    folders: Vec<PathBuf>,
    /// The systems after which its `.asd` files are named.
    systems: HashSet<String>,
}

/// A folder to walk through.
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
        let mut known = Dependencies::default();
        let is_folder_of_projects = !is_repository && self.definitions.is_empty();
        loop {
            self.repositories.sort_unstable_by(|left, right| left.path.cmp(&right.path));
            if !self.repositories.is_empty() {
                for definition in std::mem::take(&mut self.definitions) {
                    known.add(self.root, &definition);
                    self.tell(Found::Deciding(&definition))?;
                }
            }
            let is_part = |each: &Repository| is_folder_of_projects || known.reach(&each.systems);
            let Some(next) = self.repositories.iter().position(is_part) else { break };
            let Repository { path, rules, .. } = self.repositories.remove(next);
            self.tree(Folder { path, rules, vendored: false, is_repository: true })?;
        }
        for repository in std::mem::take(&mut self.repositories) {
            self.tell(Found::LeftOut(&repository.path, &LeftOut::Repository))?;
            for folder in &repository.folders {
                self.tell(Found::Deciding(folder))?;
            }
        }
        ControlFlow::Continue(())
    }

    /// Tells what was found. True if what is in it is to be found.
    fn tell(&mut self, found: Found<'_>) -> ControlFlow<(), bool> {
        match (self.visit)(found) {
            WalkState::Continue => ControlFlow::Continue(true),
            WalkState::Skip => ControlFlow::Continue(false),
            WalkState::Quit => ControlFlow::Break(()),
        }
    }

    /// Walks through a tree that is part of the project.
    fn tree(&mut self, top: Folder) -> ControlFlow<()> {
        let mut todo = vec![top];
        while let Some(folder) = todo.pop() {
            let path = &folder.path;
            if !self.tell(if folder.vendored { Found::Vendored(path) } else { Found::Folder(path) })? {
                continue;
            }
            let entries = match entries(path) {
                Ok(entries) => entries,
                Err(error) => {
                    self.tell(Found::Failed(path, &error))?;
                    continue;
                }
            };
            let named = IGNORE_FILES.iter().filter(|name| has(&entries, name)).map(|name| path.join(name));
            let exclude = folder.is_repository.then(|| exclude_file(path)).flatten();
            for file in named.chain(exclude) {
                self.tell(Found::Ignoring { folder: path, file: &file })?;
            }
            let rules = self.rules(&folder, &entries)?;
            for (name, kind) in entries {
                let path = path.join(&name);
                if self.is_left_out(rules.as_ref(), &path, &name, kind) {
                    continue;
                }
                if !kind.is_dir() {
                    if !folder.vendored && defines_systems(&path) {
                        self.definitions.push(path.clone());
                    }
                    self.tell(Found::File(&path, kind))?;
                    continue;
                }
                let rules = rules.clone();
                match nested(&path) {
                    None => {
                        let vendored = folder.vendored || is_vendored_folder(&folder.path, &name);
                        todo.push(Folder { path, rules, vendored, is_repository: false });
                    }
                    Some(Nested::LinkedWorktree) => {
                        self.tell(Found::LeftOut(&path, &LeftOut::LinkedWorktree))?;
                        self.tell(Found::Deciding(&path))?;
                        self.tell(Found::Deciding(&path.join(".git")))?;
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

    /// Looks which systems the repository at `path` has. Those in other repositories in it are none of its own.
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
                if self.is_left_out(rules.as_ref(), &path, &name, kind) {
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
            self.tell(Found::LeftOut(path, why))?;
        }
        ControlFlow::Continue(rules)
    }

    fn is_left_out(&self, rules: Option<&Arc<Rules>>, path: &Path, name: &OsStr, kind: FileType) -> bool {
        name == ".git"
            || verdict(rules, &self.of_user, path, kind.is_dir()).unwrap_or_else(|| is_hidden(name))
    }
}

fn entries(folder: &Path) -> io::Result<Vec<(OsString, FileType)>> {
    // An entry that is gone, or whose kind the system does not tell, is none.
    let entries = std::fs::read_dir(folder)?.flatten();
    Ok(entries.filter_map(|entry| Some((entry.file_name(), entry.file_type().ok()?))).collect())
}

fn has(entries: &[(OsString, FileType)], name: &str) -> bool {
    entries.iter().any(|(other, _)| other == name)
}

/// The systems that the project has, and those that it needs.
#[derive(Default)]
struct Dependencies {
    defined: HashSet<String>,
    needed: HashSet<String>,
    /// Whether it may need others.
    unknown: bool,
}

impl Dependencies {
    fn add(&mut self, root: &Path, definition: &Path) {
        self.defined.extend(definition.file_stem().and_then(OsStr::to_str).map(str::to_owned));
        for system in read_definitions(root, definition).unwrap_or_default() {
            self.unknown |= !system.dependencies_complete;
            // ASDF looks for the system a/b in the file a.asd.
            let primary = |name: &String| name.split('/').next().unwrap_or_default().to_owned();
            self.needed.extend(system.depends_on.iter().map(primary));
            self.defined.insert(system.name);
        }
    }

    /// Whether one of `systems` is needed.
    fn reach(&self, systems: &HashSet<String>) -> bool {
        let mut others = systems.difference(&self.defined);
        if self.unknown { others.next().is_some() } else { others.any(|system| self.needed.contains(system)) }
    }
}
