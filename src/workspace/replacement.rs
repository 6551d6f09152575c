//! Replaces the text of one file. The new text goes to a temporary file, which is then exchanged
//! with the file atomically, or renamed to it if the file system cannot exchange files. The file is
//! overwritten in place instead if it has several hard links or attributes that cannot be copied,
//! or if the user may not create files in its folder.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs::{self, File, Metadata};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{FallocateFlags, OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;

use crate::workspace::write::is_nothing;

/// The replacement of a file's text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Replacement {
    /// The file, as returned by [`project_file`](crate::workspace::write::project_file).
    pub(crate) path: PathBuf,
    /// The text that the file must have before.
    pub(crate) old: Vec<u8>,
    /// The text that the file gets.
    pub(crate) new: Vec<u8>,
}

/// How a file gets its new text.
pub(super) enum Staged {
    /// Exchange the file with its temporary file. The file had these attributes.
    Temporary(FileAttributes),
    /// Overwrite the file, for the reasons in the module's documentation.
    InPlace,
}

/// Mode, owner, group and number of links.
type FileAttributes = (u32, u32, u32, u64);

/// The outcome of rolling back an edit of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RollbackOutcome {
    /// The file had the old text.
    Unchanged,
    /// The file had all or part of the new text, and was restored.
    Restored,
    /// Another program had changed or removed the file; it was left unchanged.
    Foreign,
}

impl Replacement {
    fn failed(&self, error: impl std::fmt::Display) -> String {
        format!("{} cannot be written: {error}.", self.path.display())
    }

    fn changed(&self) -> String {
        format!("{} changed during the edit; try again.", self.path.display())
    }

