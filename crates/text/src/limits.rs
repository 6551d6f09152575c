//! Size limits of the index.

/// The maximum size of an indexed file, in bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 16 << 20;
