//! Renders answers as text: the contracts' texts, and what a terminal shows.

pub mod check;
pub mod escape;
pub mod project;
pub mod text;
