//! The index on disk: segments, written once, and the manifest that names them. Everything is checked when it is read.

pub(crate) mod codec;
pub(crate) mod manifest;
pub(crate) mod pages;
pub(crate) mod postings;
pub(crate) mod segment;
pub(crate) mod snapshot;
