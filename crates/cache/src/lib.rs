//! Creates, opens and replaces the cache's folders and files. They contain code that is run, and
//! copies of texts that may be private. They are therefore accessible only to their user,
//! regardless of the umask. [`RecordKind`] defines files with a version and a checksum.

mod record;

pub use record::RecordKind;

use std::collections::hash_map::RandomState;
use std::fs::{DirBuilder, File, OpenOptions, Permissions};
use std::hash::{BuildHasher, Hasher};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

const FOLDER: u32 = 0o700;
const FILE: u32 = 0o600;
/// The permission bits of other users.
const OTHERS: u32 = 0o077;

/// The reason why a folder cannot be used as the cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// The folder belongs to another user.
    #[error(
        "the cache folder {} belongs to user {owner}, but this process runs as user {user}; it contains code that is run, so use a \
         folder of your own",
        path.display()
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The user id of its owner.
        owner: u32,
        /// The user id of the process.
        user: u32,
    },
    /// Other users can access the folder, and its permissions cannot be changed.
    #[error(
        "the cache folder {} is open to other users (mode {mode:o}), and its file system does not allow changing that; it contains \
         code that is run, so use a private folder",
        path.display()
    )]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

/// Makes `folder`, the top folder of a cache, accessible only to its user, creating it if
/// necessary. Returns no error if the folder cannot be created or checked: later reads and writes
/// report that.
///
/// # Errors
///
/// If the folder belongs to another user, or remains accessible to others.
pub fn claim(folder: &Path) -> Result<(), CacheError> {
    // Ignore the error: the following check shows whether the folder exists.
    let _ = create_folder(folder);
    let Ok(found) = std::fs::metadata(folder) else { return Ok(()) };
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(CacheError::Foreign { path: folder.to_owned(), owner, user });
    }
    if found.mode() & OTHERS != 0 {
        // Check the result: some file systems accept a mode but do not store it.
        let _ = std::fs::set_permissions(folder, Permissions::from_mode(FOLDER));
        let mode = std::fs::metadata(folder).map_or(0, |now| now.mode() & 0o777);
        if mode & OTHERS != 0 {
            return Err(CacheError::Open { path: folder.to_owned(), mode });
        }
    }
    Ok(())
}

/// Creates `folder` and its missing parents, each with mode 0700.
///
/// # Errors
///
/// Errors from the operating system. An existing folder is not an error.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(folder)
}

/// Creates `folder`, which must not exist, with mode 0700.
///
/// # Errors
///
/// Errors from the operating system.
pub fn create_new_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER).create(folder)
}

/// The maximum size, in bytes, of a file that [`read`] accepts.
const MAX_FILE_BYTES: u64 = 1 << 30;

/// Opens the regular file `path` for reading. Refuses other types, so that opening never blocks.
///
/// # Errors
///
/// Errors from the operating system, or if `path` is not a regular file.
pub fn open(path: &Path) -> io::Result<File> {
    Ok(steelbank_tree::open_plain(path)?)
}

/// Reads the regular file `path`.
///
/// # Errors
///
/// As for [`open`], or if the file is longer than 1 GiB.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    Ok(steelbank_tree::read_plain(path, MAX_FILE_BYTES)?)
}

/// Opens the file `path` for writing and truncates it; creates it with mode 0600 if it does not
/// exist. Anything at `path` that is not a regular file is removed first.
///
/// # Errors
///
/// Errors from the operating system.
pub fn create_file(path: &Path) -> io::Result<File> {
    remove_unless_file(path);
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let mut options = OpenOptions::new();
    options
        .write(true)
        .create(true)
        .truncate(true)
        .mode(FILE)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
}

/// Renames the file `written` to `path` and replaces any file there. Anything at `path` that is not
/// a regular file is removed first.
///
/// # Errors
///
/// Errors from the operating system.
pub fn rename(written: &Path, path: &Path) -> io::Result<()> {
    remove_unless_file(path);
    std::fs::rename(written, path)
}

/// Removes anything at `path` that is not a regular file, including a folder with its contents. The
/// cache only has regular files at these paths.
fn remove_unless_file(path: &Path) {
    // Ignore errors: the caller's next operation will report them, or another process has already
    // removed the file.
    let _ = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(found) if !found.is_file() => std::fs::remove_file(path),
        _ => Ok(()),
    };
}

/// Writes `bytes` to the file `path`, which is created or truncated as by [`create_file`].
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_file(path)?.write_all(bytes)
}

/// Returns a name that is unique across processes and containers. Containers that share a cache may
/// have equal process ids.
pub fn unique_name() -> String {
    // Each `RandomState` has random keys.
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// Makes `file`, written by another program, inaccessible to other users.
///
/// # Errors
///
/// Errors from the operating system.
pub fn restrict_to_owner(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn irregular_file_is_not_read_but_replaced() {
        let home = tempfile::tempdir().unwrap();
        let (file, written) = (home.path().join("file"), home.path().join("written"));
        let odd: [fn(&Path); 3] = [
            |path| std::fs::create_dir_all(path.join("full")).unwrap(),
            |path| rustix::fs::mkfifoat(rustix::fs::CWD, path, rustix::fs::Mode::RWXU).unwrap(),
            |path| std::os::unix::fs::symlink("/dev/zero", path).unwrap(),
        ];
        for put in odd {
            put(&file);
            assert!(read(&file).is_err() && open(&file).is_err());
            write(&file, b"x").unwrap();
            assert_eq!(read(&file).unwrap(), b"x");
            std::fs::remove_file(&file).unwrap();
            put(&file);
            write(&written, b"y").unwrap();
            rename(&written, &file).unwrap();
            assert_eq!(read(&file).unwrap(), b"y");
            std::fs::remove_file(&file).unwrap();
        }
    }

    fn mode(path: &Path) -> u32 {
        std::fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn created_files_are_private() {
        let home = tempfile::tempdir().unwrap();
        let old = rustix::process::umask(rustix::fs::Mode::empty());
        let cache = home.path().join("a/cache");
        claim(&cache).unwrap();
        create_new_folder(&cache.join("new")).unwrap();
        write(&cache.join("file"), b"text").unwrap();
        rustix::process::umask(old);
        assert_eq!([mode(&home.path().join("a")), mode(&cache), mode(&cache.join("new"))], [0o700; 3]);
        assert_eq!(mode(&cache.join("file")), 0o600);
        assert!(create_new_folder(&cache).is_err());
    }

    #[test]
    fn open_cache_is_closed_and_missing_cache_accepted() {
        let home = tempfile::tempdir().unwrap();
        let cache = home.path().join("cache");
        std::fs::create_dir(&cache).unwrap();
        std::fs::set_permissions(&cache, Permissions::from_mode(0o777)).unwrap();
        claim(&cache).unwrap();
        assert_eq!(mode(&cache), 0o700);
        write(&cache.join("file"), b"no folder").unwrap();
        claim(&cache.join("file/below")).unwrap();
    }

    #[test]
    fn folder_of_another_user_is_refused() {
        // The root folder belongs to root. If the test runs as root, change the owner of a folder
        // instead.
        let home = tempfile::tempdir().unwrap();
        let folder = if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(home.path(), Some(12_345), None).unwrap();
            home.path()
        } else {
            Path::new("/")
        };
        assert!(matches!(claim(folder), Err(CacheError::Foreign { .. })));
    }
}
