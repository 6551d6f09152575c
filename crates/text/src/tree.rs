//! Reads the project's files. All texts are read through [`Tree`], which reads only regular files
//! inside the root. It follows symbolic links only where `openat2` is unavailable, and then only
//! links to folders inside the root.

use crate::control::{IndexControl, IndexProgress, Pace};
use crate::error::TextError;
use crate::store::codec::checksum;
use crate::store::manifest::IndexManifest;
use parking_lot::Mutex;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use steelbank_tree::{Found, IGNORE_FILES, WalkState};

/// Two changes within this time, in nanoseconds, may leave the same timestamp in a file system. A
/// file that changed so shortly before it was read is therefore checked again later.
const COARSE: i128 = 50_000_000;

/// The signature of a folder that changed a moment before it was checked. It never counts as
/// unchanged.
const UNSTABLE: u64 = 0;

/// The delay before a walk reports its progress.
const QUIET: Duration = Duration::from_secs(1);

/// The root folder of a project.
#[derive(Debug)]
pub(crate) struct Tree {
    path: PathBuf,
    /// The folder at the path when it was last checked.
    root: Mutex<Arc<OpenFolder>>,
}

/// The change of the root since the last check.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Root {
    /// No change.
    Same,
    /// Another folder has replaced the root.
    Another,
    /// Code in this process closed the root's descriptor, and possibly others.
    Lost,
}

/// An open folder. While it is open, its inode number cannot be reused.
#[derive(Debug)]
struct OpenFolder {
    directory: OwnedFd,
    identity: (u64, u64),
}

impl OpenFolder {
    fn open(path: &Path) -> io::Result<OpenFolder> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(path, flags, Mode::empty())?;
        let stat = rustix::fs::fstat(&directory)?;
        Ok(OpenFolder { directory, identity: (stat.st_dev, stat.st_ino) })
    }

    /// Returns whether the descriptor still refers to the folder. User code in the same process may
    /// close any descriptor.
    fn is_open(&self) -> bool {
        rustix::fs::fstat(&self.directory).is_ok_and(|stat| (stat.st_dev, stat.st_ino) == self.identity)
    }

    /// Returns whether the folder is now at `path`.
    fn is_at(&self, path: &Path) -> io::Result<bool> {
        let stat = rustix::fs::stat(path)?;
        Ok((stat.st_dev, stat.st_ino) == self.identity)
    }
}

/// A file's size and signature, for detecting changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct FileSignature {
    pub(crate) size: u64,
    /// Changes whenever the size, a timestamp or the inode changes.
    pub(crate) signature: u64,
    /// Modification time in nanoseconds since 1970.
    modified: i128,
    /// Time of the last inode change in nanoseconds since 1970. Programs cannot set it.
    changed: i128,
}

impl FileSignature {
    fn of(stat: &Stat) -> FileSignature {
        let modified = i128::from(stat.st_mtime) * 1_000_000_000 + stat.st_mtime_nsec as i128;
        let changed = i128::from(stat.st_ctime) * 1_000_000_000 + stat.st_ctime_nsec as i128;
        let mut bytes = Vec::with_capacity(56);
        bytes.extend_from_slice(&modified.to_le_bytes());
        bytes.extend_from_slice(&changed.to_le_bytes());
        bytes.extend_from_slice(&(stat.st_ino).to_le_bytes());
        bytes.extend_from_slice(&(stat.st_size).to_le_bytes());
        FileSignature { size: stat.st_size as u64, signature: checksum(&bytes), modified, changed }
    }

    /// Returns whether the modification time is so close to now that another change may leave it
    /// unchanged.
    fn is_this_tick(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128);
        (self.modified - now).abs() < COARSE
    }

    /// Returns whether the file changed so recently that another change might not show in its
    /// timestamps.
    pub(crate) fn is_recent(&self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as i128);
        self.modified.max(self.changed) > now - COARSE
    }
}

/// A file's text, with its signature while it was read.
#[derive(Debug)]
pub(crate) struct FileText {
    pub(crate) text: Vec<u8>,
    pub(crate) stamp: FileSignature,
}

