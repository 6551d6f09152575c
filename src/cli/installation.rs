//! Where the program's SBCL comes from.

use std::env;
use std::path::{Path, PathBuf};

use crate::engine::{Contribs, Core, Image, RuntimeLibrary};
use crate::{IndexData, Installation};

/// What the program has in itself, besides the core in the executable's section `lisp.core`.
#[derive(Debug, Clone, Copy)]
pub struct Embedded {
    /// SBCL's runtime, as a shared library.
    pub library: &'static [u8],
    /// The baked index of the core's cross references.
    pub index: &'static [u8],
    /// The contrib modules' fasls, deflated.
    pub contribs: &'static [(&'static str, &'static [u8])],
    /// The tree that SBCL was built in. Its last part names the build.
    pub sbcl: &'static str,
}

/// The folder that STEELBANK_HOME names, or what is embedded.
pub(super) fn find(embedded: Embedded) -> Installation {
    let build = Path::new(embedded.sbcl).file_name().unwrap_or_default();
    let cache = cache();
    let sources = cache.as_ref().map(|cache| cache.join(build));
    if let Some(home) = variable("STEELBANK_HOME") {
        return Installation { sources, ..Installation::in_folder(&home) };
    }
    let mut folder = std::ffi::OsString::from("contrib-");
    folder.push(build);
    Installation {
        image: Image {
            library: RuntimeLibrary::Memory(embedded.library),
            core: Core::Embedded,
            contribs: match cache {
                Some(cache) => Contribs::Packed { files: embedded.contribs, folder: cache.join(folder) },
                None => Contribs::None,
            },
        },
        index: IndexData::Memory(embedded.index),
        sources,
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
