//! Opens the shared library and resolves its functions.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::ffi::{STEELBANK_ABI, steelbank_host};

/// The loaded runtime of SBCL. A process can start at most one. It is never unloaded, because its
/// threads, signal handlers and memory cannot be removed.
#[derive(Debug, Clone, Copy)]
pub struct Runtime {
    /// `initialize_lisp`: starts the runtime on the calling thread and enters the core's toplevel
    /// function.
    pub initialize_lisp:
        unsafe extern "C" fn(argc: c_int, argv: *const *const c_char, envp: *const *const c_char) -> c_int,
    /// `steelbank_set_host`.
    pub set_host: unsafe extern "C" fn(host: *const steelbank_host),
    /// `steelbank_set_executable`.
    pub set_executable: unsafe extern "C" fn(path: *const c_char),
    /// `steelbank_reserve_below_stacks`: applies to the next Lisp thread that the calling thread
    /// creates.
    pub reserve_below_stacks: unsafe extern "C" fn(),
    /// `steelbank_end_children_with_process`.
    pub end_children_with_process: unsafe extern "C" fn(),
    /// `steelbank_try_static_space`: tests whether the system grants the memory that SBCL requires.
    pub try_static_space: unsafe extern "C" fn(start: *mut usize, size: *mut usize) -> c_int,
    runtime_build: unsafe extern "C" fn() -> *const c_char,
    sbcl_version: unsafe extern "C" fn() -> *const c_char,
}

/// The reason why a library cannot be used.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The dynamic linker refused the file.
    Open {
        /// The library.
        path: PathBuf,
        /// The dynamic linker's error.
        source: libloading::Error,
    },
    /// The file is a library, but not this crate's.
    Symbol {
        /// The library.
        path: PathBuf,
        /// The function that it lacks.
        symbol: &'static str,
    },
    /// The library is this crate's, but has another interface version.
    OtherAbi {
        /// The library.
        path: PathBuf,
        /// The library's `STEELBANK_ABI`.
        library: u32,
        /// This crate's `STEELBANK_ABI`.
        expected: u32,
    },
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open { path, source } => write!(
                f,
                "cannot load SBCL's runtime from {}: {}{}",
                path.display(),
                linker_message(source),
                if self.is_limit() {
                    "; the process may open no more files, or has no more address space: raise its limits"
                } else {
                    ""
                }
            ),
            Self::Symbol { path, symbol } => write!(
                f,
                "{} is not steelbank's SBCL runtime: it lacks the function {symbol}; use the \
                 libsteelbank-sbcl.so that was built with this program",
                path.display()
            ),
            Self::OtherAbi { path, library, expected } => write!(
                f,
                "{} has version {library} of the interface to SBCL, but this program has version {expected}; use the \
                 libsteelbank-sbcl.so that was built with this program",
                path.display()
            ),
        }
    }
}

/// Returns the dynamic linker's message.
fn linker_message(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

impl LoadError {
    /// Returns whether a limit of the process is the cause, judging by the dynamic linker's
    /// message. The library may then be intact.
    pub fn is_limit(&self) -> bool {
        let full = ["Error 24", "Too many open files", "Cannot allocate memory", "failed to map", "Error 12"];
        matches!(self, Self::Open { source, .. } if full.iter().any(|words| linker_message(source).contains(words)))
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Open { source, .. } => Some(source),
            Self::Symbol { .. } | Self::OtherAbi { .. } => None,
        }
    }
}

impl Runtime {
    /// Opens the library at `path` with its symbols in the global scope, where Lisp looks up
    /// foreign functions, and resolves every function. The library is never closed.
    ///
    /// # Errors
    /// [`LoadError`] names the file, and the remedy if it is known.
    ///
    /// # Safety
    /// Loading runs the library's constructors, and a library with this crate's functions is
    /// assumed to be this crate's. `path` must name one of these: a library that this crate's build
    /// script linked; a file that is not a shared library; or a shared library that lacks this
    /// crate's functions and has only harmless constructors.
    pub unsafe fn load(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: the caller guarantees that the file is the library with SBCL's runtime and the
        // shim, which has no constructors that run code, or that loading the file is harmless.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }
            .map_err(|source| LoadError::Open { path: path.to_owned(), source })?;
        let library: &'static Library = Box::leak(Box::new(library));
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the symbol is a function declared in include/steelbank.h with the type of
                // the field that it initialises. The library is leaked, so the pointer stays valid.
                let symbol = unsafe { library.get($name.as_bytes()) };
                *symbol.map_err(|_| LoadError::Symbol { path: path.to_owned(), symbol: $name })?
            }};
        }
        let abi: unsafe extern "C" fn() -> u32 = function!("steelbank_abi");
        // SAFETY: the function only returns a constant.
        let library_abi = unsafe { abi() };
        if library_abi != STEELBANK_ABI {
            return Err(LoadError::OtherAbi {
                path: path.to_owned(),
                library: library_abi,
                expected: STEELBANK_ABI,
            });
        }
        Ok(Self {
            initialize_lisp: function!("initialize_lisp"),
            set_host: function!("steelbank_set_host"),
            set_executable: function!("steelbank_set_executable"),
            reserve_below_stacks: function!("steelbank_reserve_below_stacks"),
            end_children_with_process: function!("steelbank_end_children_with_process"),
            try_static_space: function!("steelbank_try_static_space"),
            runtime_build: function!("steelbank_runtime_build"),
            sbcl_version: function!("steelbank_sbcl_version"),
        })
    }

    /// Returns the runtime's build ID. It begins with the build ID of the cores that the runtime
    /// can run.
    pub fn build(&self) -> String {
        constant(self.runtime_build)
    }

    /// Returns the version of SBCL, such as `2.5.2`.
    pub fn sbcl_version(&self) -> String {
        constant(self.sbcl_version)
    }
}

/// Returns the text that `function` of a loaded library returns.
fn constant(function: unsafe extern "C" fn() -> *const c_char) -> String {
    // SAFETY: the function takes no arguments and only returns the address of a constant, and the
    // library is never closed.
    let text = unsafe { function() };
    // SAFETY: the constant is NUL-terminated and static.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
