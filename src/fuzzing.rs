//! Private functions that the fuzzing needs. Not a part of the API.

use crate::{handle, workspace};

/// Whether `body` is read as a record of each kind, behind the first line that it ought to have: a snapshot's manifest, a
/// refusal, a handover, a table of names, an edit.
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