    /// Compares the file with the old text, and writes the new text with the file's attributes to
    /// `temporary`, in the same folder. Creates no temporary file if the file must be overwritten
    /// in place.
    pub(super) fn stage(&self, temporary: &Path) -> Result<Staged, String> {
        let (file, text) = match open_plain(&self.path) {
            Ok(Some(open)) => open,
            Ok(None) => return Err(self.changed()),
            Err(error) => return Err(format!("{} cannot be read: {error}.", self.path.display())),
        };
        if text != self.old {
            return Err(self.changed());
        }
        let failed = |error| self.failed(error);
        let metadata = file.metadata().map_err(failed)?;
        if metadata.permissions().readonly() {
            return Err(format!("{} is read-only.", self.path.display()));
        }
        if metadata.nlink() > 1 {
            return Ok(Staged::InPlace);
        }
        let mut made = match File::options().write(true).create_new(true).mode(0o600).open(temporary) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => return Ok(Staged::InPlace),
            made => made.map_err(failed)?,
        };
        made.write_all(&self.new).map_err(failed)?;
        if copy_attributes(&file, &metadata, &made).is_err() {
            fs::remove_file(temporary).map_err(failed)?;
            return Ok(Staged::InPlace);
        }
        made.sync_all().map_err(failed)?;
        Ok(Staged::Temporary(attributes(&metadata)))
    }

    /// Writes the new text to the file, unless the file no longer has the old text.
    ///
    /// # Errors
    /// Returns a sentence if the file's text or attributes have changed since
    /// [`Replacement::stage`], or if the file cannot be written.
    pub(super) fn put(&self, staged: &Staged, temporary: &Path) -> Result<(), String> {
        let failed = |error: Errno| self.failed(io::Error::from(error));
        let Staged::Temporary(kept) = staged else { return self.write_in_place(&self.old, &self.new) };
        match exchange(temporary, &self.path) {
            Ok(()) => {
                let out = open_plain(temporary).ok().flatten();
                let was = |(file, text): &(File, Vec<u8>)| {
                    *text == self.old && file.metadata().is_ok_and(|now| attributes(&now) == *kept)
                };
                if out.as_ref().is_some_and(was) {
                    return Ok(());
                }
                exchange(temporary, &self.path).map_err(failed)?;
                Err(self.changed())
            }
            // The file system cannot exchange files: compare once more, and rename.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => {
                match open_plain(&self.path) {
                    Ok(Some((_, text))) if text == self.old => {}
                    _ => return Err(self.changed()),
                }
                fs::rename(temporary, &self.path).map_err(|error| self.failed(error))
            }
            Err(Errno::NOENT) => Err(self.changed()),
            Err(error) => Err(failed(error)),
        }
    }

    /// Restores the old text if the file has all or part of the new text, and removes the temporary
    /// file. The texts alone show how far an interrupted edit had come.
    ///
    /// # Errors
    /// Returns a sentence if the file cannot be read or written, or another program has written the
    /// temporary file.
    pub(super) fn roll_back(&self, temporary: &Path) -> Result<RollbackOutcome, String> {
        let text = |path: &Path| match open_plain(path) {
            Ok(open) => Ok(open.map(|(_, text)| text)),
            Err(error) => Err(format!("{} cannot be read: {error}.", path.display())),
        };
        let is_ours = |text: &[u8]| self.old.starts_with(text) || self.new.starts_with(text);
        let outcome = match text(&self.path)? {
            Some(now) if now == self.old => RollbackOutcome::Unchanged,
            Some(now) if now == self.new => {
                let back = Self { path: self.path.clone(), old: now, new: self.old.clone() };
                let out = text(temporary)?;
                let staged = match out.filter(|out| *out == self.old || !is_ours(out)) {
                    // Put back the text that the exchange moved out, even if another program wrote
                    // it.
                    Some(_) => {
                        let metadata =
                            fs::symlink_metadata(&self.path).map_err(|error| self.failed(error))?;
                        Staged::Temporary(attributes(&metadata))
                    }
                    None => {
                        self.remove(temporary)?;
                        back.stage(temporary)?
                    }
                };
                back.put(&staged, temporary)?;
                // Set a new date, because the new text may have been compiled meanwhile. Ignore an
                // error.
                let _ = File::open(&self.path).and_then(|file| file.set_modified(SystemTime::now()));
                RollbackOutcome::Restored
            }
            Some(now) if self.is_torn(&now) => {
                self.write_in_place(&now, &self.old)?;
                RollbackOutcome::Restored
            }
            _ => RollbackOutcome::Foreign,
        };
        match text(temporary)? {
            Some(left) if !is_ours(&left) => Err(format!(
                "{} has a text that another program wrote to {} during the edit. Check that text, then remove the first file.",
                temporary.display(),
                self.path.display()
            )),
            _ => self.remove(temporary).map(|()| outcome),
        }
    }

    /// Removes the temporary file, if there is one.
    pub(super) fn remove(&self, temporary: &Path) -> Result<(), String> {
        match fs::remove_file(temporary) {
            Err(error) if !is_nothing(&error) => Err(self.failed(error)),
            _ => Ok(()),
        }
    }

    /// Returns whether an interrupted [`Replacement::write_in_place`] can have left the text `now`:
    /// the beginning of the new text, and the rest of the old text.
    fn is_torn(&self, now: &[u8]) -> bool {
        let written = now.iter().zip(&self.new).take_while(|(now, new)| now == new).count();
        match now.len() > self.old.len() {
            true => written == now.len(),
            false => now.len() == self.old.len() && now[written..] == self.old[written..],
        }
    }

    /// Overwrites the text `from` of the file with `to`. If writing fails, the file may have parts
    /// of both.
    fn write_in_place(&self, from: &[u8], to: &[u8]) -> Result<(), String> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
        let open = || -> io::Result<Option<File>> {
            let mut file =
                File::options().read(true).write(true).custom_flags(flags.cast_signed()).open(&self.path)?;
            let before = file.metadata()?;
            let mut text = Vec::new();
            if !before.is_file() || file.read_to_end(&mut text).is_err() || text != from {
                return Ok(None);
            }
            // Reserve the space first, to detect a full disk before writing. Not all file systems
            // support this.
            let reserved =
                rustix::fs::fallocate(&file, FallocateFlags::KEEP_SIZE, 0, (to.len() as u64).max(1));
            if let Err(error @ (Errno::NOSPC | Errno::DQUOT | Errno::FBIG)) = reserved {
                return Err(error.into());
            }
            file.write_all_at(to, 0)?;
            file.set_len(to.len() as u64)?;
            if file.metadata()?.mode() != before.mode() {
                // Ignore the error: writing clears a set-user-ID bit, and only the owner can set it
                // again.
                let _ = file.set_permissions(before.permissions());
            }
            file.sync_all()?;
            Ok(Some(file))
        };
        match open() {
            Ok(Some(_)) => Ok(()),
            Ok(None) => Err(self.changed()),
            Err(error) => Err(self.failed(error)),
        }
    }
}

