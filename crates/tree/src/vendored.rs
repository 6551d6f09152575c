//! Detects folders where tools install dependencies.

use std::ffi::OsStr;
use std::path::{Component, Path};

/// Returns whether `relative`, a path below `root`, is in a folder where ocicl, qlot, Quicklisp or
/// another tool installs dependencies.
pub fn is_vendored(root: &Path, relative: &Path) -> bool {
    let mut at = root.to_owned();
    relative.components().any(|component| {
        let Component::Normal(name) = component else { return false };
        let vendored = is_vendored_folder(&at, name);
        at.push(name);
        vendored
    })
}

/// Returns whether a tool installs dependencies in the folder `name` of the folder `at`.
pub(crate) fn is_vendored_folder(at: &Path, name: &OsStr) -> bool {
    let is_file = |name: &str| at.join(name).is_file();
    match name.to_str() {
        Some(".qlot" | ".ocicl" | "ocicl" | ".bundle-libs" | "node_modules") => true,
        // The former name of ocicl's folder.
        Some("systems") => {
            is_file("systems.csv") || is_file("ocicl.csv") || has_versions(&at.join("systems"))
        }
        Some("quicklisp") => is_file("quicklisp/setup.lisp") || at.join("quicklisp/dists").is_dir(),
        _ => false,
    }
}

/// Returns whether `folder` contains folders with versions in their names, such as
/// `alexandria-20240503-8514d8e`.
fn has_versions(folder: &Path) -> bool {
    let is_version = |name: &str| {
        let bytes = name.as_bytes();
        bytes.windows(2).any(|pair| pair[0] == b'-' && pair[1].is_ascii_digit())
    };
    std::fs::read_dir(folder).into_iter().flatten().flatten().any(|entry| {
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            && entry.file_name().to_str().is_some_and(is_version)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn dependency_folders_are_recognized() {
        let root = tempfile::tempdir().unwrap();
        let root = root.path();
        for folder in ["quicklisp", "src/systems", "systems/lib-1.0"] {
            fs::create_dir_all(root.join(folder)).unwrap();
        }
        let check = |path: &str| is_vendored(root, Path::new(path));
        for path in ["ocicl/a-1.0", "systems", ".qlot/dists/x", "lib/ocicl"] {
            assert!(check(path), "{path}");
        }
        for path in ["src", "src/systems", "", "quicklisp", "quicklisp-client"] {
            assert!(!check(path), "{path}");
        }
        fs::write(root.join("quicklisp/setup.lisp"), "").unwrap();
        fs::write(root.join("src/ocicl.csv"), "").unwrap();
        assert!(check("quicklisp/dists") && check("src/systems/x"));
    }
}
