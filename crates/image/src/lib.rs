//! The image that steelbank runs: SBCL's runtime, the core with the Lisp half, its baked index, the contrib modules.
//!
//! The build script makes it, in a folder; feature `embedded` puts it into the program as well. It is a crate of its
//! own so that 60 MB are compiled when `lisp/` changes, and not whenever something else does.

/// The folder that the build made: `libsteelbank-sbcl.so`, `steelbank.core`, `steelbank.xref`, `steelbank.places` and
/// `contrib/`.
pub const FOLDER: &str = env!("STEELBANK_BUILT_IMAGE");

/// The SBCL build that made the image: a folder with SBCL's sources in it. Its last component names the build.
pub const SBCL: &str = env!("STEELBANK_BUILT_SBCL");

#[cfg(feature = "embedded")]
mod embedded;

#[cfg(feature = "embedded")]
pub use embedded::{CONTRIBS, INDEX, LIBRARY, PLACES, keep_core};
