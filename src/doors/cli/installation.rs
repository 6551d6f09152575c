//! Finds the SBCL that the program runs.

use std::env;
use std::path::PathBuf;

use crate::Installation;

/// Returns the installation in the folder that STEELBANK_HOME names, or else the embedded one.
pub(super) fn find() -> Installation {
    let cache = cache();
    match variable("STEELBANK_HOME") {
        Some(home) => Installation {
            sources: cache.as_deref().map(Installation::sources_in),
            ..Installation::in_folder(&home)
        },
        None => Installation::embedded(cache.as_deref()),
    }
}

/// Returns the cache folder, the same one that `bootstrap` uses.
pub(super) fn cache() -> Option<PathBuf> {
    env::var_os("STEELBANK_CACHE")
        .filter(|folder| !folder.is_empty())
        // Resolve a relative path from the current folder.
        .and_then(|folder| std::path::absolute(folder).ok())
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("steelbank")))
        // Ask for the home folder, which falls back to the password file if HOME is not set.
        .or_else(|| {
            env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".cache/steelbank"))
        })
}

/// Reads a variable that names an absolute path; ignores other values, as the XDG specification says.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