/// Exchanges the names of two files atomically.
fn exchange(one: &Path, other: &Path) -> Result<(), Errno> {
    rustix::fs::renameat_with(rustix::fs::CWD, one, rustix::fs::CWD, other, RenameFlags::EXCHANGE)
}

/// Opens and reads a regular file. Returns `None` if `path` does not exist or is not a regular
/// file, such as a link.
fn open_plain(path: &Path) -> io::Result<Option<(File, Vec<u8>)>> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut file = match File::options().read(true).custom_flags(flags.bits().cast_signed()).open(path) {
        Err(error) if is_nothing(&error) || error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Ok(None);
        }
        opened => opened?,
    };
    if !file.metadata()?.is_file() {
        return Ok(None);
    }
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    Ok(Some((file, text)))
}

fn attributes(metadata: &Metadata) -> FileAttributes {
    (metadata.mode(), metadata.uid(), metadata.gid(), metadata.nlink())
}

/// Copies the owner, extended attributes and mode of `from` to `to`. The mode is set last: until
/// then nobody else can read the file, and a set-user-ID bit never applies to the wrong owner.
fn copy_attributes(from: &File, metadata: &Metadata, to: &File) -> io::Result<()> {
    let made = to.metadata()?;
    if (made.uid(), made.gid()) != (metadata.uid(), metadata.gid()) {
        fchown(to, Some(metadata.uid()), Some(metadata.gid()))?;
    }
    let (wanted, had) = (extended_attributes(from)?, extended_attributes(to)?);
    for name in had.keys().filter(|name| !wanted.contains_key(*name)) {
        rustix::fs::fremovexattr(to, name.as_c_str())?;
    }
    for (name, value) in wanted.iter().filter(|(name, value)| had.get(*name) != Some(*value)) {
        rustix::fs::fsetxattr(to, name.as_c_str(), value, XattrFlags::empty())?;
    }
    to.set_permissions(metadata.permissions())?;
    // Compare the result: the kernel clears a set-group-ID bit silently.
    let kept = attributes(&to.metadata()?) == attributes(metadata);
    if kept { Ok(()) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

/// Reads the extended attributes of a file, including access control lists.
fn extended_attributes(file: &File) -> io::Result<BTreeMap<CString, Vec<u8>>> {
    let size = match rustix::fs::flistxattr_query(file) {
        Err(Errno::OPNOTSUPP | Errno::NOSYS) => 0,
        size => size?,
    };
    let mut names = vec![0; size];
    let size = if size == 0 { 0 } else { rustix::fs::flistxattr(file, &mut names[..])? };
    let names = names[..size].split(|&byte| byte == 0).filter(|name| !name.is_empty());
    names
        .map(|name| {
            let name = CString::new(name)?;
            let mut value = vec![0; rustix::fs::fgetxattr_query(file, name.as_c_str())?];
            let size = rustix::fs::fgetxattr(file, name.as_c_str(), &mut value[..])?;
            value.truncate(size);
            Ok((name, value))
        })
        .collect()
}
