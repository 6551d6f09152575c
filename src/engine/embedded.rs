//! The image that `build.rs` embeds in the program with the feature `embedded`.

unsafe extern "C" {
    /// The core's first byte, in the object that `build.rs` assembles. Only its address is used, in
    /// `keep_core`.
    static steelbank_embedded_core: u8;
}

/// SBCL's runtime as a shared library.
pub(crate) static LIBRARY: &[u8] =
    include_bytes!(concat!(env!("STEELBANK_BUILT_IMAGE"), "/libsteelbank-sbcl.so"));

/// The contrib modules that are not in the core: file names, sizes of the fasls in bytes, and
/// zlib-compressed contents.
pub(crate) static CONTRIBS: &[(&str, u64, &[u8])] = include!(concat!(env!("OUT_DIR"), "/contribs.rs"));

/// The index of the core's cross references, with source positions.
pub(crate) static INDEX: &[u8] = include_bytes!(concat!(env!("STEELBANK_BUILT_IMAGE"), "/steelbank.xref"));

/// Makes the linker keep the core, as section `lisp.core`, in the program that calls this.
pub(crate) fn keep_core() {
    std::hint::black_box(&raw const steelbank_embedded_core);
}
