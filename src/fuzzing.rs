//! Exposes private functions for fuzzing. Not part of the API.

use crate::{handle, workspace};

/// Returns whether `body`, after a valid first line, parses as a record of each kind: a snapshot's
/// manifest, a refusal, a handover, a table of names, and an edit.
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
