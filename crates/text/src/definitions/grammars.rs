//! The grammars, and the queries that find definitions: each grammar's own tag query, and what it leaves out.

use crate::kind::DefinitionKind;
use crate::language::Grammar;
use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};
use tree_sitter::{Language, Query};

/// A grammar with its query for definitions.
pub(crate) struct Tagger {
    pub(crate) language: Language,
    pub(crate) query: Query,
    /// The capture that is the name.
    pub(crate) name: u32,
    /// The kind of definition that each capture stands for.
    pub(crate) kinds: Vec<Option<DefinitionKind>>,
}

/// The tagger of a grammar; made once. `None` if the grammar is not built in, or if its query does not fit it, which a
/// test rules out.
pub(crate) fn tagger(grammar: Grammar) -> Option<&'static Tagger> {
    static TAGGERS: LazyLock<HashMap<Grammar, OnceLock<Option<Tagger>>>> =
        LazyLock::new(|| GRAMMARS.iter().map(|&grammar| (grammar, OnceLock::new())).collect());
    TAGGERS.get(&grammar)?.get_or_init(|| make(parts(grammar)?).ok()).as_ref()
}

/// Why a grammar has no tagger.
#[cfg(test)]
pub(crate) fn complaint(grammar: Grammar) -> String {
    parts(grammar).and_then(|parts| make(parts).err()).map(|error| error.to_string()).unwrap_or_default()
}

/// The set of grammars that are built in, a bit each. An index that was made with another set is made anew.
pub(crate) fn built_in() -> u32 {
    GRAMMARS
        .iter()
        .enumerate()
        .filter(|(_, grammar)| parts(**grammar).is_some())
        .map(|(bit, _)| 1 << bit)
        .sum()
}

