//! Answers queries for names in the project's Lisp text from the index alone, without reading the
//! files.

use crate::control::IndexControl;
use crate::error::TextError;
use crate::index::TextIndex;
use crate::names::{PackageText, TokenClass};
use crate::store::manifest::{FileEntry, FilePlace};
use crate::store::pages::PageError;
use crate::store::snapshot::{REMOVED, TextSnapshot};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// A snapshot of the index for queries about Lisp names.
#[derive(Debug, Clone)]
pub struct LispNames(Arc<TextSnapshot>);

/// Identifies the indexed text of a file by the signature of the file and the hash of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexedText(u64, u64);

/// Identifies a file's indexed text while the segment that contains it is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexedFile {
    /// The number of the opened segment that holds the file's names; unique in this process.
    pub segment: u64,
    /// The file's number in the segment, from 0.
    pub number: u32,
}

/// The occurrences of a name, by file.
#[derive(Debug, Default)]
pub struct NameTokens<'a> {
    /// The files, sorted by path.
    pub files: Vec<FileNameTokens<'a>>,
    /// The tokens in all files: for each, the number of its class and its line, from 1.
    pub tokens: Vec<(u32, u32)>,
}

/// The occurrences of a name in one file.
#[derive(Debug)]
pub struct FileNameTokens<'a> {
    /// The file, relative to the root.
    pub path: &'a Path,
    /// Identifies the file's indexed text.
    pub file: IndexedFile,
    /// The token classes, by number.
    pub classes: &'a Arc<[Arc<TokenClass>]>,
    /// The range of this file's tokens in [`NameTokens::tokens`].
    pub tokens: Range<usize>,
    /// The file's index in the manifest, which is sorted by path.
    place: usize,
}

impl TextIndex {
    /// Returns a snapshot for queries about Lisp names, updating the index first if necessary.
    ///
    /// # Errors
    ///
    /// The same as for [`TextIndex::search`].
    pub fn lisp_names(&self, control: &IndexControl<'_>) -> Result<LispNames, TextError> {
        Ok(LispNames(self.snapshot(control)?))
    }

    /// Discards a damaged index. The next query rebuilds it, if queries may update the index.
    pub fn discard(&self) {
        self.invalidate(true);
    }
}

impl LispNames {
    /// Returns whether `other` is the same snapshot.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Returns the files, relative to the root, for which the two snapshots may have different
    /// texts. `None` if any file may differ.
    pub fn updated_between<'a>(&'a self, other: &'a Self) -> Option<impl Iterator<Item = &'a Path>> {
        let is_other = !self.is(other);
        let updated = self.0.updated.iter().chain(&other.0.updated).filter(move |_| is_other);
        (self.0.opened == other.0.opened).then(|| updated.map(|path| &**path))
    }

    /// Returns the identity of the indexed text of the file at `path`, relative to the root. `None`
    /// if the file is not indexed.
    pub fn text_of(&self, path: &Path) -> Option<IndexedText> {
        let file = self.0.manifest().file(path)?;
        matches!(file.place, FilePlace::Segment(..)).then_some(IndexedText(file.signature, file.hash))
    }

    /// Finds the occurrences of `name`. `None` if the index is damaged or cannot be read.
    pub fn named(&self, name: &str) -> Option<NameTokens<'_>> {
        self.find_named(name).ok()
    }

    fn find_named(&self, name: &str) -> Result<NameTokens<'_>, PageError> {
        let (mut found, mut tokens) = (Vec::new(), Vec::new());
        let files = &self.0.manifest().files;
        for (segment, places) in self.0.segments() {
            let classes = segment.classes()?;
            for (number, range) in segment.named(name, &mut tokens)? {
                let Some(place) = self.place(places, number) else { continue };
                let Some(FileEntry { path, .. }) = files.get(place) else { continue };
                if tokens[range.clone()].iter().any(|(class, _)| *class as usize >= classes.len()) {
                    return Err(PageError::Damaged);
                }
                let file = IndexedFile { segment: segment.opened(), number };
                found.push(FileNameTokens { path, file, classes, tokens: range, place });
            }
        }
        found.sort_unstable_by_key(|named| named.place);
        Ok(NameTokens { files: found, tokens })
    }

    /// Finds the definitions of the package `name`, each with its file. `None` if the index is
    /// damaged or cannot be read.
    pub fn packages(&self, name: &str) -> Option<Vec<(&Path, Arc<PackageText>)>> {
        let mut all = Vec::new();
        for (segment, places) in self.0.segments() {
            let found = segment.packages(name).ok()?;
            let files = &self.0.manifest().files;
            let of = |file| Some(&*files.get(self.place(places, file)?)?.path);
            all.extend(found.iter().filter_map(|(file, package)| Some((of(*file)?, Arc::clone(package)))));
        }
        Some(all)
    }

    pub(crate) fn snapshot(&self) -> &TextSnapshot {
        &self.0
    }

    pub(crate) fn files(&self) -> &[FileEntry] {
        &self.0.manifest().files
    }

    /// Returns the manifest index of file number `file` of a segment. `places` holds the manifest
    /// indexes of the segment's files. `None` if the manifest no longer refers to the file.
    pub(crate) fn place(&self, places: &[u32], file: u32) -> Option<usize> {
        places.get(file as usize).filter(|&&place| place != REMOVED).map(|&place| place as usize)
    }
}
