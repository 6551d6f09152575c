//! Index files. They are read in pages with a checksum each, so that a lookup reads and verifies
//! only the pages it needs.

use crate::store::codec::{Decoder, checksum, put_number};
use std::fs::File;
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;

const PAGE: u64 = 16 << 10;
/// The maximum number of pages of a file that are cached in memory.
const CACHED_PAGES: usize = 16;
const MAGIC: [u8; 8] = *b"steeltxt";
/// The size of the trailer. It consists of the length and the checksum of the part in front of it
/// (the body's length, the page checksums and the table), and the magic number.
const TRAILER: u64 = 24;

/// An open index file.
#[derive(Debug)]
pub(crate) struct Pages {
    file: File,
    body: u64,
    sums: Vec<u32>,
    /// The cached pages by their numbers, the most recently used last.
    kept: Mutex<Vec<(u64, Arc<[u8]>)>>,
}

/// The error of reading an index file: an I/O error, or damaged contents, such as a wrong checksum.
/// Another format version also counts as damage.
#[derive(Debug)]
pub(crate) enum PageError {
    Io(io::Error),
    Damaged,
}

impl From<io::Error> for PageError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::UnexpectedEof => PageError::Damaged,
            _ => PageError::Io(error),
        }
    }
}

/// The lowest descriptor number for index files. Code that closes "all" descriptors often stops at
/// a lower number.
const HIGH: i32 = 900;

/// Moves the file to a high descriptor number if the system allows it. Index files stay open for
/// long, in a process that also runs user code, which may close descriptors.
fn high_descriptor(file: File) -> File {
    rustix::io::fcntl_dupfd_cloexec(&file, HIGH).map_or(file, File::from)
}

/// Writes a file with `body` and `table` at `path`. Replaces an existing file atomically.
pub(crate) fn write(path: &Path, body: &[&[u8]], table: &[u8]) -> io::Result<()> {
    let temporary = path.with_extension(format!("{}.tmp", steelbank_cache::unique_name()));
    let result = write_to(&temporary, body, table).and_then(|()| steelbank_cache::rename(&temporary, path));
    if result.is_err() {
        // Ignore the error: a failed removal only leaves a temporary file behind.
        let _ = std::fs::remove_file(&temporary);
    }
    result
}

fn write_to(path: &Path, body: &[&[u8]], table: &[u8]) -> io::Result<()> {
    let mut file = io::BufWriter::with_capacity(1 << 20, steelbank_cache::create_file(path)?);
    let mut sums = Vec::new();
    let mut page = Vec::with_capacity(PAGE as usize);
    let mut length = 0;
    for mut part in body.iter().copied() {
        length += part.len() as u64;
        while !part.is_empty() {
            let (now, later) = part.split_at(part.len().min(PAGE as usize - page.len()));
            page.extend_from_slice(now);
            part = later;
            if page.len() as u64 == PAGE {
                file.write_all(&page)?;
                sums.push(checksum(&page) as u32);
                page.clear();
            }
        }
    }
    if !page.is_empty() {
        file.write_all(&page)?;
        sums.push(checksum(&page) as u32);
    }
    let mut end = Vec::with_capacity(table.len() + sums.len() * 4 + 16);
    put_number(&mut end, length);
    sums.iter().for_each(|sum| end.extend_from_slice(&sum.to_le_bytes()));
    end.extend_from_slice(table);
    file.write_all(&end)?;
    file.write_all(&(end.len() as u64).to_le_bytes())?;
    file.write_all(&checksum(&end).to_le_bytes())?;
    file.write_all(&MAGIC)?;
    file.into_inner()?.flush()
}

impl Pages {
    /// Opens the file. Returns it with its table.
    pub(crate) fn open(path: &Path) -> Result<(Pages, Vec<u8>), PageError> {
        let file = high_descriptor(steelbank_cache::open(path)?);
        let total = file.metadata()?.len();
        let mut trailer = [0; TRAILER as usize];
        file.read_exact_at(&mut trailer, total.checked_sub(TRAILER).ok_or(PageError::Damaged)?)?;
        let mut decoder = Decoder::new(&trailer);
        let (length, sum) = decoder.fixed().zip(decoder.fixed()).ok_or(PageError::Damaged)?;
        if decoder.take(8) != Some(&MAGIC) || length > total - TRAILER {
            return Err(PageError::Damaged);
        }
        let mut end = vec![0; length as usize];
        file.read_exact_at(&mut end, total - TRAILER - length)?;
        if checksum(&end) != sum {
            return Err(PageError::Damaged);
        }
        let mut decoder = Decoder::new(&end);
        let body =
            decoder.number().filter(|&body| body == total - TRAILER - length).ok_or(PageError::Damaged)?;
        let mut sums = Vec::new();
        for _ in 0..body.div_ceil(PAGE) {
            let sum = decoder.take(4).and_then(|bytes| bytes.try_into().ok()).ok_or(PageError::Damaged)?;
            sums.push(u32::from_le_bytes(sum));
        }
        let table = decoder.rest().to_vec();
        Ok((Pages { file, body, sums, kept: Mutex::default() }, table))
    }