fn make((language, queries): (Language, Vec<&'static str>)) -> Result<Tagger, tree_sitter::QueryError> {
    let mut query = Query::new(&language, &queries.join("\n"))?;
    let kinds: Vec<_> = query.capture_names().iter().map(|name| kind(name)).collect();
    let name = query.capture_index_for_name("name").unwrap_or(u32::MAX);
    for pattern in 0..query.pattern_count() {
        let quantifiers = query.capture_quantifiers(pattern);
        let defines = kinds.iter().zip(quantifiers).any(|(kind, quantifier)| {
            kind.is_some() && !matches!(quantifier, tree_sitter::CaptureQuantifier::Zero)
        });
        if !defines {
            query.disable_pattern(pattern);
        }
    }
    Ok(Tagger { language, query, name, kinds })
}

fn kind(capture: &str) -> Option<DefinitionKind> {
    let name = capture.strip_prefix("definition.")?;
    Some(match name {
        // Swift's and the older queries call several kinds an interface: the node tells them apart.
        "interface" => DefinitionKind::Interface,
        name => DefinitionKind::named(name).unwrap_or(DefinitionKind::Definition),
    })
}

const GRAMMARS: &[Grammar] = &[
    Grammar::Rust,
    Grammar::TypeScript,
    Grammar::Tsx,
    Grammar::JavaScript,
    Grammar::Python,
    Grammar::Go,
    Grammar::C,
    Grammar::Cpp,
    Grammar::Java,
    Grammar::Ruby,
    Grammar::Php,
    Grammar::CSharp,
    Grammar::Zig,
    Grammar::Kotlin,
    Grammar::Swift,
];

/// A grammar's parser and its queries. `None` if its feature is off.
#[allow(unreachable_code, unreachable_patterns, unused_variables)]
fn parts(grammar: Grammar) -> Option<(Language, Vec<&'static str>)> {
    let parts: (Language, Vec<&'static str>) = match grammar {
        #[cfg(feature = "rust")]
        Grammar::Rust => (tree_sitter_rust::LANGUAGE.into(), vec![tree_sitter_rust::TAGS_QUERY, RUST]),
        #[cfg(feature = "typescript")]
        Grammar::TypeScript => (tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(), typescript()),
        #[cfg(feature = "typescript")]
        Grammar::Tsx => (tree_sitter_typescript::LANGUAGE_TSX.into(), typescript()),
        #[cfg(feature = "javascript")]
        Grammar::JavaScript => (
            tree_sitter_javascript::LANGUAGE.into(),
            vec![tree_sitter_javascript::TAGS_QUERY, SCRIPT_VARIABLES, JAVASCRIPT],
        ),
        #[cfg(feature = "python")]
        Grammar::Python => (tree_sitter_python::LANGUAGE.into(), vec![tree_sitter_python::TAGS_QUERY]),
        #[cfg(feature = "go")]
        Grammar::Go => (tree_sitter_go::LANGUAGE.into(), vec![tree_sitter_go::TAGS_QUERY, GO]),
        #[cfg(feature = "c")]
        Grammar::C => (tree_sitter_c::LANGUAGE.into(), vec![tree_sitter_c::TAGS_QUERY, C]),
        #[cfg(feature = "cpp")]
        Grammar::Cpp => (tree_sitter_cpp::LANGUAGE.into(), vec![tree_sitter_cpp::TAGS_QUERY, C, CPP]),
        #[cfg(feature = "java")]
        Grammar::Java => (tree_sitter_java::LANGUAGE.into(), vec![tree_sitter_java::TAGS_QUERY, JAVA]),
        #[cfg(feature = "ruby")]
        Grammar::Ruby => (tree_sitter_ruby::LANGUAGE.into(), vec![tree_sitter_ruby::TAGS_QUERY, RUBY]),
        #[cfg(feature = "php")]
        Grammar::Php => (tree_sitter_php::LANGUAGE_PHP.into(), vec![tree_sitter_php::TAGS_QUERY, PHP]),
        #[cfg(feature = "c-sharp")]
        Grammar::CSharp => {
            (tree_sitter_c_sharp::LANGUAGE.into(), vec![tree_sitter_c_sharp::TAGS_QUERY, CSHARP])
        }
        #[cfg(feature = "zig")]
        Grammar::Zig => (tree_sitter_zig::LANGUAGE.into(), vec![ZIG]),
        #[cfg(feature = "kotlin")]
        Grammar::Kotlin => (tree_sitter_kotlin_ng::LANGUAGE.into(), vec![KOTLIN]),
        #[cfg(feature = "swift")]
        Grammar::Swift => (tree_sitter_swift::LANGUAGE.into(), vec![tree_sitter_swift::TAGS_QUERY, SWIFT]),
        _ => return None,
    };
    Some(parts)
}

/// TypeScript's tag query continues JavaScript's.
#[cfg(feature = "typescript")]
fn typescript() -> Vec<&'static str> {
    vec![tree_sitter_javascript::TAGS_QUERY, tree_sitter_typescript::TAGS_QUERY, SCRIPT_VARIABLES, TYPESCRIPT]
}

#[cfg(feature = "rust")]
const RUST: &str = "
(const_item name: (identifier) @name) @definition.constant
(static_item name: (identifier) @name) @definition.variable
(function_signature_item name: (identifier) @name) @definition.method
(enum_variant name: (identifier) @name) @definition.variant
(field_declaration name: (field_identifier) @name) @definition.field
(associated_type name: (type_identifier) @name) @definition.type
";

#[cfg(feature = "javascript")]
const SCRIPT_VARIABLES: &str = "
(program (lexical_declaration (variable_declarator name: (identifier) @name)) @definition.variable)
(program (variable_declaration (variable_declarator name: (identifier) @name)) @definition.variable)
(export_statement (lexical_declaration (variable_declarator name: (identifier) @name)) @definition.variable)
";

#[cfg(feature = "javascript")]
const JAVASCRIPT: &str = "
(field_definition property: (property_identifier) @name) @definition.field
";

#[cfg(feature = "typescript")]
const TYPESCRIPT: &str = "
(enum_declaration name: (identifier) @name) @definition.enum
(type_alias_declaration name: (type_identifier) @name) @definition.type
(public_field_definition name: (property_identifier) @name) @definition.field
(property_signature name: (property_identifier) @name) @definition.property
(internal_module name: (identifier) @name) @definition.namespace
";

