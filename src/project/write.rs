//! Writes files of the project: only inside of it, whole or not at all, and only if they are unchanged since
//! they were read.

use std::fs;
use std::io::{ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::tree::is_vendored;

/// The errors of finding a file of the project.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum FileError {
    /// There is no such file. The path is shown as it was given.
    #[error("Path {0} not found")]
    Missing(String),
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
    if relative.starts_with(".git") || is_vendored(&root, relative) {
        return refused(format!(
            "{shown} is not the project's own: it belongs to a tool or to a dependency."
        ));
    }
    if !path.is_file() {
        return refused(format!("{shown} is no plain file."));
    }
    Ok(path)
}

/// The replacement of a file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replacement {
    /// The file, as [`own_file`] has found it.
    pub(crate) path: PathBuf,
    /// The text that it must have.
    pub(crate) old: Vec<u8>,
    /// The text that it will have.
    pub(crate) new: Vec<u8>,
}

impl Replacement {
    fn is_unchanged(&self) -> Result<(), String> {
        match fs::read(&self.path) {
            Ok(now) if now == self.old => Ok(()),
            Ok(_) => Err(format!("{} was changed meanwhile.", self.path.display())),
            Err(error) => Err(format!("{} cannot be read: {error}.", self.path.display())),
        }
    }

    fn put(&self, staged: Staged) -> Result<(), String> {
        self.is_unchanged()?;
        staged.put(&self.path)
    }

    fn back(&self) -> Self {
        Self { path: self.path.clone(), old: self.new.clone(), new: self.old.clone() }
    }
}

/// A temporary file with the new text, beside the file that it will replace.
struct Staged(PathBuf);

impl Staged {
    /// Writes `text` to a temporary file beside `path`, with that file's mode.
    fn new(path: &Path, text: &[u8]) -> Result<Self, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let failed = |error: std::io::Error| format!("{} cannot be written: {error}.", path.display());
        let metadata = fs::metadata(path).map_err(failed)?;
        if metadata.permissions().readonly() {
            return Err(format!("{} is read-only.", path.display()));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let staged = path.with_file_name(format!(".{name}.steelbank-{}-{number}", std::process::id()));
        let mut file = fs::File::create_new(&staged).map_err(failed)?;
        let staged = Self(staged);
        file.write_all(text)
            .and_then(|()| file.set_permissions(metadata.permissions()))
            .and_then(|()| file.sync_all())
            .map_err(failed)?;
        Ok(staged)
    }

    /// Renames the temporary file to `path`.
    fn put(self, path: &Path) -> Result<(), String> {
        fs::rename(&self.0, path)
            .map_err(|error| format!("{} cannot be written: {error}.", path.display()))?;
        // Sync the folder, so that the new name survives a crash. Ignore errors: some file systems cannot.
        if let Some(folder) = path.parent().and_then(|folder| fs::File::open(folder).ok()) {
            let _ = folder.sync_all();
        }
        Ok(())
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        // Ignore the error: the file is gone if it was renamed.
        let _ = fs::remove_file(&self.0);
    }
}

/// Replaces the text `old` of the file at `path` by `new`, atomically: a reader sees one or the other. The
/// file keeps its mode.
///
/// # Errors
/// The file is not what it was, or cannot be written: a sentence.
pub(crate) fn replace(path: &Path, old: &[u8], new: &[u8]) -> Result<(), String> {
    replace_all(&[Replacement { path: path.to_owned(), old: old.to_vec(), new: new.to_vec() }])
}

