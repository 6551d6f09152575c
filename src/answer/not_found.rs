//! What does not exist.

use std::fmt;

use super::lookup::{Asked, LookupStatus};

/// Something that a request names and that does not exist.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotFound {
    /// A symbol, or the package in which it was looked up.
    Symbol {
        /// What was looked up.
        asked: Asked,
        /// Which of them does not exist.
        status: LookupStatus,
        /// A sentence that says where text that is not loaded has the name; empty if none has it.
        unseen: String,
    },
    /// A package.
    Package(String),
    /// A system whose files are known.
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
                        "Package {package} not found. Load the system that defines it, or name another package."
                    ),
                    LookupStatus::Uninterned => write!(
                        formatter,
                        "Symbol {name} not found in package {package}. No package has an uninterned symbol: name one that is interned."
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
                "The files of the system {system} are not known: it is not loaded, or not the project's."
            ),
            Self::Path(path) => write!(formatter, "Path {path} not found"),
        }
    }
}

impl std::error::Error for NotFound {}
