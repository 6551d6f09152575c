//! The closed lists that Lisp and Rust share: kinds of record, of used name, and of function.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The kinds of record: what a function does with a name. In the order of `*xref-kinds*` in `lisp/index/xref.lisp`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Calls the function, or refers to it by `#'`.
    Calls,
    /// Is expanded from the macro.
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
    /// Every kind, in order.
    pub const ALL: [Self; 6] =
        [Self::Calls, Self::Macroexpands, Self::Binds, Self::References, Self::Sets, Self::Specializes];
}

/// The role of a symbol in a used name that is filed under it. In the order of `*name-roles*`.
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
    /// A reader or writer of a slot called so, made by `SLOT-VALUE`.
    SlotAccessor,
    /// Anything else.
    Other,
}

impl NameRole {
    /// Every one, in order.
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

    /// True unless the name merely has the symbol in it: a slot called F is not the function F.
    pub fn denotes_function(self) -> bool {
        !matches!(self, Self::SlotAccessor | Self::Other)
    }
}

/// What a function is, by its name. In the order of `*function-kinds*`.
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
    /// A function made by `FLET` or `LABELS`.
    Local,
    /// A function without a name.
    Lambda,
    /// What `DEFSETF` or `DEFINE-SETF-EXPANDER` made.
    SetfExpander,
    /// What `DEFTYPE` made.
    Type,
    /// One of the compiler's own transforms.
    Transform,
    /// One of the compiler's own virtual operations.
    Vop,
    /// Anything else.
    Other,
}

impl FunctionKind {
    /// Every one, in order.
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
