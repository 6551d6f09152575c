//! A segment covers a set of files, numbered from 0. It stores the occurrences and definitions of
//! their identifiers, their Lisp names and packages, and trigrams to search for other text. A
//! segment is written once and never changed.
//!
//! A segment file has a body and a table (`store/pages.rs`). The body consists of the dictionary,
//! postings, definitions, trigram dictionary and trigram postings. Both dictionaries are divided
//! into blocks. The table is read when the segment is opened. It holds the first key of each block,
//! so that a lookup reads one block and the ranges that the block refers to. The table also holds
//! the token classes.

use crate::names::{PackageText, TokenClass};
use crate::store::codec::{Decoder, put_after, put_bytes, put_number};
use crate::store::pages::{self, PageError, Pages};
use crate::store::postings::{self, FileHits};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// If an identifier has more occurrences than this in a segment, only their number per file is
/// stored. A search then finds the occurrences by scanning the files for which it returns them.
const HEAVY: u64 = 2048;
/// The first byte of a key for the tokens of a Lisp name, encoded by [`postings::encode_tokens`].
pub(crate) const NAME: u8 = 2;
/// The first byte of a key for the definitions of a Lisp package.
pub(crate) const PACKAGE: u8 = 3;
const KEYS_IN_BLOCK: usize = 48;
const TRIGRAMS_IN_BLOCK: usize = 128;

/// Hashes the short keys of the index.
#[derive(Default)]
pub(crate) struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxhash_rust::xxh3::xxh3_64_with_seed(bytes, self.0);
    }
}

pub(crate) type KeyHashing = BuildHasherDefault<KeyHasher>;
pub(crate) type KeyMap<K, V> = HashMap<K, V, KeyHashing>;

/// The entry of one key: an identifier, or a Lisp name or package. For a Lisp name or package,
/// `postings` holds records ([`postings::records`]), and the other fields are unused.
#[derive(Debug, Default, Clone)]
pub(crate) struct KeyEntry {
    /// The number of occurrences.
    pub(crate) hits: u64,
    /// Whether `postings` stores only the number of occurrences in each file.
    pub(crate) heavy: bool,
    /// The occurrences, encoded for [`postings::files`].
    pub(crate) postings: Vec<u8>,
    /// The definitions, encoded for [`postings::definitions`].
    pub(crate) definitions: Vec<u8>,
}

#[derive(Default)]
struct Growing {
    entry: KeyEntry,
    last_file: u32,
    last_definition: u32,
}

/// Builds a segment in memory. Files must be added in the order of their numbers.
#[derive(Default)]
pub(crate) struct SegmentBuilder {
    files: u32,
    keys: KeyMap<Box<[u8]>, usize>,
    entries: Vec<Growing>,
    /// The token classes by number.
    classes: Vec<Arc<[u8]>>,
    class_numbers: KeyMap<Arc<[u8]>, u32>,
    trigrams: KeyMap<u32, (u32, Vec<u8>)>,
}

impl SegmentBuilder {
    /// Starts the next file and returns its number.
    pub(crate) fn file(&mut self) -> u32 {
        self.files += 1;
        self.files - 1
    }

    fn growing(&mut self, key: &[u8]) -> &mut Growing {
        let index = match self.keys.get(key) {
            Some(&index) => index,
            None => {
                self.keys.insert(key.into(), self.entries.len());
                self.entries.push(Growing::default());
                self.entries.len() - 1
            }
        };
        &mut self.entries[index]
    }

