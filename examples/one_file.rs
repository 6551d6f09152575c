//! A program with SBCL inside its executable: `cargo build --release --example one_file --features
//! embedded`. It runs on machines without SBCL or steelbank, and needs no build script and no
//! further files.

#![allow(clippy::print_stdout)]

use steelbank::{Control, DescribeSymbolRequest};
use steelbank::{Error, Installation, Steelbank};

fn main() -> Result<(), Error> {
    // Give a folder instead of `None` to `require` contrib modules that are not in the core. They
    // are unpacked there.
    let bank = Steelbank::builder().installation(Installation::embedded(None)).start()?;
    let answer = bank.ask(&DescribeSymbolRequest::new("*print-base*").package("CL"), &Control::default())?;
    println!("{answer}");
    Ok(())
}
