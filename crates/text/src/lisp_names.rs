//! Questions about the names in the tree's Lisp text, answered without reading a file.

use crate::control::IndexControl;
use crate::error::TextError;
use crate::index::TextIndex;
use crate::names::{PackageText, TokenClass};
use crate::store::manifest::{FileEntry, FilePlace};
use crate::store::pages::PageError;
use crate::store::snapshot::{GONE, TextSnapshot};
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// The index as it was at one moment, for questions about Lisp names.
#[derive(Debug, Clone)]
pub struct LispNames(Arc<TextSnapshot>);

/// The text that the index has of a file: its signature and its hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexedText(u64, u64);

/// A file of the index, in all states of it in which its text is the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IndexedFile {
    /// The segment that has its names, of all that this process has opened.
    pub segment: u64,
    /// The file's number in it, from 0.
    pub number: u32,
}

/// The places of a name, file by file.
#[derive(Debug, Default)]
pub struct Named<'a> {
    /// The files, by path.
    pub files: Vec<NamedIn<'a>>,
    /// The tokens of all of them: the number of a class, and the line, from 1.
    pub tokens: Vec<(u32, u32)>,
}

/// The places of a name in one file.
#[derive(Debug)]
pub struct NamedIn<'a> {
    /// The file, relative to the root.
    pub path: &'a Path,
    /// What stands for the file.
    pub file: IndexedFile,
    /// What decides which symbol a token is, by its number.
    pub classes: &'a Arc<[Arc<TokenClass>]>,
    /// Which of the tokens are in it, by place.
    pub tokens: Range<usize>,
    /// Its place among all files, which are in the order of their paths.
    place: usize,
}

impl TextIndex {
    /// Returns the index for questions about Lisp names, brought up to date first if need be.
    ///
    /// # Errors
    ///
    /// As [`TextIndex::search`].
    pub fn lisp_names(&self, control: &IndexControl<'_>) -> Result<LispNames, TextError> {
        Ok(LispNames(self.snapshot(control)?))
    }

    /// Does away with an index that is damaged: the next question builds it anew.
    pub fn discard(&self) {
        self.distrust(true);
    }
}

impl LispNames {
    /// Whether `other` is of the same state of the index.
    pub fn is(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The files, relative to the root, of which this may not have the text that `other` has. `None` if these may be all.
    pub fn taken_beside<'a>(&'a self, other: &'a Self) -> Option<impl Iterator<Item = &'a Path>> {
        let is_other = !self.is(other);
        let taken = self.0.taken.iter().chain(&other.0.taken).filter(move |_| is_other);
        (self.0.opened == other.0.opened).then(|| taken.map(|path| &**path))
    }

    /// Returns what tells the text of the file at `path`, relative to the root, from an earlier one; `None` if the index
    /// does not have its names.
    pub fn text_of(&self, path: &Path) -> Option<IndexedText> {
        let file = self.0.manifest().file(path)?;
        matches!(file.place, FilePlace::Segment(..)).then_some(IndexedText(file.signature, file.hash))
    }

    /// Finds the places of `name`. `None` if the index is damaged.
    pub fn named(&self, name: &str) -> Option<Named<'_>> {
        self.find_named(name).ok()
    }

    fn find_named(&self, name: &str) -> Result<Named<'_>, PageError> {
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
                found.push(NamedIn { path, file, classes, tokens: range, place });
            }
        }
        found.sort_unstable_by_key(|named| named.place);
        Ok(Named { files: found, tokens })
    }

    /// Finds the definitions of the package that is called `name`, each with its file. `None` if the index is damaged.
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

    /// The place in the manifest of a segment's file that is still in it.
    pub(crate) fn place(&self, places: &[u32], file: u32) -> Option<usize> {
        places.get(file as usize).filter(|&&place| place != GONE).map(|&place| place as usize)
    }
}
