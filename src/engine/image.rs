//! The files of an SBCL: runtime library, core and contrib modules. Checks that the core is
//! complete and reads its build ID, makes an embedded library loadable, and unpacks embedded
//! contribs.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use rustix::fs::{MemfdFlags, StatVfsMountFlags, fstatvfs, memfd_create};

/// The parts of an SBCL. All must come from one build.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Image {
    /// SBCL's runtime, linked with the shim.
    pub library: RuntimeLibrary,
    /// The saved image, which contains the Lisp half of this program.
    pub core: Core,
    /// The contrib modules that `require` loads.
    pub contribs: Contribs,
}

/// SBCL's runtime as a shared library. Starting SBCL runs the library's code in this process, so
/// the public functions that construct a `RuntimeLibrary` are `unsafe`.
///
/// ```compile_fail
/// let library = steelbank::engine::RuntimeLibrary::file("libother.so".into());
/// ```
#[derive(Debug, Clone)]
pub struct RuntimeLibrary(LibrarySource);

#[derive(Debug, Clone)]
enum LibrarySource {
    File(PathBuf),
    Memory(&'static [u8]),
}

impl RuntimeLibrary {
    /// Returns the library in the file `path`, which is opened when SBCL starts.
    ///
    /// # Safety
    /// Until SBCL has started, the file must be one of these: the `libsteelbank-sbcl.so` that the
    /// build script of this crate version linked; a file that is not a shared library; or a shared
    /// library that lacks this crate's functions and has only harmless constructors.
    pub unsafe fn file(path: PathBuf) -> Self {
        Self(LibrarySource::File(path))
    }

    /// Returns the library with the contents `bytes`. When SBCL starts, the bytes are written to an
    /// unnamed file and loaded from there.
    ///
    /// # Safety
    /// As for [`RuntimeLibrary::file`].
    pub unsafe fn memory(bytes: &'static [u8]) -> Self {
        Self(LibrarySource::Memory(bytes))
    }

    /// Returns the library in the folder that this crate's build script has filled.
    pub(crate) fn built() -> Self {
        // SAFETY: the build script has linked the library in this folder, for this program.
        unsafe { Self::file(Path::new(env!("STEELBANK_BUILT_IMAGE")).join(Self::NAME)) }
    }

    /// Returns the library that is embedded in the program.
    #[cfg(feature = "embedded")]
    pub(crate) fn embedded() -> Self {
        // SAFETY: the build script has linked this library and embedded it in the program.
        unsafe { Self::memory(super::embedded::LIBRARY) }
    }

    /// Returns the library in a folder that the program's user has configured. This is safe because
    /// a user who runs a program can also make the dynamic linker load any library.
    #[cfg(feature = "server")]
    pub(crate) fn from_user_folder(folder: &Path) -> Self {
        // SAFETY: the manual requires the user to specify the files of this program's build; the
        // checks of the interface version and of the build detect mistakes.
        unsafe { Self::file(folder.join(Self::NAME)) }
    }

    /// The library's file name.
    pub const NAME: &str = "libsteelbank-sbcl.so";

    /// Returns the library's file, or `None` if it is in memory.
    pub fn path(&self) -> Option<&Path> {
        match &self.0 {
            LibrarySource::File(path) => Some(path),
            LibrarySource::Memory(_) => None,
        }
    }
}

/// Returns advice about an error that occurred while the library was written to a memory file.
fn memory_file_remedy(error: &io::Error) -> &'static str {
    if error.raw_os_error() == Some(libc::EFBIG) {
        "the limit on the size of files (ulimit -f) applies to this file: raise the limit"
    } else {
        "the system refuses memfd_create; make /dev/shm, /tmp or the cache folder writable, on a file system without noexec"
    }
}

/// A saved image.
#[derive(Debug, Clone)]
pub enum Core {
    /// A file.
    File(PathBuf),
    /// The ELF section `lisp.core` of the running executable.
    Embedded,
}

/// The contrib modules that are not in the core.
#[derive(Debug, Clone)]
pub enum Contribs {
    /// A folder with their fasls.
    Folder(PathBuf),
    /// Zlib-compressed fasls. All are written to a folder when Lisp first requires a contrib
    /// module.
    Packed {
        /// File names, sizes in bytes, and compressed contents.
        files: &'static [(&'static str, u64, &'static [u8])],
        /// The folder that the fasls are written to. Other processes see all the files or none.
        folder: PathBuf,
    },
    /// No contrib modules.
    None,
}

