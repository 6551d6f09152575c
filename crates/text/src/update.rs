//! Updates the index: reads and analyses the changed files and writes them as new segments.

use crate::analysis::Analysis;
use crate::control::{IndexControl, IndexProgress};
use crate::error::TextError;
use crate::language::Language;
use crate::limits::MAX_FILE_BYTES;
use crate::parallel::parallel;
use crate::store::codec::checksum;
use crate::store::manifest::{FileEntry, FilePlace, IndexManifest, Skipped};
use crate::store::pages::PageError;
use crate::store::segment::{SegmentBuilder, TextSegment};
use crate::store::snapshot::{TextSnapshot, segment_path};
use crate::tree::{self, Tree};
use crate::watch::Changed;
use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use steelbank_reader::Dialect;
use steelbank_tree::{is_lisp, may_be_lisp};

/// A segment is finished when it covers this many bytes of text.
const SEGMENT_TARGET_BYTES: u64 = 64 << 20;
/// The number of files to analyse in parallel before they are added to the segment.
const BATCH_FILES: usize = 256;
/// The number of every segment that is private to this process. Such a segment has no file name.
pub(crate) const PRIVATE_SEGMENT: u64 = 0;
/// If there are more segments than this, the smallest are merged.
const MAX_SEGMENTS: usize = 8;
/// If this process has at least this many private segments, the smallest of them are merged.
const MAX_OPEN_SEGMENTS: usize = 16;

pub(crate) struct Update<'a> {
    tree: &'a Tree,
    folder: &'a Path,
    changed: &'a Changed,
    control: &'a IndexControl<'a>,
}

/// A file that has been read, with its analysis if it was analysed.
struct Fresh {
    entry: FileEntry,
    analysis: Option<Analysis>,
}

impl<'a> Update<'a> {
    /// Creates an update. The files in `changed` are read again, even if their signatures match.
    pub(crate) fn new(
        tree: &'a Tree,
        folder: &'a Path,
        changed: &'a Changed,
        control: &'a IndexControl<'a>,
    ) -> Self {
        Update { tree, folder, changed, control }
    }

    /// Updates `manifest` and the index on disk. Returns the snapshot and the number of files
    /// analysed.
    pub(crate) fn run(&self, mut manifest: IndexManifest) -> Result<(TextSnapshot, usize), TextError> {
        let walk = self.tree.walk(self.control)?;
        manifest.watched = walk.watched;
        manifest.failures = walk.failures;
        manifest.generation += 1;
        let mut known: HashMap<PathBuf, FileEntry> = std::mem::take(&mut manifest.files)
            .into_iter()
            .map(|file| (file.path.to_path_buf(), file))
            .collect();
        let mut files = Vec::with_capacity(walk.files.len());
        let mut todo = Vec::new();
        for path in walk.files {
            let entry = known.remove(&path);
            let stamp = self.tree.stamp(&path);
            match (entry, stamp) {
                (Some(entry), Some(stamp))
                    if !(entry.recent || self.changed.files.contains(&path))
                        && (entry.size, entry.signature) == (stamp.size, stamp.signature) =>
                {
                    files.push(entry);
                }
                (entry, _) => todo.push((path, entry)),
            }
        }
        let analysed = self.read_all(todo, &mut manifest, &mut files)?;
        files.sort_unstable_by(|left, right| tree::bytes(&left.path).cmp(tree::bytes(&right.path)));
        manifest.files = files;
        self.drop_empty_segments(&mut manifest);
        self.merge(&mut manifest)?;
        manifest.write(&self.folder.join("manifest")).map_err(|source| self.failed(source))?;
        self.remove_unused(&manifest);
        let snapshot = TextSnapshot::open(manifest, self.folder).map_err(|_| self.damaged())?;
        Ok((snapshot, analysed))
    }

