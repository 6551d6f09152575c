//! The kinds of definition, in any language.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator};
use serde::{Serialize, Serializer};

macro_rules! kinds {
    ($($(#[$documentation:meta])* $kind:ident = $name:literal or [$($other:literal),*],)*) => {
        /// The kind of a definition, in any language. Serialized as its name.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum DefinitionKind {
            $($(#[$documentation])* $kind,)*
        }

        const ALL: &[DefinitionKind] = &[$(DefinitionKind::$kind),*];

        /// The name of each kind, and its aliases.
        const NAMES: &[(&str, &[&str])] = &[$(($name, &[$($other),*])),*];
    };
}

// The order is part of the text index's format.
kinds! {
    /// Any other definition, or a definition of unknown kind.
    Definition = "definition" or ["other"],
    /// A function.
    Function = "function" or ["fn", "func", "def", "defun"],
    /// A generic function, or a multimethod.
    GenericFunction = "generic-function" or ["generic", "multimethod"],
    /// A method.
    Method = "method" or [],
    /// A constructor.
    Constructor = "constructor" or [],
    /// A macro.
    Macro = "macro" or ["defmacro"],
    /// A compiler macro.
    CompilerMacro = "compiler-macro" or [],
    /// A symbol macro.
    SymbolMacro = "symbol-macro" or [],
    /// A setf expander.
    Setf = "setf" or ["setf-expander"],
    /// A class.
    Class = "class" or [],
    /// A structure or record.
    Struct = "struct" or ["structure", "record", "data"],
    /// An enumeration.
    Enum = "enum" or [],
    /// A case of an enumeration.
    Variant = "variant" or ["enumerator"],
    /// A union.
    Union = "union" or [],
    /// An interface.
    Interface = "interface" or [],
    /// A trait.
    Trait = "trait" or [],
    /// A protocol.
    Protocol = "protocol" or [],
    /// A singleton object, as in Kotlin.
    Object = "object" or [],
    /// A condition type.
    Condition = "condition" or [],
    /// A type, or a type alias.
    Type = "type" or ["typedef", "alias", "typealias"],
    /// A module.
    Module = "module" or ["mod"],
    /// A namespace.
    Namespace = "namespace" or ["ns"],
    /// A package.
    Package = "package" or [],
    /// An ASDF system.
    System = "system" or [],
    /// A constant.
    Constant = "constant" or ["const"],
    /// A variable.
    Variable = "variable" or ["var", "parameter", "static", "let"],
    /// A field, member or slot.
    Field = "field" or ["member", "slot"],
    /// A property.
    Property = "property" or [],
    /// An accessor of a slot.
    Accessor = "accessor" or [],
    /// A method combination.
    MethodCombination = "method-combination" or [],
    /// A test.
    Test = "test" or [],
}

impl DefinitionKind {
    /// Returns all kinds.
    pub fn all() -> impl Iterator<Item = DefinitionKind> {
        ALL.iter().copied()
    }

    /// Returns the kind with this name or alias, ignoring case and surrounding whitespace. `_`
    /// counts as `-`.
    pub fn named(name: &str) -> Option<DefinitionKind> {
        let name = name.trim().to_lowercase().replace('_', "-");
        DefinitionKind::all().find(|kind| {
            let (main, others) = NAMES[usize::from(kind.index())];
            main == name || others.contains(&name.as_str())
        })
    }

    /// Returns the name of the kind.
    pub fn name(self) -> &'static str {
        NAMES[usize::from(self.index())].0
    }

    pub(crate) fn index(self) -> u8 {
        self as u8
    }

    pub(crate) fn from_index(index: u8) -> Option<DefinitionKind> {
        ALL.get(usize::from(index)).copied()
    }

    /// Returns whether a query for `wanted` finds definitions of this kind. For example, a query
    /// for functions also finds methods, and a query for types also finds classes and structures.
    pub fn answers(self, wanted: DefinitionKind) -> bool {
        self == wanted
            || match wanted {
                DefinitionKind::Function => matches!(
                    self,
                    DefinitionKind::Method | DefinitionKind::GenericFunction | DefinitionKind::Constructor
                ),
                DefinitionKind::Method => self == DefinitionKind::Constructor,
                DefinitionKind::Class => self == DefinitionKind::Condition,
                DefinitionKind::Interface => self == DefinitionKind::Protocol,
                DefinitionKind::Field => self == DefinitionKind::Property,
                DefinitionKind::Property => self == DefinitionKind::Field,
                DefinitionKind::Type => {
                    matches!(
                        self,
                        DefinitionKind::Class
                            | DefinitionKind::Struct
                            | DefinitionKind::Enum
                            | DefinitionKind::Union
                            | DefinitionKind::Interface
                            | DefinitionKind::Trait
                    )
                }
                _ => false,
            }
    }
}

impl fmt::Display for DefinitionKind {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.pad(self.name())
    }
}

impl Serialize for DefinitionKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl JsonSchema for DefinitionKind {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "DefinitionKind".into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        String::json_schema(generator)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_kind() {
        for kind in DefinitionKind::all() {
            assert_eq!(DefinitionKind::named(kind.name()), Some(kind));
            assert_eq!(DefinitionKind::from_index(kind.index()), Some(kind));
        }
        assert_eq!(DefinitionKind::named("FN"), Some(DefinitionKind::Function));
        assert_eq!(DefinitionKind::named("gadget"), None);
        assert_eq!(DefinitionKind::Test.name(), "test");
        assert!(
            DefinitionKind::Method.answers(DefinitionKind::Function)
                && !DefinitionKind::Function.answers(DefinitionKind::Method)
        );
    }
}
