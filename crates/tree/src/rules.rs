//! Reads ignore files: the rules for the entries of a folder, from its ignore files and those of
//! the folders above it.

use crate::git::exclude_file;
use crate::plain::{ReadRefusal, read_plain, read_unlinked};
use ignore::Match;
use ignore::gitignore::{Gitignore, GitignoreBuilder, gitconfig_excludes_path};
use std::ffi::OsStr;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The names of ignore files.
pub const IGNORE_FILES: [&str; 2] = [".gitignore", ".ignore"];

/// The entries of a folder above a project that affect which files of the project are ignored: the
/// ignore files, and `.git`, which makes the folder a repository.
pub const DECIDING_ABOVE: [&str; 3] = [IGNORE_FILES[0], IGNORE_FILES[1], ".git"];
/// The maximum size of an ignore file, in bytes.
const LARGEST_IGNORE_FILE: u64 = 1 << 20;

/// The callback for each existing ignore file that was not read.
pub(crate) type Refused<'a> = &'a mut dyn FnMut(&Path, ReadRefusal);

/// The rules of a folder and of those above it. A folder without rules shares those of its parent.
#[derive(Debug)]
pub(crate) struct Rules {
    above: Option<Arc<Rules>>,
    /// The rules from `.ignore`.
    plain: Gitignore,
    git: Gitignore,
    exclude: Gitignore,
    /// Whether the folder is a repository, so that Git rules above it do not apply.
    is_repository: bool,
}

impl Rules {
    /// Reads the rules of `folder`. `above` holds the rules of the parent folder. Returns `above`
    /// if `folder` adds no rules. `has` returns whether the folder contains an entry of a given
    /// name.
    pub(crate) fn new(
        above: Option<Arc<Rules>>,
        folder: &Path,
        has: impl Fn(&str) -> bool,
        refused: Refused<'_>,
    ) -> Option<Arc<Rules>> {
        let is_repository = has(".git");
        let mut read = |file: &Path, wanted: bool| match wanted {
            true => compile(folder, read_unlinked(file, LARGEST_IGNORE_FILE), file, refused),
            false => Gitignore::empty(),
        };
        let plain = folder.join(".ignore");
        let plain = read(&plain, has(".ignore"));
        let git = read(&folder.join(".gitignore"), has(".gitignore"));
        let exclude = is_repository.then(|| exclude_file(folder)).flatten();
        let exclude = exclude.map_or_else(Gitignore::empty, |file| read(&file, true));
        if !is_repository && plain.is_empty() && git.is_empty() {
            return above;
        }
        Some(Arc::new(Rules { above, plain, git, exclude, is_repository }))
    }

    /// Reads the rules of the folders above `root`.
    pub(crate) fn above(root: &Path, refused: Refused<'_>) -> Option<Arc<Rules>> {
        let folders: Vec<&Path> = root.ancestors().skip(1).collect();
        folders.into_iter().rev().fold(None, |above, folder| {
            let has = |name: &str| folder.join(name).symlink_metadata().is_ok();
            Rules::new(above, folder, has, refused)
        })
    }

    /// Reads the user's global Git ignore rules. Their file may be a link.
    pub(crate) fn user_rules(root: &Path, refused: Refused<'_>) -> Gitignore {
        users_ignore_file().map_or_else(Gitignore::empty, |file| {
            compile(root, read_plain(&file, LARGEST_IGNORE_FILE), &file, refused)
        })
    }
}

/// Returns the path of the user's global Git ignore file: the configured path, or Git's default.
/// The file need not exist. `None` if there is neither.
pub fn users_ignore_file() -> Option<PathBuf> {
    gitconfig_excludes_path()
}

/// Returns `Some(true)` if `path` is ignored, `Some(false)` if it is explicitly not ignored, and
/// `None` if no rule matches.
pub(crate) fn verdict(
    rules: Option<&Arc<Rules>>,
    user_rules: &Gitignore,
    path: &Path,
    is_folder: bool,
) -> Option<bool> {
    let said = |rules: &Gitignore| match rules.matched(path, is_folder) {
        Match::None => None,
        Match::Ignore(_) => Some(true),
        Match::Whitelist(_) => Some(false),
    };
    let (mut plain, mut git, mut exclude, mut outside) = (None, None, None, false);
    let mut next = rules;
    while let Some(rules) = next {
        plain = plain.or_else(|| said(&rules.plain));
        if !outside {
            git = git.or_else(|| said(&rules.git));
            exclude = exclude.or_else(|| said(&rules.exclude));
        }
        outside |= rules.is_repository;
        next = rules.above.as_ref();
    }
    plain.or(git).or(exclude).or_else(|| said(user_rules))
}

fn compile(
    folder: &Path,
    text: Result<Vec<u8>, ReadRefusal>,
    file: &Path,
    refused: Refused<'_>,
) -> Gitignore {
    let text = match text {
        Ok(text) => text,
        Err(ReadRefusal::Failed(error))
            if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) =>
        {
            return Gitignore::empty();
        }
        Err(why) => {
            refused(file, why);
            return Gitignore::empty();
        }
    };
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    let mut builder = GitignoreBuilder::new(folder);
    for line in String::from_utf8_lossy(text).lines() {
        // Git also skips patterns that it cannot parse.
        let _ = builder.add_line(None, line);
    }
    builder.build().unwrap_or_else(|_| Gitignore::empty())
}

/// Returns whether a file or folder with this name is hidden.
pub(crate) fn is_hidden(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b".")
}
