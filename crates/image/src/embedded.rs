//! The image inside the program.

// SBCL looks for a core in the ELF section of this name in the running executable, and maps it from there: it has to
// start at a multiple of SBCL's page size. A program that does not call `keep_core` does not carry it: the linker drops
// sections that nobody refers to.
std::arch::global_asm!(
    ".pushsection lisp.core,\"a\",@progbits",
    ".balign 32768",
    ".globl steelbank_embedded_core",
    "steelbank_embedded_core:",
    // The compiler sees only this text: without a word that changes with the core, it would keep the old one.
    concat!("# core ", env!("STEELBANK_BUILT_CORE")),
    concat!(".incbin \"", env!("STEELBANK_BUILT_IMAGE"), "/steelbank.core\""),
    ".popsection",
    options(raw),
);

unsafe extern "C" {
    /// The core's first byte. Only its address is taken, in `keep_core`.
    static steelbank_embedded_core: u8;
}

/// SBCL's runtime as a shared library.
pub static LIBRARY: &[u8] = include_bytes!(concat!(env!("STEELBANK_BUILT_IMAGE"), "/libsteelbank-sbcl.so"));

/// The contrib modules that are not in the core: file names, and fasls deflated (zlib).
pub static CONTRIBS: &[(&str, &[u8])] = include!(concat!(env!("OUT_DIR"), "/contribs.rs"));

/// The baked index of the core's cross references.
pub static INDEX: &[u8] = include_bytes!(concat!(env!("STEELBANK_BUILT_IMAGE"), "/steelbank.xref"));

/// The table of places of the core's functions in SBCL's own sources.
pub static PLACES: &[u8] = include_bytes!(concat!(env!("STEELBANK_BUILT_IMAGE"), "/steelbank.places"));

/// Keeps the core in the program that calls this, as its section `lisp.core`.
pub fn keep_core() {
    std::hint::black_box(&raw const steelbank_embedded_core);
}
