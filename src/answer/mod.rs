//! What the answers of all questions are made of.

pub mod advice;
pub mod caution;
pub mod location;

pub use advice::{Advice, Wording};
pub use caution::Caution;
pub use location::Location;

use std::fmt::Display;

/// Formats a count with its noun in singular or plural: "1 use", "2 uses".
pub(crate) fn counted(count: impl Display + PartialEq + From<u8>, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1.into() { one } else { several })
}