/// Replaces the texts of all `files`, which must still hold the old ones, or of none.
///
/// # Errors
/// One of them has changed, or cannot be written: a sentence. All of them keep their old texts, except for
/// those that the sentence names because they could not be restored.
pub(crate) fn replace_all(files: &[Replacement]) -> Result<(), String> {
    let nothing = |why: String| format!("{why} Nothing was changed; try again.");
    let staged: Vec<Staged> = files
        .iter()
        .map(|file| Staged::new(&file.path, &file.new))
        .collect::<Result<_, _>>()
        .map_err(|why| format!("{why} Nothing was changed."))?;
    files.iter().try_for_each(Replacement::is_unchanged).map_err(nothing)?;
    for (done, (file, staged)) in files.iter().zip(staged).enumerate() {
        let Err(why) = file.put(staged) else { continue };
        let left: Vec<String> = files[..done]
            .iter()
            .rev()
            .filter_map(|file| {
                let back = file.back();
                let staged = Staged::new(&back.path, &back.new);
                staged.and_then(|staged| back.put(staged)).err()
            })
            .collect();
        return Err(match left.as_slice() {
            [] => nothing(why),
            left => format!("{why} What was written before could not all be put back: {}", left.join(" ")),
        });
    }
    Ok(())
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
    use std::os::unix::fs::PermissionsExt;

    fn files(texts: &[(&str, &str, &str)], folder: &Path) -> Vec<Replacement> {
        let made = texts.iter().map(|(name, old, new)| {
            let path = folder.join(name);
            fs::write(&path, old).unwrap();
            Replacement { path, old: old.as_bytes().to_vec(), new: new.as_bytes().to_vec() }
        });
        made.collect()
    }

    fn held(folder: &Path) -> Vec<(String, String)> {
        let mut held: Vec<_> = fs::read_dir(folder)
            .unwrap()
            .flatten()
            .map(|entry| {
                let text = fs::read_to_string(entry.path()).unwrap_or_default();
                (entry.file_name().to_string_lossy().into_owned(), text)
            })
            .collect();
        held.sort();
        held
    }

    #[test]
    fn all_files_get_their_new_text_or_none() {
        let folder = tempfile::tempdir().unwrap();
        let given = [("a", "1", "2"), ("b", "3", "4\r\n"), ("c", "5", "6")];
        let all = files(&given, folder.path());
        fs::set_permissions(&all[1].path, fs::Permissions::from_mode(0o640)).unwrap();
        replace_all(&all).unwrap();
        let expected = |pick: fn(&(&'static str, &'static str, &'static str)) -> &'static str| {
            given.iter().map(|of| (of.0.to_owned(), pick(of).to_owned())).collect::<Vec<_>>()
        };
        assert_eq!(held(folder.path()), expected(|of| of.2));
        assert_eq!(fs::metadata(&all[1].path).unwrap().permissions().mode() & 0o777, 0o640);

        // Try a changed file, a deleted one, and one that is read-only: the others keep their texts.
        for wrong in 0..given.len() {
            let all = files(&given, folder.path());
            fs::write(&all[wrong].path, "other").unwrap();
            let why = replace_all(&all).unwrap_err();
            assert!(why.contains("changed meanwhile") && why.contains("Nothing was changed"), "{why}");
            let mut before = expected(|of| of.1);
            before[wrong].1 = "other".to_owned();
            assert_eq!(held(folder.path()), before);
        }
        let all = files(&given, folder.path());
        fs::set_permissions(&all[2].path, fs::Permissions::from_mode(0o440)).unwrap();
        assert!(replace_all(&all).unwrap_err().contains("read-only"));
        assert_eq!(held(folder.path()), expected(|of| of.1));
    }

    #[test]
    fn what_was_written_is_put_back_when_a_later_file_fails() {
        let folder = tempfile::tempdir().unwrap();
        let given = [("a", "1", "2"), ("b", "3", "4")];
        let mut all = files(&given, folder.path());
        // Name a file twice: at its second turn it counts as changed by somebody else.
        all.push(Replacement { new: b"7".to_vec(), ..all[0].clone() });
        let why = replace_all(&all).unwrap_err();
        assert!(why.contains("changed meanwhile") && why.contains("Nothing was changed"), "{why}");
        assert_eq!(held(folder.path()), [("a".to_owned(), "1".to_owned()), ("b".to_owned(), "3".to_owned())]);
    }

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
