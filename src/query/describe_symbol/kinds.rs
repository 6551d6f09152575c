//! The closed lists of words in descriptions.

use serde::{Deserialize, Serialize};

/// The word that stands for a symbol: the first that fits, in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING-KEBAB-CASE")]
#[non_exhaustive]
pub enum Classification {
    /// It names a macro.
    Macro,
    /// It names a generic function.
    GenericFunction,
    /// It names another function, or a special operator.
    Function,
    /// It names a class.
    Class,
    /// It has a value.
    Variable,
    /// None of them.
    Symbol,
}

impl Classification {
    /// The name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Macro => "MACRO",
            Self::GenericFunction => "GENERIC-FUNCTION",
            Self::Function => "FUNCTION",
            Self::Class => "CLASS",
            Self::Variable => "VARIABLE",
            Self::Symbol => "SYMBOL",
        }
    }
}

/// What an operator is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum OperatorKind {
    /// A function that is not generic.
    Function,
    /// A generic function.
    GenericFunction,
    /// A macro.
    Macro,
    /// A special operator.
    SpecialOperator,
}

impl OperatorKind {
    /// The name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Function => "function",
            Self::GenericFunction => "generic-function",
            Self::Macro => "macro",
            Self::SpecialOperator => "special-operator",
        }
    }
}

/// What a variable is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum VariableKind {
    /// A special variable.
    Special,
    /// A constant.
    Constant,
    /// A variable that cannot be bound.
    Global,
    /// A symbol macro.
    SymbolMacro,
    /// A foreign variable.
    Alien,
    /// It has a value, and nothing declares it.
    Undeclared,
}

impl VariableKind {
    /// The name, as in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Self::Special => "special",
            Self::Constant => "constant",
            Self::Global => "global",
            Self::SymbolMacro => "symbol-macro",
            Self::Alien => "alien",
            Self::Undeclared => "undeclared",
        }
    }
}