    /// Adds an identifier's `count` occurrences in `file`, encoded by [`postings::encode`], and its
    /// definitions, encoded by [`postings::encode_definitions`]. With `heavy`, stores only the
    /// number of occurrences in each file, also for the files added before.
    pub(crate) fn add(
        &mut self,
        key: &[u8],
        file: u32,
        count: u64,
        hits: &[u8],
        definitions: &[u8],
        heavy: bool,
    ) {
        let growing = self.growing(key);
        let entry = &mut growing.entry;
        if heavy && !entry.heavy {
            entry.postings = postings::lighten(&entry.postings);
            entry.heavy = true;
        }
        entry.hits += count;
        put_number(&mut entry.postings, u64::from(file - growing.last_file));
        growing.last_file = file;
        if entry.heavy {
            put_number(&mut entry.postings, count);
        } else {
            entry.postings.extend_from_slice(hits);
            if entry.hits > HEAVY {
                entry.postings = postings::lighten(&entry.postings);
                entry.heavy = true;
            }
        }
        if !definitions.is_empty() {
            put_number(&mut entry.definitions, u64::from(file - growing.last_definition));
            entry.definitions.extend_from_slice(definitions);
            growing.last_definition = file;
        }
    }

    /// Adds the record of a Lisp name or package in `file`.
    pub(crate) fn add_record(&mut self, key: &[u8], file: u32, record: &[u8]) {
        let growing = self.growing(key);
        put_number(&mut growing.entry.postings, u64::from(file - growing.last_file));
        put_bytes(&mut growing.entry.postings, record);
        growing.last_file = file;
    }

    /// Returns the number of a token class in this segment, adding it if necessary.
    pub(crate) fn class(&mut self, class: &[u8]) -> u32 {
        if let Some(&number) = self.class_numbers.get(class) {
            return number;
        }
        let (class, number): (Arc<[u8]>, _) = (class.into(), self.classes.len() as u32);
        self.classes.push(Arc::clone(&class));
        self.class_numbers.insert(class, number);
        number
    }

    pub(crate) fn add_trigram(&mut self, trigram: u32, file: u32) {
        let (last, bytes) = self.trigrams.entry(trigram).or_default();
        put_number(bytes, u64::from(file - *last));
        *last = file;
    }

    /// Adds the files of `segment` for which `keep` has a new number. The new numbers must ascend,
    /// and must follow those of the files added before.
    pub(crate) fn merge(&mut self, segment: &TextSegment, keep: &[Option<u32>]) -> Result<(), PageError> {
        let renumber = |file: u32| keep.get(file as usize).copied().flatten();
        self.files = keep.iter().flatten().max().map_or(self.files, |last| self.files.max(last + 1));
        segment.for_each_key(&mut |key, entry| {
            if let Some(family @ &(NAME | PACKAGE)) = key.first() {
                for (file, record) in postings::records(&entry.postings).ok_or(PageError::Damaged)? {
                    let Some(new) = renumber(file) else { continue };
                    if *family == PACKAGE {
                        self.add_record(key, new, record);
                        continue;
                    }
                    let mut tokens = Vec::new();
                    postings::tokens(record, &mut tokens).ok_or(PageError::Damaged)?;
                    for (class, _) in &mut tokens {
                        *class = self.class(segment.class_bytes(*class).ok_or(PageError::Damaged)?);
                    }
                    self.add_record(key, new, &postings::encode_tokens(tokens));
                }
                return Ok(());
            }
            let mut definitions: HashMap<u32, Vec<u8>> = HashMap::new();
            for (file, bytes) in postings::raw_definitions(&entry.definitions).ok_or(PageError::Damaged)? {
                definitions.insert(file, bytes.to_vec());
            }
            for (file, count, bytes) in
                postings::raw(&entry.postings, entry.heavy).ok_or(PageError::Damaged)?
            {
                if let Some(new) = renumber(file) {
                    let defined = definitions.remove(&file).unwrap_or_default();
                    self.add(key, new, count, bytes, &defined, entry.heavy);
                }
            }
            Ok(())
        })?;
        segment.for_each_trigram(&mut |trigram, files| {
            files.into_iter().filter_map(renumber).for_each(|new| self.add_trigram(trigram, new));
        })
    }

