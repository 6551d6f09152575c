//! The image inside the program: what `build.rs` made, for feature `embedded`.

unsafe extern "C" {
    /// The core's first byte, in the object that `build.rs` assembles. Only its address is taken, in `keep_core`.
    static steelbank_embedded_core: u8;
}

/// SBCL's runtime as a shared library.
pub(crate) static LIBRARY: &[u8] =
    include_bytes!(concat!(env!("STEELBANK_BUILT_IMAGE"), "/libsteelbank-sbcl.so"));

/// The contrib modules that are not in the core: file names, and the fasls' sizes, and contents deflated (zlib).
pub(crate) static CONTRIBS: &[(&str, u64, &[u8])] = include!(concat!(env!("OUT_DIR"), "/contribs.rs"));

/// The baked index of the core's cross references.
pub(crate) static INDEX: &[u8] = include_bytes!(concat!(env!("STEELBANK_BUILT_IMAGE"), "/steelbank.xref"));

/// Keeps the core in the program that calls this, as its section `lisp.core`.
pub(crate) fn keep_core() {
    std::hint::black_box(&raw const steelbank_embedded_core);
}
