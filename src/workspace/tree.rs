//! Walks the project's tree. A [`ProjectWalk`] lists the Lisp files below the root that belong to
//! the project, without vendored and ignored files. It also records everything that can change that
//! list: the watched folders, and stamps of files and folders for which the kernel reports no
//! changes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use steelbank_tree::{DECIDING_ABOVE, Found, IGNORE_FILES, WalkState, defines_systems, may_be_lisp};
use steelbank_watch::{Watch, Watched};

use crate::workspace::stamp::{COARSE, FileStamp};

const GIT: &str = ".git";
/// The maximum number of files to search. A walk of a larger project ends there, and the other
/// files are not searched.
const MOST_FILES: usize = 200_000;

/// The result of a walk through the project.
#[derive(Debug, Default)]
pub(super) struct ProjectWalk {
    /// The project's folders, including the root.
    pub(super) folders: Arc<HashSet<PathBuf>>,
    /// The files in these folders that may be Lisp.
    pub(super) files: HashSet<PathBuf>,
    /// The number of files that were added or removed since the walk.
    pub(super) changes: u64,
    /// Whether there were more files than [`MOST_FILES`].
    pub(super) cut: bool,
    /// Other watched folders with files that determine which files belong to the project.
    deciding: HashSet<PathBuf>,
    /// Files and folders that are not watched, with their stamps. A new walk gives the same result
    /// while these stamps stay the same.
    unwatched: Vec<(PathBuf, Option<FileStamp>)>,
    /// Whether every later change will alter one of these stamps.
    reliable: bool,
    /// Whether the project's tree contains other repositories. The `.asd` files determine whether
    /// such a repository belongs to the project.
    has_repositories: bool,
    /// Whether the walk began to watch a folder, which may have changed before the watch began.
    pub(super) is_new: bool,
    /// Whether the watch reports all changes in every folder. True if the walk uses no watch.
    pub(super) is_watched: bool,
}

impl ProjectWalk {
    /// Walks the project at `root`, a canonical path. Follows no links.
    pub(super) fn new(root: &Path) -> ProjectWalk {
        ProjectWalk::with(root, None)
    }

    /// Walks like [`ProjectWalk::new`], and watches every folder. Files that cannot be watched are
    /// recorded with stamps.
    pub(super) fn watched(root: &Path, watch: &mut Watch) -> ProjectWalk {
        ProjectWalk::with(root, Some(watch))
    }

    fn with(root: &Path, mut watch: Option<&mut Watch>) -> ProjectWalk {
        let begun = SystemTime::now();
        let mut walk = ProjectWalk { is_watched: true, ..ProjectWalk::default() };
        walk.record_above(root, &mut watch);
        if let Some(file) = steelbank_tree::users_ignore_file() {
            walk.record_stamp(file);
        }
        steelbank_tree::walk(root, &mut |found| walk.take(found, &mut watch));
        walk.reliable = walk.unwatched.iter().all(|(_, stamp)| {
            stamp.is_none_or(|stamp| stamp.modified.is_some_and(|modified| modified + COARSE < begun))
        });
        walk
    }

