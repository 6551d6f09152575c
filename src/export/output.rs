//! Writes the files and folders that a command was asked for. Nothing else is written outside of
//! the cache, except edits of the project's files, which have a journal. An [`Output`] gets a
//! random name in the folder of its target, because a name such as `index.scip.part` may be in use,
//! or be a link in a repository. A complete output is renamed to its target.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// The outputs that this process has created and not completed. Locked while outputs are created,
/// renamed and removed, and while a file of a folder is written.
static UNFINISHED: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// Removes the unfinished outputs of this process, which is about to end by a signal. Afterwards,
/// no output can be created or completed.
pub(crate) fn remove_unfinished() {
    let unfinished = UNFINISHED.lock();
    unfinished.iter().for_each(|path| remove(path));
    // Never unlock: another thread would create files again in a folder that was just removed.
    std::mem::forget(unfinished);
}

/// Removes an output. Ignores errors, because the caller already reports another error or ends.
fn remove(path: &Path) {
    let _ = fs::remove_file(path).or_else(|_| fs::remove_dir_all(path));
}

/// Returns an unused path in the folder of `target`. It does not contain the name of `target`,
/// which may already have the maximum length.
fn unique_path(target: &Path) -> PathBuf {
    target.with_file_name(format!(".steelbank-{}", steelbank_cache::unique_name()))
}

/// An unfinished file or folder. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Output {
    pub(super) path: PathBuf,
    target: PathBuf,
}

impl Output {
    /// Creates the file that will replace `target`, with the permissions of `target`.
    ///
    /// # Errors
    /// `target` exists and is not a regular file, or the file cannot be created.
    pub(crate) fn file(target: &Path) -> io::Result<(Self, File)> {
        let old = match fs::symlink_metadata(target) {
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Ok(found) if found.is_dir() => return Err(ErrorKind::IsADirectory.into()),
            Ok(found) if !found.is_file() => return Err(io::Error::other("it is not a regular file")),
            found => Some(found?.permissions()),
        };
        // With O_EXCL, the system follows no link.
        let (output, file) = Self::create(target, |path| File::create_new(path))?;
        old.map_or(Ok(()), |permissions| file.set_permissions(permissions))?;
        Ok((output, file))
    }

    /// Creates the folder that will replace `target`, and the folders above it.
    ///
    /// # Errors
    /// The folder cannot be created.
    pub(crate) fn folder(target: &Path) -> io::Result<Self> {
        target.parent().map_or(Ok(()), fs::create_dir_all)?;
        Self::create(target, |path| fs::create_dir(path)).map(|(output, ())| output)
    }

    fn create<T>(target: &Path, create: impl FnOnce(&Path) -> io::Result<T>) -> io::Result<(Self, T)> {
        // Lisp code may change the current folder before the output is complete. Collecting the
        // components removes a slash at the end.
        let target: PathBuf = std::path::absolute(target)?.components().collect();
        let path = unique_path(&target);
        let mut unfinished = UNFINISHED.lock();
        let created = create(&path)?;
        unfinished.insert(path.clone());
        Ok((Self { path, target }, created))
    }

    /// Appends to a file of the folder. Creates the file and the folders above it if they are
    /// missing.
    ///
    /// # Errors
    /// Errors from the operating system.
    pub(crate) fn append(&self, name: &str, text: &str) -> io::Result<()> {
        let (path, _unfinished) = (self.path.join(name), UNFINISHED.lock());
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        File::options().create(true).append(true).open(path)?.write_all(text.as_bytes())
    }

    /// Renames the output to its target. A folder at the target is removed with its contents.
    ///
    /// # Errors
    /// Errors from the operating system.
    pub(crate) fn finish(self) -> io::Result<()> {
        let mut unfinished = UNFINISHED.lock();
        match fs::rename(&self.path, &self.target) {
            // File systems differ in the error for a folder that is not empty.
            Err(error)
                if [ErrorKind::DirectoryNotEmpty, ErrorKind::AlreadyExists].contains(&error.kind()) =>
            {
                let old = unique_path(&self.target);
                fs::rename(&self.target, &old)?;
                if let Err(error) = fs::rename(&self.path, &self.target) {
                    // Ignore a second error: the first one is reported.
                    let _ = fs::rename(&old, &self.target);
                    return Err(error);
                }
                fs::remove_dir_all(&old)?;
            }
            renamed => renamed?,
        }
        unfinished.remove(&self.path);
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        let mut unfinished = UNFINISHED.lock();
        if unfinished.remove(&self.path) {
            remove(&self.path);
        }
    }
}
