//! The names in the loaded files, by file and by name.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::baked::BakedNames;
use super::sidecar_names::FileNames;
use crate::source::positions::SidecarState;

/// An index from names to the loaded files that have them.
#[derive(Debug, Default)]
pub(super) struct NamesInFiles {
    /// The part that came with the snapshot.
    pub(super) baked: BakedNames,
    /// Files that were loaded and not read since.
    pub(super) pending: BTreeSet<PathBuf>,
    /// The names in each file.
    pub(super) named: HashMap<PathBuf, Vec<Arc<str>>>,
    /// The files that have each name.
    pub(super) naming: HashMap<Arc<str>, BTreeSet<PathBuf>>,
    /// The names that each file's top-level code uses.
    pub(super) toplevel: HashMap<PathBuf, HashSet<Arc<str>>>,
    /// Files whose sidecars are missing or incomplete.
    pub(super) gaps: BTreeMap<PathBuf, SidecarState>,
}

impl NamesInFiles {
    pub(super) fn set(&mut self, path: &Path, FileNames { names, toplevel }: FileNames) {
        self.toplevel.insert(path.to_path_buf(), toplevel);
        for name in self.named.remove(path).into_iter().flatten() {
            if let Some(files) = self.naming.get_mut(&name) {
                files.remove(path);
            }
        }
        for name in &names {
            self.naming.entry(Arc::clone(name)).or_default().insert(path.to_path_buf());
        }
        self.named.insert(path.to_path_buf(), names);
    }
}
