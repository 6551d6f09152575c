//! What a symbol is, and which symbols there are.

pub mod apropos;
pub mod describe_symbol;
pub mod facts;
pub mod find_definition;
pub mod names;
pub mod package_info;
