//! A program with SBCL inside its one file: `cargo build --release --example one_file --features embedded`.
//! It runs where nothing of this is installed. There is nothing else to do: no build script, no folder to
//! ship.

#![allow(clippy::print_stdout)]

use steelbank::{Control, DescribeSymbolRequest};
use steelbank::{Error, Installation, Steelbank};

fn main() -> Result<(), Error> {
    // Use a folder in place of `None` to require contrib modules that are not in the core: they are unpacked
    // there.
    let bank = Steelbank::builder().installation(Installation::embedded(None)).start()?;
    let answer = bank.ask(&DescribeSymbolRequest::new("*print-base*").package("CL"), &Control::default())?;
    println!("{answer}");
    Ok(())
}
