//! The fixtures: libraries, source trees, and ripgrep. tests/fixtures.sh fetches missing fixtures.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Returns the folder of the fixtures, fetched if necessary.
pub(crate) fn fixtures() -> &'static Path {
    static FIXTURES: OnceLock<PathBuf> = OnceLock::new();
    FIXTURES.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures.sh");
        let output = Command::new("sh").arg(&script).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "sh {} failed; correct this and run it again:\n{errors}",
            script.display()
        );
        PathBuf::from(String::from_utf8(output.stdout).unwrap().lines().last().unwrap())
    })
}

/// Returns the folder of Debian's Lisp libraries. Each has its own folder.
pub(crate) fn lisp_libraries() -> PathBuf {
    fixtures().join("lisp")
}

/// Returns the CL_SOURCE_REGISTRY with which ASDF finds [`lisp_libraries`].
pub(crate) fn library_registry() -> String {
    format!("{}//", lisp_libraries().display())
}

/// Returns the CL_SOURCE_REGISTRY with which ASDF finds Debian's cl-asdf.
pub(crate) fn newer_asdf() -> String {
    format!("{}//", fixtures().join("asdf").display())
}

/// The CL_SOURCE_REGISTRY with which ASDF finds only the project's systems.
pub(crate) const NO_LIBRARIES: &str = "(:source-registry :ignore-inherited-configuration)";

/// Returns the path of ripgrep.
pub(crate) fn rg() -> PathBuf {
    let fetched = fixtures().join("bin/rg");
    if fetched.exists() { fetched } else { PathBuf::from("rg") }
}
