//! Enums of the words in descriptions of symbols.

use crate::answer::words::words;

words! {
    /// The classification of a symbol: the first of these words that fits.
    Classification {
        /// It names a macro.
        Macro = "MACRO",
        /// It names a generic function.
        GenericFunction = "GENERIC-FUNCTION",
        /// It names another function, or a special operator.
        Function = "FUNCTION",
        /// It names a class.
        Class = "CLASS",
        /// It has a value.
        Variable = "VARIABLE",
        /// It names none of these.
        Symbol = "SYMBOL",
    }
}

words! {
    /// What an operator is.
    OperatorKind {
        /// A function that is not generic.
        Function = "function",
        /// A generic function.
        GenericFunction = "generic-function",
        /// A macro.
        Macro = "macro",
        /// A special operator.
        SpecialOperator = "special-operator",
    }
}

words! {
    /// What a variable is.
    VariableKind {
        /// A special variable.
        Special = "special",
        /// A constant.
        Constant = "constant",
        /// A variable that cannot be bound.
        Global = "global",
        /// A symbol macro.
        SymbolMacro = "symbol-macro",
        /// A foreign variable.
        Alien = "alien",
        /// It has a value, and nothing declares it.
        Undeclared = "undeclared",
    }
}

words! {
    /// How a class was defined, which decides what can be done with it.
    ClassKind {
        /// `defclass`.
        Standard = "standard-class",
        /// `defclass`, for instances that can be called.
        FuncallableStandard = "funcallable-standard-class",
        /// `defstruct`.
        Structure = "structure-class",
        /// `define-condition`.
        Condition = "condition-class",
        /// By SBCL itself.
        BuiltIn = "built-in-class",
        /// By another metaclass.
        Other = "class",
    }
}

words! {
    /// The inlining that is declaimed for a function.
    Inlining {
        /// It is to be compiled into its callers.
        Inline = "inline",
        /// It is to be called.
        Notinline = "notinline",
    }
}
