//! Definitions in a text: from the grammars' own tag queries, and for Lisp from the structural reader.

use crate::definitions::lisp::{LispTextDefinition, definitions as lisp_definitions};
use crate::language::Language;
use crate::scan::lisp as scan_lisp;

#[cfg(feature = "tree-sitter")]
mod grammars;
pub(crate) mod lisp;
#[cfg(feature = "tree-sitter")]
mod tags;

/// Finds the definitions of `text`, by the place of their names. `stop` is asked now and then whether to give up.
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

/// The set of grammars that are built in, a bit each. An index that was made with another set is made anew.
pub(crate) fn built_in_grammars() -> u32 {
    #[cfg(feature = "tree-sitter")]
    return grammars::built_in();
    #[cfg(not(feature = "tree-sitter"))]
    0
}
