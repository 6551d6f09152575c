//! Finds the SBCL that the program runs.

use std::env;
use std::path::PathBuf;

use crate::Installation;

/// The folder that STEELBANK_HOME names, or what is embedded.
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

/// The folder for what can be made again: the same one that `bootstrap` uses.
pub(super) fn cache() -> Option<PathBuf> {
    env::var_os("STEELBANK_CACHE")
        .filter(|folder| !folder.is_empty())
        // A relative one was meant, too: from here.
        .and_then(|folder| std::path::absolute(folder).ok())
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("steelbank")))
        // Without HOME this asks the password file.
        .or_else(|| {
            env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".cache/steelbank"))
        })
}

/// A variable that names an absolute path; others are ignored, as the XDG specification has it.
fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