    /// Writes the segment at `path`.
    pub(crate) fn write(self, path: &Path) -> io::Result<()> {
        let mut keys: Vec<_> = self.keys.into_iter().collect();
        keys.sort_unstable_by(|(left, _), (right, _)| left.cmp(right));
        let mut table = Vec::new();
        let mut index = Vec::new();
        let (mut dictionary, mut posts, mut definitions) = (Vec::new(), Vec::new(), Vec::new());
        let mut first_before: &[u8] = &[];
        let mut last_start = 0;
        for block in keys.chunks(KEYS_IN_BLOCK) {
            let mut previous: &[u8] = &[];
            put_after(&mut index, first_before, &block[0].0);
            put_number(&mut index, (dictionary.len() - last_start) as u64);
            (first_before, last_start) = (&block[0].0, dictionary.len());
            put_number(&mut dictionary, posts.len() as u64);
            put_number(&mut dictionary, definitions.len() as u64);
            for (key, index) in block {
                let entry = &self.entries[*index].entry;
                put_after(&mut dictionary, previous, key);
                put_number(&mut dictionary, entry.hits << 1 | u64::from(entry.heavy));
                put_number(&mut dictionary, entry.postings.len() as u64);
                put_number(&mut dictionary, entry.definitions.len() as u64);
                posts.extend_from_slice(&entry.postings);
                definitions.extend_from_slice(&entry.definitions);
                previous = key;
            }
        }
        let mut trigrams: Vec<_> = self.trigrams.into_iter().collect();
        trigrams.sort_unstable_by_key(|(trigram, _)| *trigram);
        let mut trigram_index = Vec::new();
        let (mut trigram_dictionary, mut trigram_posts) = (Vec::new(), Vec::new());
        let (mut first_before, mut last_start) = (0, 0);
        for block in trigrams.chunks(TRIGRAMS_IN_BLOCK) {
            let mut previous = block[0].0;
            put_number(&mut trigram_index, u64::from(previous - first_before));
            put_number(&mut trigram_index, (trigram_dictionary.len() - last_start) as u64);
            (first_before, last_start) = (previous, trigram_dictionary.len());
            put_number(&mut trigram_dictionary, trigram_posts.len() as u64);
            for (trigram, (_, list)) in block {
                let start = trigram_posts.len();
                let dense = (self.files as usize).div_ceil(8) < list.len();
                if dense {
                    trigram_posts.extend(bitmap(list, self.files));
                } else {
                    trigram_posts.extend_from_slice(list);
                }
                put_number(&mut trigram_dictionary, u64::from(trigram - previous));
                put_number(
                    &mut trigram_dictionary,
                    ((trigram_posts.len() - start) as u64) << 1 | u64::from(dense),
                );
                previous = *trigram;
            }
        }
        put_number(&mut table, u64::from(self.files));
        let sections = [&dictionary, &posts, &definitions, &trigram_dictionary, &trigram_posts];
        sections.iter().for_each(|section| put_number(&mut table, section.len() as u64));
        put_bytes(&mut table, &index);
        put_bytes(&mut table, &trigram_index);
        put_number(&mut table, self.classes.len() as u64);
        self.classes.iter().for_each(|class| put_bytes(&mut table, class));
        pages::write(path, &sections.map(Vec::as_slice), &table)
    }
}

fn bitmap(list: &[u8], files: u32) -> Vec<u8> {
    let mut bits = vec![0_u8; (files as usize).div_ceil(8)];
    for file in postings::ascending(list).unwrap_or_default() {
        if let Some(byte) = bits.get_mut(file as usize / 8) {
            *byte |= 1 << (file % 8);
        }
    }
    bits
}

/// A segment, opened for lookups.
#[derive(Debug)]
pub(crate) struct TextSegment {
    opened: u64,
    pages: Pages,
    files: u32,
    sections: [Range<u64>; 5],
    keys: Vec<(Box<[u8]>, u64)>,
    trigrams: Vec<(u32, u64)>,
    classes: Vec<Box<[u8]>>,
    decoded: OnceLock<Option<Arc<[Arc<TokenClass>]>>>,
    /// Caches the definitions of the packages that were looked up.
    packages: Mutex<HashMap<Box<str>, PackageRecords>>,
}

