//! Which files may be written, those inside of the project, and in which encoding.

use crate::workspace::NoProject;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use steelbank_tree::{belonging, is_lisp_by_name, is_vendored};

/// The errors of finding a file of the project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileError {
    /// There is no such file. The path is shown as it was given.
    #[error("Path {0} not found")]
    Missing(String),
    /// There is no project.
    #[error(transparent)]
    NoProject(#[from] NoProject),
    /// It cannot be read, or is not the project's own: a sentence.
    #[error("{0}")]
    Refused(String),
}

impl FileError {
    /// Makes the error for a failure of the system on the file shown as `path`.
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

/// Whether the system's error says that there is no file.
pub(crate) fn is_nothing(why: &std::io::Error) -> bool {
    matches!(why.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

/// Finds the existing file that `given`, relative to `root` or absolute, names. Resolves its links.
///
/// # Errors
/// There is none, it is no plain file, or not the project's own.
pub(crate) fn own_file(root: &Path, given: &Path) -> Result<PathBuf, FileError> {
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
            "{shown} is not the project's own: it belongs to a tool or to a dependency."
        ));
    }
    if let Some(why) = belonging(&root, &path) {
        return refused(format!("{shown} is not the project's own. Of the folder in which it lies: {why}."));
    }
    if !path.is_file() {
        return refused(format!("{shown} is no plain file."));
    }
    Ok(path)
}

/// Whether the file at `relative` belongs to a tool, by its path: whatever is hidden and is no Lisp file, and
/// all that a version control system keeps.
fn is_of_tool(relative: &Path) -> bool {
    let names = || relative.iter().map(|name| name.as_encoded_bytes());
    names().any(|name| [&b".git"[..], b".hg", b".svn", b".bzr", b".jj", b"_darcs", b"CVS"].contains(&name))
        || (names().any(|name| name.starts_with(b".")) && !is_lisp_by_name(relative))
}

/// Encodes `text` as the file that holds `bytes` is encoded: UTF-8, or Latin-1 if the file says so.
///
/// # Errors
/// The file has another encoding, and `text` is not ASCII; or `text` cannot be encoded: a sentence.
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
            .map_err(|_| "The file is in Latin-1, which has no form for a character of the text.".to_owned()),
        Some(other) => Err(format!("The file is in {other}: only ASCII can be written into it.")),
        None => {
            Err("The file is not in UTF-8 and does not name its encoding: only ASCII can be written into it."
                .to_owned())
        }
    }
}

/// Returns the encoding that `-*- coding: … -*-` on the first two lines names, in lower case.
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
    fn the_files_encoding_is_kept() {
        assert_eq!(encoded("é", "ä".as_bytes()).unwrap(), "é".as_bytes());
        assert_eq!(encoded("é", b";; -*- mode: lisp; coding: latin-1 -*-\n\xe4").unwrap(), b"\xe9");
        assert!(encoded("λ", b";; -*- coding: latin-1 -*-\n").is_err());
        assert!(encoded("é", b"\xe4").is_err());
        assert!(encoded("é", b";; -*- coding: euc-jp -*-\n").is_err());
        assert_eq!(encoded("e", b"\xe4").unwrap(), b"e");
    }
}
