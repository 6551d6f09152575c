//! Private functions that the fuzzing needs. Not a part of the API.

/// Whether `body` parses as a snapshot's manifest, without its checksum.
pub fn manifest(body: &[u8]) -> bool {
    crate::handle::snapshot::reads_as_manifest(body)
}

/// Whether `bytes` parse as a table of names, without its checksum.
pub fn names(bytes: &[u8]) -> bool {
    crate::workspace::names::reads(bytes)
}
