//! The enumerations shared with Lisp: kinds of record, roles of used names, and kinds of function.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of record: how a function uses a name. In the order of `*xref-kinds*` in
/// `lisp/index/xref.lisp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Calls the function, or references it by `#'`.
    Calls,
    /// Expands the macro.
    Macroexpands,
    /// Binds the special variable.
    Binds,
    /// Reads the special variable or constant.
    References,
    /// Writes the special variable.
    Sets,
    /// Is a method that specializes on the class, or on an instance of it.
    Specializes,
}

impl Kind {
    /// All kinds, in order.
    pub const ALL: [Self; 6] =
        [Self::Calls, Self::Macroexpands, Self::Binds, Self::References, Self::Sets, Self::Specializes];
}

/// The role of the principal symbol in a used name. In the order of `*name-roles*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum NameRole {
    /// The symbol itself.
    Plain,
    /// `(SETF F)`.
    Setf,
    /// `(CAS F)`.
    Cas,
    /// `(COMPILER-MACRO F)`.
    CompilerMacro,
    /// `(METHOD F ...)`.
    Method,
    /// A reader or writer for slots with this name, generated for `SLOT-VALUE`.
    SlotAccessor,
    /// Anything else.
    Other,
}

impl NameRole {
    /// All roles, in order.
    pub const ALL: [Self; 7] = [
        Self::Plain,
        Self::Setf,
        Self::Cas,
        Self::CompilerMacro,
        Self::Method,
        Self::SlotAccessor,
        Self::Other,
    ];

    pub(super) fn from_number(number: u32) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or(Self::Other)
    }

    /// Returns whether a name with this role denotes a function of its principal symbol F: `F`,
    /// `(SETF F)`, a compiler macro or a method of F, for example. An accessor for slots named F
    /// does not count.
    pub fn denotes_function(self) -> bool {
        !matches!(self, Self::SlotAccessor | Self::Other)
    }
}

/// The kinds of function. In the order of `*function-kinds*`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum FunctionKind {
    /// A global function.
    Function,
    /// A function named `(SETF F)`.
    Setf,
    /// A macro.
    Macro,
    /// A compiler macro.
    CompilerMacro,
    /// A method.
    Method,
    /// A function defined by `FLET` or `LABELS`.
    Local,
    /// A function without a name.
    Lambda,
    /// An expander defined by `DEFSETF` or `DEFINE-SETF-EXPANDER`.
    SetfExpander,
    /// An expander defined by `DEFTYPE`.
    Type,
    /// A transform of the compiler.
    Transform,
    /// A virtual operation of the compiler.
    Vop,
    /// Anything else.
    Other,
}

impl FunctionKind {
    /// All kinds, in order.
    pub const ALL: [Self; 12] = [
        Self::Function,
        Self::Setf,
        Self::Macro,
        Self::CompilerMacro,
        Self::Method,
        Self::Local,
        Self::Lambda,
        Self::SetfExpander,
        Self::Type,
        Self::Transform,
        Self::Vop,
        Self::Other,
    ];

    pub(super) fn from_number(number: u32) -> Self {
        Self::ALL.get(number as usize).copied().unwrap_or(Self::Other)
    }
}
