//! The closed lists of words in descriptions.

words! {
    /// The word that stands for a symbol: the first that fits, in this order.
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
        /// None of them.
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
    /// What made a class, and so what can be done with it.
    ClassKind {
        /// `defclass`.
        Standard = "standard-class",
        /// `defclass`, for instances that can be called.
        FuncallableStandard = "funcallable-standard-class",
        /// `defstruct`.
        Structure = "structure-class",
        /// `define-condition`.
        Condition = "condition-class",
        /// SBCL itself.
        BuiltIn = "built-in-class",
        /// Another metaclass.
        Other = "class",
    }
}

words! {
    /// What is declaimed of a function's inline expansion.
    Inlining {
        /// It is to be compiled into its callers.
        Inline = "inline",
        /// It is to be called.
        Notinline = "notinline",
    }
}