/// The records of a key, each with its file.
type Records<T> = Vec<(u32, T)>;
/// The definitions of a package, each with its file.
type PackageRecords = Arc<[(u32, Arc<PackageText>)]>;

/// Receives an entry of a block: its key, twice its number of hits plus 1 if it is heavy, and the
/// ranges of its postings and definitions. Returning `false` stops the iteration.
type BlockVisitor<'a> = dyn FnMut(&[u8], u64, Range<u64>, Range<u64>) -> bool + 'a;
/// Receives a key and its entry.
type KeyVisitor<'a> = dyn FnMut(&[u8], KeyEntry) -> Result<(), PageError> + 'a;

impl TextSegment {
    pub(crate) fn open(path: &Path) -> Result<TextSegment, PageError> {
        let (pages, table) = Pages::open(path)?;
        TextSegment::from_table(pages, &table).ok_or(PageError::Damaged)
    }

    fn from_table(pages: Pages, table: &[u8]) -> Option<TextSegment> {
        let mut decoder = Decoder::new(table);
        let files = decoder.small()?;
        let mut at = 0_u64;
        let mut sections = [const { 0..0 }; 5];
        for section in &mut sections {
            let end = at.checked_add(decoder.number()?)?;
            *section = at..end;
            at = end;
        }
        let mut index = Decoder::new(decoder.bytes()?);
        let mut keys = Vec::new();
        let (mut key, mut start) = (Vec::new(), 0_u64);
        while !index.is_empty() {
            index.after(&mut key)?;
            start = start.checked_add(index.number()?)?;
            keys.push((key.as_slice().into(), start));
        }
        let mut index = Decoder::new(decoder.bytes()?);
        let mut trigrams = Vec::new();
        let (mut trigram, mut start) = (0_u32, 0_u64);
        while !index.is_empty() {
            trigram = trigram.checked_add(index.small()?)?;
            start = start.checked_add(index.number()?)?;
            trigrams.push((trigram, start));
        }
        let mut classes = Vec::new();
        for _ in 0..decoder.number()? {
            classes.push(decoder.bytes()?.into());
        }
        let (decoded, packages) = (OnceLock::new(), Mutex::default());
        static OPENED: AtomicU64 = AtomicU64::new(0);
        let opened = OPENED.fetch_add(1, Ordering::Relaxed);
        Some(TextSegment { opened, pages, files, sections, keys, trigrams, classes, decoded, packages })
    }

    fn class_bytes(&self, number: u32) -> Option<&[u8]> {
        Some(self.classes.get(number as usize)?)
    }

    /// Returns the token classes by number.
    pub(crate) fn classes(&self) -> Result<&Arc<[Arc<TokenClass>]>, PageError> {
        let decode = || self.classes.iter().map(|class| TokenClass::decode(class).map(Arc::new)).collect();
        self.decoded.get_or_init(decode).as_ref().ok_or(PageError::Damaged)
    }

    /// Returns a number that identifies this opened segment in the process.
    pub(crate) fn opened(&self) -> u64 {
        self.opened
    }

    /// Appends the tokens of a Lisp name to `tokens`: for each, the number of its class and its
    /// line, from 1. Returns the range of each file's tokens.
    pub(crate) fn named(
        &self,
        name: &str,
        tokens: &mut Vec<(u32, u32)>,
    ) -> Result<Records<Range<usize>>, PageError> {
        let Some(entry) = self.lookup(&lisp_key(NAME, name))? else { return Ok(Vec::new()) };
        let records = postings::records(&entry.postings).ok_or(PageError::Damaged)?.into_iter();
        let read = records.map(|(file, record)| Some((file, postings::tokens(record, tokens)?)));
        read.collect::<Option<_>>().ok_or(PageError::Damaged)
    }

