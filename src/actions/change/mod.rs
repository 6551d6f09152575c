//! Edits the project's source files and brings the image up to date with them. `edit_definition`
//! replaces one form, and `rename` renames a symbol everywhere. `check` tries edits in a scratch
//! image without changing the main image, and `reload` loads changed files into the main image.
//! `check_structure` locates unbalanced parentheses. Files are written through the journal in
//! `crate::workspace`, so that an interrupted edit is completed or undone. `unified` formats diffs.

pub mod check;
pub mod check_structure;
pub mod edit_definition;
pub mod refactor;
pub mod reload;
pub mod rename;
pub(crate) mod unified;
