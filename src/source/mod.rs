//! Places the compiler's records in the text of the files.
//!
//! Nothing here runs or loads anyone's code, and nothing here knows the engine.

pub(crate) mod edit_map;
pub mod positions;
pub mod sbcl;
pub mod tap;