    /// Finds the definitions of the package `name`. Equal definitions share memory.
    pub(crate) fn packages(&self, name: &str) -> Result<PackageRecords, PageError> {
        if let Some(known) = self.packages.lock().get(name) {
            return Ok(Arc::clone(known));
        }
        let entry = self.lookup(&lisp_key(PACKAGE, name))?;
        let read = || -> Option<Records<_>> {
            let mut found: Records<Arc<PackageText>> = Vec::new();
            let Some(entry) = entry else { return Some(found) };
            for (file, record) in postings::records(&entry.postings)? {
                let mut decoder = Decoder::new(record);
                while !decoder.is_empty() {
                    let package = PackageText::decode(&mut decoder)?;
                    let same = found.iter().find(|(_, known)| **known == package);
                    let package = same.map_or_else(|| Arc::new(package), |(_, known)| Arc::clone(known));
                    found.push((file, package));
                }
            }
            Some(found)
        };
        let found: PackageRecords = read().ok_or(PageError::Damaged)?.into();
        self.packages.lock().insert(name.into(), Arc::clone(&found));
        Ok(found)
    }

    /// Returns the number of files.
    pub(crate) fn files(&self) -> u32 {
        self.files
    }

    fn section(&self, section: usize, range: Range<u64>) -> Result<Vec<u8>, PageError> {
        let whole = &self.sections[section];
        let start = whole.start.checked_add(range.start).ok_or(PageError::Damaged)?;
        let end =
            whole.start.checked_add(range.end).filter(|&end| end <= whole.end).ok_or(PageError::Damaged)?;
        self.pages.read(start..end)
    }

    /// Returns the bytes of the dictionary block that starts at `blocks[index].1`.
    fn block<K>(&self, section: usize, blocks: &[(K, u64)], index: usize) -> Result<Vec<u8>, PageError> {
        let whole = &self.sections[section];
        let start = blocks.get(index).ok_or(PageError::Damaged)?.1;
        let end = blocks.get(index + 1).map_or(whole.end - whole.start, |next| next.1);
        self.section(section, start..end)
    }

    /// Looks up the entry of `key`.
    pub(crate) fn lookup(&self, key: &[u8]) -> Result<Option<KeyEntry>, PageError> {
        let Some(index) = self.keys.partition_point(|(first, _)| &**first <= key).checked_sub(1) else {
            return Ok(None);
        };
        let block = self.block(0, &self.keys, index)?;
        let mut found = None;
        self.read_block(&block, &mut |each, hits, posts, definitions| {
            if each == key {
                found = Some((hits, posts, definitions));
            }
            each < key
        })?;
        let Some((hits, posts, definitions)) = found else { return Ok(None) };
        self.entry(hits, posts, definitions).map(Some)
    }

    fn entry(&self, hits: u64, posts: Range<u64>, definitions: Range<u64>) -> Result<KeyEntry, PageError> {
        Ok(KeyEntry {
            hits: hits >> 1,
            heavy: hits & 1 == 1,
            postings: self.section(1, posts)?,
            definitions: self.section(2, definitions)?,
        })
    }

    /// Iterates over the entries of a block while `more` returns `true`.
    fn read_block(&self, block: &[u8], more: &mut BlockVisitor<'_>) -> Result<(), PageError> {
        let mut read = || {
            let mut decoder = Decoder::new(block);
            let mut key = Vec::new();
            let (mut posts, mut definitions) = (decoder.number()?, decoder.number()?);
            while !decoder.is_empty() {
                decoder.after(&mut key)?;
                let hits = decoder.number()?;
                let posts_end = posts.checked_add(decoder.number()?)?;
                let definitions_end = definitions.checked_add(decoder.number()?)?;
                if !more(&key, hits, posts..posts_end, definitions..definitions_end) {
                    break;
                }
                (posts, definitions) = (posts_end, definitions_end);
            }
            Some(())
        };
        read().ok_or(PageError::Damaged)
    }

