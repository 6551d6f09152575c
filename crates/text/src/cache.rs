//! Caches the texts of files that queries read, so that the next query need not read them again.

use crate::limits::MAX_FILE_BYTES;
use crate::store::codec::checksum;
use crate::store::manifest::FileEntry;
use crate::tree::Tree;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use steelbank_reader::lines::LineIndex;

/// The maximum size of the cached texts with their line indexes, in bytes.
const CACHE_BYTES: usize = 32 << 20;

/// A text and its line index.
#[derive(Debug)]
pub(crate) struct TextWithLines {
    pub(crate) bytes: Vec<u8>,
    pub(crate) lines: LineIndex,
}

#[derive(Debug, Default)]
pub(crate) struct TextCache {
    state: Mutex<CacheState>,
}

#[derive(Debug, Default)]
struct CacheState {
    texts: HashMap<Arc<Path>, CachedText>,
    bytes: usize,
    clock: u64,
}

#[derive(Debug)]
struct CachedText {
    signature: u64,
    used: u64,
    text: Arc<TextWithLines>,
}

impl TextCache {
    /// Returns the text of a file, or `None` if the file has changed since it was indexed or cannot
    /// be read.
    pub(crate) fn get(&self, tree: &Tree, file: &FileEntry) -> Option<Arc<TextWithLines>> {
        let stamp = tree.stamp(&file.path)?;
        if (stamp.size, stamp.signature) != (file.size, file.signature) {
            return None;
        }
        if !file.recent {
            let mut state = self.state.lock();
            state.clock += 1;
            let clock = state.clock;
            if let Some(cached) =
                state.texts.get_mut(&*file.path).filter(|cached| cached.signature == file.signature)
            {
                cached.used = clock;
                return Some(Arc::clone(&cached.text));
            }
        }
        let read = tree.read(&file.path, MAX_FILE_BYTES).ok()?;
        let same =
            read.stamp.signature == file.signature && (!file.recent || checksum(&read.text) == file.hash);
        if !same {
            return None;
        }
        let text = Arc::new(TextWithLines { lines: LineIndex::new(&read.text), bytes: read.text });
        if !file.recent {
            self.insert(file, &text);
        }
        Some(text)
    }

    fn insert(&self, file: &FileEntry, text: &Arc<TextWithLines>) {
        let size = |text: &TextWithLines| text.bytes.len() + text.lines.count() * 4;
        let mut state = self.state.lock();
        let used = state.clock;
        let cached = CachedText { signature: file.signature, used, text: Arc::clone(text) };
        state.bytes += size(text);
        if let Some(old) = state.texts.insert(Arc::clone(&file.path), cached) {
            state.bytes -= size(&old.text);
        }
        if state.bytes > CACHE_BYTES {
            // Evict the least recently used half.
            let mut times: Vec<_> = state.texts.values().map(|cached| cached.used).collect();
            times.sort_unstable();
            let middle = times[times.len() / 2];
            state.texts.retain(|_, cached| cached.used > middle);
            state.bytes = state.texts.values().map(|cached| size(&cached.text)).sum();
        }
    }
}
