//! The names in the loaded files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use super::name_table::NameTable;
use crate::source::positions::SidecarState;

/// The index from names to the loaded files that have them.
#[derive(Debug, Default)]
pub(super) struct NamesInFiles {
    /// The part that came with the snapshot.
    pub(super) baked: NameTable,
    /// Files that were loaded and not read since.
    pub(super) pending: BTreeSet<PathBuf>,
    /// The part that was read since.
    pub(super) table: NameTable,
    /// Files whose sidecars are missing or incomplete.
    pub(super) gaps: BTreeMap<PathBuf, SidecarState>,
}