    /// Returns the entire body, verified.
    pub(crate) fn read_all(&self) -> Result<Vec<u8>, PageError> {
        self.read(0..self.body)
    }

    /// Returns a range of the body, verified.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Vec<u8>, PageError> {
        if range.start > range.end || range.end > self.body {
            return Err(PageError::Damaged);
        }
        if range.is_empty() {
            return Ok(Vec::new());
        }
        let (first, last) = (range.start / PAGE, (range.end - 1) / PAGE);
        let start = first * PAGE;
        let within = (range.start - start) as usize..(range.end - start) as usize;
        if first == last {
            return Ok(self.page(first)?[within].to_vec());
        }
        let mut bytes = self.verified(first..last + 1)?;
        bytes.truncate(within.end);
        bytes.drain(..within.start);
        Ok(bytes)
    }

    /// Returns a page, which is verified when it is read. The page is cached, because consecutive
    /// lookups often need the same one.
    fn page(&self, number: u64) -> Result<Arc<[u8]>, PageError> {
        let known = |kept: &mut Vec<(u64, Arc<[u8]>)>| {
            let at = kept.iter().position(|(each, _)| *each == number)?;
            let (_, page) = kept.remove(at);
            kept.push((number, Arc::clone(&page)));
            Some(page)
        };
        if let Some(page) = known(&mut self.kept.lock()) {
            return Ok(page);
        }
        // Read without holding the lock, so that other threads can use cached pages meanwhile.
        let page: Arc<[u8]> = self.verified(number..number + 1)?.into();
        let mut kept = self.kept.lock();
        if known(&mut kept).is_none() {
            if kept.len() == CACHED_PAGES {
                kept.remove(0);
            }
            kept.push((number, Arc::clone(&page)));
        }
        Ok(page)
    }

    fn verified(&self, pages: Range<u64>) -> Result<Vec<u8>, PageError> {
        let (start, end) = (pages.start * PAGE, (pages.end * PAGE).min(self.body));
        let mut bytes = vec![0; (end - start) as usize];
        self.file.read_exact_at(&mut bytes, start)?;
        for (index, page) in bytes.chunks(PAGE as usize).enumerate() {
            if self.sums.get(pages.start as usize + index) != Some(&(checksum(page) as u32)) {
                return Err(PageError::Damaged);
            }
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_returns_written_bytes_and_detects_damage() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pages");
        let body: Vec<u8> = (0..40_000_u32).map(|index| (index * 7) as u8).collect();
        write(&path, &[&body[..10_000], &body[10_000..]], b"table").unwrap();
        let (pages, table) = Pages::open(&path).unwrap();
        assert_eq!(table, b"table");
        for range in [0..0, 0..1, 16_383..16_385, 0..40_000, 39_999..40_000] {
            assert_eq!(pages.read(range.clone()).unwrap(), body[range.start as usize..range.end as usize]);
        }
        assert!(matches!(pages.read(0..40_001), Err(PageError::Damaged)));

        let written = std::fs::read(&path).unwrap();
        for at in (0..written.len()).step_by(997).chain(written.len() - 60..written.len()) {
            let mut damaged = written.clone();
            damaged[at] ^= 0x10;
            std::fs::write(&path, &damaged).unwrap();
            let seen = match Pages::open(&path) {
                Err(PageError::Damaged) => true,
                Err(PageError::Io(_)) => false,
                Ok((pages, _)) => matches!(pages.read(0..40_000), Err(PageError::Damaged)),
            };
            assert!(seen, "a flipped bit at {at}");
        }
        for length in [0, 1, 23, 24, 100, written.len() - 1] {
            std::fs::write(&path, &written[..length]).unwrap();
            assert!(matches!(Pages::open(&path), Err(PageError::Damaged)), "cut at {length}");
        }
    }
}
