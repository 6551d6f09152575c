//! Implements search: finds the forms of the project that match a pattern with holes, such as
//! `(if ?test nil ?else)`. The pattern's symbols are compared as symbols: with the packages, local
//! functions and readtables of the places, not by their letters.

pub(crate) mod pattern;
pub(crate) mod tool;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::edit::{DefinitionForm, find_definitions};
use steelbank_reader::lines::LineIndex;
use steelbank_reader::{Datum, Dialect, FormId, FormKind, LispText, Marker, NonCalls, Range, TokenKind};
use steelbank_tree::defines_systems;
use steelbank_xref::{Index, SymbolName};

use crate::actions::uses::unloaded::{TokenResolver, not_searched};
use crate::answer::location::as_text;
use crate::answer::lookup::{DEFAULT_PACKAGE, Lookup};
use crate::answer::{Caution, Location, NotFound, shortened};
use crate::engine::Control;
use crate::handle::{Error, QueryContext, Question};
use crate::source::positions::{Notation, PositionedFile};
use crate::workspace::{TextContext, TextFilter, TextState, TreeView, UnloadedText, state_in_loaded_file};
pub use pattern::PatternError;
use pattern::{Bindings, FormPattern, PatternSymbol, Subject};

/// A request for the forms that match a pattern.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct FormSearchRequest {
    /// A Lisp form with holes: ?x matches one form, ?* or ?*x any number of elements. Example:
    /// (if ?test nil ?else).
    pub pattern: String,
    /// The package to look the pattern's symbols up in.
    #[serde(default)]
    #[schemars(extend("default" = DEFAULT_PACKAGE))]
    pub package: Option<String>,
    /// Conditions: "?x: keyword" (or symbol, string, number, character, atom, list, constant),
    /// "definition: NAME" for the enclosing definition, "package: NAME" for the current package.
    #[serde(default, rename = "where")]
    pub conditions: Vec<String>,
}

impl FormSearchRequest {
    /// Creates a request for the forms that match `pattern`.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self { pattern: pattern.into(), package: None, conditions: Vec::new() }
    }
}

/// The forms that match.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct FormSearchAnswer {
    /// The number of matches on all pages.
    pub total: usize,
    /// The matches, by file and place.
    pub matches: Vec<SearchMatch>,
    /// Reasons why matches may be missing or wrong.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cautions: Vec<String>,
}

/// A form that matches.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct SearchMatch {
    /// The start of the form: `file:line:column`.
    #[serde(rename = "at", serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub place: Location,
    /// The end of the form, after its last character: `file:line:column`.
    #[serde(serialize_with = "as_text")]
    #[schemars(with = "String")]
    pub end: Location,
    /// The form on one line, truncated after 100 characters.
    pub text: String,
    /// The state of text that the compiler did not read as it is now.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<TextState>,
}

/// Why a search is impossible.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum FormSearchError {
    /// The pattern is wrong.
    #[error(transparent)]
    FormPattern(#[from] PatternError),
    /// A condition is wrong.
    #[error(
        "The condition {0} is unknown. Conditions: \"?x: KIND\" for a hole of the pattern, where KIND is symbol, keyword, string, \
         number, character, atom, list or constant; \"definition: NAME\"; \"package: NAME\"."
    )]
    Condition(String),
}

impl From<FormSearchError> for Error {
    fn from(error: FormSearchError) -> Self {
        Self::of_request(error, None)
    }
}

impl Question for FormSearchRequest {
    type Answer = FormSearchAnswer;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<FormSearchAnswer, Error> {
        let found = FoundForms::of(self, context, control)?;
        let mut matches = Vec::new();
        for file in &found.files {
            let shown = context.project.shown(&file.path);
            let (bytes, lines) = (file.text.as_bytes(), LineIndex::new(file.text.as_bytes()));
            for found in &file.matches {
                let range = file.range(found.root);
                matches.push(SearchMatch {
                    place: Location::in_text(shown.as_str(), &lines, bytes, range),
                    end: Location::new(shown.as_str()).at(lines.position(bytes, range.end)),
                    text: shortened(&on_one_line(&file.text[range.indices()])),
                    state: found.state,
                });
            }
        }
        Ok(FormSearchAnswer { total: matches.len(), matches, cautions: found.cautions })
    }
}

