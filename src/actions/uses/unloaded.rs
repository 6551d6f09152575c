//! Searches text that the image does not have: files that are not loaded, are stale or lack a
//! complete sidecar, code that feature expressions exclude, and names that code interns only at run
//! time. The place of a match is certain, its meaning is not.
//!
//! The workspace's index of names gives the files that contain the name and, for each token with
//! the name, its `TokenClass`: prefix, current package and syntactic context. `TokenResolver`
//! determines for each class whether the token is the symbol, from the packages of the image and
//! from the package definitions in unloaded text. `text_uses` lists the matches line by line;
//! `text_counts` only counts them.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::Marker;
use steelbank_text::{DefinitionKind, LispDefinition, lisp_definitions};
use steelbank_tree::defines_systems;
use steelbank_xref::{Access, Index, Package, Symbol, SymbolName};

use crate::answer::location::as_columns;
use crate::answer::lookup::{Asked, DEFAULT_PACKAGE, LookupStatus};
use crate::answer::name::canonical;
use crate::answer::package_owner::PackageOwner;
use crate::answer::{Caution, LispName, Location, NotFound, counted, some_of};
use crate::engine::control::Control;
use crate::handle::context::QueryContext;
use crate::workspace::{
    NamedText, NamedTexts, PackageText, Project, TextContext, TextFilter, TokenClass, TreeView, UnloadedText,
    VendoredText, state_in_loaded_file,
};
pub use crate::workspace::{ShownPath, TextState};

/// A line with matches of the name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TextUse {
    /// The line.
    #[serde(flatten)]
    pub place: Location,
    /// The matching tokens.
    #[serde(rename = "columns", serialize_with = "as_columns")]
    #[schemars(with = "Vec<u32>")]
    pub tokens: Vec<Location>,
    /// The line's text.
    pub context: String,
    /// The load state of the text.
    pub state: TextState,
    /// The token may be another symbol with this name, for example because its package is unknown.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub possible: bool,
}

/// Matches of a name in text that is not loaded, is stale, has no complete sidecar, is excluded by
/// a feature expression, or becomes the symbol only at run time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct UnloadedMatches {
    /// The number of matches in all files.
    pub count: usize,
    /// The matches by file.
    pub files: Vec<UnloadedFile>,
}

/// The number of matches in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct UnloadedFile {
    /// The file.
    pub path: ShownPath,
    /// The number of matches.
    pub count: usize,
    /// The number of matches that a feature expression excludes from a loaded file.
    #[serde(skip_serializing_if = "crate::answer::is_zero", default)]
    pub left_out: usize,
    /// The number of matches in strings or symbol lookups, which loaded code turns into the symbol
    /// only at run time.
    #[serde(skip_serializing_if = "crate::answer::is_zero", default)]
    pub named: usize,
}

impl UnloadedMatches {
    /// Creates the list, sorted by path. Merges several counts of one file.
    fn new(found: impl IntoIterator<Item = UnloadedFile>) -> UnloadedMatches {
        let mut files: Vec<UnloadedFile> = found.into_iter().collect();
        let is_before = |one: &UnloadedFile, other: &UnloadedFile| one.path < other.path;
        // Usually the files are sorted and distinct.
        if !files.is_sorted_by(is_before) {
            files.sort_by(|left, right| left.path.cmp(&right.path));
            files.dedup_by(|more, file| {
                let is_same = more.path == file.path;
                if is_same {
                    file.add(more);
                }
                is_same
            });
        }
        UnloadedMatches { count: files.iter().map(|file| file.count).sum(), files }
    }

