//! Finds the SBCL that the program runs, and the cache folder.

use std::env;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

use rustix::fs::{Access, access};
use rustix::io::Errno;

use super::CommandError;
use super::images::SbclImage;
use crate::Installation;
use crate::engine::RuntimeLibrary;

/// Returns the installation of `image`, or in the folder that STEELBANK_HOME names, or else the embedded one.
pub(super) fn find(image: Option<&SbclImage>) -> Result<Installation, CommandError> {
    let cache = cache();
    if let Some(image) = image {
        return image.installation();
    }
    Ok(match variable("STEELBANK_HOME") {
        Some(home) => Installation {
            sources: cache.as_deref().map(Installation::sources_in),
            ..Installation::in_folder(&home, RuntimeLibrary::named_by_the_user(&home))
        },
        None => Installation::embedded(cache.as_deref()),
    })
}

/// The cache folder, and what is to be said of it.
struct CacheFolder {
    path: Option<PathBuf>,
    caution: Option<String>,
}

/// Returns the cache folder: the one that `bootstrap` uses, or a temporary one where that cannot be written.
pub(super) fn cache() -> Option<PathBuf> {
    found().path.clone()
}

/// Returns why the cache folder is not the one that was asked for, if it is not.
pub(super) fn caution() -> Option<&'static str> {
    found().caution.as_deref()
}

fn found() -> &'static CacheFolder {
    static FOUND: OnceLock<CacheFolder> = OnceLock::new();
    FOUND.get_or_init(|| {
        let folder = configured();
        let Some((wanted, error)) = folder.as_deref().and_then(|wanted| Some((wanted, refused(wanted)?)))
        else {
            return CacheFolder { path: folder, caution: None };
        };
        let stand_in = env::temp_dir().join(format!("steelbank-{}", rustix::process::geteuid().as_raw()));
        let wanted = format!("The cache folder {} cannot be written: {error}", wanted.display());
        let remedy = "Set STEELBANK_CACHE to a folder that can be.";
        match own(&stand_in) {
            Ok(()) => CacheFolder {
                caution: Some(format!("{wanted}. {} stands in for it. {remedy}", stand_in.display())),
                path: Some(stand_in),
            },
            Err(other) => CacheFolder {
                path: None,
                caution: Some(format!("{wanted}; nor can {} be used: {other}. {remedy}", stand_in.display())),
            },
        }
    })
}

/// Returns the error of writing to `folder`, or where it is to be made.
fn refused(folder: &Path) -> Option<Errno> {
    let there = folder.ancestors().find(|folder| folder.exists())?;
    access(there, Access::WRITE_OK | Access::EXEC_OK).err()
}

/// Makes `folder` the user's own, or says why it cannot be.
fn own(folder: &Path) -> Result<(), String> {
    steelbank_cache::claim(folder).map_err(|error| error.to_string())?;
    if let Some(error) = refused(folder) {
        return Err(error.to_string());
    }
    if folder.is_dir() && !folder.is_symlink() { Ok(()) } else { Err("it is no folder".to_owned()) }
}

/// Returns the folder that the environment names.
fn configured() -> Option<PathBuf> {
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
pub(super) fn variable(name: &str) -> Option<PathBuf> {
    env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute())
}
