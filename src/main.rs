//! The `steelbank` program: the command line, with SBCL in the file itself (feature `embedded`).

use std::process::ExitCode;

fn main() -> ExitCode {
    steelbank::doors::cli::main()
}
