//! Decides which files may be edited: regular files that belong to the project. Encodes new text
//! for them.

use crate::workspace::NoProject;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use steelbank_tree::{belonging, is_lisp_by_name, is_vendored};

/// An error from [`project_file`].
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileError {
    /// There is no such file. The error shows the path as given.
    #[error("Path {0} not found")]
    Missing(String),
    /// There is no project.
    #[error(transparent)]
    NoProject(#[from] NoProject),
    /// The file cannot be read, or does not belong to the project. The sentence contains the
    /// reason.
    #[error("{0}")]
    Refused(String),
}

impl FileError {
    /// Creates the error for the I/O error `why` on the file shown as `path`.
    pub(crate) fn new(path: &str, why: &std::io::Error) -> Self {
        match is_nothing(why) {
            true => Self::Missing(path.to_owned()),
            false => Self::Refused(format!("The file {path} cannot be read: {why}.")),
        }
    }
}

impl From<FileError> for String {
    fn from(error: FileError) -> String {
        error.to_string()
    }
}

/// Returns whether the I/O error `why` means that there is no file.
pub(crate) fn is_nothing(why: &std::io::Error) -> bool {
    matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Finds the existing file `given`, an absolute path or relative to `root`, and resolves links.
///
/// # Errors
/// The file does not exist, cannot be read, is not a regular file, or does not belong to the
/// project.
pub(crate) fn project_file(root: &Path, given: &Path) -> Result<PathBuf, FileError> {
    let shown = given.display();
    let refused = |why: String| Err(FileError::Refused(why));
    let path =
        fs::canonicalize(root.join(given)).map_err(|error| FileError::new(&shown.to_string(), &error))?;
    let root = fs::canonicalize(root)
        .map_err(|error| FileError::Refused(format!("{}: {error}.", root.display())))?;
    let Ok(relative) = path.strip_prefix(&root) else {
        return refused(format!("{shown} is {}, which is outside of the project.", path.display()));
    };
    if is_of_tool(relative) || is_vendored(&root, relative) {
        return refused(format!(
            "{shown} is not part of this project: it belongs to a tool or to a dependency."
        ));
    }
    if let Some(why) = belonging(&root, &path) {
        return refused(format!("{shown} is not part of this project. Its folder: {why}."));
    }
    if !path.is_file() {
        return refused(format!("{shown} is not a regular file."));
    }
    Ok(path)
}

/// Returns whether the file at `relative` belongs to a tool by its path: a hidden file that is not
/// Lisp, or a file of a version control system.
fn is_of_tool(relative: &Path) -> bool {
    let names = || relative.iter().map(|name| name.as_encoded_bytes());
    names().any(|name| [&b".git"[..], b".hg", b".svn", b".bzr", b".jj", b"_darcs", b"CVS"].contains(&name))
        || (names().any(|name| name.starts_with(b".")) && !is_lisp_by_name(relative))
}

/// Encodes `text` in the encoding of the file with the contents `bytes`: UTF-8, or Latin-1 if the
/// file declares it.
///
/// # Errors
/// Returns a sentence if `text` is not ASCII and the file has another encoding or is not valid
/// UTF-8, or if Latin-1 cannot encode `text`.
pub(crate) fn encoded(text: &str, bytes: &[u8]) -> Result<Vec<u8>, String> {
    if text.is_ascii() {
        return Ok(text.as_bytes().to_vec());
    }
    match declared_encoding(bytes).as_deref() {
        None | Some("utf-8" | "utf8" | "utf-8-unix") if std::str::from_utf8(bytes).is_ok() => {
            Ok(text.as_bytes().to_vec())
        }
        Some("latin-1" | "iso-8859-1" | "iso-latin-1" | "latin1" | "iso-latin-1-unix") => text
            .chars()
            .map(|character| u8::try_from(u32::from(character)))
            .collect::<Result<_, _>>()
            .map_err(|_| {
                "The file is in Latin-1, which cannot encode a character of the new text.".to_owned()
            }),
        Some(other) => Err(format!("The file declares encoding {other}: only ASCII can be written to it.")),
        None => Err("The file is not valid UTF-8 and declares no encoding: only ASCII can be written to it."
            .to_owned()),
    }
}

/// Returns the encoding that `-*- coding: … -*-` on one of the first two lines declares, in lower
/// case.
fn declared_encoding(bytes: &[u8]) -> Option<String> {
    let head: Vec<&[u8]> = bytes.splitn(3, |&byte| byte == b'\n').take(2).collect();
    let head = String::from_utf8_lossy(&head.join(&b'\n')).to_lowercase();
    let line = head.lines().find(|line| line.contains("-*-"))?;
    let value = line.split("coding:").nth(1)?.trim_start();
    let end = value.find(|c: char| !(c.is_alphanumeric() || c == '-' || c == '_')).unwrap_or(value.len());
    Some(value[..end].trim_end_matches('-').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encoding_of_file_is_preserved() {
        assert_eq!(encoded("é", "ä".as_bytes()).unwrap(), "é".as_bytes());
        assert_eq!(encoded("é", b";; -*- mode: lisp; coding: latin-1 -*-\n\xe4").unwrap(), b"\xe9");
        assert!(encoded("λ", b";; -*- coding: latin-1 -*-\n").is_err());
        assert!(encoded("é", b"\xe4").is_err());
        assert!(encoded("é", b";; -*- coding: euc-jp -*-\n").is_err());
        assert_eq!(encoded("e", b"\xe4").unwrap(), b"e");
    }
}