    /// Whether there are no matches.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Describes in sentences the number of matches, their files, and the way to resolve them.
    pub fn sentence(&self) -> String {
        let parts = [
            self.part(
                |file| file.count - file.left_out - file.named,
                ["that is not loaded", "that are not loaded"],
                [" Load the file to resolve it.", " Load them to resolve it."],
            ),
            self.part(|file| file.left_out, ["that a feature expression excludes"; 2], [""; 2]),
            self.part(
                |file| file.named,
                ["of loaded text that code interns as the symbol at run time"; 2],
                [""; 2],
            ),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Renders the sentence as a note to append to a text. Returns an empty string if there are no
    /// matches.
    pub(crate) fn note(&self) -> String {
        if self.is_empty() { String::new() } else { format!("\n\nNote: {}", self.sentence()) }
    }

    /// Returns the error for a symbol that does not exist. It mentions the matches.
    pub(crate) fn not_found(&self, asked: &Asked, status: LookupStatus) -> NotFound {
        NotFound::Symbol { asked: asked.clone(), status, unseen: self.sentence() }
    }

    /// Renders the sentence for one kind of match. `what` and `then` have a singular and a plural
    /// form.
    fn part(
        &self,
        count: impl Fn(&UnloadedFile) -> usize,
        what: [&str; 2],
        then: [&str; 2],
    ) -> Option<String> {
        let files: Vec<_> = self.files.iter().map(|file| (&file.path, count(file))).collect();
        let files: Vec<_> = files.into_iter().filter(|(_, count)| *count > 0).collect();
        let places: usize = files.iter().map(|(_, count)| count).sum();
        let names = some_of(&files, |(path, count)| format!("{path} ({count})"));
        let several = usize::from(places > 1);
        let places = (places > 0).then(|| counted(places, "place", "places"))?;
        Some(format!("The name is also in {places} {}: {names}.{}", what[several], then[several]))
    }
}

/// The number of matches of a name in text that the image does not have.
#[derive(Debug, Default)]
pub(crate) struct TextCounts {
    /// Uses by file.
    uses: Vec<UnloadedFile>,
    /// Definitions by file.
    definitions: Vec<UnloadedFile>,
    /// Cautions about files that could not be searched.
    pub(crate) cautions: Vec<Caution>,
}

impl TextCounts {
    /// Returns the uses by file, without definitions.
    pub(crate) fn without_definitions(self) -> UnloadedMatches {
        UnloadedMatches::new(self.uses)
    }

    /// Returns the uses and definitions by file.
    pub(crate) fn with_definitions(self) -> UnloadedMatches {
        UnloadedMatches::new(self.uses.into_iter().chain(self.definitions))
    }
}

/// The uses of a name in text that the image does not have, without definitions.
#[derive(Debug, Default)]
pub(crate) struct TextUses {
    /// Sorted by path and line.
    pub(crate) lines: Vec<TextUse>,
    /// Cautions about files that could not be searched.
    pub(crate) cautions: Vec<Caution>,
    /// Counts the matches in vendored files that are not loaded. Only matches that are the symbol
    /// for certain are counted, because libraries use the same names for other symbols. `None` if
    /// there are no such matches, and for standard symbols.
    pub(crate) vendored: Option<Caution>,
}

impl TextUses {
    /// Counts the matching tokens.
    pub(crate) fn count(&self) -> usize {
        self.lines.iter().map(|line| line.tokens.len()).sum()
    }
}

impl UnloadedFile {
    fn new(path: ShownPath) -> Self {
        Self { path, count: 0, left_out: 0, named: 0 }
    }

    /// Adds matches with this load state.
    fn count(&mut self, state: TextState, count: usize) {
        self.count += count;
        match state {
            TextState::FeatureExcluded => self.left_out += count,
            TextState::RuntimeName => self.named += count,
            TextState::NotLoaded | TextState::Changed | TextState::NoSidecar | TextState::InString => {}
        }
    }

    /// Adds the counts of another entry for the same file.
    fn add(&mut self, more: &Self) {
        self.count += more.count;
        self.left_out += more.left_out;
        self.named += more.named;
    }
}

/// How certain it is that a token is the symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likelihood {
    /// The token is the symbol, according to the text.
    Certain,
    /// The token may be the symbol.
    Possible,
}

/// Finds the uses of `target` in text that the image does not have. Reads only files with a match.
pub(crate) fn text_uses(
    index: &Index,
    project: &Project,
    now: &TreeView,
    target: &SymbolName,
    project_only: bool,
    control: &Control,
) -> TextUses {
    let is_standard = PackageOwner::of(&target.package) != PackageOwner::User;
    let look = if is_standard { TextFilter::Unloaded } else { TextFilter::UnloadedAndVendored };
    let found = project.named_at(now, &target.name, look, project_only);
    let resolver = TokenResolver::new(index, project, now, target);
    let vendored = resolver.vendored(&found.vendored);
    let mut uses = TextUses { lines: Vec::new(), cautions: not_searched(project, &found), vendored };
    for file in &found.files {
        if resolver.count(file).0 > 0
            && let Some(file) = project.read_named(file)
        {
            resolver.add(project, &file, &mut uses, control);
        }
    }
    uses
}

/// Counts the uses and the definitions of `target` in text that the image does not have, including
/// files outside the project.
pub(crate) fn text_counts(
    index: &Index,
    project: &Project,
    now: &TreeView,
    target: &SymbolName,
) -> TextCounts {
    let found = project.named_at(now, &target.name, TextFilter::Unloaded, false);
    let resolver = TokenResolver::new(index, project, now, target);
    let mut counts = TextCounts { cautions: not_searched(project, &found), ..TextCounts::default() };
    for file in &found.files {
        let (mut uses, mut definitions) = (None, None);
        resolver.count_by_state(file, |state, defines, count| {
            let found = if defines { &mut definitions } else { &mut uses };
            let found = found.get_or_insert_with(|| UnloadedFile::new(project.shown_path(&file.path)));
            found.count(state, count);
        });
        counts.uses.extend(uses);
        counts.definitions.extend(definitions);
    }
    counts
}

/// A definition in text that the image does not have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextDefined {
    /// The name with its prefix or the current package.
    pub(crate) symbol: LispName,
    pub(crate) place: Location,
    pub(crate) kind: DefinitionKind,
    /// The line's text.
    pub(crate) context: String,
}