/// Replaces each run of white space by a space.
fn on_one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The files with matches of a pattern.
pub(crate) struct FoundForms {
    pub(crate) pattern: FormPattern,
    pub(crate) files: Vec<FoundFile>,
    pub(crate) cautions: Vec<String>,
}

/// A file with matches.
pub(crate) struct FoundFile {
    pub(crate) path: PathBuf,
    /// The decoded text.
    pub(crate) text: Arc<str>,
    pub(crate) read: LispText,
    /// The matches, in order. A match can contain others.
    pub(crate) matches: Vec<FoundForm>,
}

impl FoundFile {
    /// Returns the range of a form.
    pub(crate) fn range(&self, form: FormId) -> Range {
        self.read.span(Datum::Form(form))
    }
}

/// A form that matches.
pub(crate) struct FoundForm {
    pub(crate) root: FormId,
    pub(crate) bindings: Bindings,
    pub(crate) state: Option<TextState>,
}

/// A symbol of the pattern.
struct Sought {
    symbol: SymbolName,
    /// Whether the package is known, so that the symbol is not compared by its name only.
    is_known: bool,
    is_in_image: bool,
}

/// A file to search. Its text was read by the compiler, by this program, or in part by both.
#[derive(Default)]
struct SearchedFile {
    loaded: Option<Arc<PositionedFile>>,
    text: Option<UnloadedText>,
}

/// A condition of a request.
enum Condition {
    Hole(usize, HoleKind),
    Definition(String),
    Package(String),
}

/// The kinds of forms that a hole matches.
#[derive(Clone, Copy)]
enum HoleKind {
    Symbol,
    Keyword,
    Text,
    Number,
    Character,
    Atom,
    List,
    Constant,
}

impl FoundForms {
    /// Finds the forms that match in all Lisp files of the project.
    pub(crate) fn of(
        request: &FormSearchRequest,
        context: &QueryContext<'_>,
        control: &Control,
    ) -> Result<Self, Error> {
        let pattern = FormPattern::parse(&request.pattern).map_err(FormSearchError::from)?;
        let conditions = request.conditions.iter().map(|text| condition(text, &pattern, &context.index));
        let conditions = conditions.collect::<Result<Vec<_>, _>>()?;
        let view = context.project.tree_view();
        let sought: Vec<Sought> = pattern
            .symbols
            .iter()
            .map(|symbol| Sought::of(symbol, context, &view, request.package.as_deref()))
            .collect::<Result<_, _>>()?;
        let unknown = |is_known: bool| {
            let symbols = pattern.symbols.iter().zip(&sought);
            let unknown = symbols.filter(|(_, sought)| !sought.is_in_image && sought.is_known == is_known);
            unknown.map(|(symbol, _)| symbol.written.as_str()).collect::<Vec<_>>().join(", ")
        };
        let mut cautions = Vec::new();
        match unknown(true) {
            names if names.is_empty() => {}
            names => cautions.push(format!("The image has no such symbol: {names}.")),
        }
        match unknown(false) {
            names if names.is_empty() => {}
            names => cautions.push(format!(
                "The image has no such symbol, so its places were matched by the name, in any package: {names}."
            )),
        }
        let (anchor, sources) = sources(context, &view, &sought, &mut cautions);
        let resolvers: Vec<TokenResolver<'_>> = sought
            .iter()
            .map(|sought| TokenResolver::new(&context.index, context.project, &view, &sought.symbol))
            .collect();
        let search =
            FormSearch { context, pattern: &pattern, conditions, sought: &sought, resolvers, anchor };
        let mut files = Vec::new();
        for (path, source) in sources {
            control.check()?;
            files.extend(search.file(path, &source).filter(|file| !file.matches.is_empty()));
        }
        drop(search);
        Ok(Self { pattern, files, cautions })
    }
}

