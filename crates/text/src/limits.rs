//! Sizes above which the index gives up on a text.

/// A file longer than this, in bytes, is not indexed.
pub(crate) const MAX_FILE_BYTES: u64 = 16 << 20;
