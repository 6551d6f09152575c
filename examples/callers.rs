//! Prints the callers of a function: `cargo run --example callers -- mapcar CL`.

#![allow(clippy::print_stdout)]

use steelbank::Error;
use steelbank::Steelbank;
use steelbank::{Control, WhoRequest};

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "mapcar".to_owned());
    let package = arguments.next().unwrap_or_else(|| "CL".to_owned());

    let bank = Steelbank::builder().start()?;
    let answer = bank.ask(&WhoRequest::calls(&name).package(&package), &Control::default())?;
    println!("{answer}");
    Ok(())
}
