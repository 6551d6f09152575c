//! Enums for the kinds and classifications in descriptions of symbols.

use crate::answer::words::words;

words! {
    /// The classification of a symbol: the first of these that applies.
    Classification {
        /// A macro.
        Macro = "MACRO",
        /// A generic function.
        GenericFunction = "GENERIC-FUNCTION",
        /// Another function, or a special operator.
        Function = "FUNCTION",
        /// A class.
        Class = "CLASS",
        /// A variable with a value.
        Variable = "VARIABLE",
        /// Any other symbol.
        Symbol = "SYMBOL",
    }
}

words! {
    /// The kind of an operator.
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
    /// The kind of a variable.
    VariableKind {
        /// A special variable.
        Special = "special",
        /// A constant.
        Constant = "constant",
        /// A variable that cannot be rebound.
        Global = "global",
        /// A symbol macro.
        SymbolMacro = "symbol-macro",
        /// A foreign variable.
        Alien = "alien",
        /// A variable that has a value but no declaration.
        Undeclared = "undeclared",
    }
}

words! {
    /// How a class was defined.
    ClassKind {
        /// `defclass`.
        Standard = "standard-class",
        /// `defclass` with a metaclass of funcallable instances.
        FuncallableStandard = "funcallable-standard-class",
        /// `defstruct`.
        Structure = "structure-class",
        /// `define-condition`.
        Condition = "condition-class",
        /// Built into SBCL.
        BuiltIn = "built-in-class",
        /// With another metaclass.
        Other = "class",
    }
}

words! {
    /// The inlining that is declaimed for a function.
    Inlining {
        /// Calls are inlined.
        Inline = "inline",
        /// Calls are not inlined.
        Notinline = "notinline",
    }
}
