//! The cache's folders and files. They hold code that is run, and copies of texts that may be private: they are their
//! user's alone, whatever the umask.

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
/// The bits that let other users in.
const OTHERS: u32 = 0o077;

/// Why a folder cannot be the cache.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CacheError {
    /// It is another user's.
    #[error(
        "the cache folder {} belongs to user {owner}, and this process is of user {user}: what lies there is code that is run, so \
         it has to be one's own",
        path.display()
    )]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// The id of its owner.
        owner: u32,
        /// The id of the process's user.
        user: u32,
    },
    /// Other users may use it, and that cannot be changed.
    #[error(
        "the cache folder {} is open to other users (mode {mode:o}), and its file system does not let one close it: what lies there \
         is code that is run",
        path.display()
    )]
    Open {
        /// The folder.
        path: PathBuf,
        /// Its permissions.
        mode: u32,
    },
}

/// Makes `folder`, the top of a cache, its user's alone. What cannot be looked at, or is not there and cannot be made, is no
/// error here: whoever reads or writes it reports that.
///
/// # Errors
/// It is another user's, or stays open to others.
pub fn claim(folder: &Path) -> Result<(), CacheError> {
    // Ignore the error: the look that follows finds the folder or not.
    let _ = create_folder(folder);
    let Ok(found) = std::fs::metadata(folder) else { return Ok(()) };
    let (owner, user) = (found.uid(), rustix::process::geteuid().as_raw());
    if owner != user {
        return Err(CacheError::Foreign { path: folder.to_owned(), owner, user });
    }
    if found.mode() & OTHERS != 0 {
        // Ask again rather than trust the answer: some file systems take a mode and do not keep it.
        let _ = std::fs::set_permissions(folder, Permissions::from_mode(FOLDER));
        let mode = std::fs::metadata(folder).map_or(0, |now| now.mode() & 0o777);
        if mode & OTHERS != 0 {
            return Err(CacheError::Open { path: folder.to_owned(), mode });
        }
    }
    Ok(())
}

/// Creates `folder` and the missing ones above it, each with mode 0700.
///
/// # Errors
/// The system's. A folder that is there already is none.
pub fn create_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(FOLDER).create(folder)
}

/// Creates `folder`, which must not be there, with mode 0700.
///
/// # Errors
/// The system's.
pub fn create_new_folder(folder: &Path) -> io::Result<()> {
    DirBuilder::new().mode(FOLDER).create(folder)
}

/// The longest file of a cache that is read whole, in bytes.
const LONGEST_FILE: u64 = 1 << 30;

/// Opens the file `path` for reading, if it is a plain one: nothing else is waited for.
///
/// # Errors
/// The system's, or it is no plain file.
pub fn open(path: &Path) -> io::Result<File> {
    Ok(steelbank_tree::open_plain(path)?)
}

/// Reads the file `path`, as [`open`] opens it.
///
/// # Errors
/// As of [`open`], or it is longer than 1 GiB.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    Ok(steelbank_tree::read_plain(path, LONGEST_FILE)?)
}

/// Opens the file `path` to write it from its start; creates it with mode 0600 if it is not there. What is no plain file
/// gives way.
///
/// # Errors
/// The system's.
pub fn create_file(path: &Path) -> io::Result<File> {
    give_way(path);
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

/// Renames the file `written` to `path`. What is no plain file there gives way.
///
/// # Errors
/// The system's.
pub fn rename(written: &Path, path: &Path) -> io::Result<()> {
    give_way(path);
    std::fs::rename(written, path)
}

/// Removes what is at `path`, where only a file of ours may be, unless it is a plain file.
fn give_way(path: &Path) {
    // Ignore errors: whoever opens the file reports them, or another process has removed it.
    let _ = match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
        Ok(found) if !found.is_file() => std::fs::remove_file(path),
        _ => Ok(()),
    };
}

/// Creates the file `path`, which must not be there, with mode 0600.
///
/// # Errors
/// The system's.
pub fn create_new_file(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(FILE).open(path)
}

/// Writes `bytes` to the file `path`, as [`create_file`] opens it.
///
/// # Errors
/// The system's.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    create_file(path)?.write_all(bytes)
}

/// Returns a name that no other process or container has: those that share a cache may have the same process id.
pub fn unique_name() -> String {
    // Each state has random keys.
    format!("{:016x}", RandomState::new().build_hasher().finish())
}

/// Closes `file`, which another program has written, to other users.
///
/// # Errors
/// The system's.
pub fn close_to_others(file: &File) -> io::Result<()> {
    file.set_permissions(Permissions::from_mode(FILE))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plain_file_is_not_read_and_gives_way() {
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
    fn what_is_created_is_its_users_alone() {
        let home = tempfile::tempdir().unwrap();
        let old = rustix::process::umask(rustix::fs::Mode::empty());
        let cache = home.path().join("a/cache");
        claim(&cache).unwrap();
        create_new_folder(&cache.join("new")).unwrap();
        write(&cache.join("file"), b"text").unwrap();
        create_new_file(&cache.join("other")).unwrap();
        rustix::process::umask(old);
        assert_eq!([mode(&home.path().join("a")), mode(&cache), mode(&cache.join("new"))], [0o700; 3]);
        assert_eq!([mode(&cache.join("file")), mode(&cache.join("other"))], [0o600; 2]);
        assert!(create_new_folder(&cache).is_err() && create_new_file(&cache.join("file")).is_err());
    }

    #[test]
    fn an_open_cache_is_closed_and_one_that_cannot_be_made_is_reported_by_its_users() {
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
    fn another_users_folder_is_refused() {
        // The root of the file system is root's; as root, give a folder away.
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
