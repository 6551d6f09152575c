//! The kinds of definition, in any language.

/// What a definition defines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Kind(u8);

/// Names, and what else they answer to. The order is part of the text index's format.
const KINDS: &[(&str, &[&str])] = &[
    ("definition", &["other"]),
    ("function", &["fn", "func", "def", "defun"]),
    ("generic-function", &["generic", "multimethod"]),
    ("method", &[]),
    ("constructor", &[]),
    ("macro", &["defmacro"]),
    ("compiler-macro", &[]),
    ("symbol-macro", &[]),
    ("setf", &["setf-expander"]),
    ("class", &[]),
    ("struct", &["structure", "record", "data"]),
    ("enum", &[]),
    ("variant", &["enumerator"]),
    ("union", &[]),
    ("interface", &[]),
    ("trait", &[]),
    ("protocol", &[]),
    ("object", &[]),
    ("condition", &[]),
    ("type", &["typedef", "alias", "typealias"]),
    ("module", &["mod"]),
    ("namespace", &["ns"]),
    ("package", &[]),
    ("system", &[]),
    ("constant", &["const"]),
    ("variable", &["var", "parameter", "static", "let"]),
    ("field", &["member", "slot"]),
    ("property", &[]),
    ("accessor", &[]),
    ("method-combination", &[]),
    ("test", &[]),
];

macro_rules! kinds {
    ($($constant:ident = $name:literal),* $(,)?) => {
        #[allow(missing_docs, reason = "each is the kind of its name")]
        impl Kind {
            $(pub const $constant: Kind = Kind::known($name);)*
        }
    };
}

kinds! {
    DEFINITION = "definition", FUNCTION = "function", GENERIC_FUNCTION = "generic-function", METHOD = "method",
    CONSTRUCTOR = "constructor", MACRO = "macro", COMPILER_MACRO = "compiler-macro", SYMBOL_MACRO = "symbol-macro",
    SETF = "setf", CLASS = "class", STRUCT = "struct", ENUM = "enum", VARIANT = "variant", UNION = "union",
    INTERFACE = "interface", TRAIT = "trait", PROTOCOL = "protocol", OBJECT = "object", CONDITION = "condition",
    TYPE = "type", MODULE = "module", NAMESPACE = "namespace", PACKAGE = "package", SYSTEM = "system",
    CONSTANT = "constant", VARIABLE = "variable", FIELD = "field", PROPERTY = "property", ACCESSOR = "accessor",
    METHOD_COMBINATION = "method-combination", TEST = "test",
}

impl Kind {
    const fn known(name: &str) -> Kind {
        let mut index = 0;
        while index < KINDS.len() {
            let (left, right) = (KINDS[index].0.as_bytes(), name.as_bytes());
            let mut at = 0;
            while at < left.len() && at < right.len() && left[at] == right[at] {
                at += 1;
            }
            if at == left.len() && at == right.len() {
                return Kind(index as u8);
            }
            index += 1;
        }
        Kind(0)
    }

    /// All of them.
    pub fn all() -> impl Iterator<Item = Kind> {
        (0..KINDS.len() as u8).map(Kind)
    }

    /// The kind with this name, or other name, in any case.
    pub fn named(name: &str) -> Option<Kind> {
        let name = name.trim().to_lowercase().replace('_', "-");
        Kind::all().find(|kind| {
            let (main, others) = KINDS[usize::from(kind.0)];
            main == name || others.contains(&name.as_str())
        })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        KINDS[usize::from(self.0).min(KINDS.len() - 1)].0
    }

    pub(crate) fn index(self) -> u8 {
        self.0
    }

    pub(crate) fn from_index(index: u8) -> Option<Kind> {
        (usize::from(index) < KINDS.len()).then_some(Kind(index))
    }

    /// Whether a definition of this kind is one for who asks for `wanted`: a method or a generic function is a
    /// function too, and the types that classes are called in some language are classes.
    pub fn answers(self, wanted: Kind) -> bool {
        self == wanted
            || match wanted {
                Kind::FUNCTION => matches!(self, Kind::METHOD | Kind::GENERIC_FUNCTION | Kind::CONSTRUCTOR),
                Kind::METHOD => self == Kind::CONSTRUCTOR,
                Kind::CLASS => self == Kind::CONDITION,
                Kind::INTERFACE => self == Kind::PROTOCOL,
                Kind::FIELD => self == Kind::PROPERTY,
                Kind::PROPERTY => self == Kind::FIELD,
                Kind::TYPE => {
                    matches!(
                        self,
                        Kind::CLASS | Kind::STRUCT | Kind::ENUM | Kind::UNION | Kind::INTERFACE | Kind::TRAIT
                    )
                }
                _ => false,
            }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_leads_to_its_kind() {
        for kind in Kind::all() {
            assert_eq!(Kind::named(kind.name()), Some(kind));
            assert_eq!(Kind::from_index(kind.index()), Some(kind));
        }
        assert_eq!(Kind::named("FN"), Some(Kind::FUNCTION));
        assert_eq!(Kind::named("gadget"), None);
        assert_eq!(Kind::TEST.name(), "test");
        assert!(Kind::METHOD.answers(Kind::FUNCTION) && !Kind::FUNCTION.answers(Kind::METHOD));
    }
}
