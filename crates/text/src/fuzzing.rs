//! Exposes private parts for fuzzing. Not part of the API.

use crate::store::pages;
use crate::store::segment::TextSegment;

/// Writes a segment file from `table` and `body`, with correct checksums, and reads it with
/// `TextSegment::read_all`.
pub fn segment(table: &[u8], body: &[u8]) {
    let path = std::env::temp_dir().join(format!("steelbank-fuzz-{}", std::process::id()));
    if pages::write(&path, &[body], table).is_ok()
        && let Ok(segment) = TextSegment::open(&path)
    {
        let _ = segment.read_all();
    }
    let _ = std::fs::remove_file(&path);
}