impl Sought {
    fn of(
        symbol: &PatternSymbol,
        context: &QueryContext<'_>,
        view: &TreeView,
        package: Option<&str>,
    ) -> Result<Self, Error> {
        let index = &context.index;
        if symbol.package.as_deref() == Some("KEYWORD") {
            let symbol = SymbolName::new("KEYWORD", symbol.name.as_str());
            return Ok(Self { symbol, is_known: true, is_in_image: true });
        }
        let lookup = Lookup::resolved(index, &symbol.written, package)?;
        let home = &lookup.asked.package;
        if lookup.package.is_none() && context.project.unloaded_packages(view, home).is_empty() {
            return Err(NotFound::Package(home.clone()).into());
        }
        Ok(match lookup.found {
            Ok((found, _)) => Self { symbol: index.full_name(found), is_known: true, is_in_image: true },
            Err(_) => Self {
                symbol: lookup.asked.symbol(index, lookup.package),
                is_known: symbol.package.is_some() || package.is_some(),
                is_in_image: false,
            },
        })
    }
}

/// Returns the number of the symbol that the fewest loaded files name, and the files that name it.
fn sources(
    context: &QueryContext<'_>,
    view: &TreeView,
    sought: &[Sought],
    cautions: &mut Vec<String>,
) -> (usize, BTreeMap<PathBuf, SearchedFile>) {
    let project = context.project;
    let named = sought.iter().map(|sought| project.naming(&sought.symbol.name)).enumerate();
    let (anchor, loaded) = named.min_by_key(|(_, files)| files.len()).unwrap_or_default();
    let mut sources: BTreeMap<PathBuf, SearchedFile> = BTreeMap::new();
    for file in loaded.into_iter().filter(|file| view.contains(&file.path)) {
        let Ok(positioned) = project.positions_at(view, &file.path, file.write_date) else { continue };
        if positioned.is_fresh() {
            sources.entry(file.path).or_default().loaded = Some(positioned);
        }
    }
    let Some(name) = sought.get(anchor).map(|sought| &sought.symbol.name) else { return (anchor, sources) };
    let texts = project.texts_naming_at(view, name, TextFilter::Unloaded, true);
    cautions.extend(not_searched(project, &texts).iter().map(Caution::to_string));
    for text in texts.files {
        let path = text.path.clone();
        sources.entry(path).or_default().text = Some(text);
    }
    (anchor, sources)
}

struct FormSearch<'a> {
    context: &'a QueryContext<'a>,
    pattern: &'a FormPattern,
    conditions: Vec<Condition>,
    sought: &'a [Sought],
    resolvers: Vec<TokenResolver<'a>>,
    /// The number of the pattern's rarest symbol.
    anchor: usize,
}