    fn take(&mut self, found: Found<'_>, watch: &mut Option<&mut Watch>) -> WalkState {
        match found {
            Found::Folder(folder) => {
                self.add_folder(folder.to_owned(), watch);
                if !self.is_watched {
                    return WalkState::Quit;
                }
            }
            Found::Ignoring { folder, file } => self.add_ignoring(folder, file, watch),
            Found::Vendored(folder) => {
                // Watch folders with these two names, because their contents also determine whether
                // they are vendored.
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
                    self.record_stamp(path.to_owned());
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
            // Accept a folder that cannot be listed: it has no files, and its stamp shows a change
            // of its mode.
            Some(Watched::No) if std::fs::read_dir(&folder).is_err() => self.record_stamp(folder.clone()),
            Some(Watched::No) => self.is_watched = false,
            None => self.record_stamp(folder.clone()),
        }
        Arc::make_mut(&mut self.folders).insert(folder);
    }

    fn add_ignoring(&mut self, folder: &Path, file: &Path, watch: &mut Option<&mut Watch>) {
        let is_folder_told = match file.parent() {
            Some(parent) if parent == folder => true,
            Some(parent) => file.starts_with(folder) && self.watch_deciding(parent, watch),
            None => false,
        };
        let mut is_watched = || watch.as_mut().is_some_and(|watch| watch.file(file));
        if !(is_folder_told && (file.symlink_metadata().is_err() || is_watched())) {
            self.record_stamp(file.to_owned());
        }
    }

    /// Watches a folder outside of the project with files that determine which files belong to the
    /// project. Returns false if some changes in it are not reported.
    fn watch_deciding(&mut self, folder: &Path, watch: &mut Option<&mut Watch>) -> bool {
        let watched = watch.as_mut().map_or(Watched::No, |watch| watch.folder(folder));
        self.is_new |= watched == Watched::New;
        if watched == Watched::No {
            self.record_stamp(folder.to_owned());
        } else {
            self.deciding.insert(folder.to_owned());
        }
        watched != Watched::No
    }

    fn record_stamp(&mut self, path: PathBuf) {
        let stamp = FileStamp::of_path(&path);
        self.unwatched.push((path, stamp));
    }

    /// Returns true if another walk would certainly give the same result, except for changes that
    /// the watch reports.
    pub(super) fn is_current(&self) -> bool {
        self.reliable && self.unwatched.iter().all(|(path, stamp)| FileStamp::of_path(path) == *stamp)
    }

    /// Returns whether the file at `path` is, by its name, one of the files that determine which
    /// files belong to the project.
    pub(super) fn decides(&self, path: &Path) -> bool {
        let named = |name: &str| path.file_name().is_some_and(|other| other == name);
        DECIDING_ABOVE.into_iter().chain(["systems.csv", "ocicl.csv"]).any(named)
            || (self.has_repositories && defines_systems(path))
    }

    /// Returns whether `folder` belongs to the project.
    pub(super) fn owns(&self, folder: &Path) -> bool {
        self.folders.contains(folder)
    }

    /// Adds or removes the file at `path`. Returns false if there would be more than
    /// [`MOST_FILES`].
    pub(super) fn set(&mut self, path: &Path, is_found: bool) -> bool {
        if is_found && !self.has(path) && self.files.len() >= MOST_FILES {
            return false;
        }
        let is_other = if is_found { self.files.insert(path.to_owned()) } else { self.files.remove(path) };
        self.changes += u64::from(is_other);
        true
    }

    /// Returns whether the walk found the file at `path`.
    pub(super) fn has(&self, path: &Path) -> bool {
        self.files.contains(path)
    }

    /// Returns whether `folder` is outside of the project, but has files that determine which files
    /// belong to the project.
    pub(super) fn decides_in(&self, folder: Option<&Path>) -> bool {
        folder.is_some_and(|folder| self.deciding.contains(folder))
    }

    /// Watches the folders above the root, and records stamps of the ignore files there. Unless all
    /// these folders are watched, also records the stamps of ignore files that do not exist yet.
    fn record_above(&mut self, root: &Path, watch: &mut Option<&mut Watch>) {
        let told = watch.as_mut().is_some_and(|watch| watch.above(root));
        for above in root.ancestors().skip(1) {
            for ignoring in IGNORE_FILES.map(|name| above.join(name)) {
                if !told || ignoring.symlink_metadata().is_ok() {
                    self.record_stamp(ignoring);
                }
            }
            let git = above.join(GIT);
            if !told || git.symlink_metadata().is_ok() {
                self.record_stamp(git.join("info/exclude"));
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
    fn walk_finds_project_files_only() {
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
        assert!(!walk.is_current(), "a recent change may be followed by another with the same stamp");
    }

    #[test]
    fn ignore_files_above_repository_do_not_apply() {
        let home = tempfile::tempdir().unwrap();
        let home = home.path().canonicalize().unwrap();
        let root = home.join("project/src");
        fs::create_dir_all(&root).unwrap();
        // Ignore everything, as people do who have their home folder under Git.
        fs::write(home.join(".gitignore"), "*\n").unwrap();
        fs::write(home.join("project/.gitignore"), "/src/made.lisp\n").unwrap();
        for file in ["a.lisp", "made.lisp"] {
            fs::write(root.join(file), "(f)").unwrap();
        }
        assert_eq!(
            ProjectWalk::new(&root).files.len(),
            2,
            "without a repository no ignore file above applies"
        );
        fs::create_dir_all(home.join("project/.git")).unwrap();
        assert_eq!(
            ProjectWalk::new(&root).files,
            HashSet::from([root.join("a.lisp")]),
            "the repository's ignore file applies"
        );
    }

    #[test]
    fn walk_is_not_current_after_deciding_change() {
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
