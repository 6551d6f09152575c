//! Writing files of the project: inside of it, whole or not at all, and only if they still are what was read.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use super::tree::is_vendored;

/// The existing file that `given`, relative to `root` or absolute, names, with no link left in it.
///
/// # Errors
/// It is not there, no plain file, or not the project's own: a sentence.
pub(crate) fn own_file(root: &Path, given: &Path) -> Result<PathBuf, String> {
    let shown = given.display();
    let path = fs::canonicalize(root.join(given)).map_err(|error| {
        format!("{shown} cannot be read: {error}. Name a file relative to {}.", root.display())
    })?;
    let root = fs::canonicalize(root).map_err(|error| format!("{}: {error}.", root.display()))?;
    let Ok(relative) = path.strip_prefix(&root) else {
        return Err(format!("{shown} is {}, which is outside of the project.", path.display()));
    };
    if relative.starts_with(".git") || is_vendored(&root, relative) {
        return Err(format!("{shown} is not the project's own: it belongs to a tool or to a dependency."));
    }
    if !path.is_file() {
        return Err(format!("{shown} is no plain file."));
    }
    Ok(path)
}

/// Puts `new` into the file at `path`, which must still hold `old`. The file keeps its mode; a reader sees the old text or
/// the new one.
///
/// # Errors
/// The file is not what it was, or cannot be written: a sentence.
pub(crate) fn replace(path: &Path, old: &[u8], new: &[u8]) -> Result<(), String> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let failed = |error: std::io::Error| {
        format!("{} cannot be written: {error}. Nothing was changed.", path.display())
    };
    let unchanged = || match fs::read(path) {
        Ok(now) if now == old => Ok(()),
        Ok(_) => Err(format!("{} was changed meanwhile. Nothing was written; try again.", path.display())),
        Err(error) => Err(failed(error)),
    };
    let metadata = fs::metadata(path).map_err(failed)?;
    if metadata.permissions().readonly() {
        return Err(format!("{} is read-only. Nothing was changed.", path.display()));
    }
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let number = COUNT.fetch_add(1, Ordering::Relaxed);
    let temporary = path.with_file_name(format!(".{name}.steelbank-{}-{number}", std::process::id()));
    let write = || -> std::io::Result<()> {
        let mut file = fs::File::create_new(&temporary)?;
        file.write_all(new)?;
        file.set_permissions(metadata.permissions())?;
        file.sync_all()
    };
    let outcome = write()
        .map_err(failed)
        .and_then(|()| unchanged())
        .and_then(|()| fs::rename(&temporary, path).map_err(failed));
    if outcome.is_err() {
        // It may not have been made.
        let _ = fs::remove_file(&temporary);
    }
    outcome
}

/// `text` in the encoding of the file that holds `bytes`: UTF-8, or Latin-1 if the file says so.
///
/// # Errors
/// The encoding is another one, and `text` is not ASCII; or it has no form for `text`: a sentence.
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

/// What `-*- coding: … -*-` on the first two lines says, in lower case.
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
