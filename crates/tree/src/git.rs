//! Finds repositories in a tree, and the files outside of a folder that decide what Git ignores in it.

use crate::plain::read_plain;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// The most bytes of a `.git` file that are read.
const DOT_GIT_LIMIT: u64 = 64 << 10;

/// What a folder that is not the root of the project is to Git.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Nested {
    /// A linked worktree: other text of a repository's files, the project's own perhaps.
    LinkedWorktree,
    /// A repository of its own: a clone, or a submodule.
    Repository,
}

/// What the folder at `path` is to Git, if it is the root of a working tree.
///
/// Linked worktrees and submodules both have a file `.git` that names another folder. That of a linked worktree has a
/// file `commondir`; where it is gone (a worktree may be moved, or mounted elsewhere), its name tells:
/// `…/worktrees/NAME`.
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

/// The folder that the file `.git` in the folder at `path` names.
fn git_folder(path: &Path) -> Option<PathBuf> {
    let line = first_line(&path.join(".git"))?;
    Some(path.join(line.strip_prefix("gitdir:")?.trim_start()))
}

fn first_line(path: &Path) -> Option<String> {
    let text = String::from_utf8(read_plain(path, DOT_GIT_LIMIT).ok()?).ok()?;
    Some(text.lines().next()?.to_owned())
}

/// The exclude file of the repository whose working tree is `folder`: it need not exist. None if `folder` is no root of
/// a working tree.
pub fn exclude_file(folder: &Path) -> Option<PathBuf> {
    const EXCLUDE: &str = "info/exclude";
    let git = folder.join(".git");
    if git.metadata().ok()?.is_dir() {
        return Some(git.join(EXCLUDE));
    }
    // A linked worktree shares the main one's exclude file.
    let own = git_folder(folder)?;
    Some(own.join(first_line(&own.join("commondir"))?).join(EXCLUDE))
}

/// Whether `folder` is in a Git working tree: only then do the ignore files above it count, up to the tree's root.
pub fn is_in_working_tree(folder: &Path) -> bool {
    folder.ancestors().any(|above| above.join(".git").exists())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_linked_worktree_is_told_from_a_submodule() {
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
    fn a_linked_working_tree_has_the_main_ones() {
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