    /// Updates `known` after changes of the files at `paths`. The new segment and manifest stay
    /// private to this process. New files that [`Tree::admits`] rejects are ignored. `None` if the
    /// operation is cancelled, or a segment cannot be read or written.
    pub(crate) fn apply(&self, known: &Arc<TextSnapshot>, paths: Vec<PathBuf>) -> Option<Arc<TextSnapshot>> {
        let old = known.manifest();
        let (mut builder, number) = (SegmentBuilder::default(), old.segments.len() as u32);
        let (mut bytes, mut analysed) = (0, false);
        let mut updated: Vec<(Arc<Path>, Option<FileEntry>)> = Vec::new();
        for path in paths {
            let before = old.file(&path);
            let is_found = self.tree.stamp(&path).is_some()
                && (before.is_some() || self.tree.admits(&path, old) == Some(true));
            let read = is_found.then(|| self.read(path.clone(), before.cloned(), &old.languages)).flatten();
            self.control.check().ok()?;
            let entry = read.map(|mut fresh| {
                if let Some(analysis) = fresh.analysis {
                    fresh.entry.place = FilePlace::Segment(number, analysis.add_to(&mut builder));
                    (bytes, analysed) = (bytes + fresh.entry.size, true);
                }
                fresh.entry
            });
            if entry.as_ref() != before {
                updated.push((path.into(), entry));
            }
        }
        if updated.is_empty() {
            return Some(Arc::clone(known));
        }
        let mut manifest = old.clone();
        let crowded = crowded(old);
        for (_, segment) in known.segments().enumerate().filter(|(at, _)| crowded.contains(at)) {
            let is_kept = |path: &Path| updated.iter().all(|(other, _)| **other != *path);
            bytes += absorb(&mut builder, number, &mut manifest, segment, is_kept).ok()?;
            analysed = true;
        }
        for (path, entry) in &mut updated {
            match (manifest.place(path), entry.take()) {
                (Ok(at), Some(entry)) => manifest.files[at] = entry,
                (Ok(at), None) => drop(manifest.files.remove(at)),
                (Err(at), Some(entry)) => manifest.files.insert(at, entry),
                (Err(_), None) => {}
            }
        }
        let segment = if analysed {
            // Only this process needs the file. Remove its name, so that the system deletes the
            // file when it is closed.
            let path = self.folder.join(format!("open-{}", steelbank_cache::unique_name()));
            builder.write(&path).ok()?;
            let opened = TextSegment::open(&path);
            let _ = std::fs::remove_file(&path);
            manifest.segments.push((PRIVATE_SEGMENT, bytes));
            Some(opened.ok()?)
        } else {
            None
        };
        let used = segments_used(&manifest);
        renumber(&mut manifest, &used);
        known.changed(manifest, segment, &used, updated.into_iter().map(|(path, _)| path)).ok().map(Arc::new)
    }

    fn failed(&self, source: std::io::Error) -> TextError {
        TextError::Write { root: self.tree.path().to_owned(), path: self.folder.to_owned(), source }
    }

    fn damaged(&self) -> TextError {
        TextError::Damaged { path: self.folder.to_owned() }
    }

    fn new_segment(
        &self,
        manifest: &mut IndexManifest,
        builder: SegmentBuilder,
        bytes: u64,
    ) -> Result<(), TextError> {
        let used = manifest.segments.iter().map(|&(name, _)| name).max().unwrap_or(0);
        let name = used.max(manifest.generation << 16) + 1;
        builder.write(&segment_path(self.folder, name)).map_err(|source| self.failed(source))?;
        manifest.segments.push((name, bytes));
        Ok(())
    }