/// The result of a walk. Paths inside the root are relative to it, others are absolute.
#[derive(Debug, Default)]
pub(crate) struct TreeWalk {
    /// Regular files, sorted.
    pub(crate) files: Vec<PathBuf>,
    /// Folders (the root as an empty path), ignore files and other files that affect which files
    /// belong to the project, with their signatures. While these signatures are unchanged, and no
    /// ignore file is added outside the tree, a walk would find the same files.
    pub(crate) watched: Vec<(PathBuf, u64)>,
    /// Paths that could not be listed, paths that were skipped although no ignore file matches, and
    /// ignore files that were not read, with the reason.
    pub(crate) failures: Vec<(PathBuf, String)>,
}

impl Tree {
    pub(crate) fn open(path: &Path) -> Result<Tree, TextError> {
        let failed = |source| TextError::Root { path: path.to_owned(), source };
        let path = path.canonicalize().map_err(failed)?;
        let root = Mutex::new(Arc::new(OpenFolder::open(&path).map_err(failed)?));
        Ok(Tree { path, root })
    }

    /// Checks whether the root is still the same folder and its descriptor is still open. If not,
    /// reopens the root. A checkout may remove and recreate the folder.
    pub(crate) fn refresh(&self) -> Result<Root, TextError> {
        let failed = |source| TextError::Root { path: self.path.clone(), source };
        let before = self.folder();
        let open = before.is_open();
        if open && before.is_at(&self.path).map_err(failed)? {
            return Ok(Root::Same);
        }
        let folder = OpenFolder::open(&self.path).map_err(failed)?;
        *self.root.lock() = Arc::new(folder);
        if open {
            return Ok(Root::Another);
        }
        // The descriptor number may have been reused for another file, so do not close it.
        std::mem::forget(before);
        Ok(Root::Lost)
    }

    fn folder(&self) -> Arc<OpenFolder> {
        Arc::clone(&self.root.lock())
    }

    /// Returns the canonical path of the root.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the signature of the regular file at `path`, or `None` if there is none.
    pub(crate) fn stamp(&self, path: &Path) -> Option<FileSignature> {
        let stat = rustix::fs::statat(&self.folder().directory, path, AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile).then(|| FileSignature::of(&stat))
    }

