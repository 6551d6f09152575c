//! Reads regular files with a size limit, without blocking on devices or FIFOs.

use rustix::fs::{FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The reason why a file was not read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadRefusal {
    /// It is a symbolic link.
    #[error("it is a link")]
    Link,
    /// It is a folder, a device, a FIFO or a socket.
    #[error("it is not a regular file")]
    Special,
    /// It is longer than the limit, given in bytes.
    #[error("it is longer than {} MiB", .0 >> 20)]
    TooLong(u64),
    /// An error from the operating system.
    #[error("{0}")]
    Failed(#[from] io::Error),
}

impl From<Errno> for ReadRefusal {
    fn from(error: Errno) -> Self {
        ReadRefusal::Failed(error.into())
    }
}

impl From<ReadRefusal> for io::Error {
    fn from(refusal: ReadRefusal) -> io::Error {
        match refusal {
            ReadRefusal::Failed(error) => error,
            other => io::Error::other(other.to_string()),
        }
    }
}

/// Reads the regular file at `path`, following links, if it has at most `limit` bytes.
///
/// # Errors
///
/// If it is not a regular file, is longer than `limit`, or cannot be read.
pub fn read_plain(path: &Path, limit: u64) -> Result<Vec<u8>, ReadRefusal> {
    check(&rustix::fs::stat(path)?)?;
    read(path, OFlags::empty(), limit)
}

/// Reads the regular file at `path`, without following a link, if it has at most `limit` bytes.
///
/// # Errors
///
/// The same as for [`read_plain`], and if it is a link.
pub fn read_unlinked(path: &Path, limit: u64) -> Result<Vec<u8>, ReadRefusal> {
    check(&rustix::fs::lstat(path)?)?;
    read(path, OFlags::NOFOLLOW, limit)
}

/// The maximum size of a source file, in bytes. Longer files are treated as data.
const SOURCE: u64 = 16 << 20;

/// Reads the source file at `path`, following links.
///
/// # Errors
///
/// If it is not a regular file, is longer than 16 MiB, or cannot be read.
pub fn read_source(path: &Path) -> io::Result<Vec<u8>> {
    Ok(read_plain(path, SOURCE)?)
}

/// Checks the file type before opening, because opening a device can have side effects.
fn check(stat: &Stat) -> Result<(), ReadRefusal> {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Ok(()),
        FileType::Symlink => Err(ReadRefusal::Link),
        _ => Err(ReadRefusal::Special),
    }
}

/// Opens the regular file at `path`, following links, to read it in pieces.
///
/// # Errors
///
/// If it is not a regular file, or cannot be read.
pub fn open_plain(path: &Path) -> Result<File, ReadRefusal> {
    check(&rustix::fs::stat(path)?)?;
    Ok(open(path, OFlags::empty())?.0)
}

fn open(path: &Path, also: OFlags) -> Result<(File, Stat), ReadRefusal> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | also;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP if also == OFlags::NOFOLLOW => ReadRefusal::Link,
        error => error.into(),
    })?;
    let stat = rustix::fs::fstat(&file)?;
    check(&stat)?;
    Ok((file.into(), stat))
}

fn read(path: &Path, also: OFlags, limit: u64) -> Result<Vec<u8>, ReadRefusal> {
    let (file, stat) = open(path, also)?;
    let size = stat.st_size as u64;
    if size > limit {
        return Err(ReadRefusal::TooLong(limit));
    }
    let mut bytes = Vec::with_capacity(size as usize + 1);
    file.take(limit + 1).read_to_end(&mut bytes)?;
    // The size may have changed meanwhile, and files in /proc report the size 0.
    match bytes.len() as u64 > limit {
        true => Err(ReadRefusal::TooLong(limit)),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn only_regular_files_within_limit_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("plain"), "text").unwrap();
        File::create(at("sparse")).unwrap().set_len(4 << 30).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, at("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
        symlink("plain", at("link")).unwrap();
        symlink("/dev/zero", at("zero")).unwrap();
        symlink("itself", at("itself")).unwrap();
        let short = |result: Result<Vec<u8>, ReadRefusal>| match result {
            Ok(bytes) => String::from_utf8(bytes).unwrap(),
            Err(ReadRefusal::Failed(error)) => format!("{:?}", error.kind()),
            Err(refusal) => format!("{refusal:?}"),
        };
        for (name, followed, unlinked) in [
            ("plain", "text", "text"),
            ("link", "text", "Link"),
            ("sparse", "TooLong(4)", "TooLong(4)"),
            ("fifo", "Special", "Special"),
            ("zero", "Special", "Link"),
            ("itself", "FilesystemLoop", "Link"),
            ("", "Special", "Special"),
            ("none", "NotFound", "NotFound"),
        ] {
            assert_eq!(short(read_plain(&at(name), 4)), followed, "{name}");
            assert_eq!(short(read_unlinked(&at(name), 4)), unlinked, "{name}");
        }
        assert_eq!(short(read_plain(&at("plain"), 3)), "TooLong(3)");
        // A file in /proc reports the size 0 and may be endless.
        assert_eq!(short(read_plain(Path::new("/proc/self/maps"), 10)), "TooLong(10)");
    }
}
