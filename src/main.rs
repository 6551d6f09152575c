//! The `steelbank` program: the command line, with SBCL in the file itself.

use std::process::ExitCode;

use steelbank::cli::{self, Embedded};

/// The core is not here: it is the executable's section `lisp.core` (see build.rs).
const EMBEDDED: Embedded = Embedded {
    library: include_bytes!(concat!(env!("STEELBANK_BUILT_IMAGE"), "/libsteelbank-sbcl.so")),
    index: include_bytes!(concat!(env!("STEELBANK_BUILT_IMAGE"), "/steelbank.xref")),
    contribs: include!(concat!(env!("OUT_DIR"), "/contribs.rs")),
    sbcl: env!("STEELBANK_BUILT_SBCL"),
};

fn main() -> ExitCode {
    cli::main(EMBEDDED)
}
