//! Shared by several benches: the fixtures' libraries, and plain SBCL.

use std::path::Path;
use std::process::Command;

use steelbank::engine::DEFAULT_HEAP_MEGABYTES;

/// Systems of the fixtures that load on every machine.
pub(crate) const LIBRARIES: [&str; 25] = [
    "alexandria", "anaphora", "babel", "bordeaux-threads", "chunga", "cffi", "cl-fad", "flexi-streams",
    "cl-interpol", "cl-ppcre", "split-sequence", "trivial-gray-streams", "cl-unicode", "cl-who",
    "closer-mop", "fiveam", "iterate", "local-time", "named-readtables", "nibbles", "parse-number", "puri",
    "trivial-backtrace", "usocket", "yason",
];

/// Makes the command that runs the SBCL that bootstrap built, with our heap, ASDF, and fasls in `cache`, and
/// evaluates `forms`.
pub(crate) fn plain_sbcl(cache: &Path, forms: &[&str]) -> Command {
    let tree = Path::new(steelbank::Installation::BUILT_SBCL);
    let mut command = Command::new(tree.join("src/runtime/sbcl"));
    command
        .arg("--core")
        .arg(tree.join("output/sbcl.core"))
        .args(["--noinform", "--dynamic-space-size", &format!("{DEFAULT_HEAP_MEGABYTES}MB")])
        .args(["--no-sysinit", "--no-userinit", "--non-interactive", "--eval", "(require :asdf)"])
        .args(forms.iter().flat_map(|form| ["--eval", form]))
        .env("SBCL_HOME", tree.join("obj/sbcl-home"))
        .env("XDG_CACHE_HOME", cache);
    command
}
