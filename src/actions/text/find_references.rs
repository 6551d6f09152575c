//! Implements find_references, which lists the definitions of a name and every occurrence of it as
//! text, in any source tree.
//!
//! It reads only text: it needs no image, works on trees that are not loaded, and runs nothing.

pub(crate) mod tool;

use crate::answer::{LispName, Location, counted};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::Path;
use steelbank_reader::lines::LineColumn;
use steelbank_text::{
    BadGlob, DefinitionKind, DefinitionMatch, Globs, IndexControl, Language, Pattern, SearchAnswer,
    TextError, TextIndex, TextMatch, TextRole, TextSearch,
};

/// The default number of references on a page.
pub const DEFAULT_LIMIT: u64 = 100;
/// A query with more references than this is too broad, unless it has `force`.
pub const BROAD: u64 = 5_000;
/// A pattern with fewer characters than this is too broad as well, unless the query has `force`.
pub const SHORT: usize = 3;

/// A request for the references to a name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindReferencesRequest {
    /// Symbol name or text to find references for. An identifier (CacheManager, *print-base*,
    /// json!, $x, app::start) matches whole identifiers; other text is literal.
    pub pattern: String,
    /// Only definitions of this kind: function, macro, method, class, struct, variable, …
    // A string rather than an enum, because kinds have synonyms.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only files of this language: commonlisp, rust, typescript, …
    #[serde(default)]
    pub lang: Option<String>,
    /// Only files that match these globs, e.g. ["src/**/*.rs"].
    #[serde(default)]
    pub glob: Vec<String>,
    /// Exclude files that match these globs, e.g. ["tests/**"].
    #[serde(default)]
    pub exclude: Vec<String>,
    /// Maximum number of references on a page.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// Number of references to skip.
    #[serde(default)]
    pub offset: u64,
    /// Answer even if the pattern has one or two characters or more than 5000 references.
    #[serde(default)]
    pub force: bool,
}

fn default_limit() -> u64 {
    DEFAULT_LIMIT
}

impl FindReferencesRequest {
    /// Creates a request for the first page of references to `pattern` in all files.
    pub fn new(pattern: impl Into<String>) -> FindReferencesRequest {
        FindReferencesRequest {
            pattern: pattern.into(),
            kind: None,
            lang: None,
            glob: Vec::new(),
            exclude: Vec::new(),
            limit: DEFAULT_LIMIT,
            offset: 0,
            force: false,
        }
    }
}

/// Why a search failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindReferencesError {
    /// The pattern is empty.
    #[error("The pattern is empty. Give a name or text.")]
    EmptyPattern,
    /// An unknown kind.
    #[error("There is no kind {kind:?}. The kinds are {}.", names(DefinitionKind::all().map(DefinitionKind::name)))]
    Kind {
        /// The kind as given.
        kind: String,
    },
    /// An unknown language.
    #[error("There is no language {lang:?}. The languages are {}.", names(Language::all().map(Language::name)))]
    Language {
        /// The language as given.
        lang: String,
    },
    /// A malformed glob.
    #[error(transparent)]
    Glob(#[from] BadGlob),
    /// A limit of 0.
    #[error("The limit is 0; it must be at least 1.")]
    Limit,
    /// A broad query without `force`.
    #[error("{}", broad(pattern, *total))]
    Broad {
        /// The pattern as given.
        pattern: String,
        /// Number of references.
        total: u64,
        /// The paths with the most references, with the number of references in each.
        densest: Vec<(String, u64)>,
    },
    /// The index cannot answer.
    #[error(transparent)]
    Text(#[from] TextError),
}

fn names(names: impl Iterator<Item = &'static str>) -> String {
    names.collect::<Vec<_>>().join(", ")
}

fn broad(pattern: &str, total: u64) -> String {
    let why = match pattern.trim().chars().count() < SHORT {
        true => format!("the pattern has fewer than {SHORT} characters"),
        false => format!("the limit without force is {BROAD}"),
    };
    format!("{pattern:?} has {}: {why}.", counted(total, "reference", "references"))
}

/// A definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TextDefinition {
    /// The position of the name.
    #[serde(flatten)]
    pub place: Location,
    /// The kind: function, macro, class, …
    pub kind: DefinitionKind,
    /// The name as spelled in the file.
    pub symbol: String,
    /// The extent of the definition.
    pub span: Span,
    /// The text of the line, trimmed.
    pub preview: String,
    /// True for a forward declaration.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub declaration: bool,
}

