//! Finds the SBCL installation and the cache folder.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::CommandError;
use super::images::SbclImage;
use crate::Installation;
use crate::engine::RuntimeLibrary;

/// Returns the installation of `image`. Without an image, returns the installation in
/// STEELBANK_HOME, or else the embedded installation.
pub(super) fn find(image: Option<&SbclImage>) -> Result<Installation, CommandError> {
    let cache = cache();
    if let Some(image) = image {
        return image.installation();
    }
    Ok(match variable("STEELBANK_HOME") {
        Some(home) => Installation {
            sources: cache.as_deref().map(Installation::sources_in),
            ..Installation::in_folder(&home, RuntimeLibrary::from_user_folder(&home))
        },
        None => Installation::embedded(cache.as_deref()),
    })
}

/// The cache folder, with a warning if the configured folder cannot be used.
struct CacheFolder {
    path: Option<PathBuf>,
    caution: Option<String>,
}

/// Returns the configured cache folder, or a temporary folder if the configured folder is not
/// writable. `None` if neither can be used or none is configured.
pub(super) fn cache() -> Option<PathBuf> {
    cache_folder().path.clone()
}

/// Returns a warning if the configured cache folder cannot be used.
pub(super) fn caution() -> Option<&'static str> {
    cache_folder().caution.as_deref()
}

fn cache_folder() -> &'static CacheFolder {
    static FOLDER: OnceLock<CacheFolder> = OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = configured();
        let Some((wanted, error)) = folder.as_deref().and_then(|wanted| Some((wanted, write_error(wanted)?)))
        else {
            return CacheFolder { path: folder, caution: None };
        };
        let fallback = env::temp_dir().join(format!("steelbank-{}", rustix::process::geteuid().as_raw()));
        let wanted = format!("The cache folder {} cannot be written: {error}", wanted.display());
        let remedy = "Set STEELBANK_CACHE to a writable folder.";
        match claim_folder(&fallback) {
            Ok(()) => CacheFolder {
                caution: Some(format!("{wanted}. Using {} instead. {remedy}", fallback.display())),
                path: Some(fallback),
            },
            Err(other) => CacheFolder {
                path: None,
                caution: Some(format!(
                    "{wanted}. {} cannot be used either: {other}. {remedy}",
                    fallback.display()
                )),
            },
        }
    })
}

/// Checks write access to `folder`, or to its nearest existing parent, and returns the error.
fn write_error(folder: &Path) -> Option<Errno> {
    let there = folder.ancestors().find(|folder| folder.exists())?;
    access(there, Access::WRITE_OK | Access::EXEC_OK).err()
}

/// Creates `folder` with access for the user alone, or returns the reason why that fails.
fn claim_folder(folder: &Path) -> Result<(), String> {
    steelbank_cache::claim(folder).map_err(|error| error.to_string())?;
    if let Some(error) = write_error(folder) {
        return Err(error.to_string());
    }
    if folder.is_dir() && !folder.is_symlink() { Ok(()) } else { Err("it is not a folder".to_owned()) }
}

/// Returns the configured cache folder, or else the default folder in the user's home.
fn configured() -> Option<PathBuf> {
    env::var_os("STEELBANK_CACHE")
        .filter(|folder| !folder.is_empty())
        // Resolve a relative path against the current folder.
        .and_then(|folder| std::path::absolute(folder).ok())
        .or_else(|| variable("XDG_CACHE_HOME").map(|cache| cache.join("steelbank")))
        // `home_dir` falls back to the password file if HOME is not set.
        .or_else(|| {
            env::home_dir().filter(|home| home.is_absolute()).map(|home| home.join(".cache/steelbank"))
        })
}

/// Reads an environment variable with an absolute path. Ignores relative paths, as the XDG
/// specification requires.
pub(super) fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
