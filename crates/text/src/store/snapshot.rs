//! An immutable state of the index: a manifest with all its segments open.

use crate::control::IndexControl;
use crate::error::TextError;
use crate::language::Language;
use crate::parallel::parallel;
use crate::store::manifest::{FilePlace, IndexManifest, Skipped};
use crate::store::pages::PageError;
use crate::store::segment::TextSegment;
use crate::tree::Tree;
use crate::watch::Changed;
use std::collections::{BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Marks a file of a segment to which the manifest no longer refers: the file was removed, or a
/// newer segment contains it.
pub(crate) const REMOVED: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct TextSnapshot {
    manifest: IndexManifest,
    segments: Vec<Arc<TextSegment>>,
    /// For each segment, the manifest index of each of its files, or [`REMOVED`].
    files: Vec<Vec<u32>>,
    present: HashSet<Language>,
    /// Identifies the load of the index on disk from which this snapshot was derived.
    pub(crate) opened: u64,
    /// The files that were updated since the index was opened.
    pub(crate) updated: BTreeSet<Arc<Path>>,
}

/// The differences between a snapshot and the tree.
#[derive(Debug, Default)]
pub(crate) struct TreeChanges {
    /// The files of the manifest that were changed, removed or newly ignored, by index.
    pub(crate) files: Vec<usize>,
    /// Whether the tree was walked, because files or folders may have been added, removed or newly
    /// ignored.
    pub(crate) walk: bool,
    /// The number of added files; 0 without a walk.
    pub(crate) added: usize,
}

impl TreeChanges {
    pub(crate) fn count(&self) -> usize {
        self.files.len() + self.added
    }
}

pub(crate) fn segment_path(folder: &Path, name: u64) -> PathBuf {
    folder.join(format!("segment-{name}"))
}

impl TextSnapshot {
    pub(crate) fn open(manifest: IndexManifest, folder: &Path) -> Result<TextSnapshot, PageError> {
        let open = |&(name, _): &(u64, u64)| Ok(Arc::new(TextSegment::open(&segment_path(folder, name))?));
        let segments = manifest.segments.iter().map(open).collect::<Result<Vec<_>, PageError>>()?;
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let opened = OPENED.fetch_add(1, Ordering::Relaxed);
        TextSnapshot::of(manifest, segments, opened, BTreeSet::new())
    }

    /// Returns the snapshot for `manifest`, which differs from this snapshot's manifest in the
    /// files `updated`. The new snapshot contains this snapshot's segments, followed by `segment`,
    /// except those with the flag `false` in `used`.
    pub(crate) fn changed(
        &self,
        manifest: IndexManifest,
        segment: Option<TextSegment>,
        used: &[bool],
        updated: impl Iterator<Item = Arc<Path>>,
    ) -> Result<TextSnapshot, PageError> {
        let all = self.segments.iter().cloned().chain(segment.map(Arc::new)).zip(used);
        let segments = all.filter(|(_, used)| **used).map(|(segment, _)| segment).collect();
        TextSnapshot::of(
            manifest,
            segments,
            self.opened,
            self.updated.iter().cloned().chain(updated).collect(),
        )
    }

    fn of(
        manifest: IndexManifest,
        segments: Vec<Arc<TextSegment>>,
        opened: u64,
        updated: BTreeSet<Arc<Path>>,
    ) -> Result<TextSnapshot, PageError> {
        let mut files: Vec<_> =
            segments.iter().map(|segment| vec![REMOVED; segment.files() as usize]).collect();
        for (index, file) in manifest.files.iter().enumerate() {
            if let FilePlace::Segment(segment, local) = file.place {
                let place = files.get_mut(segment as usize).and_then(|files| files.get_mut(local as usize));
                *place.ok_or(PageError::Damaged)? = index as u32;
            }
        }
        let indexed = manifest.files.iter().filter(|file| matches!(file.place, FilePlace::Segment(..)));
        let present = indexed.map(|file| file.language).collect();
        Ok(TextSnapshot { manifest, segments, files, present, opened, updated })
    }

    pub(crate) fn manifest(&self) -> &IndexManifest {
        &self.manifest
    }

    /// Returns the languages of the indexed files.
    pub(crate) fn languages(&self) -> impl Iterator<Item = Language> {
        Language::all().filter(|language| self.present.contains(language))
    }

    /// Returns the segments, each with the manifest indexes of its files ([`REMOVED`] for a file to
    /// which the manifest no longer refers).
    pub(crate) fn segments(&self) -> impl Iterator<Item = (&TextSegment, &[u32])> {
        self.segments.iter().map(|segment| &**segment).zip(self.files.iter().map(Vec::as_slice))
    }

    /// Compares the tree with this snapshot. The texts of the files in `changed` are compared even
    /// if their signatures match.
    pub(crate) fn changes(
        &self,
        tree: &Tree,
        changed: &Changed,
        control: &IndexControl<'_>,
    ) -> Result<TreeChanges, TextError> {
        let mut changes =
            TreeChanges { files: changed_files(&self.manifest, tree, changed), ..TreeChanges::default() };
        control.check()?;
        if changed.walk || changed.entries || !tree.is_unchanged(&self.manifest.watched) {
            let walk = tree.walk(control)?;
            changes.added = walk.files.iter().filter(|path| self.manifest.place(path).is_err()).count();
            let gone = |file: &crate::store::manifest::FileEntry| {
                walk.files
                    .binary_search_by(|path| crate::tree::bytes(path).cmp(crate::tree::bytes(&file.path)))
                    .is_err()
            };
            let ignored =
                self.manifest.files.iter().enumerate().filter(|(_, file)| gone(file)).map(|(index, _)| index);
            changes.files.extend(ignored);
            changes.files.sort_unstable();
            changes.files.dedup();
            changes.walk = true;
        }
        Ok(changes)
    }
}

/// The number of files that a thread checks at a time.
const SHARE: usize = 256;

/// Returns the files of the manifest that have changed, by index.
fn changed_files(manifest: &IndexManifest, tree: &Tree, known: &Changed) -> Vec<usize> {
    let changed = |index: usize| {
        let file = &manifest.files[index];
        match tree.stamp(&file.path) {
            Some(stamp) if stamp.size == file.size && stamp.signature == file.signature => {
                (file.recent || known.files.contains(&*file.path)) && is_rewritten(file, tree)
            }
            _ => true,
        }
    };
    let count = manifest.files.len();
    let look = |range: std::ops::Range<usize>| range.filter(|&index| changed(index)).collect::<Vec<_>>();
    if count < 4 * SHARE {
        return look(0..count);
    }
    let ranges = (0..count).step_by(SHARE).map(|start| start..(start + SHARE).min(count)).collect();
    parallel(ranges, look).concat()
}

/// Returns whether a file's text has changed although its signature has not. For a binary file,
/// returns whether it is no longer binary. An indexed file that cannot be read counts as changed.
fn is_rewritten(file: &crate::store::manifest::FileEntry, tree: &Tree) -> bool {
    match file.place {
        FilePlace::Skipped(Skipped::Binary) => {
            let text = tree.read(&file.path, crate::limits::MAX_FILE_BYTES);
            text.is_ok_and(|read| memchr::memchr(0, &read.text).is_none())
        }
        FilePlace::Skipped(_) => false,
        FilePlace::Segment(..) => {
            let text = tree.read(&file.path, crate::limits::MAX_FILE_BYTES);
            !text.is_ok_and(|read| crate::store::codec::checksum(&read.text) == file.hash)
        }
    }
}