    fn for_each_key(&self, each: &mut KeyVisitor<'_>) -> Result<(), PageError> {
        for index in 0..self.keys.len() {
            let block = self.block(0, &self.keys, index)?;
            let mut entries = Vec::new();
            self.read_block(&block, &mut |key, hits, posts, definitions| {
                entries.push((key.to_vec(), hits, posts, definitions));
                true
            })?;
            for (key, hits, posts, definitions) in entries {
                each(&key, self.entry(hits, posts, definitions)?)?;
            }
        }
        Ok(())
    }

    /// Returns the files that contain `trigram`, in order.
    pub(crate) fn trigram(&self, trigram: u32) -> Result<Vec<u32>, PageError> {
        let Some(index) = self.trigrams.partition_point(|(first, _)| *first <= trigram).checked_sub(1) else {
            return Ok(Vec::new());
        };
        let mut found = Vec::new();
        self.trigram_block(index, &mut |each, files| {
            if each == trigram {
                found = files()?;
            }
            Ok(each < trigram)
        })?;
        Ok(found)
    }

    #[expect(clippy::type_complexity, reason = "a visitor that fetches the files only if it wants them")]
    fn trigram_block(
        &self,
        index: usize,
        more: &mut dyn FnMut(u32, &dyn Fn() -> Result<Vec<u32>, PageError>) -> Result<bool, PageError>,
    ) -> Result<(), PageError> {
        let block = self.block(3, &self.trigrams, index)?;
        let mut decoder = Decoder::new(&block);
        let mut trigram = self.trigrams.get(index).ok_or(PageError::Damaged)?.0;
        let mut start = decoder.number().ok_or(PageError::Damaged)?;
        while !decoder.is_empty() {
            let (step, length) = decoder.small().zip(decoder.number()).ok_or(PageError::Damaged)?;
            trigram = trigram.checked_add(step).ok_or(PageError::Damaged)?;
            let end = start.checked_add(length >> 1).ok_or(PageError::Damaged)?;
            let files = || {
                let bytes = self.section(4, start..end)?;
                if length & 1 == 1 {
                    Ok((0..self.files).filter(|&file| is_set(&bytes, file)).collect())
                } else {
                    postings::ascending(&bytes).ok_or(PageError::Damaged)
                }
            };
            if !more(trigram, &files)? {
                break;
            }
            start = end;
        }
        Ok(())
    }

    fn for_each_trigram(&self, each: &mut dyn FnMut(u32, Vec<u32>)) -> Result<(), PageError> {
        for index in 0..self.trigrams.len() {
            self.trigram_block(index, &mut |trigram, files| {
                each(trigram, files()?);
                Ok(true)
            })?;
        }
        Ok(())
    }

    /// Reads all entries and trigrams, and decodes the occurrences of identifiers, to check that
    /// damaged files cause no panic.
    pub(crate) fn read_all(&self) -> Result<(), PageError> {
        let mut keys = Vec::new();
        self.for_each_key(&mut |key, _| {
            keys.push(key.to_vec());
            Ok(())
        })?;
        for key in keys {
            if let Some(entry) = self.lookup(&key)?
                && key.first().is_none_or(|family| *family < NAME)
            {
                self.hits(&entry)?;
            }
        }
        self.for_each_trigram(&mut |_, _| ())
    }

    /// Returns the files of an entry with their occurrences. A file number out of range is reported
    /// as damage.
    pub(crate) fn hits(&self, entry: &KeyEntry) -> Result<Vec<FileHits>, PageError> {
        let files = postings::files(&entry.postings, entry.heavy).ok_or(PageError::Damaged)?;
        if files.iter().any(|file| file.file >= self.files) {
            return Err(PageError::Damaged);
        }
        Ok(files)
    }
}

/// Returns the key of a Lisp name or package.
pub(crate) fn lisp_key(family: u8, name: &str) -> Vec<u8> {
    [&[family], name.as_bytes()].concat()
}

fn is_set(bits: &[u8], file: u32) -> bool {
    bits.get(file as usize / 8).is_some_and(|byte| byte & (1 << (file % 8)) != 0)
}
