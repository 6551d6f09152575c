//! Answers for readers: the contracts' texts, and what people see at a terminal.

pub mod check;
pub mod project;
pub mod text;
