//! The manifest lists the files of the tree, each with its signature when it was read, and with its
//! segment or the reason why the file is not indexed.

use crate::definitions::built_in_grammars;
use crate::language::Language;
use crate::store::codec::{Decoder, put_after, put_bytes, put_number};
use crate::store::pages::{self, PageError, Pages};
use crate::tree;
use serde::{Deserialize, Serialize};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The version of the index format. Must change whenever the same files would give a different
/// index.
const FORMAT: u64 = 10;

/// The reason why a file is not indexed.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Skipped {
    /// It contains a zero byte.
    Binary,
    /// It is larger than 16 MiB.
    Huge,
    /// It cannot be read.
    Unreadable,
    /// `index_project` was restricted to other languages.
    Language,
}

impl Skipped {
    const ALL: [Skipped; 4] = [Skipped::Binary, Skipped::Huge, Skipped::Unreadable, Skipped::Language];

    /// Returns the name of the reason, as written in results.
    pub fn name(self) -> &'static str {
        match self {
            Skipped::Binary => "binary",
            Skipped::Huge => "huge",
            Skipped::Unreadable => "unreadable",
            Skipped::Language => "language",
        }
    }
}

/// The location of a file in the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilePlace {
    /// The segment, by its index in the manifest, and the file's number in that segment.
    Segment(u32, u32),
    Skipped(Skipped),
}

/// A file of the manifest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileEntry {
    /// The path relative to the root.
    pub(crate) path: Arc<Path>,
    pub(crate) size: u64,
    pub(crate) signature: u64,
    /// The hash of the text; 0 for a skipped file.
    pub(crate) hash: u64,
    /// Whether the file changed so recently that only its content can show a further change.
    pub(crate) recent: bool,
    pub(crate) language: Language,
    pub(crate) place: FilePlace,
}

/// The manifest of an index: its segments and files, and the settings that they depend on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct IndexManifest {
    pub(crate) root: PathBuf,
    /// Increases with every update of the index on disk.
    pub(crate) generation: u64,
    /// The languages that the index is restricted to; empty for all.
    pub(crate) languages: Vec<Language>,
    /// For each segment, the number in its file name, or [`crate::update::PRIVATE_SEGMENT`] for a
    /// private segment, and the size of the text that it covers, in bytes.
    pub(crate) segments: Vec<(u64, u64)>,
    /// The files, sorted by path.
    pub(crate) files: Vec<FileEntry>,
    /// See [`crate::tree::TreeWalk::watched`].
    pub(crate) watched: Vec<(PathBuf, u64)>,
    /// See [`crate::tree::TreeWalk::failures`].
    pub(crate) failures: Vec<(PathBuf, String)>,
}

impl IndexManifest {
    /// Returns the index of a file, or `Err` with the index where it would be inserted.
    pub(crate) fn place(&self, path: &Path) -> Result<usize, usize> {
        self.files.binary_search_by(|file| tree::bytes(&file.path).cmp(tree::bytes(path)))
    }

    pub(crate) fn file(&self, path: &Path) -> Option<&FileEntry> {
        self.place(path).ok().and_then(|at| self.files.get(at))
    }

    pub(crate) fn write(&self, path: &Path) -> io::Result<()> {
        let mut out = Vec::new();
        put_number(&mut out, FORMAT);
        put_number(&mut out, built_in_grammars().into());
        put_bytes(&mut out, tree::bytes(&self.root));
        put_number(&mut out, self.generation);
        put_number(&mut out, self.languages.len() as u64);
        self.languages.iter().for_each(|language| out.push(language.index()));
        put_number(&mut out, self.segments.len() as u64);
        for &(name, bytes) in &self.segments {
            put_number(&mut out, name);
            put_number(&mut out, bytes);
        }
        put_number(&mut out, self.watched.len() as u64);
        let mut previous: &[u8] = &[];
        for (path, signature) in &self.watched {
            put_after(&mut out, previous, tree::bytes(path));
            out.extend_from_slice(&signature.to_le_bytes());
            previous = tree::bytes(path);
        }
        put_number(&mut out, self.failures.len() as u64);
        for (path, reason) in &self.failures {
            put_bytes(&mut out, tree::bytes(path));
            put_bytes(&mut out, reason.as_bytes());
        }
        put_number(&mut out, self.files.len() as u64);
        let mut previous: &[u8] = &[];
        for file in &self.files {
            put_after(&mut out, previous, tree::bytes(&file.path));
            previous = tree::bytes(&file.path);
            put_number(&mut out, file.size);
            out.extend_from_slice(&file.signature.to_le_bytes());
            out.extend_from_slice(&file.hash.to_le_bytes());
            out.push(file.language.index());
            match file.place {
                FilePlace::Segment(segment, local) => {
                    out.push(u8::from(file.recent));
                    put_number(&mut out, u64::from(segment));
                    put_number(&mut out, u64::from(local));
                }
                FilePlace::Skipped(reason) => out.push(u8::from(file.recent) | (reason as u8 + 1) << 1),
            }
        }
        pages::write(path, &[&out], &[])
    }

