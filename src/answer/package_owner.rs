//! Classifies packages by who defines them: the user, the standard, SBCL, ASDF or steelbank.

/// The owner of a package, determined by the package's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PackageOwner {
    /// The user: the project, its libraries, and COMMON-LISP-USER.
    User,
    /// The Common Lisp standard.
    Standard,
    /// SBCL with its contribs, and the packages KEYWORD and SEQUENCE.
    Sbcl,
    /// ASDF and UIOP, which come with SBCL and are not locked.
    Asdf,
    /// The Lisp half of this program.
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

    /// Returns whether this owner's packages are locked, so that no other code defines anything in
    /// them.
    pub(crate) fn is_locked(self) -> bool {
        matches!(self, Self::Standard | Self::Sbcl)
    }
}
