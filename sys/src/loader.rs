//! Opens the shared library and resolves its functions.

use std::ffi::{CStr, c_char, c_int};
use std::fmt;
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};

use crate::ffi::{STEELBANK_ABI, steelbank_host};

/// SBCL's runtime, loaded. There is at most one in a process, and it is never unloaded: its threads, signal handlers
/// and memory stay for good.
#[derive(Debug, Clone, Copy)]
pub struct Runtime {
    /// `initialize_lisp`: starts the runtime on the calling thread and enters the core's toplevel function.
    pub initialize_lisp:
        unsafe extern "C" fn(argc: c_int, argv: *const *const c_char, envp: *const *const c_char) -> c_int,
    /// `steelbank_set_host`.
    pub set_host: unsafe extern "C" fn(host: *const steelbank_host),
    /// `steelbank_set_executable`.
    pub set_executable: unsafe extern "C" fn(path: *const c_char),
    /// `steelbank_reserve_below_stacks`: for the Lisp thread that the calling thread makes next.
    pub reserve_below_stacks: unsafe extern "C" fn(),
    /// `steelbank_end_children_with_process`.
    pub end_children_with_process: unsafe extern "C" fn(),
    /// `steelbank_try_static_space`: whether the system gives SBCL the memory that it cannot do without.
    pub try_static_space: unsafe extern "C" fn(start: *mut usize, size: *mut usize) -> c_int,
    runtime_build: unsafe extern "C" fn() -> *const c_char,
    sbcl_version: unsafe extern "C" fn() -> *const c_char,
}

/// Why a library could not be used.
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
    /// The library is this crate's, of another version.
    OtherAbi {
        /// The library.
        path: PathBuf,
        /// The library's `STEELBANK_ABI`.
        library: u32,
        /// This crate's.
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
                said(source),
                if self.is_limit() {
                    "; the process may open no more files, or has no more address space"
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
                "{} speaks version {library} of the interface to SBCL, this program version {expected}; use the \
                 libsteelbank-sbcl.so that was built with this program",
                path.display()
            ),
        }
    }
}

/// The dynamic linker's message.
fn said(error: &libloading::Error) -> String {
    std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string)
}

impl LoadError {
    /// Whether a limit of the process is the cause, as far as the dynamic linker's words tell: the library may be
    /// sound.
    pub fn is_limit(&self) -> bool {
        let full = ["Error 24", "Too many open files", "Cannot allocate memory", "failed to map", "Error 12"];
        matches!(self, Self::Open { source, .. } if full.iter().any(|words| said(source).contains(words)))
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
    /// Opens the library at `path` with its symbols in the global scope, where Lisp looks for foreign functions,
    /// and resolves every function. The library is never closed.
    ///
    /// # Errors
    /// [`LoadError`] names the file and the remedy.
    ///
    /// # Safety
    /// Loading runs the library's constructors, and what has this crate's functions is taken for this crate's: `path`
    /// must name a library that this crate's build script linked, or none.
    pub unsafe fn load(path: &Path) -> Result<Self, LoadError> {
        // SAFETY: by the caller's promise the constructors are those of SBCL's runtime and of the shim, which have none
        // that run code.
        let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_GLOBAL) }
            .map_err(|source| LoadError::Open { path: path.to_owned(), source })?;
        let library: &'static Library = Box::leak(Box::new(library));
        macro_rules! function {
            ($name:literal) => {{
                // SAFETY: the symbol is a function declared in include/steelbank.h with the type of the field that it
                // initialises, and the library is leaked, so the pointer stays valid.
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

    /// The build that the runtime belongs to; a core that it can run names the same one.
    pub fn build(&self) -> String {
        constant(self.runtime_build)
    }

    /// The version of SBCL, such as `2.5.2`.
    pub fn sbcl_version(&self) -> String {
        constant(self.sbcl_version)
    }
}

/// The text that `function`, of a library that was loaded, returns.
fn constant(function: unsafe extern "C" fn() -> *const c_char) -> String {
    // SAFETY: the function takes nothing, only returns the address of a constant, and the library is never closed.
    let text = unsafe { function() };
    // SAFETY: the constant is NUL-terminated and static.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned()
}