    /// Returns the signature of the file or folder at `path`, which is absolute or relative to the
    /// root. Follows symbolic links. `None` if there is no such file or folder.
    pub(crate) fn signature(&self, path: &Path) -> Option<u64> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let stat = rustix::fs::statat(&self.folder().directory, path, AtFlags::empty()).ok()?;
        let mut stamp = FileSignature::of(&stat);
        if FileType::from_raw_mode(stat.st_mode) == FileType::Directory {
            // Hash only the modification time and the inode, which change with the entries.
            let mut bytes = stamp.modified.to_le_bytes().to_vec();
            bytes.extend_from_slice(&stat.st_ino.to_le_bytes());
            // Another entry may be added or removed within the same clock tick: never let such a
            // signature match.
            stamp.signature = if stamp.is_this_tick() { UNSTABLE } else { checksum(&bytes).max(1) };
        }
        Some(stamp.signature)
    }

    /// Returns whether the file at `path`, absolute or relative to the root, changed a moment ago.
    pub(crate) fn is_recent(&self, path: &Path) -> bool {
        let stat = rustix::fs::statat(&self.folder().directory, path, AtFlags::empty());
        stat.is_ok_and(|stat| FileSignature::of(&stat).is_recent())
    }

    /// Returns whether everything in `watched` and every ignore file outside the tree is unchanged.
    /// A list without the root is incomplete and never counts as unchanged.
    pub(crate) fn is_unchanged(&self, watched: &[(PathBuf, u64)]) -> bool {
        watched.iter().any(|(path, _)| path.as_os_str().is_empty())
            && watched
                .iter()
                .all(|(path, signature)| *signature != UNSTABLE && self.signature(path) == Some(*signature))
            && self.outside(watched).iter().all(|(path, signature)| self.signature(path) == *signature)
    }

    /// Reads a file of at most `limit` bytes. For a longer file, returns only its signature, with
    /// an empty text. If the file changes meanwhile, reads it again, up to three times in all.
    pub(crate) fn read(&self, path: &Path, limit: u64) -> io::Result<FileText> {
        let mut last = None;
        for _ in 0..3 {
            let mut file = self.open_file(path)?;
            let before = rustix::fs::fstat(&file)?;
            if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
                return Err(io::Error::other("not a regular file"));
            }
            let stamp = FileSignature::of(&before);
            if stamp.size > limit {
                return Ok(FileText { text: Vec::new(), stamp });
            }
            let mut text = Vec::with_capacity(stamp.size as usize + 1);
            (&mut file).take(limit + 1).read_to_end(&mut text)?;
            let settled = FileSignature::of(&rustix::fs::fstat(&file)?) == stamp;
            last = Some(FileText { text, stamp });
            if settled {
                break;
            }
        }
        last.ok_or_else(|| io::Error::other("cannot read the file"))
    }

    #[cfg(any(target_os = "linux", target_os = "android"))]
    fn open_file(&self, path: &Path) -> io::Result<File> {
        use rustix::fs::ResolveFlags;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        match rustix::fs::openat2(&self.folder().directory, path, flags, Mode::empty(), resolve) {
            Ok(file) => Ok(file.into()),
            // The kernel is too old for the call, or a sandbox blocks it.
            Err(rustix::io::Errno::NOSYS | rustix::io::Errno::PERM) => self.open_resolved(path),
            Err(error) => Err(error.into()),
        }
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    fn open_file(&self, path: &Path) -> io::Result<File> {
        self.open_resolved(path)
    }

    fn open_resolved(&self, path: &Path) -> io::Result<File> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
        let real = self.path.join(path).canonicalize()?;
        if !real.starts_with(&self.path) {
            return Err(io::Error::other("it is outside the project"));
        }
        Ok(rustix::fs::openat(&self.folder().directory, path, flags, Mode::empty())?.into())
    }

    /// Lists the project's files, as [`steelbank_tree::walk`] does.
    pub(crate) fn walk(&self, control: &IndexControl<'_>) -> Result<TreeWalk, TextError> {
        self.walk_at(control, Pace::new(QUIET, Duration::from_millis(250)))
    }

    fn walk_at(&self, control: &IndexControl<'_>, mut pace: Pace) -> Result<TreeWalk, TextError> {
        let mut found = TreeWalk::default();
        let relative = |path: &Path| path.strip_prefix(&self.path).unwrap_or(path).to_owned();
        let mut stopped = false;
        steelbank_tree::walk(&self.path, &mut |each| {
            stopped = stopped || (control.cancelled)();
            if stopped {
                return WalkState::Quit;
            }
            match each {
                Found::Folder(path)
                | Found::Vendored(path)
                | Found::Ignoring { file: path, .. }
                | Found::Deciding(path) => {
                    let path = relative(path);
                    found.watched.extend(self.signature(&path).map(|signature| (path, signature)));
                }
                Found::File(path, kind) if kind.is_file() => found.files.push(relative(path)),
                Found::LeftOut(path, why) => found.failures.push((relative(path), why.to_string())),
                Found::Failed(path, error) => found.failures.push((relative(path), error.to_string())),
                Found::File(..) => {}
            }
            if pace.is_due() {
                (control.progress)(IndexProgress::Listing { found: found.files.len() });
            }
            WalkState::Continue
        });
        if stopped {
            return Err(TextError::Cancelled);
        }
        if !found.watched.iter().any(|(path, _)| path.as_os_str().is_empty()) {
            // The root was removed during the walk, so the empty result means nothing.
            let source = OpenFolder::open(&self.path).err().unwrap_or_else(|| io::ErrorKind::NotFound.into());
            return Err(TextError::Root { path: self.path.clone(), source });
        }
        let above = self.ignore_files_above().into_iter();
        found.watched.extend(above.filter_map(|path| Some((path.clone(), self.signature(&path)?))));
        found.files.sort_unstable_by(|left, right| bytes(left).cmp(bytes(right)));
        found.watched.sort_unstable();
        found.failures.sort_unstable();
        Ok(found)
    }

    /// Returns whether a walk would find the file at `path`, if the tree still has the folders of
    /// `manifest`. `None` if only a walk can decide, because the file is in a nested repository.
    pub(crate) fn admits(&self, path: &Path, manifest: &IndexManifest) -> Option<bool> {
        let folder = path.parent()?;
        let known = manifest.watched.binary_search_by(|(each, _)| each.as_path().cmp(folder)).is_ok();
        let admitted = steelbank_tree::admits(&self.path, &self.path.join(path))?;
        Some(known && admitted)
    }

    /// Returns the ignore and exclude files above the root, the user's global ignore file, and the
    /// exclude files of the repositories in `watched`. Each comes with its signature in `watched`,
    /// or `None` if it did not exist.
    pub(crate) fn outside(&self, watched: &[(PathBuf, u64)]) -> HashMap<PathBuf, Option<u64>> {
        let known: HashMap<&Path, u64> = watched.iter().map(|(path, each)| (path.as_path(), *each)).collect();
        let folders = watched.iter().filter(|(path, _)| !path.is_absolute());
        let excluding = folders.filter_map(|(folder, _)| self.excluding(folder));
        let all = self.ignore_files_above().into_iter().chain(excluding);
        all.map(|path| (path.clone(), known.get(path.as_path()).copied())).collect()
    }

    /// Returns whether one of the folders in `watched` is a nested repository or linked worktree.
    pub(crate) fn has_repositories(&self, watched: &[(PathBuf, u64)]) -> bool {
        let below = watched.iter().filter(|(path, _)| !path.is_absolute() && !path.as_os_str().is_empty());
        below.map(|(path, _)| path).any(|path| steelbank_tree::nested(&self.path.join(path)).is_some())
    }

    /// Returns the exclude file of the repository at `folder`. `None` if `folder` is not the root
    /// of a working tree.
    fn excluding(&self, folder: &Path) -> Option<PathBuf> {
        let path = steelbank_tree::exclude_file(&self.path.join(folder))?;
        Some(path.strip_prefix(&self.path).map(Path::to_owned).unwrap_or(path))
    }

    /// Returns the ignore and exclude files above the root, and the user's global ignore file.
    fn ignore_files_above(&self) -> Vec<PathBuf> {
        let above = || self.path.ancestors().skip(1);
        let files = above().flat_map(|folder| IGNORE_FILES.iter().map(|name| folder.join(name)));
        files
            .chain(above().filter_map(steelbank_tree::exclude_file))
            .chain(steelbank_tree::users_ignore_file())
            .collect()
    }
}