/// Finds the definitions of `target`, which is not in the image, in unloaded text. If the package
/// is CL-USER, the default of requests, definitions in any package count.
pub(crate) fn text_definitions(
    index: &Index,
    project: &Project,
    now: &TreeView,
    target: &SymbolName,
) -> Vec<TextDefined> {
    let resolver = TokenResolver::new(index, project, now, target);
    let default = index.find_package(DEFAULT_PACKAGE, None);
    let anywhere = default.is_some_and(|default| index.package_name(default) == target.package.as_str());
    let mut found = Vec::new();
    for file in project.named_at(now, &target.name, TextFilter::Unloaded, false).files {
        let is_meant = |class: &TokenClass| {
            class.defines && (anywhere || resolver.meaning(class, defines_systems(&file.path)).is_some())
        };
        let lines: BTreeSet<u32> =
            file.runs().filter(|(_, class, _)| is_meant(class)).flat_map(|(.., lines)| lines).collect();
        let Some(text) = (!lines.is_empty()).then(|| project.read_named(&file)).flatten() else { continue };
        let named = |definition: &LispDefinition| {
            definition.name == target.name
                && definition.literal.is_none()
                && lines.contains(&definition.place.line)
        };
        found.extend(lisp_definitions(text.text.as_bytes()).into_iter().filter(named).map(|definition| {
            let package = definition.prefix.or(definition.package).unwrap_or_else(|| target.package.clone());
            let symbol = canonical(&package, &definition.name);
            let symbol = if definition.setf { format!("(SETF {symbol})") } else { symbol };
            TextDefined {
                symbol: LispName::new(index, symbol),
                place: Location::new(project.shown(&file.path)).at(definition.place),
                kind: definition.kind,
                context: definition.line,
            }
        }));
    }
    found
}

pub(crate) fn not_searched<T>(project: &Project, found: &NamedTexts<T>) -> Vec<Caution> {
    let mut cautions = Vec::new();
    if !found.unreadable.is_empty() {
        let files: Vec<String> = found.unreadable.iter().map(|path| project.shown(path)).collect();
        cautions.push(Caution::NotSearched(some_of(&files, String::clone)));
    }
    if found.cut {
        cautions.push(Caution::TooManyFiles);
    }
    cautions
}

