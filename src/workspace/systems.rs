//! Reads the project's system definitions from its `.asd` files without running their code, so that
//! systems can be listed before anything is loaded.

use std::path::{Path, PathBuf};

use steelbank_reader::asd::SystemDefinition;
use steelbank_tree::{Found, WalkState, defines_systems, read_definitions};

/// Folders that ASDF does not search (`*default-source-registry-exclusions*`).
const EXCLUDED: [&str; 8] =
    ["_build", "_darcs", "_sgbak", "autom4te.cache", "cover_db", "CVS", "RCS", "SCCS"];

/// A `.asd` file below the project's root.
#[derive(Debug, Clone)]
pub(crate) struct DefinitionFile {
    pub(crate) path: PathBuf,
    /// The systems that its text defines.
    pub(crate) systems: Vec<SystemDefinition>,
}

/// The `.asd` files that a walk of the project found.
#[derive(Debug, Clone, Default)]
pub(crate) struct DefinitionFiles {
    /// The `.asd` files of the project, by path.
    pub(crate) files: Vec<DefinitionFile>,
    /// Folders with dependencies, relative to the root. Their files were not read.
    pub(crate) vendored: Vec<PathBuf>,
    /// Files and folders that were skipped, relative to the root, each with the reason.
    pub(crate) left_out: Vec<(PathBuf, String)>,
}

/// Reads the `.asd` files of the project at `root`, without running their code. Returns `None` if
/// `is_cancelled` becomes true.
pub(crate) fn definition_files(root: &Path, is_cancelled: &dyn Fn() -> bool) -> Option<DefinitionFiles> {
    let mut found = DefinitionFiles::default();
    let relative = |path: &Path| path.strip_prefix(root).unwrap_or(path).to_owned();
    let mut cancelled = false;
    steelbank_tree::walk(root, &mut |each| {
        cancelled = cancelled || is_cancelled();
        match each {
            _ if cancelled => return WalkState::Quit,
            Found::Folder(path) if path != root && EXCLUDED.iter().any(|name| path.ends_with(name)) => {
                return WalkState::Skip;
            }
            Found::Vendored(path) => {
                found.vendored.push(relative(path));
                return WalkState::Skip;
            }
            Found::LeftOut(path, why) => found.left_out.push((relative(path), why.to_string())),
            Found::File(path, _) if defines_systems(path) => match read_definitions(root, path) {
                Ok(systems) => found.files.push(DefinitionFile { path: path.to_owned(), systems }),
                Err(why) => found.left_out.push((relative(path), why.to_string())),
            },
            _ => {}
        }
        WalkState::Continue
    });
    if cancelled {
        return None;
    }
    found.files.sort_unstable_by(|left, right| left.path.cmp(&right.path));
    found.vendored.sort_unstable();
    found.left_out.sort_unstable();
    Some(found)
}

/// Lists the Lisp files of the system `name` that the file `asd` defines. The list is empty if
/// `asd` cannot be read or does not define the system.
pub(crate) fn files_of_system(asd: &Path, name: &str) -> Vec<PathBuf> {
    let Ok(systems) = read_definitions(Path::new("/"), asd) else { return Vec::new() };
    let folder = asd.parent().unwrap_or(asd);
    let systems = systems.into_iter().filter(|system| system.name == name);
    systems.flat_map(|system| system.files).map(|path| folder.join(path)).collect()
}