impl FormSearch<'_> {
    /// Returns the matches in a file.
    fn file(&self, path: PathBuf, source: &SearchedFile) -> Option<FoundFile> {
        let text: Arc<str> = match (&source.loaded, &source.text) {
            (Some(file), _) => Arc::from(file.text()),
            (None, Some(file)) => Arc::from(file.text.as_str()),
            (None, None) => return None,
        };
        let bytes = text.as_bytes();
        let read = LispText::read(bytes, Dialect::CommonLisp, &crate::source::features());
        let mut places = Vec::with_capacity(self.sought.len());
        for number in 0..self.sought.len() {
            let starts = self.starts(number, &path, source, bytes, &read);
            if starts.is_empty() {
                return None;
            }
            places.push(starts);
        }
        let subject = Subject { bytes, read: &read, places: &places };
        let of_anchor = read.tokens().iter().filter(|token| places[self.anchor].contains(&token.span.start));
        let roots: BTreeSet<FormId> =
            of_anchor.filter_map(|token| self.pattern.root_around(&read, self.anchor, token.form?)).collect();
        let mut matches: Vec<(FormId, Bindings)> = roots
            .into_iter()
            .filter_map(|root| Some((root, self.pattern.matches(&subject, root)?)))
            .collect();
        if matches.is_empty() {
            return None;
        }
        let data = NonCalls::of(&read, bytes);
        let definitions = self.conditions.iter().map(|condition| match condition {
            // An error is excluded: the name was checked when the condition was read.
            Condition::Definition(name) => find_definitions(bytes, name).unwrap_or_default(),
            _ => Vec::new(),
        });
        let definitions: Vec<Vec<DefinitionForm>> = definitions.collect();
        matches.retain(|(root, bindings)| {
            let mut conditions = self.conditions.iter().zip(&definitions);
            !data.contains(*root)
                && !is_quoted(&read, bytes, *root)
                && conditions.all(|(condition, definitions)| {
                    self.meets(condition, definitions, bytes, &read, *root, bindings)
                })
        });
        let state = |root: FormId| match (read.form(root), &source.text) {
            (Some(form), _) if !form.active => Some(TextState::FeatureExcluded),
            (_, Some(text)) if source.loaded.is_none() => Some(text.load_state),
            _ => None,
        };
        let matches =
            matches.into_iter().map(|(root, bindings)| FoundForm { root, bindings, state: state(root) });
        Some(FoundFile { path, matches: matches.collect(), text: Arc::clone(&text), read })
    }

    /// Returns the starts of the tokens that mean the pattern's symbol `number`. A token that a
    /// local function or macro defines in operator position does not count.
    fn starts(
        &self,
        number: usize,
        path: &Path,
        source: &SearchedFile,
        bytes: &[u8],
        read: &LispText,
    ) -> HashSet<u32> {
        let Sought { symbol, is_known, .. } = &self.sought[number];
        if !is_known {
            let named = read.tokens().iter().filter(|token| {
                token.is_named(bytes, &symbol.name)
                    && matches!(token.marker, Marker::None | Marker::External | Marker::Internal)
            });
            return named.map(|token| token.span.start).collect();
        }
        let mut starts = HashSet::new();
        if let Some(file) = &source.loaded {
            let index = &self.context.index;
            let means = |package: &str| {
                index.symbol_named(package, &symbol.name).map(|(found, _)| found) == index.named(symbol)
            };
            let tokens = file.tokens(symbol, &means).into_iter();
            let meant = tokens.filter(|token| {
                let is_keyword = token.written == Notation::Keyword && symbol.package == "KEYWORD";
                (token.written == Notation::Symbol || is_keyword)
                    && !(token.local && is_operator(read, token.range.start))
            });
            starts.extend(meant.map(|token| token.range.start));
        }
        if let Some(text) = &source.text {
            let is_system = defines_systems(path);
            let mut compiled = None;
            for token in
                text.tokens.named(&symbol.name).iter().filter(|token| token.context == TextContext::Code)
            {
                let is_read = source.loaded.is_some()
                    && (state_in_loaded_file(token) != Some(TextState::FeatureExcluded)
                        || compiled
                            .get_or_insert_with(|| self.resolvers[number].places_read(path))
                            .contains(&token.span.start));
                if !is_read && self.resolvers[number].meaning(token, is_system).is_some() {
                    starts.insert(token.span.start);
                }
            }
        }
        starts
    }

    /// Whether a match meets a condition. `definitions` are those that the condition names.
    fn meets(
        &self,
        condition: &Condition,
        definitions: &[DefinitionForm],
        bytes: &[u8],
        read: &LispText,
        root: FormId,
        bindings: &Bindings,
    ) -> bool {
        let range = read.span(Datum::Form(root));
        match condition {
            Condition::Hole(hole, kind) => {
                bindings[*hole].iter().flatten().all(|datum| kind.includes(bytes, read, *datum))
            }
            Condition::Definition(_) => definitions.iter().any(|form| form.span.encloses(range)),
            Condition::Package(name) => {
                let wanted = self.context.index.find_package(name, None);
                let current = read.toplevel_from(range.start).and_then(|top| top.package.as_deref());
                current.is_some_and(|current| {
                    current == name
                        || (wanted.is_some() && self.context.index.find_package(current, None) == wanted)
                })
            }
        }
    }
}

