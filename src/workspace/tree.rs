//! The project's own files, told from vendored and ignored ones below its root.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use steelbank_tree::{DECIDING_ABOVE, Found, IGNORE_FILES, WalkState, defines_systems, may_be_lisp};
use steelbank_watch::{Watch, Watched};

use crate::workspace::stamp::{COARSE, FileStamp};

const GIT: &str = ".git";
/// The most files that are searched: a folder with more is taken for no project.
const MOST_FILES: usize = 200_000;

/// The result of a walk through the project.
#[derive(Debug, Default)]
pub(super) struct ProjectWalk {
    /// The folders that are the project's own, the root among them.
    pub(super) folders: Arc<HashSet<PathBuf>>,
    /// The files in them that may be Lisp.
    pub(super) files: HashSet<PathBuf>,
    /// How many of these came or went since the walk.
    pub(super) changes: u64,
    /// Whether there were more files than are searched.
    pub(super) cut: bool,
    /// Other folders with files that decide about the project's own.
    deciding: HashSet<PathBuf>,
    /// The files and folders to look at each time: while their stamps are the same, so is the result of a
    /// walk.
    looked_at: Vec<(PathBuf, Option<FileStamp>)>,
    /// Whether every later change shows in the stamps.
    reliable: bool,
    /// Whether there are other repositories in the project's folder: definitions decide about them.
    has_repositories: bool,
    /// Whether the walk began to watch a folder, which may have changed before.
    pub(super) is_new: bool,
    /// Whether the watch reports all changes in every folder.
    pub(super) is_told: bool,
}

impl ProjectWalk {
    /// Walks through the project at `root`, a canonical path. Follows no links.
    pub(super) fn new(root: &Path) -> ProjectWalk {
        ProjectWalk::with(root, None)
    }

    /// Walks like [`ProjectWalk::new`], and watches every folder. What cannot be watched is looked at each
    /// time.
    pub(super) fn watched(root: &Path, watch: &mut Watch) -> ProjectWalk {
        ProjectWalk::with(root, Some(watch))
    }

    fn with(root: &Path, mut watch: Option<&mut Watch>) -> ProjectWalk {
        let begun = SystemTime::now();
        let mut walk = ProjectWalk { is_told: true, ..ProjectWalk::default() };
        walk.look_above(root, &mut watch);
        if let Some(file) = steelbank_tree::users_ignore_file() {
            walk.look_at(file);
        }
        steelbank_tree::walk(root, &mut |found| walk.take(found, &mut watch));
        walk.reliable = walk.looked_at.iter().all(|(_, stamp)| {
            stamp.is_none_or(|stamp| stamp.modified.is_some_and(|modified| modified + COARSE < begun))
        });
        walk
    }

    fn take(&mut self, found: Found<'_>, watch: &mut Option<&mut Watch>) -> WalkState {
        match found {
            Found::Folder(folder) => {
                self.add_folder(folder.to_owned(), watch);
                if !self.is_told {
                    return WalkState::Quit;
                }
            }
            Found::Ignoring { folder, file } => self.add_ignoring(folder, file, watch),
            Found::Vendored(folder) => {
                // Watch these: other vendored folders are told by their names alone.
                if folder.ends_with("systems") || folder.ends_with("quicklisp") {
                    self.watch_deciding(folder, watch);
                }
                return WalkState::Skip;
            }
            Found::File(path, kind) if kind.is_file() && may_be_lisp(path) => {
                if self.files.len() >= MOST_FILES {
                    self.cut = true;
                    return WalkState::Quit;
                }
                self.files.insert(path.to_owned());
            }
            Found::Deciding(path) => {
                self.has_repositories = true;
                let told = watch.as_mut().is_some_and(|watch| {
                    if !path.is_dir() {
                        return watch.file(path);
                    }
                    let watched = watch.folder(path);
                    self.is_new |= watched == Watched::New;
                    watched != Watched::No
                });
                if !told {
                    self.look_at(path.to_owned());
                }
            }
            Found::File(..) | Found::LeftOut(..) | Found::Failed(..) => {}
        }
        WalkState::Continue
    }

    fn add_folder(&mut self, folder: PathBuf, watch: &mut Option<&mut Watch>) {
        match watch.as_mut().map(|watch| watch.folder(&folder)) {
            Some(Watched::Already) => {}
            Some(Watched::New) => self.is_new = true,
            // Accept a folder that cannot be listed: it has no files, and a change of its mode is looked at.
            Some(Watched::No) if std::fs::read_dir(&folder).is_err() => self.look_at(folder.clone()),
            Some(Watched::No) => self.is_told = false,
            None => self.look_at(folder.clone()),
        }
        Arc::make_mut(&mut self.folders).insert(folder);
    }

    fn add_ignoring(&mut self, folder: &Path, file: &Path, watch: &mut Option<&mut Watch>) {
        let is_folder_told = match file.parent() {
            Some(parent) if parent == folder => true,
            Some(parent) => file.starts_with(folder) && self.watch_deciding(parent, watch),
            None => false,
        };
        let mut is_told = || watch.as_mut().is_some_and(|watch| watch.file(file));
        if !(is_folder_told && (file.symlink_metadata().is_err() || is_told())) {
            self.look_at(file.to_owned());
        }
    }

