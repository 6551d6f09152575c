//! The project's tree of files. Whatever is read, is read through this: nothing outside the root, no symbolic link,
//! nothing but regular files.

use super::codec::checksum;
use super::error::TextError;
use ignore::{WalkBuilder, WalkState};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

/// A file is read again later to be sure if it changed so shortly before it was read that a second change might have
/// left the same time: the clock of a file system is coarse.
const COARSE: i128 = 50_000_000;

/// The root of a project.
#[derive(Debug)]
pub(super) struct Tree {
    path: PathBuf,
    directory: OwnedFd,
}

/// What `stat` says of a file, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) size: u64,
    /// Changes whenever the size, a time, or the file itself does.
    pub(super) signature: u64,
    /// Nanoseconds since 1970.
    modified: i128,
}

impl Stamp {
    fn of(stat: &Stat) -> Stamp {
        let modified = i128::from(stat.st_mtime) * 1_000_000_000 + stat.st_mtime_nsec as i128;
        let changed = i128::from(stat.st_ctime) * 1_000_000_000 + stat.st_ctime_nsec as i128;
        let mut bytes = Vec::with_capacity(56);
        bytes.extend_from_slice(&modified.to_le_bytes());
        bytes.extend_from_slice(&changed.to_le_bytes());
        bytes.extend_from_slice(&(stat.st_ino).to_le_bytes());
        bytes.extend_from_slice(&(stat.st_size).to_le_bytes());
        Stamp { size: stat.st_size as u64, signature: checksum(&bytes), modified }
    }

    /// Whether the file changed so recently that its time may not tell of another change.
    pub(super) fn is_recent(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128);
        self.modified > now - COARSE
    }
}

/// A file's text, with the stamp that it had while it was read.
#[derive(Debug)]
pub(super) struct FileText {
    pub(super) text: Vec<u8>,
    pub(super) stamp: Stamp,
}

/// What a walk finds. Paths are relative to the root.
#[derive(Debug, Default)]
pub(super) struct Walk {
    /// Regular files, sorted.
    pub(super) files: Vec<PathBuf>,
    /// Folders, the root included as an empty path, and the files that say what to ignore. While the stamps of these
    /// are the same, a walk would find the same files.
    pub(super) watched: Vec<(PathBuf, u64)>,
    /// What could not be listed, and why.
    pub(super) failures: Vec<(PathBuf, String)>,
}

impl Tree {
    pub(super) fn open(path: &Path) -> Result<Tree, TextError> {
        let failed = |source| TextError::Root { path: path.to_owned(), source };
        let path = path.canonicalize().map_err(failed)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        Ok(Tree { path, directory })
    }

    /// The root's real path.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// The stamp of the regular file at `path`; `None` if there is none.
    pub(super) fn stamp(&self, path: &Path) -> Option<Stamp> {
        let stat = rustix::fs::statat(&self.directory, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| Stamp::of(&stat))
    }

