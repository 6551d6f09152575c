//! The index on disk: segments, each written once, and the manifest that lists them. `pages` writes
//! the files, reads them and verifies their checksums. `codec` and `postings` encode and decode the
//! contents, and `snapshot` combines one manifest with its open segments.

pub(crate) mod codec;
pub(crate) mod manifest;
pub(crate) mod pages;
pub(crate) mod postings;
pub(crate) mod segment;
pub(crate) mod snapshot;
