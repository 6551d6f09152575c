//! The error for a symbol, package, system or path that does not exist.

use std::fmt;

use super::lookup::{Asked, LookupStatus};

/// Something in a request that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotFound {
    /// A symbol, or the package for resolving it.
    Symbol {
        /// The name and the package of the request.
        asked: Asked,
        /// Whether the symbol or the package does not exist.
        status: LookupStatus,
        /// A sentence that lists the places of the name in text that is not loaded, or an empty
        /// string.
        unseen: String,
    },
    /// A package.
    Package(String),
    /// A system with unknown files.
    System(String),
    /// A file or folder.
    Path(String),
}

impl fmt::Display for NotFound {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Symbol { asked: Asked { name, package }, status, unseen } => {
                match status {
                    LookupStatus::NoPackage => write!(
                        formatter,
                        "Package {package} not found. Load the system that defines it, or give another package."
                    ),
                    LookupStatus::Uninterned => write!(
                        formatter,
                        "Symbol {name} not found in package {package}. An uninterned symbol is in no package: give an interned symbol."
                    ),
                    LookupStatus::NoSymbol | LookupStatus::Found => write!(
                        formatter,
                        "Symbol {name} not found in package {package}. Load the system that defines it, or correct the name."
                    ),
                }?;
                if unseen.is_empty() { Ok(()) } else { write!(formatter, " {unseen}") }
            }
            Self::Package(package) => write!(formatter, "Package {package} not found"),
            Self::System(system) => write!(
                formatter,
                "The files of system {system} are unknown: it is not loaded, or not part of the project."
            ),
            Self::Path(path) => write!(formatter, "Path {path} not found"),
        }
    }
}

impl std::error::Error for NotFound {}