/// The reason why an image cannot be used. If a file with a path causes the error, the message
/// names it. The caller adds where the image comes from.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ImageError {
    /// A file of the image does not exist or is not readable.
    #[error("cannot read {path}: {source}", path = path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not an SBCL core.
    #[error("{path} is not an SBCL core; use the steelbank.core that was built with this program", path = path.display())]
    NotACore {
        /// The file.
        path: PathBuf,
    },
    /// The file is shorter than its header requires.
    #[error("{path} is truncated: it has {size} bytes instead of at least {expected}", path = path.display())]
    Truncated {
        /// The file.
        path: PathBuf,
        /// The file's size in bytes.
        size: u64,
        /// The size that the file's header implies, in bytes.
        expected: u64,
    },
    /// Core and runtime are from different builds.
    #[error("{path} is from SBCL build {core}, but the runtime is from build {runtime}; use steelbank.core and libsteelbank-sbcl.so of the same build", path = path.display())]
    OtherBuild {
        /// The core.
        path: PathBuf,
        /// The core's build.
        core: String,
        /// The runtime's build.
        runtime: String,
    },
    /// `/proc` is not mounted, so an unnamed file cannot be opened.
    #[error(
        "the file system /proc is not mounted, and the embedded SBCL is started from /proc/self; mount /proc"
    )]
    NoProc,
    /// The runtime could not be written to a file that can be mapped as code.
    #[error("cannot create a file for SBCL's runtime: {source}; {}", memory_file_remedy(source))]
    Memory {
        /// The system's error.
        source: io::Error,
    },
}

// From SBCL's src/runtime/core.h and genesis/sbcl.h.
const CORE_MAGIC: u64 = 0x5342_434c;
const BUILD_ID_ENTRY: u64 = 3860;
const DIRECTORY_ENTRY: u64 = 3861;
const PAGE_TABLE_ENTRY: u64 = 3880;
const PAGE_BYTES: u64 = 32768;

/// Returns the build ID in the header of a core file. Returns an error if the file is not a core,
/// or if the file is shorter than its header requires: SBCL would map the file and crash with a bus
/// error.
pub(super) fn core_build(path: &Path) -> Result<String, ImageError> {
    let unreadable = |source| ImageError::Unreadable { path: path.to_owned(), source };
    let not_a_core = || ImageError::NotACore { path: path.to_owned() };
    let file = File::open(path).map_err(unreadable)?;
    let size = file.metadata().map_err(unreadable)?.len();
    let mut header = Vec::new();
    file.take(4096).read_to_end(&mut header).map_err(unreadable)?;
    let words: Vec<u64> = header.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect();
    if words.first() != Some(&CORE_MAGIC) {
        return Err(not_a_core());
    }

    let (mut build, mut end, mut at) = (None, 0, 1);
    // Each entry consists of its kind, its number of words (including these two), and its other
    // words.
    while let Some(&[kind, length]) = words.get(at..at + 2)
        && let Ok(length) = usize::try_from(length)
        && let Some(entry) = words.get(at + 2..at.saturating_add(length))
    {
        match (kind, entry) {
            (BUILD_ID_ENTRY, entry) => build = build_id(entry),
            // A space has five words: identifier, length in words, first page in the file, address,
            // and number of pages.
            (DIRECTORY_ENTRY, spaces) => {
                for [_, words, page, ..] in spaces.as_chunks::<5>().0 {
                    end =
                        end.max(page.saturating_add(1).saturating_mul(PAGE_BYTES).saturating_add(words * 8));
                }
            }
            (PAGE_TABLE_ENTRY, [_, _, bytes, page, ..]) => {
                end = end.max(page.saturating_add(1).saturating_mul(PAGE_BYTES).saturating_add(*bytes));
            }
            _ => {}
        }
        at += length;
    }
    if size < end {
        return Err(ImageError::Truncated { path: path.to_owned(), size, expected: end });
    }
    build.ok_or_else(not_a_core)
}

