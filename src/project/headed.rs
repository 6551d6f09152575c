//! Bytes with a JSON head: its length (64 bits, little-endian like all numbers), its text, the hashes that it counts (64 bits each),
//! and what else there is.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Writes `head` and `hashes`. A head that is no JSON is written empty, which [`read`] refuses.
pub(super) fn write<T: Serialize>(head: &T, hashes: impl IntoIterator<Item = u64>) -> Vec<u8> {
    let json = serde_json::to_vec(head).unwrap_or_default();
    let mut bytes = (json.len() as u64).to_le_bytes().to_vec();
    bytes.extend(json);
    bytes.extend(hashes.into_iter().flat_map(u64::to_le_bytes));
    bytes
}

/// Reads the head; none if it is damaged. What follows is left.
pub(super) fn read<T: DeserializeOwned>(bytes: &[u8]) -> Option<(T, Rest<'_>)> {
    let (length, rest) = bytes.split_first_chunk()?;
    let (json, rest) = rest.split_at_checked(usize::try_from(u64::from_le_bytes(*length)).ok()?)?;
    Some((serde_json::from_slice(json).ok()?, Rest(rest)))
}

/// The bytes after the head and the hashes that were taken.
pub(super) struct Rest<'a>(pub(super) &'a [u8]);

impl Rest<'_> {
    /// Takes the next `count` hashes; none if there are fewer.
    pub(super) fn take(&mut self, count: usize) -> Option<Vec<u64>> {
        let (hashes, rest) = self.0.split_at_checked(count.checked_mul(8)?)?;
        self.0 = rest;
        Some(hashes.as_chunks::<8>().0.iter().map(|bytes| u64::from_le_bytes(*bytes)).collect())
    }
}
