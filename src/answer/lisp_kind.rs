//! The kinds of definition of Common Lisp.

use crate::answer::words::words;

words! {
    /// The kind of a definition in Common Lisp: those that `sb-introspect` tells apart, and those that only
    /// the text has.
    LispKind {
        /// A function that is not generic.
        Function = "function",
        /// A generic function.
        GenericFunction = "generic-function",
        /// A method.
        Method = "method",
        /// A macro.
        Macro = "macro",
        /// A special operator.
        SpecialOperator = "special-operator",
        /// A compiler macro.
        CompilerMacro = "compiler-macro",
        /// A function called `(SETF NAME)`, or a setf expander.
        Setf = "setf",
        /// A setf expander.
        SetfExpander = "setf-expander",
        /// A variable.
        Variable = "variable",
        /// A constant.
        Constant = "constant",
        /// A symbol macro.
        SymbolMacro = "symbol-macro",
        /// A class.
        Class = "class",
        /// A structure.
        Structure = "structure",
        /// A condition type.
        Condition = "condition",
        /// A type that `deftype` made.
        Type = "type",
        /// A foreign type.
        AlienType = "alien-type",
        /// A method combination.
        MethodCombination = "method-combination",
        /// A declaration.
        Declaration = "declaration",
        /// A package.
        Package = "package",
        /// The code of a top-level form, which has no name.
        TopLevel = "top-level",
        /// A definition that the image does not tell apart.
        Definition = "definition",
        /// A name that the text gives to a definition that the image does not tell apart.
        Name = "name",
    } or
    /// The macro of the program's own that makes the definition, as the text writes it.
    Definer
}

impl LispKind {
    /// Returns the kind of that name, or a [`LispKind::Definer`] of it.
    pub fn named(name: &str) -> Self {
        use serde::Deserialize;
        use serde::de::value::{Error, StrDeserializer};
        Self::deserialize(StrDeserializer::<Error>::new(name))
            .unwrap_or_else(|_| Self::Definer(name.to_owned()))
    }
}