/// Returns the build ID in an entry of a core's header. The entry ends with the ID's length in
/// bytes and the ID itself. The number of words before the length varies: two up to SBCL 2.6.4,
/// three in 2.6.7.
fn build_id(entry: &[u64]) -> Option<String> {
    (0..entry.len()).find_map(|at| {
        let (length, words) = (usize::try_from(entry[at]).ok()?, &entry[at + 1..]);
        if length == 0 || length.div_ceil(8) != words.len() {
            return None;
        }
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        bytes.truncate(length);
        bytes.iter().all(u8::is_ascii_graphic).then(|| String::from_utf8(bytes).ok())?
    })
}

/// Returns a path from which the dynamic linker can open the library. For a library in memory, also
/// returns the descriptor that must stay open while the path is used.
pub(super) fn library_path(image: &Image) -> Result<(PathBuf, Option<OwnedFd>), ImageError> {
    match &image.library.0 {
        LibrarySource::File(path) => {
            File::open(path).map_err(|source| ImageError::Unreadable { path: path.clone(), source })?;
            Ok((path.clone(), None))
        }
        LibrarySource::Memory(bytes) => {
            if !Path::new("/proc/self/fd").exists() {
                return Err(ImageError::NoProc);
            }
            let file = memory_file(bytes)
                .or_else(|refused| {
                    let folders =
                        image.contribs.cache().into_iter().chain(["/dev/shm", "/tmp"].map(Path::new));
                    folders.filter_map(|folder| nameless_file(bytes, folder).ok()).next().ok_or(refused)
                })
                .map_err(|source| ImageError::Memory { source })?;
            let path = PathBuf::from(format!("/proc/self/fd/{}", file.as_raw_fd()));
            Ok((path, Some(file.into())))
        }
    }
}

/// Creates a file in memory with these contents.
fn memory_file(bytes: &[u8]) -> io::Result<File> {
    let mut file = File::from(memfd_create("libsteelbank-sbcl", MemfdFlags::CLOEXEC)?);
    file.write_all(bytes)?;
    Ok(file)
}

/// Creates an unlinked file in `folder` with these contents. Returns an error if the folder is on a
/// file system that is mounted noexec.
fn nameless_file(bytes: &[u8], folder: &Path) -> io::Result<File> {
    let since_epoch = UNIX_EPOCH.elapsed().unwrap_or_default();
    let path = folder.join(format!(".steelbank-{}-{}", std::process::id(), since_epoch.as_nanos()));
    let mut file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
    std::fs::remove_file(&path)?;
    if fstatvfs(&file)?.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    file.write_all(bytes)?;
    Ok(file)
}

impl Contribs {
    /// Returns the cache folder that contains the folder of the unpacked contribs.
    fn cache(&self) -> Option<&Path> {
        match self {
            Self::Packed { folder, .. } => folder.parent(),
            Self::Folder(_) | Self::None => None,
        }
    }

    /// Returns the folder with the fasls, or `None` if there is none. Unpacks packed fasls first if
    /// any file is missing or has the wrong size.
    pub(super) fn folder(&self) -> io::Result<Option<PathBuf>> {
        match self {
            Self::Folder(folder) => Ok(folder.is_dir().then(|| folder.clone())),
            Self::None => Ok(None),
            Self::Packed { files, folder } => {
                if !is_intact(files, folder) {
                    unpack(files, folder)?;
                }
                Ok(Some(folder.clone()))
            }
        }
    }
}

/// Returns whether `folder` has regular files of these names and sizes.
fn is_intact(files: &[(&str, u64, &[u8])], folder: &Path) -> bool {
    files.iter().all(|(name, size, _)| {
        std::fs::metadata(folder.join(name)).is_ok_and(|found| found.is_file() && found.len() == *size)
    })
}