/// Counts the uses of symbols in text that the image does not have. Definitions are not counted.
pub(crate) fn unloaded_matches<'a>(
    context: &QueryContext<'_>,
    symbols: impl IntoIterator<Item = &'a SymbolName>,
) -> UnloadedMatches {
    let (index, project) = (&context.index, context.project);
    let now = project.tree_view();
    let mut files = Vec::new();
    for symbol in symbols {
        files.extend(text_counts(index, project, &now, symbol).without_definitions().files);
    }
    UnloadedMatches::new(files)
}

/// Returns the load state of a token in a file with this state. `None`: the image has the token as
/// a symbol.
fn state_of(state: TextState, token: &TokenClass) -> Option<TextState> {
    if state == TextState::FeatureExcluded { state_in_loaded_file(token) } else { Some(state) }
}

/// The likelihood for each token class of one list, by class number. Outer `None`: not resolved
/// yet. Inner `None`: the token is not the symbol.
type KnownMeanings = Vec<Option<Option<Likelihood>>>;

/// Determines which tokens of a text are the symbol, by the packages of the image and those that
/// unloaded text defines.
pub(crate) struct TokenResolver<'a> {
    index: &'a Index,
    project: &'a Project,
    now: &'a TreeView,
    target: &'a SymbolName,
    /// The target in the image. `None` if it does not exist there.
    symbol: Option<Symbol>,
    /// Caches the definitions of packages in unloaded text, by package name.
    packages: RefCell<HashMap<String, Rc<[Arc<PackageText>]>>>,
    /// Caches whether the unqualified name is the symbol, by current package.
    bare: RefCell<HashMap<String, Option<Likelihood>>>,
    meanings: RefCell<Meanings>,
}

/// Caches the meanings of token classes. Files share lists of classes, so the cache is keyed by
/// list.
#[derive(Debug, Default)]
struct Meanings {
    /// The meanings for the list that was requested last, as consecutive files often share a list.
    last: KnownMeanings,
    list: Option<ClassList>,
    others: HashMap<ClassList, KnownMeanings>,
}

/// The address of a shared list of classes, and whether the file defines systems. The list lives as
/// long as the files that refer to it.
type ClassList = (*const Arc<TokenClass>, bool);

impl Meanings {
    /// Returns the meanings for a list with this number of classes.
    fn of(&mut self, list: ClassList, classes: usize) -> &mut KnownMeanings {
        if self.list != Some(list) {
            let next = self.others.remove(&list).unwrap_or_default();
            let before = std::mem::replace(&mut self.last, next);
            if let Some(list) = self.list.replace(list) {
                self.others.insert(list, before);
            }
            self.last.resize(classes, None);
        }
        &mut self.last
    }
}

impl<'a> TokenResolver<'a> {
    pub(crate) fn new(
        index: &'a Index,
        project: &'a Project,
        now: &'a TreeView,
        target: &'a SymbolName,
    ) -> Self {
        let (packages, bare, meanings) = (RefCell::default(), RefCell::default(), RefCell::default());
        Self { index, project, now, target, symbol: index.named(target), packages, bare, meanings }
    }

    /// Counts the uses and definitions of the symbol in a file. Reads the file only if it has
    /// tokens under a feature expression that the text alone does not decide.
    fn count(&self, file: &NamedText) -> (usize, usize) {
        let (mut uses, mut definitions) = (0, 0);
        self.count_by_state(file, |_, defines, count| {
            *(if defines { &mut definitions } else { &mut uses }) += count;
        });
        (uses, definitions)
    }

