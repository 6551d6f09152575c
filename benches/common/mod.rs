//! What several benches measure with: libraries of the fixtures, and SBCL without us.

use std::path::Path;
use std::process::Command;

use steelbank::engine::DEFAULT_HEAP_MEGABYTES;

/// Systems of the fixtures that load everywhere.
pub(crate) const LIBRARIES: [&str; 25] = [
    "alexandria",
    "anaphora",
    "babel",
    "bordeaux-threads",
    "chunga",
    "cffi",
    "cl-fad",
    "flexi-streams",
    "cl-interpol",
    "cl-ppcre",
    "split-sequence",
    "trivial-gray-streams",
    "cl-unicode",
    "cl-who",
    "closer-mop",
    "fiveam",
    "iterate",
    "local-time",
    "named-readtables",
    "nibbles",
    "parse-number",
    "puri",
    "trivial-backtrace",
    "usocket",
    "yason",
];

/// The SBCL that bootstrap built, as its users run it, with our heap, ASDF, and fasls in `cache`. It is to evaluate `forms`.
pub(crate) fn plain_sbcl(cache: &Path, forms: &[&str]) -> Command {
    let tree = Path::new(steelbank_image::SBCL);
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