impl HoleKind {
    const ALL: [(&'static str, HoleKind); 8] = [
        ("symbol", Self::Symbol),
        ("keyword", Self::Keyword),
        ("string", Self::Text),
        ("number", Self::Number),
        ("character", Self::Character),
        ("atom", Self::Atom),
        ("list", Self::List),
        ("constant", Self::Constant),
    ];

    fn includes(self, bytes: &[u8], read: &LispText, datum: Datum) -> bool {
        let token = match datum {
            Datum::Form(id) => {
                let kind = read.form(id).map(|form| form.kind);
                return match self {
                    Self::List => kind == Some(FormKind::List),
                    Self::Constant => matches!(kind, Some(FormKind::Quote | FormKind::Literal)),
                    _ => false,
                };
            }
            Datum::Token(index) => &read.tokens()[index],
        };
        let is_keyword = token.marker == Marker::Keyword;
        let is_boolean = || token.is_named(bytes, "NIL") || token.is_named(bytes, "T");
        match self {
            Self::Symbol => token.kind == TokenKind::Symbol,
            Self::Keyword => is_keyword,
            Self::Text => token.kind == TokenKind::String,
            Self::Number => token.kind == TokenKind::Number,
            Self::Character => token.kind == TokenKind::Character,
            Self::Atom => true,
            Self::List => token.is_named(bytes, "NIL"),
            Self::Constant => token.kind != TokenKind::Symbol || is_keyword || is_boolean(),
        }
    }
}

/// Parses a condition of a request.
fn condition(text: &str, pattern: &FormPattern, index: &Index) -> Result<Condition, FormSearchError> {
    let wrong = || FormSearchError::Condition(text.to_owned());
    let (subject, value) = text.split_once(':').ok_or_else(wrong)?;
    let (subject, value) = (subject.trim(), value.trim());
    match subject {
        "definition" if find_definitions(b"", value).is_ok() => Ok(Condition::Definition(value.to_owned())),
        "package" if !value.is_empty() => {
            let found = index.find_package(&value.to_uppercase(), None);
            let name =
                found.map_or_else(|| value.to_uppercase(), |found| index.package_name(found).into_owned());
            Ok(Condition::Package(name))
        }
        _ => {
            let hole = pattern.holes.iter().position(|hole| hole.eq_ignore_ascii_case(subject));
            let kind = HoleKind::ALL.iter().find(|(name, _)| name.eq_ignore_ascii_case(value));
            let (hole, (_, kind)) = hole.zip(kind).ok_or_else(wrong)?;
            Ok(Condition::Hole(hole, *kind))
        }
    }
}

/// Whether the token at `start` is the operator of a form, or follows `#'`.
fn is_operator(read: &LispText, start: u32) -> bool {
    let form = read.token_at(start).and_then(|token| read.form(token.form?));
    form.is_some_and(|form| {
        form.kind == FormKind::Function || read.head(form).is_some_and(|head| head.span.start == start)
    })
}

/// Whether a form is quoted data. The code that a backquote makes is not.
fn is_quoted(read: &LispText, bytes: &[u8], root: FormId) -> bool {
    let mut around = std::iter::successors(Some(root), |id| read.form(*id)?.parent).skip(1);
    around.any(|id| {
        let Some(form) = read.form(id) else { return false };
        match form.kind {
            FormKind::Quote => true,
            FormKind::List => read.head(form).is_some_and(|head| head.is_named(bytes, "QUOTE")),
            _ => false,
        }
    })
}