// Flat instead of two positions, because the fields are the answer's JSON keys.
/// An extent in a file. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Span {
    /// The line of the first character.
    pub start_line: u32,
    /// The column of the first character.
    pub start_column: u32,
    /// The line of the last character.
    pub end_line: u32,
    /// The column after the last character.
    pub end_column: u32,
}

/// One occurrence of the text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TextReference {
    /// The position.
    #[serde(flatten)]
    pub place: Location,
    /// The syntactic role, if it could be determined.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<TextRole>,
    /// The text of the line, trimmed.
    pub preview: String,
    /// The symbol in the image, for loaded Lisp files.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<LispName>,
    /// The definition that contains it.
    #[serde(rename = "in", skip_serializing_if = "Option::is_none")]
    pub within: Option<String>,
}

/// The position of a page in the list of all references.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Pagination {
    /// Total number of references.
    pub total: u64,
    /// Number of references on this page.
    pub count: u64,
    /// Number of references before this page.
    pub offset: u64,
    /// Maximum number of references on a page.
    pub limit: u64,
    /// Whether more references follow.
    pub has_more: bool,
}

/// Whether the index is up to date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IndexAge {
    /// The answer reflects the current files.
    Fresh,
    /// Files changed while they were read; repeat the request.
    Stale,
}

/// The answer to find_references.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct References {
    /// The best definition, or null if nothing of that name (and kind) is defined.
    pub definition: Option<TextDefinition>,
    /// The other definitions, best first; at most 49.
    pub definitions: Vec<TextDefinition>,
    /// Total number of definitions.
    pub total_definitions: u64,
    /// The occurrences on this page, including definitions, sorted by path, line and column.
    pub references: Vec<TextReference>,
    /// Total number of references.
    pub total_references: u64,
    /// The position of this page in the list of all references.
    pub pagination: Pagination,
    /// Whether the answer reflects the current files.
    pub status: IndexAge,
}

/// Returns the image's symbol at a position of a Lisp file, given the path relative to the project,
/// the line and the column.
pub type SymbolResolver<'a> = &'a dyn Fn(&Path, u32, u32) -> Option<LispName>;

/// Finds the definitions of a name and the references to it.
///
/// # Errors
///
/// See [`FindReferencesError`]. An empty result is not an error.
pub fn find_references(
    index: &TextIndex,
    request: &FindReferencesRequest,
    resolve: Option<SymbolResolver<'_>>,
    control: &IndexControl<'_>,
) -> Result<References, FindReferencesError> {
    let search = search(request)?;
    let short = search.pattern.length() < SHORT && !request.force;
    let answer = index.search(&search, control)?;
    if (short && answer.total > 0) || (!request.force && answer.total > BROAD) {
        let densest = answer.densest.iter().map(|(path, count)| (shown(path), *count)).collect();
        return Err(FindReferencesError::Broad {
            pattern: request.pattern.clone(),
            total: answer.total,
            densest,
        });
    }
    Ok(references(answer, request, resolve))
}

