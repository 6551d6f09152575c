//! The kinds of Common Lisp definitions.

use crate::answer::words::words;

words! {
    /// The kind of a Common Lisp definition: the kinds that `sb-introspect` distinguishes, and
    /// kinds that can only be read from source text.
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
        /// A function named `(SETF NAME)`, or a setf expander.
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
        /// A type defined by `deftype`.
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
        /// A definition of a kind that cannot be determined from the image.
        Definition = "definition",
        /// A name that the source text defines with an unknown operator.
        Name = "name",
    } or
    /// Any other kind: the name of the project's defining macro, as written in the source.
    Definer
}

impl LispKind {
    /// Returns the kind called `name`. For any other name, returns a [`LispKind::Definer`].
    pub fn from_name(name: &str) -> Self {
        use serde::Deserialize;
        use serde::de::value::{Error, StrDeserializer};
        Self::deserialize(StrDeserializer::<Error>::new(name))
            .unwrap_or_else(|_| Self::Definer(name.to_owned()))
    }
}
