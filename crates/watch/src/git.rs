//! Finds the files outside of a folder that decide what Git ignores in it.

use std::path::{Path, PathBuf};

/// The exclude file of the repository whose working tree is `folder`: it need not exist. None if `folder` is no root of
/// a working tree.
pub fn exclude_file(folder: &Path) -> Option<PathBuf> {
    const EXCLUDE: &str = "info/exclude";
    let git = folder.join(".git");
    let found = git.metadata().ok()?;
    if found.is_dir() {
        return Some(git.join(EXCLUDE));
    }
    // A linked working tree shares the main one's exclude file.
    let text = std::fs::read_to_string(&git).ok()?;
    let own = folder.join(text.lines().next()?.strip_prefix("gitdir: ")?);
    let common = std::fs::read_to_string(own.join("commondir")).ok()?;
    Some(own.join(common.lines().next()?).join(EXCLUDE))
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
