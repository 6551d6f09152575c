//! Prints who calls a function: `cargo run --example callers -- mapcar CL`.

#![allow(clippy::print_stdout)]

use steelbank::Steelbank;
use steelbank::query::Error;

fn main() -> Result<(), Error> {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "mapcar".to_owned());
    let package = arguments.next().unwrap_or_else(|| "CL".to_owned());

    let bank = Steelbank::builder().start()?;
    let answer = bank.who_calls(&name, &package)?;
    println!("{}", steelbank::render::text::who(&answer));
    Ok(())
}
