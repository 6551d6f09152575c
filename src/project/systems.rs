//! Reads the project's systems from its `.asd` files, without running them.

use std::path::{Path, PathBuf};

use ignore::WalkBuilder;
use steelbank_reader::asd::{SystemDefinition, system_definitions};

use super::is_vendored;

/// The largest `.asd` file that is read, in bytes: hand-written ones are shorter.
const MAX_DEFINITION_BYTES: u64 = 8 << 20;

/// Folders in which ASDF looks for no systems (`*default-source-registry-exclusions*`).
const EXCLUDED: [&str; 8] =
    ["_build", "_darcs", "_sgbak", "autom4te.cache", "cover_db", "CVS", "RCS", "SCCS"];

/// A `.asd` file below the project's root.
#[derive(Debug, Clone)]
pub(crate) struct DefinitionFile {
    /// The file.
    pub(crate) path: PathBuf,
    /// The systems that its text defines.
    pub(crate) systems: Vec<SystemDefinition>,
}

/// The result of a walk for `.asd` files.
#[derive(Debug, Clone, Default)]
pub(crate) struct DefinitionFiles {
    /// The `.asd` files of the project, by path.
    pub(crate) files: Vec<DefinitionFile>,
    /// Folders with other people's systems, relative to the root. They are dependencies, and were not read.
    pub(crate) vendored: Vec<PathBuf>,
}

/// Reads the `.asd` files below `root`: no vendored and no git-ignored folders, no links to folders. Runs
/// none of their code. None if `is_cancelled` says so meanwhile.
pub(crate) fn definition_files(root: &Path, is_cancelled: &dyn Fn() -> bool) -> Option<DefinitionFiles> {
    let mut found = DefinitionFiles::default();
    let walk = WalkBuilder::new(root)
        .filter_entry(|entry| entry.depth() == 0 || !EXCLUDED.iter().any(|name| entry.file_name() == *name))
        .sort_by_file_name(Ord::cmp)
        .build();
    let mut inside_vendored: Option<PathBuf> = None;
    for entry in walk.flatten() {
        if is_cancelled() {
            return None;
        }
        let path = entry.path();
        if inside_vendored.as_deref().is_some_and(|folder| path.starts_with(folder)) {
            continue;
        }
        if entry.file_type().is_some_and(|kind| kind.is_dir()) {
            if let Ok(relative) = path.strip_prefix(root)
                && is_vendored(root, relative)
            {
                found.vendored.push(relative.to_owned());
                inside_vendored = Some(path.to_owned());
            }
            continue;
        }
        // Follow links to files, as ASDF does, but open only plain files.
        let plain =
            || std::fs::metadata(path).is_ok_and(|file| file.is_file() && file.len() <= MAX_DEFINITION_BYTES);
        if path.extension().is_some_and(|extension| extension == "asd")
            && plain()
            && let Ok(text) = std::fs::read(path)
        {
            found.files.push(DefinitionFile { path: path.to_owned(), systems: system_definitions(&text) });
        }
    }
    Some(found)
}

/// Lists the Lisp files of the system `name` that the text of `asd` defines; empty if it does not define it.
pub(crate) fn files_of_system(asd: &Path, name: &str) -> Vec<PathBuf> {
    let Ok(text) = std::fs::read(asd) else { return Vec::new() };
    let folder = asd.parent().unwrap_or(asd);
    let systems = system_definitions(&text).into_iter().filter(|system| system.name == name);
    systems.flat_map(|system| system.files).map(|path| folder.join(path)).collect()
}
