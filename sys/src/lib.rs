//! SBCL as a shared library: the loader and the bindings. No policy lives here.
//!
//! The one list of what crosses between Rust and Lisp is `include/steelbank.h`; [`ffi`] is its Rust side, made by
//! bindgen and checked in. [`Runtime`] opens the shared library (SBCL's runtime linked with the shim in `shim/`)
//! and resolves every function of it, so that a wrong library is refused when it is loaded, not when it is used.

mod loader;

/// The types of `include/steelbank.h`.
#[allow(missing_docs, non_camel_case_types, non_upper_case_globals, clippy::undocumented_unsafe_blocks)]
mod bindings;

/// The header's types and constants, under the names they have in C.
pub mod ffi {
    pub use crate::bindings::*;
}

pub use loader::{LoadError, Runtime};

/// The library that this crate's build script linked: the default for programs that run where they were built.
pub const BUILT_LIBRARY: &str = env!("STEELBANK_BUILT_LIBRARY");

/// The size to which Lisp's heap can grow unless a program says otherwise, in MiB: the core is saved with it. With
/// another, SBCL starts some 15 ms later.
pub const HEAP_MEGABYTES: usize = match usize::from_str_radix(env!("STEELBANK_HEAP_MEGABYTES"), 10) {
    Ok(megabytes) => megabytes,
    Err(_) => 0,
};
