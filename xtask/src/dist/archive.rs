//! Creates reproducible archives: their bytes depend only on their contents, not on the time, the
//! user or the order of a folder.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};

use flate2::Compression;
use flate2::write::GzEncoder;
use sha2::{Digest, Sha256};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// A file in an archive.
#[derive(Debug, Clone)]
pub(super) struct Item {
    pub(super) path: String,
    pub(super) mode: u32,
    pub(super) octets: Vec<u8>,
}

impl Item {
    /// Returns a file without execute permission.
    pub(super) fn text(path: impl Into<String>, octets: impl Into<Vec<u8>>) -> Self {
        Self { path: path.into(), mode: 0o644, octets: octets.into() }
    }

    /// Returns an executable file.
    pub(super) fn program(path: impl Into<String>, octets: impl Into<Vec<u8>>) -> Self {
        Self { mode: 0o755, ..Self::text(path, octets) }
    }

    /// Returns a file at `path` in the archive, with the contents of the file `from` and without
    /// execute permission.
    pub(super) fn of(path: impl Into<String>, from: impl AsRef<Path>) -> Result<Self, String> {
        let from = from.as_ref();
        Ok(Self::text(path, fs::read(from).map_err(|error| format!("{}: {error}", from.display()))?))
    }

    /// Prepends `folder` to the file's path.
    pub(super) fn below(self, folder: &str) -> Self {
        Self { path: format!("{folder}/{}", self.path), ..self }
    }
}

/// Creates a tar archive. Folders precede their contents, because dpkg does not create missing
/// folders.
pub(super) fn tar(items: &[Item], epoch: u64) -> Result<Vec<u8>, String> {
    let mut writer = tar::Builder::new(Vec::new());
    let mut add = |path: &str, kind, mode, octets: &[u8]| {
        let mut header = tar::Header::new_ustar();
        header.set_mode(mode);
        header.set_mtime(epoch);
        header.set_size(octets.len() as u64);
        header.set_entry_type(kind);
        writer.append_data(&mut header, path, octets).map_err(|error| format!("{path}: {error}"))
    };
    let mut made = BTreeSet::new();
    for item in items {
        for (at, _) in item.path.match_indices('/').filter(|(at, _)| *at > 0) {
            if made.insert(&item.path[..at]) {
                add(&item.path[..=at], tar::EntryType::Directory, 0o755, &[])?;
            }
        }
        add(&item.path, tar::EntryType::Regular, item.mode, &item.octets)?;
    }
    writer.into_inner().map_err(|error| error.to_string())
}

/// Creates an ar archive in the format of dpkg.
pub(super) fn ar(items: &[Item], epoch: u64) -> Vec<u8> {
    let mut archive = b"!<arch>\n".to_vec();
    for Item { path, mode, octets } in items {
        let size = octets.len();
        archive.extend(format!("{path:<16}{epoch:<12}{:<6}{:<6}100{mode:<5o}{size:<10}`\n", 0, 0).bytes());
        archive.extend(octets);
        archive.extend(std::iter::repeat_n(b'\n', size % 2));
    }
    archive
}

/// Compresses as gzip, without a name and a time.
pub(super) fn gzip(octets: &[u8]) -> Result<Vec<u8>, String> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::best());
    writer.write_all(octets).and_then(|()| writer.finish()).map_err(|error| error.to_string())
}

/// Creates a zip archive. Its entries include the file type in addition to the permissions;
/// otherwise pip does not make installed files executable.
pub(super) fn zip(items: &[Item]) -> Result<Vec<u8>, String> {
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    for item in items {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .compression_level(Some(9))
            .last_modified_time(zip::DateTime::default())
            .unix_permissions(0o100_000 | item.mode);
        writer.start_file(&item.path, options).map_err(|error| format!("{}: {error}", item.path))?;
        writer.write_all(&item.octets).map_err(|error| format!("{}: {error}", item.path))?;
    }
    Ok(writer.finish().map_err(|error| error.to_string())?.into_inner())
}

/// Returns the SHA-256 of `octets`.
pub(super) fn sha256(octets: &[u8]) -> [u8; 32] {
    Sha256::digest(octets).into()
}

/// Returns the SHA-256 of `octets` in hexadecimal.
pub(super) fn hex(octets: &[u8]) -> String {
    sha256(octets).iter().map(|octet| format!("{octet:02x}")).collect()
}

/// Lists the files in `folder`, sorted.
pub(super) fn files_in(folder: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = fs::read_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut files: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(|path| path.is_file()).collect();
    files.sort();
    Ok(files)
}
