//! find_references: the definition of a name and every place where its text occurs, in any source tree.
//!
//! This question reads text. It needs no image, works on trees that nobody has loaded, and runs nothing.

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

/// References on a page unless the request says otherwise.
pub const DEFAULT_LIMIT: u64 = 100;
/// With more references than this a query is broad: it needs `force`.
pub const BROAD: u64 = 5_000;
/// A pattern of fewer characters is broad, too.
pub const SHORT: usize = 3;

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct FindReferencesRequest {
    /// Symbol name or text to find references for: an identifier of a language is found as a whole identifier of that
    /// language (CacheManager, *print-base*, set!, json!, $x, app::start), anything else as literal text.
    pub pattern: String,
    /// Only definitions of this kind: function, macro, method, class, struct, trait, variable, … References are not filtered.
    // Kept as written: a kind may have other names.
    #[serde(default)]
    pub kind: Option<String>,
    /// Only files of this language: commonlisp, emacslisp, scheme, clojure, rust, typescript, python, go, …
    #[serde(default)]
    pub lang: Option<String>,
    /// Only files that match one of these globs, e.g. ["src/**/*.rs"].
    #[serde(default)]
    pub glob: Vec<String>,
    /// No files that match one of these globs, e.g. ["target/**", "tests/**"].
    #[serde(default)]
    pub exclude: Vec<String>,
    /// The most references on a page.
    #[serde(default = "default_limit")]
    #[schemars(range(min = 1))]
    pub limit: u64,
    /// How many references to skip.
    #[serde(default)]
    pub offset: u64,
    /// Answer a broad query all the same: a pattern of one or two characters, or one with more than 5000 references.
    #[serde(default)]
    pub force: bool,
}

fn default_limit() -> u64 {
    DEFAULT_LIMIT
}

impl FindReferencesRequest {
    /// Makes a request about `pattern` in all files, first page.
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

/// The reason why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FindReferencesError {
    /// The pattern is empty.
    #[error("The pattern is empty. Give the name, or the text, to look for.")]
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
    #[error("The limit is 0, but must be 1 or more.")]
    Limit,
    /// A broad query without `force`.
    #[error("{}", broad(pattern, *total))]
    Broad {
        /// The pattern as given.
        pattern: String,
        /// How many references there are.
        total: u64,
        /// The paths with the most references, with their numbers.
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
        false => format!("more than {BROAD} are a broad query"),
    };
    format!("{pattern:?} has {}: {why}.", counted(total, "reference", "references"))
}

/// A definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TextDefinition {
    /// The name.
    #[serde(flatten)]
    pub place: Location,
    /// What it defines: function, macro, class, …
    pub kind: DefinitionKind,
    /// The name as it is written there.
    pub symbol: String,
    /// Where the whole definition stands.
    pub span: Span,
    /// The line's text, without the blanks at its ends.
    pub preview: String,
    /// True for a forward declaration.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub declaration: bool,
}

// Flat, not two positions: its fields are the answer's JSON keys.
/// From the first character to the last. Lines and columns count from 1, columns in characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Span {
    /// The line of the first character.
    pub start_line: u32,
    /// Its column.
    pub start_column: u32,
    /// The line of the last character.
    pub end_line: u32,
    /// The column after it.
    pub end_column: u32,
}

/// One place where the text occurs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TextReference {
    /// The place.
    #[serde(flatten)]
    pub place: Location,
    /// What it is there, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<TextRole>,
    /// The line's text, without the blanks at its ends.
    pub preview: String,
    /// The symbol that it is in the image, where a resolver knew.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbol: Option<LispName>,
}

/// Which of all references a page has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct Pagination {
    /// How many references there are.
    pub total: u64,
    /// How many are on this page.
    pub count: u64,
    /// How many come before.
    pub offset: u64,
    /// How many fit on a page.
    pub limit: u64,
    /// Whether more come after.
    pub has_more: bool,
}

/// The age of the index.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum IndexAge {
    /// The answer is about the files as they are.
    Fresh,
    /// Files kept changing while they were read; ask again.
    Stale,
}

/// The answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct References {
    /// The best definition, or null if nothing of that name (and kind) is defined.
    pub definition: Option<TextDefinition>,
    /// The other definitions, best first; at most 49.
    pub definitions: Vec<TextDefinition>,
    /// How many definitions there are in all.
    pub total_definitions: u64,
    /// Where the text occurs, sorted by path, line and column; definitions included.
    pub references: Vec<TextReference>,
    /// How many references there are.
    pub total_references: u64,
    /// Which of them this page has.
    pub pagination: Pagination,
    /// Whether the answer is about the files as they are.
    pub status: IndexAge,
}

/// Tells which symbol of the image stands at a place of a Lisp file: path relative to the project, line, column.
pub type SymbolResolver<'a> = &'a dyn Fn(&Path, u32, u32) -> Option<LispName>;

/// Finds the definitions of a name and the references to it.
///
/// # Errors
///
/// See [`FindReferencesError`]. Finding nothing is an answer.
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

/// A path as answers show it. A name that is not UTF-8 is shown as well as it can be.
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
    fn bad_requests_are_told_apart() {
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
        check(&|request| request.glob = vec!["[".to_owned()], "the glob `[` is not understood");
        check(&|request| request.limit = 0, "The limit is 0, but must be 1 or more.");
    }

    #[test]
    fn what_a_request_leaves_out_has_a_default() {
        let request: FindReferencesRequest = serde_json::from_str(r#"{"pattern": "name"}"#).unwrap();
        assert_eq!(request, FindReferencesRequest::new("name"));
    }
}
