//! What fuzzing needs of the inside. Not a part of the API.

/// Whether `body` is a snapshot's manifest, without its checksum.
pub fn manifest(body: &[u8]) -> bool {
    crate::steelbank::snapshot::reads_as_manifest(body)
}

/// Whether `bytes` are a snapshot's table of names.
pub fn names(bytes: &[u8]) -> bool {
    crate::project::baked::reads(bytes)
}