    /// Watches a folder that is not the project's own. False if some changes in it are not reported.
    fn watch_deciding(&mut self, folder: &Path, watch: &mut Option<&mut Watch>) -> bool {
        let watched = watch.as_mut().map_or(Watched::No, |watch| watch.folder(folder));
        self.is_new |= watched == Watched::New;
        if watched == Watched::No {
            self.look_at(folder.to_owned());
        } else {
            self.deciding.insert(folder.to_owned());
        }
        watched != Watched::No
    }

    fn look_at(&mut self, path: PathBuf) {
        let stamp = FileStamp::of_path(&path);
        self.looked_at.push((path, stamp));
    }

    /// Whether another walk would have the same result, as far as changes are not reported.
    pub(super) fn is_current(&self) -> bool {
        self.reliable && self.looked_at.iter().all(|(path, stamp)| FileStamp::of_path(path) == *stamp)
    }

    /// Whether the file at `path` decides, by its name, which files are the project's own.
    pub(super) fn decides(&self, path: &Path) -> bool {
        let named = |name: &str| path.file_name().is_some_and(|other| other == name);
        DECIDING_ABOVE.into_iter().chain(["systems.csv", "ocicl.csv"]).any(named)
            || (self.has_repositories && defines_systems(path))
    }

    /// Whether files in `folder` are the project's own.
    pub(super) fn owns(&self, folder: &Path) -> bool {
        self.folders.contains(folder)
    }

    /// Has the walk find a file at `path`, or none. False if there would be more files than are searched.
    pub(super) fn set(&mut self, path: &Path, is_found: bool) -> bool {
        if is_found && !self.has(path) && self.files.len() >= MOST_FILES {
            return false;
        }
        let is_other = if is_found { self.files.insert(path.to_owned()) } else { self.files.remove(path) };
        self.changes += u64::from(is_other);
        true
    }

    /// Whether the walk found the file at `path`.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.files.contains(path)
    }

    /// Whether files in `folder` decide about the project's own, though the folder is not.
    pub(super) fn decides_in(&self, folder: Option<&Path>) -> bool {
        folder.is_some_and(|folder| self.deciding.contains(folder))
    }

    /// Looks at the files above the root that decide about it.
    fn look_above(&mut self, root: &Path, watch: &mut Option<&mut Watch>) {
        let told = watch.as_mut().is_some_and(|watch| watch.above(root));
        for above in root.ancestors().skip(1) {
            for ignoring in IGNORE_FILES.map(|name| above.join(name)) {
                if !told || ignoring.symlink_metadata().is_ok() {
                    self.look_at(ignoring);
                }
            }
            let git = above.join(GIT);
            if !told || git.symlink_metadata().is_ok() {
                self.look_at(git.join("info/exclude"));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    #[test]
    fn a_walk_finds_what_is_the_projects_own() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        for path in [
            "a.lisp", "src/b.cl", "src/inc.txt", "README.md", "ocicl/x/x.lisp", "vendor/v.lisp",
            "systems/s-1/s.lisp", ".qlot/q.lisp", "third/party/t.lisp", "src/systems/own.lisp",
        ] {
            let path = root.join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "(f)").unwrap();
        }
        fs::write(root.join(".gitignore"), "vendor/\n").unwrap();
        fs::write(root.join("third/.gitignore"), "/party\n").unwrap();
        let walk = ProjectWalk::new(&root);
        let names: BTreeSet<_> =
            walk.files.iter().map(|path| path.strip_prefix(&root).unwrap().to_str().unwrap()).collect();
        assert_eq!(names, BTreeSet::from(["a.lisp", "src/b.cl", "src/inc.txt", "src/systems/own.lisp"]));
        assert!(walk.owns(&root) && walk.owns(&root.join("src")) && !walk.owns(&root.join("vendor")));
        assert!(!walk.is_current(), "what changed a moment ago may change again unseen");
    }

    #[test]
    fn what_stands_above_a_repository_ignores_nothing_in_it() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let root = home.join("project/src");
        fs::create_dir_all(&root).unwrap();
        // Ignore everything, as people do who keep their home under Git.
        fs::write(home.join(".gitignore"), "*\n").unwrap();
        fs::write(home.join("project/.gitignore"), "/src/made.lisp\n").unwrap();
        for file in ["a.lisp", "made.lisp"] {
            fs::write(root.join(file), "(f)").unwrap();
        }
        assert_eq!(ProjectWalk::new(&root).files.len(), 2, "outside of a repository nothing above counts");
        fs::create_dir_all(home.join("project/.git")).unwrap();
        assert_eq!(
            ProjectWalk::new(&root).files,
            HashSet::from([root.join("a.lisp")]),
            "the repository's own counts"
        );
    }

    #[test]
    fn a_walk_knows_when_another_would_find_something_else() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path().canonicalize().unwrap();
        fs::create_dir_all(root.join("src")).unwrap();
        fs::create_dir_all(root.join(".git/info")).unwrap();
        let settled = || loop {
            let walk = ProjectWalk::new(&root);
            if walk.is_current() {
                return walk;
            }
        };
        for (file, text) in [
            ("src/.gitignore", "x/\n"),
            ("src/.gitignore", "other/\n"),
            (".git/info/exclude", "x/\n"),
            (".git/info/exclude", "other/\n"),
            (".gitignore", "x/\n"),
            ("src/new.lisp", ""),
        ] {
            let walk = settled();
            fs::write(root.join(file), text).unwrap();
            assert!(!walk.is_current(), "{file}");
        }
    }
}
