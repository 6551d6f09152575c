//! Exposes private functions for fuzzing. Not part of the API.

use crate::{handle, workspace};

/// For each kind of record, returns whether `body` parses as the content of such a record: a
/// snapshot's manifest, a refusal, a handover, a table of names, and an edit.
pub fn records(body: &[u8]) -> [bool; 5] {
    let [manifest, refusal] = handle::snapshot::reads(body);
    [
        manifest,
        refusal,
        handle::recovery::reads(body),
        workspace::names::reads(body),
        workspace::journal::reads(body),
    ]
}
