//! One state of the index, with all its segments open. It never changes.

use super::error::TextError;
use super::index::Control;
use super::language::Language;
use super::manifest::{Manifest, Place};
use super::pages::PageError;
use super::segment::Segment;
use super::tree::Tree;
use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// For a file of a segment that the manifest does not name any more.
pub(super) const GONE: u32 = u32::MAX;

#[derive(Debug)]
pub(super) struct Snapshot {
    manifest: Manifest,
    segments: Vec<Arc<Segment>>,
    /// For each segment, which file of the manifest each of its files is.
    files: Vec<Vec<u32>>,
    present: HashSet<Language>,
}

/// What differs between a snapshot and the tree.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// Files of the manifest that were changed or removed.
    pub(super) files: Vec<usize>,
    /// Files may have been added, or other files are to be ignored.
    pub(super) walk: bool,
    /// How many were added, if that is known.
    pub(super) added: usize,
}

impl Changes {
    pub(super) fn count(&self) -> usize {
        self.files.len() + self.added
    }
}

pub(super) fn segment_path(folder: &Path, name: u64) -> PathBuf {
    folder.join(format!("segment-{name}"))
}

impl Snapshot {
    pub(super) fn open(manifest: Manifest, folder: &Path) -> Result<Snapshot, PageError> {
        let open = |&(name, _): &(u64, u64)| Ok(Arc::new(Segment::open(&segment_path(folder, name))?));
        let segments = manifest.segments.iter().map(open).collect::<Result<Vec<_>, PageError>>()?;
        let mut files: Vec<_> = segments.iter().map(|segment| vec![GONE; segment.files() as usize]).collect();
        for (index, file) in manifest.files.iter().enumerate() {
            if let Place::Segment(segment, local) = file.place {
                let place = files.get_mut(segment as usize).and_then(|files| files.get_mut(local as usize));
                *place.ok_or(PageError::Damaged)? = index as u32;
            }
        }
        let indexed = manifest.files.iter().filter(|file| matches!(file.place, Place::Segment(..)));
        let present = indexed.map(|file| file.language).collect();
        Ok(Snapshot { manifest, segments, files, present })
    }

    pub(super) fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// The languages of the files.
    pub(super) fn languages(&self) -> impl Iterator<Item = Language> {
        Language::all().filter(|language| self.present.contains(language))
    }

    /// The segments, each with the place in the manifest of each of its files.
    pub(super) fn segments(&self) -> impl Iterator<Item = (&Segment, &[u32])> {
        self.segments.iter().map(|segment| &**segment).zip(self.files.iter().map(Vec::as_slice))
    }

    /// What has changed in the tree since.
    pub(super) fn changes(&self, tree: &Tree, control: &Control<'_>) -> Result<Changes, TextError> {
        let mut changes = Changes { files: changed_files(&self.manifest, tree), ..Changes::default() };
        control.check()?;
        if !tree.is_unchanged(&self.manifest.watched) {
            let walk = tree.walk(control.cancelled)?;
            let known = |path: &PathBuf| {
                let files = &self.manifest.files;
                files
                    .binary_search_by(|file| super::tree::bytes(&file.path).cmp(super::tree::bytes(path)))
                    .is_ok()
            };
            changes.added = walk.files.iter().filter(|path| !known(path)).count();
            let gone = |file: &super::manifest::FileEntry| {
                walk.files
                    .binary_search_by(|path| super::tree::bytes(path).cmp(super::tree::bytes(&file.path)))
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

/// Which files of the manifest are not as they were. Two threads share the work when there is much.
fn changed_files(manifest: &Manifest, tree: &Tree) -> Vec<usize> {
    let changed = |index: usize| {
        let file = &manifest.files[index];
        match tree.stamp(&file.path) {
            Some(stamp) if stamp.size == file.size && stamp.signature == file.signature => {
                file.recent && is_rewritten(file, tree)
            }
            _ => true,
        }
    };
    const SHARE: usize = 256;
    if manifest.files.len() < 4 * SHARE {
        return (0..manifest.files.len()).filter(|&index| changed(index)).collect();
    }
    let next = AtomicUsize::new(0);
    let work = || {
        let mut found = Vec::new();
        loop {
            let start = next.fetch_add(SHARE, Ordering::Relaxed);
            if start >= manifest.files.len() {
                return found;
            }
            found.extend((start..(start + SHARE).min(manifest.files.len())).filter(|&index| changed(index)));
        }
    };
    let mut all = std::thread::scope(|scope| {
        let other = scope.spawn(work);
        let mut all = work();
        all.extend(other.join().unwrap_or_default());
        all
    });
    all.sort_unstable();
    all
}

/// Whether a file whose time is too young to tell has another text.
fn is_rewritten(file: &super::manifest::FileEntry, tree: &Tree) -> bool {
    match file.place {
        Place::Skipped(_) => false,
        Place::Segment(..) => {
            let text = tree.read(&file.path, super::update::HUGE);
            !text.is_ok_and(|read| super::codec::checksum(&read.text) == file.hash)
        }
    }
}