fn search(request: &FindReferencesRequest) -> Result<TextSearch, FindReferencesError> {
    let pattern = Pattern::new(&request.pattern).ok_or(FindReferencesError::EmptyPattern)?;
    let given = |text: &Option<String>| text.clone().filter(|text| !text.trim().is_empty());
    let kind = given(&request.kind)
        .map(|kind| DefinitionKind::named(&kind).ok_or(FindReferencesError::Kind { kind }))
        .transpose()?;
    let language = given(&request.lang)
        .map(|lang| Language::named(&lang).ok_or(FindReferencesError::Language { lang }))
        .transpose()?;
    let globs = Globs::new(&request.glob, &request.exclude)?;
    if request.limit == 0 {
        return Err(FindReferencesError::Limit);
    }
    let short = pattern.length() < SHORT;
    let bound = match (request.force, short) {
        (true, _) => u64::MAX,
        (false, true) => 0,
        (false, false) => BROAD,
    };
    Ok(TextSearch { pattern, kind, language, globs, offset: request.offset, limit: request.limit, bound })
}

fn references(
    answer: SearchAnswer,
    request: &FindReferencesRequest,
    resolve: Option<SymbolResolver<'_>>,
) -> References {
    let count = answer.references.len() as u64;
    let mut definitions = answer.definitions.into_iter().map(definition);
    References {
        definition: definitions.next(),
        definitions: definitions.collect(),
        total_definitions: answer.total_definitions,
        references: answer.references.into_iter().map(|found| reference(found, resolve)).collect(),
        total_references: answer.total,
        pagination: Pagination {
            total: answer.total,
            count,
            offset: request.offset,
            limit: request.limit,
            has_more: request.offset.saturating_add(count) < answer.total && count > 0,
        },
        status: if answer.fresh { IndexAge::Fresh } else { IndexAge::Stale },
    }
}

/// Returns a path as answers show it; invalid UTF-8 is replaced.
fn shown(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn definition(located: DefinitionMatch) -> TextDefinition {
    TextDefinition {
        place: Location::new(shown(&located.path)).at(located.name),
        kind: located.kind,
        symbol: located.symbol,
        span: Span {
            start_line: located.start.line,
            start_column: located.start.column,
            end_line: located.end.line,
            end_column: located.end.column,
        },
        preview: located.preview,
        declaration: located.declaration,
    }
}

fn reference(found: TextMatch, resolve: Option<SymbolResolver<'_>>) -> TextReference {
    let lisp = found.language.name() == "commonlisp";
    let LineColumn { line, column } = found.place;
    let symbol = resolve.filter(|_| lisp).and_then(|resolve| resolve(&found.path, line, column));
    TextReference {
        place: Location::new(shown(&found.path)).at(found.place),
        role: found.role,
        preview: found.preview,
        within: found.within,
        symbol,
    }
}

impl From<FindReferencesError> for crate::Error {
    fn from(error: FindReferencesError) -> Self {
        let advice = match &error {
            FindReferencesError::Broad { densest, .. } => {
                Some(crate::answer::Advice::Narrow(densest.clone()))
            }
            _ => None,
        };
        match error {
            FindReferencesError::Text(error) => Self::Text(error),
            error => Self::of_request(error, advice),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_arguments_have_distinct_errors() {
        let check = |change: &dyn Fn(&mut FindReferencesRequest), expect: &str| {
            let mut request = FindReferencesRequest::new("name");
            change(&mut request);
            let error = crate::handle::Error::from(search(&request).unwrap_err());
            assert_eq!(error.kind(), crate::ErrorKind::Request);
            assert!(error.to_string().starts_with(expect), "{error}");
        };
        check(&|request| request.pattern = "  ".to_owned(), "The pattern is empty.");
        check(
            &|request| request.kind = Some("gadget".to_owned()),
            "There is no kind \"gadget\". The kinds are definition, function,",
        );
        check(
            &|request| request.lang = Some("cobol".to_owned()),
            "There is no language \"cobol\". The languages are text, commonlisp,",
        );
        check(&|request| request.glob = vec!["[".to_owned()], "invalid glob `[`");
        check(&|request| request.limit = 0, "The limit is 0; it must be at least 1.");
    }

    #[test]
    fn omitted_arguments_have_defaults() {
        let request: FindReferencesRequest = serde_json::from_str(r#"{"pattern": "name"}"#).unwrap();
        assert_eq!(request, FindReferencesRequest::new("name"));
    }
}