/// Returns a path's bytes, as stored in the index.
pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Returns the path with these [`bytes`].
pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsStr::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ignore_files_above_repository_have_no_effect() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().join("project");
        std::fs::create_dir_all(root.join(".git")).unwrap();
        std::fs::write(home.path().join(".gitignore"), "*\n").unwrap();
        std::fs::write(root.join("a.txt"), "").unwrap();
        let tree = Tree::open(&root).unwrap();
        let news = Mutex::new(Vec::new());
        let control = IndexControl { cancelled: &|| false, progress: &|progress| news.lock().push(progress) };
        tree.walk_at(&control, Pace::new(Duration::ZERO, Duration::ZERO)).unwrap();
        assert_eq!(news.lock().last(), Some(&IndexProgress::Listing { found: 1 }));
    }

    #[test]
    fn long_walk_reports_progress() {
        let folder = tempfile::tempdir().unwrap();
        for file in 0..20 {
            std::fs::write(folder.path().join(format!("{file}.txt")), "").unwrap();
        }
        let tree = Tree::open(folder.path()).unwrap();
        let news = Mutex::new(Vec::new());
        let control = IndexControl { cancelled: &|| false, progress: &|progress| news.lock().push(progress) };
        tree.walk_at(&control, Pace::new(Duration::ZERO, Duration::ZERO)).unwrap();
        assert_eq!(news.lock().last(), Some(&IndexProgress::Listing { found: 20 }));
        news.lock().clear();
        tree.walk_at(&control, Pace::new(Duration::from_secs(3600), Duration::ZERO)).unwrap();
        assert!(news.lock().is_empty(), "a short walk is silent");
    }
}
