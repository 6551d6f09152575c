//! The `steelbank` program: runs the command line, with SBCL embedded in the executable (feature
//! `embedded`).

use std::process::ExitCode;

fn main() -> ExitCode {
    steelbank::doors::cli::main()
}