    /// Reads the manifest. Another format version, or another set of built-in grammars, is reported
    /// as damage.
    pub(crate) fn read(path: &Path) -> Result<IndexManifest, PageError> {
        let (pages, _) = Pages::open(path)?;
        let bytes = pages.read_all()?;
        IndexManifest::decode(&bytes).ok_or(PageError::Damaged)
    }

    fn decode(bytes: &[u8]) -> Option<IndexManifest> {
        let mut decoder = Decoder::new(bytes);
        if decoder.number()? != FORMAT || decoder.number()? != u64::from(built_in_grammars()) {
            return None;
        }
        let mut manifest = IndexManifest { root: tree::path(decoder.bytes()?), ..IndexManifest::default() };
        manifest.generation = decoder.number()?;
        for _ in 0..decoder.number()? {
            manifest.languages.push(Language::from_index(decoder.byte()?)?);
        }
        for _ in 0..decoder.number()? {
            manifest.segments.push((decoder.number()?, decoder.number()?));
        }
        let mut path = Vec::new();
        for _ in 0..decoder.number()? {
            decoder.after(&mut path)?;
            manifest.watched.push((tree::path(&path), decoder.fixed()?));
        }
        for _ in 0..decoder.number()? {
            let path = tree::path(decoder.bytes()?);
            manifest.failures.push((path, String::from_utf8_lossy(decoder.bytes()?).into_owned()));
        }
        path.clear();
        for _ in 0..decoder.number()? {
            decoder.after(&mut path)?;
            let size = decoder.number()?;
            let signature = decoder.fixed()?;
            let hash = decoder.fixed()?;
            let language = Language::from_index(decoder.byte()?)?;
            let flags = decoder.byte()?;
            let place = match flags >> 1 {
                0 => {
                    let segment =
                        decoder.small().filter(|&each| (each as usize) < manifest.segments.len())?;
                    FilePlace::Segment(segment, decoder.small()?)
                }
                reason => FilePlace::Skipped(*Skipped::ALL.get(usize::from(reason) - 1)?),
            };
            let path = tree::path(&path).into();
            manifest.files.push(FileEntry {
                path,
                size,
                signature,
                hash,
                recent: flags & 1 != 0,
                language,
                place,
            });
        }
        manifest
            .files
            .is_sorted_by(|left, right| tree::bytes(&left.path) < tree::bytes(&right.path))
            .then_some(manifest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn manifest() -> IndexManifest {
        let rust = Language::named("rust").unwrap();
        let file = |path: &str, place| FileEntry {
            path: Path::new(path).into(),
            size: 12,
            signature: 3,
            hash: 4,
            recent: path == "b",
            language: rust,
            place,
        };
        IndexManifest {
            root: "/root".into(),
            generation: 7,
            languages: vec![rust],
            segments: vec![(1, 100), (9, 5)],
            files: vec![
                file("a", FilePlace::Segment(1, 3)),
                file("b", FilePlace::Skipped(Skipped::Huge)),
                file("b/c", FilePlace::Segment(0, 0)),
            ],
            watched: vec![("".into(), 5), ("src".into(), 6)],
            failures: vec![("x".into(), "no".into())],
        }
    }

    #[test]
    fn read_returns_written_manifest() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("manifest");
        manifest().write(&path).unwrap();
        assert_eq!(IndexManifest::read(&path).unwrap(), manifest());
    }

    proptest! {
        #[test]
        fn any_bytes_decode_without_panic(mut bytes in proptest::collection::vec(any::<u8>(), 0..200), known in any::<bool>()) {
            if known {
                let mut head = Vec::new();
                put_number(&mut head, FORMAT);
                put_number(&mut head, built_in_grammars().into());
                bytes.splice(0..0, head);
            }
            IndexManifest::decode(&bytes);
        }
    }
}