    /// The signature of whatever is at `path`, an absolute path or one within the root.
    fn signature(&self, path: &Path) -> Option<u64> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let stat = rustix::fs::statat(&self.directory, path, AtFlags::empty()).ok()?;
        let mut stamp = Stamp::of(&stat);
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            // Only what says that the entries changed.
            let mut bytes = stamp.modified.to_le_bytes().to_vec();
            bytes.extend_from_slice(&stat.st_ino.to_le_bytes());
            stamp.signature = checksum(&bytes);
        }
        Some(stamp.signature)
    }

    /// Whether everything in `watched` is as it was.
    pub(super) fn is_unchanged(&self, watched: &[(PathBuf, u64)]) -> bool {
        watched.iter().all(|(path, signature)| self.signature(path) == Some(*signature))
    }

    /// Reads a file of at most `limit` bytes; of a longer one only the stamp is given, with no text. If the file
    /// changes meanwhile it is read again.
    pub(super) fn read(&self, path: &Path, limit: u64) -> io::Result<FileText> {
        let mut last = None;
        for _ in 0..3 {
            let mut file = self.open_file(path)?;
            let before = rustix::fs::fstat(&file)?;
            if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
                return Err(io::Error::other("it is no regular file"));
            }
            let stamp = Stamp::of(&before);
            if stamp.size > limit {
                return Ok(FileText { text: Vec::new(), stamp });
            }
            let mut text = Vec::with_capacity(stamp.size as usize + 1);
            (&mut file).take(limit + 1).read_to_end(&mut text)?;
            let settled = Stamp::of(&rustix::fs::fstat(&file)?) == stamp;
            last = Some(FileText { text, stamp });
            if settled {
                break;
            }
        }
        last.ok_or_else(|| io::Error::other("it cannot be read"))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn open_file(&self, path: &Path) -> io::Result<File> {
        use rustix::fs::ResolveFlags;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&self.directory, path, flags, Mode::empty(), resolve) {
            Ok(file) => Ok(file.into()),
            // An older kernel, or a sandbox that does not know the call.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => self.open_plainly(path),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn open_file(&self, path: &Path) -> io::Result<File> {
        self.open_plainly(path)
    }

    fn open_plainly(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let real = self.path.join(path).canonicalize()?;
        if !real.starts_with(&self.path) {
            return Err(io::Error::other("it lies outside the project"));
        }
        Ok(rustix::fs::openat(&self.directory, path, flags, Mode::empty())?.into())
    }

    /// Finds the project's files: what `.gitignore` and `.ignore` leave out and hidden files are left out, symbolic
    /// links are not followed.
    pub(super) fn walk(&self, stop: &(dyn Fn() -> bool + Sync)) -> Result<Walk, TextError> {
        let found = Mutex::new(Walk::default());
        let mut builder = WalkBuilder::new(&self.path);
        builder.require_git(false).follow_links(false).threads(2);
        builder.build_parallel().run(|| {
            Box::new(|entry| {
                if stop() {
                    return WalkState::Quit;
                }
                let (file, watched, failure) = match entry {
                    Ok(entry) => {
                        let path = entry.path().strip_prefix(&self.path).unwrap_or(entry.path()).to_owned();
                        let kind = entry.file_type();
                        if kind.is_some_and(|kind| kind.is_dir()) {
                            (None, self.watched_in(path), None)
                        } else {
                            (kind.filter(|kind| kind.is_file()).map(|_| path), Vec::new(), None)
                        }
                    }
                    Err(error) => (None, Vec::new(), Some(self.failure(&error))),
                };
                let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
                found.files.extend(file);
                found.watched.extend(watched);
                found.failures.extend(failure);
                WalkState::Continue
            })
        });
        if stop() {
            return Err(TextError::Cancelled);
        }
        let mut found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        for above in self.path.ancestors().skip(1) {
            let files = IGNORE_FILES.iter().map(|name| above.join(name));
            found.watched.extend(files.filter_map(|path| Some((path.clone(), self.signature(&path)?))));
        }
        found.files.sort_unstable_by(|left, right| bytes(left).cmp(bytes(right)));
        found.watched.sort_unstable();
        found.failures.sort_unstable();
        Ok(found)
    }

    /// A folder and the files in it that say what to ignore.
    fn watched_in(&self, folder: PathBuf) -> Vec<(PathBuf, u64)> {
        let files = IGNORE_FILES.iter().map(|name| folder.join(name));
        let paths: Vec<_> = std::iter::once(folder.clone()).chain(files).collect();
        paths.into_iter().filter_map(|path| Some((path.clone(), self.signature(&path)?))).collect()
    }

    fn failure(&self, error: &ignore::Error) -> (PathBuf, String) {
        let mut inner = error;
        let mut path = PathBuf::new();
        loop {
            inner = match inner {
                ignore::Error::WithPath { path: at, err } => {
                    path = at.strip_prefix(&self.path).unwrap_or(at).to_owned();
                    err
                }
                ignore::Error::WithDepth { err, .. } | ignore::Error::WithLineNumber { err, .. } => err,
                _ => return (path, inner.to_string()),
            };
        }
    }
}

const IGNORE_FILES: [&str; 3] = [".gitignore", ".ignore", ".git/info/exclude"];

/// A path as the index holds it.
pub(super) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// The path that [`bytes`] made bytes of.
pub(super) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}
