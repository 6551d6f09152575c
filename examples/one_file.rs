//! A program that is one file, with SBCL in it: `cargo build --release --example one_file --features embedded`. What comes
//! out runs where nothing of this is installed. There is nothing else to do: no build script, no folder to ship.

#![allow(clippy::print_stdout)]

use steelbank::{Error, Installation, Steelbank};

fn main() -> Result<(), Error> {
    // With a folder in place of `None`, contrib modules that are not in the core can be required: they are unpacked there.
    let bank = Steelbank::builder().installation(Installation::embedded(None)).start()?;
    let answer = bank.describe_symbol("*print-base*", "CL")?;
    println!("{}", steelbank::render::text::describe_symbol(&answer));
    Ok(())
}