/// Writes the files to a temporary folder and renames it to `folder`, so that other processes see
/// all files or none. Replaces a damaged folder.
fn unpack(files: &[(&str, u64, &[u8])], folder: &Path) -> io::Result<()> {
    let parent = folder.parent().unwrap_or(Path::new("."));
    steelbank_cache::create_folder(parent)?;
    let name = folder.file_name().unwrap_or_default().to_string_lossy();
    let unfinished = parent.join(format!(".{name}.{}", steelbank_cache::unique_name()));
    steelbank_cache::create_folder(&unfinished)?;
    for (name, _, bytes) in files {
        let mut fasl = steelbank_cache::create_file(&unfinished.join(name))?;
        io::copy(&mut flate2::read::ZlibDecoder::new(*bytes), &mut fasl)?;
    }
    let damaged = parent.join(format!(".{name}.{}", steelbank_cache::unique_name()));
    // Ignore errors: usually there is no folder, or another process has just moved it.
    if std::fs::rename(folder, &damaged).is_ok() {
        let _ = std::fs::remove_dir_all(&damaged).or_else(|_| std::fs::remove_file(&damaged));
    }
    let renamed = std::fs::rename(&unfinished, folder);
    if renamed.is_err() {
        std::fs::remove_dir_all(&unfinished)?;
        if !is_intact(files, folder) {
            return renamed;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {

    use super::*;

    /// Lisp's signal handlers run on threads of the host. `__tls_get_addr` calls malloc, which such
    /// a thread may be running.
    #[test]
    fn runtime_allocates_no_thread_local_variables() {
        let library = std::fs::read(concat!(env!("STEELBANK_BUILT_IMAGE"), "/libsteelbank-sbcl.so")).unwrap();
        let symbols =
            |name: &str| library.windows(name.len()).filter(|found| *found == name.as_bytes()).count();
        assert_eq!((symbols("__tls_get_addr"), symbols("steelbank_host_serve") > 0), (0, true));
    }

    #[test]
    fn invalid_core_error_names_the_file() {
        let path = std::env::temp_dir().join(format!("steelbank-no-core-{}", std::process::id()));
        std::fs::write(&path, b"not a core at all").unwrap();
        let error = core_build(&path).unwrap_err();
        std::fs::remove_file(&path).unwrap();
        assert!(error.to_string().contains("is not an SBCL core"), "{error}");
        assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
    }

    #[test]
    fn build_id_is_found_after_any_prefix() {
        let name = b"2.6.7-machine-20260101000000";
        let mut bytes = name.to_vec();
        bytes.resize(name.len().next_multiple_of(8), 0);
        let words = bytes.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
        for before in [vec![], vec![0x5000_0000, 7], vec![0x5000_0000, 7, 1]] {
            let entry: Vec<u64> =
                before.into_iter().chain([name.len() as u64]).chain(words.clone()).collect();
            assert_eq!(build_id(&entry).as_deref(), Some("2.6.7-machine-20260101000000"));
            assert_eq!(build_id(&entry[..entry.len() - 1]), None);
        }
    }

    #[test]
    fn damaged_contribs_are_unpacked_again() {
        let home = tempfile::tempdir().unwrap();
        let folder = home.path().join("contrib");
        let mut encoder = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(b"the fasl").unwrap();
        let packed: &'static [u8] = Vec::leak(encoder.finish().unwrap());
        let files = Box::leak(Box::new([("a.fasl", 8, packed), ("b.fasl", 8, packed)]));
        let contribs = Contribs::Packed { files, folder: folder.clone() };
        let damages: [fn(&Path); 4] = [
            |fasl| std::fs::write(fasl, "the").unwrap(),
            |fasl| std::fs::remove_file(fasl).unwrap(),
            |fasl| {
                std::fs::remove_file(fasl).unwrap();
                std::os::unix::fs::symlink("/dev/zero", fasl).unwrap();
            },
            |fasl| {
                std::fs::remove_dir_all(fasl.parent().unwrap()).unwrap();
                std::fs::write(fasl.parent().unwrap(), "a file").unwrap();
            },
        ];
        let unpack = || {
            assert_eq!(contribs.folder().unwrap(), Some(folder.clone()));
            assert_eq!(std::fs::read(folder.join("b.fasl")).unwrap(), b"the fasl");
        };
        unpack();
        for damage in damages {
            let mark = folder.join("mark");
            std::fs::write(&mark, "").unwrap();
            unpack();
            assert!(mark.exists(), "intact files are not replaced");
            damage(&folder.join("b.fasl"));
            unpack();
            assert!(!mark.exists(), "damaged files are replaced");
        }
        assert_eq!(std::fs::read_dir(home.path()).unwrap().count(), 1);
    }
}
