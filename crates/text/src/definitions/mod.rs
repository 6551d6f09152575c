//! Finds the definitions in a text. For Lisp, the structural reader supplies the forms, and
//! `definers.table` lists the defining operators of each dialect. For other languages, tree-sitter
//! parses the text, and tag queries (`queries/`) select the definitions. If such a language has no
//! built-in grammar, or if the text is too long or takes too long to parse, no definitions are
//! found. A definition in any language is a [`LispTextDefinition`]: a kind, the range of the name
//! and the range of the form.

use crate::definitions::lisp::{LispTextDefinition, definitions as lisp_definitions};
use crate::language::Language;
use crate::scan::lisp as scan_lisp;

#[cfg(feature = "tree-sitter")]
mod grammars;
pub(crate) mod lisp;
#[cfg(feature = "tree-sitter")]
mod tags;

/// Finds the definitions of `text`, sorted by the start of their names. `stop` is polled while
/// tree-sitter parses and queries the text. If it returns `true`, definitions may be missing.
#[cfg_attr(not(feature = "tree-sitter"), expect(unused_variables))]
pub(crate) fn definitions(
    text: &[u8],
    language: Language,
    stop: &dyn Fn() -> bool,
) -> Vec<LispTextDefinition> {
    if let Some(dialect) = language.dialect() {
        return lisp_definitions(&scan_lisp::read(text, dialect), text);
    }
    #[cfg(feature = "tree-sitter")]
    return tags::definitions(text, language, stop).unwrap_or_default();
    #[cfg(not(feature = "tree-sitter"))]
    Vec::new()
}

/// Returns the set of built-in grammars, one bit each. An index built with a different set is
/// rebuilt.
pub(crate) fn built_in_grammars() -> u32 {
    #[cfg(feature = "tree-sitter")]
    return grammars::built_in();
    #[cfg(not(feature = "tree-sitter"))]
    0
}
