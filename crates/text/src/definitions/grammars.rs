//! The tree-sitter grammars and the queries that find definitions. Most grammars come with a tag
//! query. Queries in `queries/` extend it, or take its place for a grammar without one.

use crate::kind::DefinitionKind;
use crate::language::Language;
use std::sync::{LazyLock, OnceLock};
use tree_sitter::Query;

/// A grammar and its query for definitions.
pub(crate) struct Tagger {
    pub(crate) language: tree_sitter::Language,
    pub(crate) query: Query,
    /// The index of the capture for the name.
    pub(crate) name: u32,
    /// For each capture, by index, the kind of definition; `None` if the capture does not mark a
    /// definition.
    pub(crate) kinds: Vec<Option<DefinitionKind>>,
}

/// Returns the tagger of a language, compiled once. `None` if its grammar is not built in, or if
/// its query does not compile; a test checks that every query compiles.
pub(crate) fn tagger(language: Language) -> Option<&'static Tagger> {
    static TAGGERS: LazyLock<Vec<OnceLock<Option<Tagger>>>> =
        LazyLock::new(|| Language::all().map(|_| OnceLock::new()).collect());
    TAGGERS.get(usize::from(language.index()))?.get_or_init(|| compile(parts(language)?).ok()).as_ref()
}

/// Returns the error of a language's query, if it does not compile.
#[cfg(test)]
pub(crate) fn query_error(language: Language) -> Option<String> {
    compile(parts(language)?).err().map(|error| error.to_string())
}

/// Returns the set of languages with built-in grammars, one bit each. An index built with a
/// different set is rebuilt.
pub(crate) fn built_in() -> u32 {
    Language::all().filter(|language| parts(*language).is_some()).map(|language| 1 << language.index()).sum()
}

fn compile((language, queries): Parts) -> Result<Tagger, tree_sitter::QueryError> {
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
        // Rust's and Swift's tag queries also use this capture for traits and protocols; `refine`
        // distinguishes them by node.
        "interface" => DefinitionKind::Interface,
        name => DefinitionKind::named(name).unwrap_or(DefinitionKind::Definition),
    })
}

/// Includes a query from `queries/`.
macro_rules! query {
    ($name:literal) => {
        include_str!(concat!("queries/", $name, ".scm"))
    };
}

type Parts = (tree_sitter::Language, Vec<&'static str>);

/// Returns a language's grammar and its queries. `None` if its feature is disabled.
#[allow(unreachable_code, unused_variables)]
fn parts(language: Language) -> Option<Parts> {
    Some(match language.name() {
        #[cfg(feature = "rust")]
        "rust" => (tree_sitter_rust::LANGUAGE.into(), vec![tree_sitter_rust::TAGS_QUERY, query!("rust")]),
        #[cfg(feature = "typescript")]
        "typescript" => (tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into(), typescript()),
        #[cfg(feature = "typescript")]
        "tsx" => (tree_sitter_typescript::LANGUAGE_TSX.into(), typescript()),
        #[cfg(feature = "javascript")]
        "javascript" => (
            tree_sitter_javascript::LANGUAGE.into(),
            vec![tree_sitter_javascript::TAGS_QUERY, query!("script-variables"), query!("javascript")],
        ),
        #[cfg(feature = "python")]
        "python" => (tree_sitter_python::LANGUAGE.into(), vec![tree_sitter_python::TAGS_QUERY]),
        #[cfg(feature = "go")]
        "go" => (tree_sitter_go::LANGUAGE.into(), vec![tree_sitter_go::TAGS_QUERY, query!("go")]),
        #[cfg(feature = "c")]
        "c" => (tree_sitter_c::LANGUAGE.into(), vec![tree_sitter_c::TAGS_QUERY, query!("c")]),
        #[cfg(feature = "cpp")]
        "cpp" => {
            (tree_sitter_cpp::LANGUAGE.into(), vec![tree_sitter_cpp::TAGS_QUERY, query!("c"), query!("cpp")])
        }
        #[cfg(feature = "java")]
        "java" => (tree_sitter_java::LANGUAGE.into(), vec![tree_sitter_java::TAGS_QUERY, query!("java")]),
        #[cfg(feature = "ruby")]
        "ruby" => (tree_sitter_ruby::LANGUAGE.into(), vec![tree_sitter_ruby::TAGS_QUERY, query!("ruby")]),
        #[cfg(feature = "php")]
        "php" => (tree_sitter_php::LANGUAGE_PHP.into(), vec![tree_sitter_php::TAGS_QUERY, query!("php")]),
        #[cfg(feature = "c-sharp")]
        "csharp" => {
            (tree_sitter_c_sharp::LANGUAGE.into(), vec![tree_sitter_c_sharp::TAGS_QUERY, query!("csharp")])
        }
        #[cfg(feature = "zig")]
        "zig" => (tree_sitter_zig::LANGUAGE.into(), vec![query!("zig")]),
        #[cfg(feature = "kotlin")]
        "kotlin" => (tree_sitter_kotlin_ng::LANGUAGE.into(), vec![query!("kotlin")]),
        #[cfg(feature = "swift")]
        "swift" => (tree_sitter_swift::LANGUAGE.into(), vec![tree_sitter_swift::TAGS_QUERY, query!("swift")]),
        _ => return None,
    })
}

/// TypeScript's tag query extends JavaScript's.
#[cfg(feature = "typescript")]
fn typescript() -> Vec<&'static str> {
    let tags = [tree_sitter_javascript::TAGS_QUERY, tree_sitter_typescript::TAGS_QUERY];
    [tags, [query!("script-variables"), query!("typescript")]].concat()
}