    /// Counts the uses in vendored files that are not loaded. Leaves out definitions and tokens
    /// that are only possibly the symbol.
    fn vendored(&self, found: &[VendoredText]) -> Option<Caution> {
        let (mut places, mut files) = (0, Vec::new());
        for file in found {
            let used = file.runs.iter().filter(|(class, _)| !class.defines);
            let meant = used.filter(|(class, _)| self.meaning(class, false) == Some(Likelihood::Certain));
            let count: usize = meant.map(|(_, count)| count).sum();
            if count > 0 && self.project.loaded_date(&file.path).is_none() {
                places += count;
                files.push(self.project.shown(&file.path));
            }
        }
        (places > 0).then_some(Caution::InVendored { places, files })
    }

    fn count_by_state(&self, file: &NamedText, mut add: impl FnMut(TextState, bool, usize)) {
        let is_system = defines_systems(&file.path);
        // There are only a few combinations of state and definition.
        let mut counts: Vec<(TextState, bool, usize)> = Vec::new();
        let mut meanings = self.meanings.borrow_mut();
        let meanings = meanings.of((file.classes.as_ptr(), is_system), file.classes.len());
        let mut seen = None;
        for (number, class, lines) in file.runs() {
            let Some(state) = state_of(file.load_state, class) else { continue };
            if state == TextState::FeatureExcluded && class.guarded {
                // `count_guarded` counts all such tokens of the file: call it once.
                seen.get_or_insert_with(|| self.count_guarded(file, &mut add));
                continue;
            }
            let count = lines.len();
            let Some(known) = meanings.get_mut(number as usize) else { continue };
            if known.get_or_insert_with(|| self.meaning(class, is_system)).is_none() {
                continue;
            }
            match counts.iter_mut().find(|(of, defines, _)| (*of, *defines) == (state, class.defines)) {
                _ if count == 0 => {}
                Some((.., all)) => *all += count,
                None => counts.push((state, class.defines, count)),
            }
        }
        counts.into_iter().for_each(|(state, defines, count)| add(state, defines, count));
    }

    /// Adds the lines of `file` that use the symbol.
    fn add(&self, project: &Project, file: &UnloadedText, uses: &mut TextUses, control: &Control) {
        let bytes = file.text.as_bytes();
        let (mut last, mut read): (Option<TextUse>, Option<BTreeSet<u32>>) = (None, None);
        let tokens = control.until_cancelled(file.tokens.named(&self.target.name));
        for token in tokens.filter(|token| !token.defines) {
            let Some(state) = state_of(file.load_state, token) else { continue };
            let Some(meaning) = self.meaning(token, defines_systems(&file.path)) else { continue };
            let place = Location::in_text(project.shown(&file.path), &file.lines, bytes, token.span);
            if state == TextState::FeatureExcluded
                && token.guarded
                && read.get_or_insert_with(|| self.places_read(&file.path)).contains(&token.span.start)
            {
                continue;
            }
            match &mut last {
                Some(last) if last.place.line == place.line => {
                    last.tokens.push(place);
                    last.possible &= meaning == Likelihood::Possible;
                }
                _ => {
                    let line = file.lines.bytes(bytes, place.line.unwrap_or_default());
                    let found = TextUse {
                        place: place.clone().whole_line(),
                        tokens: vec![place],
                        context: String::from_utf8_lossy(line).trim().to_owned(),
                        state,
                        possible: meaning == Likelihood::Possible,
                    };
                    uses.lines.extend(last.replace(found));
                }
            }
        }
        uses.lines.extend(last);
    }

    /// Counts the tokens of a loaded file that SBCL did not read because of a feature expression
    /// that the text alone does not decide.
    fn count_guarded(&self, file: &NamedText, add: &mut impl FnMut(TextState, bool, usize)) {
        let Some(text) = self.project.read_named(file) else { return };
        let read = self.places_read(&file.path);
        for token in text.tokens.named(&self.target.name).iter().filter(|token| token.guarded) {
            let is_meant = self.meaning(token, defines_systems(&file.path)).is_some();
            if is_meant
                && state_in_loaded_file(token) == Some(TextState::FeatureExcluded)
                && !read.contains(&token.span.start)
            {
                add(TextState::FeatureExcluded, token.defines, 1);
            }
        }
    }

