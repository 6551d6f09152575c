//! Questions about the names in the tree's Lisp text, answered without reading a file.

use crate::control::IndexControl;
use crate::error::TextError;
use crate::index::TextIndex;
use crate::names::{PackageText, TokenClass};
use crate::store::manifest::{FileEntry, FilePlace};
use crate::store::pages::PageError;
use crate::store::snapshot::{GONE, TextSnapshot};
use std::path::Path;
use std::sync::Arc;

/// The index as it was at one moment, for questions about Lisp names.
#[derive(Debug, Clone)]
pub struct LispNames(Arc<TextSnapshot>);

/// The places of a name in one file.
#[derive(Debug)]
pub struct NamedIn<'a> {
    /// The file, relative to the root.
    pub path: &'a Path,
    /// What decides which symbol a token is, by its number.
    pub classes: &'a Arc<[Arc<TokenClass>]>,
    /// By place: the number of a class, and the line, from 1.
    pub tokens: Vec<(u32, u32)>,
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

    /// Returns a number that is another one whenever the index has been written anew.
    pub fn generation(&self) -> u64 {
        self.0.manifest().generation
    }

    /// Whether the index has the names in the file at `path`, relative to the root.
    pub fn covers(&self, path: &Path) -> bool {
        let files = &self.0.manifest().files;
        let found =
            files.binary_search_by(|file| crate::tree::bytes(&file.path).cmp(crate::tree::bytes(path)));
        found
            .ok()
            .and_then(|at| files.get(at))
            .is_some_and(|file| matches!(file.place, FilePlace::Segment(..)))
    }

    /// Finds the places of `name`, by file. `None` if the index is damaged.
    pub fn named(&self, name: &str) -> Option<Vec<NamedIn<'_>>> {
        self.find_named(name).ok()
    }

    fn find_named(&self, name: &str) -> Result<Vec<NamedIn<'_>>, PageError> {
        let mut all: Vec<(usize, NamedIn<'_>)> = Vec::new();
        let files = &self.0.manifest().files;
        for (segment, places) in self.0.segments() {
            for (file, tokens) in segment.named(name)? {
                let Some(place) = self.place(places, file) else { continue };
                let Some(FileEntry { path, .. }) = files.get(place) else { continue };
                let classes = segment.classes()?;
                if tokens.iter().any(|(class, _)| *class as usize >= classes.len()) {
                    return Err(PageError::Damaged);
                }
                all.push((place, NamedIn { path, classes, tokens }));
            }
        }
        // The files are in the order of their paths.
        all.sort_unstable_by_key(|(place, _)| *place);
        Ok(all.into_iter().map(|(_, named)| named).collect())
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