#[cfg(feature = "go")]
const GO: &str = "
(source_file (const_declaration (const_spec name: (identifier) @name) @definition.constant))
(source_file (var_declaration (var_spec name: (identifier) @name) @definition.variable))
(source_file (var_declaration (var_spec_list (var_spec name: (identifier) @name) @definition.variable)))
(field_declaration name: (field_identifier) @name) @definition.field
";

#[cfg(any(feature = "c", feature = "cpp"))]
const C: &str = "
(union_specifier name: (type_identifier) @name body: (_)) @definition.union
(preproc_def name: (identifier) @name) @definition.macro
(preproc_function_def name: (identifier) @name) @definition.macro
(enumerator name: (identifier) @name) @definition.variant
(field_declaration declarator: (field_identifier) @name) @definition.field
(translation_unit (declaration declarator: (init_declarator declarator: (identifier) @name)) @definition.variable)
";

#[cfg(feature = "cpp")]
const CPP: &str = "
(namespace_definition name: (namespace_identifier) @name) @definition.namespace
(alias_declaration name: (type_identifier) @name) @definition.type
(function_declarator declarator: (qualified_identifier name: (qualified_identifier name: (identifier) @name))) @definition.method
";

#[cfg(feature = "java")]
const JAVA: &str = "
(enum_declaration name: (identifier) @name) @definition.enum
(record_declaration name: (identifier) @name) @definition.struct
(annotation_type_declaration name: (identifier) @name) @definition.interface
(constructor_declaration name: (identifier) @name) @definition.constructor
(field_declaration declarator: (variable_declarator name: (identifier) @name)) @definition.field
(enum_constant name: (identifier) @name) @definition.variant
";

#[cfg(feature = "ruby")]
const RUBY: &str = "
(assignment left: (constant) @name) @definition.constant
";

#[cfg(feature = "php")]
const PHP: &str = "
(const_declaration (const_element (name) @name)) @definition.constant
(enum_declaration name: (name) @name) @definition.enum
(enum_case name: (name) @name) @definition.variant
(namespace_definition name: (namespace_name (name) @name)) @definition.namespace
";

#[cfg(feature = "c-sharp")]
const CSHARP: &str = "
(namespace_declaration name: (identifier) @name) @definition.namespace
(struct_declaration name: (identifier) @name) @definition.struct
(record_declaration name: (identifier) @name) @definition.struct
(enum_declaration name: (identifier) @name) @definition.enum
(enum_member_declaration name: (identifier) @name) @definition.variant
(delegate_declaration name: (identifier) @name) @definition.type
(property_declaration name: (identifier) @name) @definition.property
(constructor_declaration name: (identifier) @name) @definition.constructor
(field_declaration (variable_declaration (variable_declarator name: (identifier) @name))) @definition.field
";

#[cfg(feature = "zig")]
const ZIG: &str = "
(function_declaration name: (identifier) @name) @definition.function
(source_file (variable_declaration . (identifier) @name) @definition.variable)
(struct_declaration (variable_declaration . (identifier) @name) @definition.variable)
(container_field name: (identifier) @name) @definition.field
";

#[cfg(feature = "kotlin")]
const KOTLIN: &str = "
(class_declaration name: (identifier) @name) @definition.class
(object_declaration name: (identifier) @name) @definition.object
(function_declaration name: (identifier) @name) @definition.function
(type_alias type: (identifier) @name) @definition.type
(enum_entry (identifier) @name) @definition.variant
(source_file (property_declaration (variable_declaration (identifier) @name)) @definition.property)
(class_body (property_declaration (variable_declaration (identifier) @name)) @definition.property)
";

#[cfg(feature = "swift")]
const SWIFT: &str = "
(enum_entry name: (simple_identifier) @name) @definition.variant
(typealias_declaration name: (type_identifier) @name) @definition.type
";
