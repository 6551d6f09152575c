//! Shared parts of answers: names, locations, cautions, advice and errors about things that do not
//! exist. A request's `name` and `package` arguments are parsed by `designator` and resolved to a
//! symbol by `lookup`; if that fails, `nearest` suggests alternatives and [`NotFound`] is the
//! error. Answers contain [`LispName`]s, [`Location`]s and [`Caution`]s, which have the same JSON
//! form for every tool. [`Advice`] is the next step for an answer or error. It has one wording for
//! tools and one for the command line, and the caller chooses the wording that fits its user.

pub(crate) mod words;

pub mod advice;
pub mod caution;
pub mod designator;
pub mod escape;
mod lisp_kind;
pub mod location;
pub mod lookup;
pub mod name;
pub(crate) mod nearest;
mod not_found;
mod other_text;
pub(crate) mod package_owner;
pub mod source_place;

pub use advice::{Advice, Wording};
pub use caution::Caution;
pub use lisp_kind::LispKind;
pub use location::Location;
pub use name::LispName;
pub use not_found::NotFound;
pub use other_text::OtherText;
pub use source_place::SourcePlace;

use std::fmt::Display;

/// Returns whether a count is zero. Serde skips such fields.
pub(crate) fn is_zero<T: PartialEq + From<u8>>(count: &T) -> bool {
    *count == 0.into()
}

/// Returns the first 100 characters of a text, with "..." if it is longer.
pub(crate) fn shortened(text: &str) -> String {
    match text.char_indices().nth(100) {
        Some((at, _)) => format!("{}...", &text[..at]),
        None => text.to_owned(),
    }
}

/// Formats a count with its noun in the singular or plural: "1 use", "2 uses".
pub(crate) fn counted(count: impl Display + PartialEq + From<u8>, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1.into() { one } else { several })
}

/// Formats the first eight of `files` and the number of the others.
pub(crate) fn some_of<T>(files: &[T], shown: impl Fn(&T) -> String) -> String {
    const SHOWN_FILES: usize = 8;
    let mut names: Vec<String> = files.iter().take(SHOWN_FILES).map(shown).collect();
    if files.len() > SHOWN_FILES {
        names.push(counted(files.len() - SHOWN_FILES, "more file", "more files"));
    }
    names.join(", ")
}