    /// Returns the offsets at which SBCL's reader read symbols with the name in a loaded file. Used
    /// for tokens under a feature expression that the text alone does not decide.
    pub(crate) fn places_read(&self, path: &Path) -> BTreeSet<u32> {
        let read = || {
            let date = self.project.loaded_date(path)?;
            self.project.positions_at(self.now, path, date).ok()?.places_read(&self.target.name)
        };
        read().unwrap_or_default()
    }

    /// Whether a token would certainly be read as the symbol. Its context is ignored: it can be a
    /// word in a comment or a parameter.
    pub(crate) fn reads_as(&self, token: &TokenClass) -> bool {
        let current = token.package.as_deref();
        let found = match (&token.prefix, token.marker) {
            (Some(prefix), _) => self.in_package(prefix, current),
            (None, Marker::None) => current.and_then(|current| self.in_package(current, None)),
            _ => None,
        };
        found == Some(Likelihood::Certain)
    }

    /// Returns the likelihood that `token`, which has the symbol's name, is the symbol. `None`: the
    /// token cannot be the symbol, for example in a comment, or in prose without a package prefix.
    pub(crate) fn meaning(&self, token: &TokenClass, is_system: bool) -> Option<Likelihood> {
        let current = token.package.as_deref().or(is_system.then_some("ASDF-USER"));
        let named = |package: &str| self.in_package(package, current);
        let weaker = |meaning: Option<Likelihood>| meaning.map(|_| Likelihood::Possible);
        match &token.context {
            TextContext::Comment | TextContext::Parameter => None,
            TextContext::Prose => weaker(token.prefix.as_deref().and_then(named)),
            TextContext::Read => match (&token.prefix, token.marker) {
                (Some(prefix), _) if self.is_unknown(prefix, current) => None,
                (Some(prefix), _) => weaker(named(prefix)),
                (None, Marker::None) => weaker(self.here(current)),
                _ => None,
            },
            TextContext::Package { package, from } => named(from.as_deref().unwrap_or(package)),
            TextContext::Lookup(Some(package)) => named(package),
            // The package is known only when the code runs.
            TextContext::Lookup(None) => Some(Likelihood::Possible),
            TextContext::Code => match (token.marker, &token.prefix) {
                (Marker::None, _) => self.here(current),
                // In inactive code, an unknown package belongs to another implementation.
                (Marker::External | Marker::Internal, Some(prefix))
                    if !token.active && self.is_unknown(prefix, current) =>
                {
                    None
                }
                (Marker::External | Marker::Internal, Some(prefix)) => named(prefix),
                (Marker::Keyword, _) => (self.target.package == "KEYWORD").then_some(Likelihood::Certain),
                _ => None,
            },
        }
    }

    /// Whether `package` is neither the symbol's home package, nor a package of the image, nor one
    /// that unloaded text defines, nor a local nickname.
    fn is_unknown(&self, package: &str, current: Option<&str>) -> bool {
        let within = current.and_then(|current| self.index.find_package(current, None));
        self.nickname(package, current).is_none()
            && package != self.target.package
            && self.index.find_package(package, within).is_none()
            && self.defined(package).is_empty()
    }

    /// Returns the likelihood that the unqualified name is the symbol where `current` is the
    /// current package.
    fn here(&self, current: Option<&str>) -> Option<Likelihood> {
        let Some(current) = current else { return Some(Likelihood::Possible) };
        if let Some(known) = self.bare.borrow().get(current) {
            return *known;
        }
        let found = self.in_package(current, None);
        self.bare.borrow_mut().insert(current.to_owned(), found);
        found
    }