    /// Reads and analyses files. Returns the number of files analysed.
    fn read_all(
        &self,
        todo: Vec<(PathBuf, Option<FileEntry>)>,
        manifest: &mut IndexManifest,
        files: &mut Vec<FileEntry>,
    ) -> Result<usize, TextError> {
        let total = todo.len();
        let mut done = 0;
        let mut analysed = 0;
        let mut builder = SegmentBuilder::default();
        let mut bytes = 0;
        let mut todo = todo.into_iter();
        loop {
            let batch: Vec<_> = todo.by_ref().take(BATCH_FILES).collect();
            if batch.is_empty() {
                break;
            }
            (self.control.progress)(IndexProgress::Indexing { done, total });
            done += batch.len();
            let languages = &manifest.languages;
            let fresh = parallel(batch, |(path, entry)| self.read(path, entry, languages));
            self.control.check()?;
            for mut fresh in fresh.into_iter().flatten() {
                if let Some(analysis) = fresh.analysis {
                    let local = analysis.add_to(&mut builder);
                    fresh.entry.place = FilePlace::Segment(manifest.segments.len() as u32, local);
                    bytes += fresh.entry.size;
                    analysed += 1;
                }
                files.push(fresh.entry);
            }
            if bytes >= SEGMENT_TARGET_BYTES {
                self.new_segment(manifest, std::mem::take(&mut builder), std::mem::take(&mut bytes))?;
            }
        }
        (self.control.progress)(IndexProgress::Indexing { done: total, total });
        if bytes > 0 || builder_has_files(files, manifest.segments.len() as u32) {
            self.new_segment(manifest, builder, bytes)?;
        }
        Ok(analysed)
    }

    /// Reads one file, and analyses it if it must be indexed and its text has changed. `None` if
    /// the file no longer exists or the operation is cancelled.
    fn read(&self, path: PathBuf, known: Option<FileEntry>, languages: &[Language]) -> Option<Fresh> {
        if (self.control.cancelled)() {
            return None;
        }
        let skipped = |path: PathBuf, size, signature, reason| Fresh {
            entry: FileEntry {
                path: path.into(),
                size,
                signature,
                hash: 0,
                recent: false,
                language: Language::TEXT,
                place: FilePlace::Skipped(reason),
            },
            analysis: None,
        };
        let read = match self.tree.read(&path, MAX_FILE_BYTES) {
            Ok(read) => read,
            Err(_) => {
                let stamp = self.tree.stamp(&path)?;
                return Some(skipped(path, stamp.size, stamp.signature, Skipped::Unreadable));
            }
        };
        let (size, signature) = (read.stamp.size, read.stamp.signature);
        if size > MAX_FILE_BYTES {
            return Some(skipped(path, size, signature, Skipped::Huge));
        }
        let hash = checksum(&read.text);
        let recent = read.stamp.is_recent();
        if let Some(known) = known
            && known.hash == hash
            && matches!(known.place, FilePlace::Segment(..))
        {
            return Some(Fresh { entry: FileEntry { size, signature, recent, ..known }, analysis: None });
        }
        if memchr::memchr(0, &read.text).is_some() {
            return Some(skipped(path, size, signature, Skipped::Binary));
        }
        let language = Language::of(&path, &read.text);
        if !languages.is_empty() && !languages.contains(&language) {
            return Some(skipped(path, size, signature, Skipped::Language));
        }
        let is_other = language != Language::TEXT && language.dialect() != Some(Dialect::CommonLisp);
        let names = !is_other && may_be_lisp(&path) && is_lisp(&path, &read.text);
        let analysis = Analysis::of(&read.text, language, names, self.control.cancelled);
        let place = FilePlace::Segment(0, 0);
        let entry = FileEntry { path: path.into(), size, signature, hash, recent, language, place };
        Some(Fresh { entry, analysis: Some(analysis) })
    }

    /// Drops segments without files.
    fn drop_empty_segments(&self, manifest: &mut IndexManifest) {
        let used = segments_used(manifest);
        renumber(manifest, &used);
    }

    /// Merges the smallest segments if there are many.
    fn merge(&self, manifest: &mut IndexManifest) -> Result<(), TextError> {
        if manifest.segments.len() <= MAX_SEGMENTS {
            return Ok(());
        }
        let mut chosen = Vec::new();
        let mut bytes = 0;
        for index in smallest(manifest, |_| true) {
            let size = manifest.segments[index].1;
            if bytes + size > SEGMENT_TARGET_BYTES && chosen.len() > 1 {
                break;
            }
            bytes += size;
            chosen.push(index);
        }
        chosen.sort_unstable();
        let snapshot = TextSnapshot::open(manifest.clone(), self.folder).map_err(|_| self.damaged())?;
        let target = manifest.segments.len() as u32;
        let mut builder = SegmentBuilder::default();
        let mut text = 0;
        for (_, segment) in snapshot.segments().enumerate().filter(|(at, _)| chosen.contains(at)) {
            self.control.check()?;
            let absorbed = absorb(&mut builder, target, manifest, segment, |_| true);
            text += absorbed.map_err(|_| self.damaged())?;
        }
        self.new_segment(manifest, builder, text)?;
        let used = segments_used(manifest);
        renumber(manifest, &used);
        Ok(())
    }

