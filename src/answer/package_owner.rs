//! Whose a package is.

/// The owner of a package, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PackageOwner {
    /// The user's, in the project or its libraries. COMMON-LISP-USER is, too: it holds what users define.
    User,
    /// The standard's.
    Standard,
    /// SBCL's, with its contribs; and keywords.
    Sbcl,
    /// ASDF's and UIOP's, which come with SBCL and are not locked.
    Asdf,
    /// Of this program's Lisp half.
    Steelbank,
}

impl PackageOwner {
    /// Returns the owner of the package called `name`.
    pub(crate) fn of(name: &str) -> Self {
        match name {
            "COMMON-LISP" => Self::Standard,
            "KEYWORD" | "SEQUENCE" => Self::Sbcl,
            "ASDF" | "UIOP" => Self::Asdf,
            "STEELBANK" | "STEELBANK-NOTHING" => Self::Steelbank,
            name if name.starts_with("SB-") => Self::Sbcl,
            name if name.starts_with("ASDF/") || name.starts_with("UIOP/") => Self::Asdf,
            _ => Self::User,
        }
    }

    /// Whether packages are locked, so that nobody else defines anything in them.
    pub(crate) fn is_locked(self) -> bool {
        matches!(self, Self::Standard | Self::Sbcl)
    }
}
