//! The `steelbank` program.
fn main() {}
