//! Detects nested repositories, and finds the files outside a folder that affect which files
//! Git ignores in it.

use crate::plain::read_plain;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The maximum size, in bytes, of a `.git` or `commondir` file that is read.
const DOT_GIT_LIMIT: u64 = 64 << 10;

/// The kinds of nested Git working tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nested {
    /// A linked worktree: another checkout of a repository, possibly of the project's.
    LinkedWorktree,
    /// A separate repository: a clone, or a submodule.
    Repository,
}

/// Returns the kind of Git working tree rooted at `path`, or `None` if it is not the root of one.
///
/// Linked worktrees and submodules both have a `.git` file that names another folder. For a linked
/// worktree, that folder contains a file `commondir`. The folder may be missing because the
/// worktree was moved or mounted elsewhere. A name such as `…/worktrees/NAME` then shows that it is
/// a linked worktree.
pub fn nested(path: &Path) -> Option<Nested> {
    let git = path.join(".git");
    if !git.symlink_metadata().ok()?.is_file() {
        return Some(Nested::Repository);
    }
    let Some(own) = git_folder(path) else { return Some(Nested::Repository) };
    let by_name = || own.parent().and_then(Path::file_name) == Some(OsStr::new("worktrees"));
    let linked = own.join("commondir").is_file() || (!own.is_dir() && by_name());
    Some(if linked { Nested::LinkedWorktree } else { Nested::Repository })
}

/// Returns the folder named by the `.git` file in the folder at `path`.
fn git_folder(path: &Path) -> Option<PathBuf> {
    let line = first_line(&path.join(".git"))?;
    Some(path.join(line.strip_prefix("gitdir:")?.trim_start()))
}

fn first_line(path: &Path) -> Option<String> {
    let text = String::from_utf8(read_plain(path, DOT_GIT_LIMIT).ok()?).ok()?;
    Some(text.lines().next()?.to_owned())
}

/// Returns the path of the exclude file for the working tree rooted at `folder`; the file need not
/// exist. `None` if `folder` is not the root of a working tree, is a submodule, or has an
/// unreadable `.git` file.
pub fn exclude_file(folder: &Path) -> Option<PathBuf> {
    const EXCLUDE: &str = "info/exclude";
    let git = folder.join(".git");
    if git.metadata().ok()?.is_dir() {
        return Some(git.join(EXCLUDE));
    }
    // A linked worktree shares the exclude file of the main working tree.
    let own = git_folder(folder)?;
    Some(own.join(first_line(&own.join("commondir"))?).join(EXCLUDE))
}

/// Returns whether `folder` is in a Git working tree. Ignore files in the folders above it are
/// applied only in that case.
pub fn is_in_working_tree(folder: &Path) -> bool {
    folder.ancestors().any(|above| above.join(".git").exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn linked_worktree_differs_from_submodule() {
        let folder = tempfile::tempdir().unwrap();
        let at = |path: &str| folder.path().join(path);
        for folder in [".git/worktrees/w", ".git/modules/s", ".git/modules/worktrees/t", "clone/.git"] {
            fs::create_dir_all(at(folder)).unwrap();
        }
        fs::write(at(".git/worktrees/w/commondir"), "../..\n").unwrap();
        let (linked, repository) = (Some(Nested::LinkedWorktree), Some(Nested::Repository));
        for (name, text, expected) in [
            ("w", "gitdir: ../.git/worktrees/w\n", linked),
            ("gone", "gitdir: /nowhere/.git/worktrees/gone\n", linked),
            ("s", "gitdir: ../.git/modules/s\n", repository),
            ("t", "gitdir: ../.git/modules/worktrees/t\n", repository),
            ("odd", "whatever", repository),
        ] {
            fs::create_dir(at(name)).unwrap();
            fs::write(at(name).join(".git"), text).unwrap();
            assert_eq!(nested(&at(name)), expected, "{name}");
        }
        assert_eq!(nested(&at("clone")), repository);
        assert_eq!(nested(&at("clone/.git")), None);
    }

    #[test]
    fn linked_worktree_uses_main_exclude_file() {
        let folder = tempfile::tempdir().unwrap();
        let (main, linked) = (folder.path().join("main"), folder.path().join("linked"));
        let own = main.join(".git/worktrees/linked");
        fs::create_dir_all(&own).unwrap();
        fs::create_dir_all(&linked).unwrap();
        assert_eq!(exclude_file(&linked), None);
        assert_eq!(exclude_file(&main), Some(main.join(".git/info/exclude")));
        fs::write(linked.join(".git"), format!("gitdir: {}\n", own.display())).unwrap();
        assert_eq!(exclude_file(&linked), None);
        fs::write(own.join("commondir"), "../..\n").unwrap();
        let found = exclude_file(&linked).unwrap();
        fs::create_dir_all(main.join(".git/info")).unwrap();
        fs::write(&found, "x").unwrap();
        assert!(main.join(".git/info/exclude").exists());
    }
}