    /// Removes segments that the manifest does not list, and leftovers of interrupted writers.
    fn remove_unused(&self, manifest: &IndexManifest) {
        for entry in std::fs::read_dir(self.folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            let used = manifest.segments.iter().any(|(segment, _)| name == format!("segment-{segment}"));
            if !used && name != "manifest" && name != "lock" {
                // Readers that have the file open are not affected. If it cannot be removed, it
                // only uses space.
                let path = entry.path();
                let _ = std::fs::remove_file(&path).or_else(|_| std::fs::remove_dir_all(&path));
            }
        }
    }
}

/// Returns the indexes of the smallest segments, at most [`MAX_SEGMENTS`], among those with numbers
/// that `is_eligible` accepts.
fn smallest(manifest: &IndexManifest, is_eligible: impl Fn(u64) -> bool) -> impl Iterator<Item = usize> {
    let all = manifest.segments.iter().enumerate().filter(|(_, (name, _))| is_eligible(*name));
    let mut by_size: Vec<(u64, usize)> = all.map(|(at, (_, bytes))| (*bytes, at)).collect();
    by_size.sort_unstable();
    by_size.into_iter().map(|(_, at)| at).take(MAX_SEGMENTS)
}

/// Returns the segments private to this process that should be merged, if there are many.
fn crowded(manifest: &IndexManifest) -> Vec<usize> {
    let open = manifest.segments.iter().filter(|(name, _)| *name == PRIVATE_SEGMENT).count();
    if open < MAX_OPEN_SEGMENTS {
        return Vec::new();
    }
    smallest(manifest, |name| name == PRIVATE_SEGMENT).collect()
}

/// Adds the files of `segment` that `is_kept` accepts to the segment in `builder`, and records
/// their new location, segment `target` of `manifest`. `places` are the manifest indexes of the
/// files. Returns the size of their text in bytes.
fn absorb(
    builder: &mut SegmentBuilder,
    target: u32,
    manifest: &mut IndexManifest,
    (segment, places): (&TextSegment, &[u32]),
    is_kept: impl Fn(&Path) -> bool,
) -> Result<u64, PageError> {
    let mut bytes = 0;
    let mut renumber = |&place: &u32| {
        let file = manifest.files.get_mut(place as usize).filter(|file| is_kept(&file.path))?;
        let number = builder.file();
        file.place = FilePlace::Segment(target, number);
        bytes += file.size;
        Some(number)
    };
    let keep: Vec<Option<u32>> = places.iter().map(&mut renumber).collect();
    builder.merge(segment, &keep)?;
    Ok(bytes)
}

fn builder_has_files(files: &[FileEntry], segment: u32) -> bool {
    files.iter().any(|file| matches!(file.place, FilePlace::Segment(each, _) if each == segment))
}

fn segments_used(manifest: &IndexManifest) -> Vec<bool> {
    let mut used = vec![false; manifest.segments.len()];
    for file in &manifest.files {
        if let FilePlace::Segment(segment, _) = file.place
            && let Some(used) = used.get_mut(segment as usize)
        {
            *used = true;
        }
    }
    used
}

/// Removes the unused segments from the manifest and renumbers the others.
fn renumber(manifest: &mut IndexManifest, used: &[bool]) {
    let mut next = 0;
    let numbers: Vec<_> = used
        .iter()
        .map(|&used| {
            next += u32::from(used);
            next - u32::from(used)
        })
        .collect();
    for file in &mut manifest.files {
        if let FilePlace::Segment(segment, _) = &mut file.place {
            *segment = numbers.get(*segment as usize).copied().unwrap_or(*segment);
        }
    }
    let mut index = 0;
    manifest.segments.retain(|_| {
        index += 1;
        used.get(index - 1).copied().unwrap_or(true)
    });
}