    /// Returns the likelihood that the name in the package called `package` is the symbol.
    /// `current`: the current package, for its local nicknames.
    fn in_package(&self, package: &str, current: Option<&str>) -> Option<Likelihood> {
        let index = self.index;
        let within = current.and_then(|current| index.find_package(current, None));
        let nickname = self.nickname(package, current);
        let package = nickname.as_deref().unwrap_or(package);
        let defined = self.defined(package);
        let has_text = !defined.is_empty();
        let by_text =
            || defined.iter().filter_map(|defined| self.by_definition(defined)).min_by_key(|m| *m as u8);
        let is_home = package == self.target.package;
        let Some(found) = index.find_package(package, within) else {
            return match (is_home, has_text) {
                (true, _) => Some(Likelihood::Certain),
                (false, true) => by_text(),
                (false, false) => Some(Likelihood::Possible),
            };
        };
        match index.find_symbol(&self.target.name, found) {
            Some((symbol, _)) if Some(symbol) == self.symbol => Some(Likelihood::Certain),
            // The symbol does not exist in the image yet.
            _ if self.symbol.is_none() && self.is_home(found) => Some(Likelihood::Certain),
            _ if has_text => by_text(),
            _ => None,
        }
    }

    /// Whether the package called `used` exports the symbol in the image.
    fn exports(&self, used: &str) -> bool {
        let found = self.index.symbol_named(used, &self.target.name);
        found.is_some_and(|(symbol, access)| Some(symbol) == self.symbol && access == Access::External)
    }

    /// Whether the package called `used` exports the symbol in the image, or may export it
    /// according to unloaded text.
    fn may_export(&self, used: &str) -> bool {
        let defined = self.defined(used);
        if defined.iter().any(|defined| defined.names.contains(&self.target.package) || defined.is_open) {
            return true;
        }
        match self.index.find_package(used, None) {
            Some(package) => match self.index.find_symbol(&self.target.name, package) {
                Some((symbol, access)) if Some(symbol) == self.symbol => access == Access::External,
                _ => self.symbol.is_none() && self.is_home(package),
            },
            // A package that is not loaded may export its own symbols and symbols that it imports.
            None => used == self.target.package || defined.iter().any(|defined| !defined.imports.is_empty()),
        }
    }

    fn is_home(&self, package: Package) -> bool {
        self.index.find_package(&self.target.package, None) == Some(package)
    }

    /// Returns the package for which `nickname` is a local nickname in `current`, according to
    /// unloaded text.
    fn nickname(&self, nickname: &str, current: Option<&str>) -> Option<String> {
        self.defined(current?).iter().find_map(|defined| {
            let pair = defined.local_nicknames.iter().find(|(name, _)| name == nickname)?;
            Some(pair.1.clone())
        })
    }

    /// Returns the definitions of `package` in unloaded text, from the cache if they are there.
    fn defined(&self, package: &str) -> Rc<[Arc<PackageText>]> {
        if let Some(known) = self.packages.borrow().get(package) {
            return Rc::clone(known);
        }
        let found: Rc<[Arc<PackageText>]> = self.project.unloaded_packages(self.now, package).into();
        self.packages.borrow_mut().insert(package.to_owned(), Rc::clone(&found));
        found
    }

    /// Returns the likelihood that the symbol is accessible in a package with this definition.
    /// `None`: it is not accessible.
    fn by_definition(&self, defined: &PackageText) -> Option<Likelihood> {
        let (name, home) = (&self.target.name, &self.target.package);
        if defined.names.contains(home) {
            return Some(Likelihood::Certain);
        }
        if defined.shadows.contains(name) {
            return None;
        }
        let same = |package: &String| {
            package == home
                || self.index.find_package(package, None).is_some_and(|package| self.is_home(package))
                || self.defined(package).iter().any(|defined| defined.names.contains(home))
                // A package may export symbols that it imported.
                || self.exports(package)
        };
        let imported =
            |from: &String| defined.imports.iter().any(|(imported, of)| imported == name && of == from);
        if defined.imports.iter().any(|(imported, from)| imported == name && same(from)) {
            return Some(Likelihood::Certain);
        }
        if defined.uses.iter().any(|used| self.exports(used)) {
            return Some(Likelihood::Certain);
        }
        if defined.imports.iter().any(|(_, from)| imported(from) && self.may_export(from)) {
            return Some(Likelihood::Possible);
        }
        (defined.uses.iter().any(|used| self.may_export(used)) || defined.is_open)
            .then_some(Likelihood::Possible)
    }
}
