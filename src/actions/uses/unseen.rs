//! Uses in text that the image does not have as it stands on disk: the place is known, the meaning is not.

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
use steelbank_xref::{Access, Index, Package, Symbol};

use super::symbol_uses::SymbolUses;
use crate::answer::location::as_columns;
use crate::answer::lookup::{Asked, DEFAULT_PACKAGE, LookupStatus};
use crate::answer::name::canonical;
use crate::answer::package_owner::PackageOwner;
use crate::answer::{Caution, LispName, Location, NotFound, counted, some_of};
use crate::handle::context::QueryContext;
use crate::source::positions::SearchTarget;
use crate::workspace::{
    Look, NamedText, NamedTexts, Now, PackageText, Project, TextContext, TokenClass, UnseenText,
    VendoredText, in_seen_file,
};
pub use crate::workspace::{ShownPath, TextState};

/// One line in which the name stands.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[non_exhaustive]
pub struct TextUse {
    /// The line.
    #[serde(flatten)]
    pub place: Location,
    /// The name's tokens on it.
    #[serde(rename = "columns", serialize_with = "as_columns")]
    #[schemars(with = "Vec<u32>")]
    pub tokens: Vec<Location>,
    /// The line's text.
    pub context: String,
    /// How the image relates to the text.
    pub state: TextState,
    /// The name's package is not known there: another symbol of this name may be meant.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub possible: bool,
}

/// How often a name stands in text that the image does not have as it stands on disk, or that the compiler does not see.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Unseen {
    /// In all.
    pub count: usize,
    /// File by file.
    pub files: Vec<UnseenFile>,
}

/// How often a name stands in one file's text.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct UnseenFile {
    /// The file.
    pub path: ShownPath,
    /// How often.
    pub count: usize,
    /// How often of that a feature expression leaves it out of a file that is loaded.
    #[serde(skip_serializing_if = "crate::answer::is_zero", default)]
    pub left_out: usize,
    /// How often of that it is a name from which loaded code makes the symbol when it runs.
    #[serde(skip_serializing_if = "crate::answer::is_zero", default)]
    pub named: usize,
}

impl Unseen {
    /// Adds up what is known of each file.
    fn new(found: impl IntoIterator<Item = UnseenFile>) -> Unseen {
        let mut files: Vec<UnseenFile> = found.into_iter().collect();
        let is_before = |one: &UnseenFile, other: &UnseenFile| one.path < other.path;
        // Most are in order already, each once.
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
        Unseen { count: files.iter().map(|file| file.count).sum(), files }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Says in sentences how often the name stands in such text, in which files, and what would tell its meaning.
    pub fn sentence(&self) -> String {
        let parts = [
            self.part(
                |file| file.count - file.left_out - file.named,
                ["that is not loaded", "that are not loaded"],
                [" Load the file to resolve it.", " Load them to resolve it."],
            ),
            self.part(|file| file.left_out, ["that a feature expression leaves out"; 2], [""; 2]),
            self.part(
                |file| file.named,
                ["of loaded text from which code makes the symbol when it runs"; 2],
                [""; 2],
            ),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    /// Renders the sentence as a note below a text; empty if there is none.
    pub(crate) fn note(&self) -> String {
        if self.is_empty() { String::new() } else { format!("\n\nNote: {}", self.sentence()) }
    }

    /// Tells what does not exist, though such text may have it.
    pub(crate) fn not_found(&self, asked: &Asked, status: LookupStatus) -> NotFound {
        NotFound::Symbol { asked: asked.clone(), status, unseen: self.sentence() }
    }

    /// Says it of the places that `count` counts in a file: what they are, and what is to be done, of one place and of several.
    fn part(&self, count: impl Fn(&UnseenFile) -> usize, what: [&str; 2], then: [&str; 2]) -> Option<String> {
        let files: Vec<_> = self.files.iter().map(|file| (&file.path, count(file))).collect();
        let files: Vec<_> = files.into_iter().filter(|(_, count)| *count > 0).collect();
        let places: usize = files.iter().map(|(_, count)| count).sum();
        let names = some_of(&files, |(path, count)| format!("{path} ({count})"));
        let several = usize::from(places > 1);
        let places = (places > 0).then(|| counted(places, "place", "places"))?;
        Some(format!("The name is also in {places} {}: {names}.{}", what[several], then[several]))
    }
}

/// How often a name stands in text that the image does not have.
#[derive(Debug, Default)]
pub(crate) struct TextCounts {
    /// Uses, by file.
    uses: Vec<UnseenFile>,
    /// Definitions, by file.
    definitions: Vec<UnseenFile>,
    /// What could not be searched.
    pub(crate) cautions: Vec<Caution>,
}

impl TextCounts {
    /// Counts the places of the name in each file, definitions left out.
    pub(crate) fn unseen(self) -> Unseen {
        Unseen::new(self.uses)
    }

    /// Counts as [`TextCounts::unseen`], definitions included.
    pub(crate) fn unseen_with_definitions(self) -> Unseen {
        Unseen::new(self.uses.into_iter().chain(self.definitions))
    }
}

/// The uses of a name in text that the image does not have, without definitions.
#[derive(Debug, Default)]
pub(crate) struct TextUses {
    /// By path and line.
    pub(crate) lines: Vec<TextUse>,
    /// What could not be searched.
    pub(crate) cautions: Vec<Caution>,
    /// Places in vendored files that are not loaded, where the symbol stands for certain: a library that is not loaded has names
    /// of its own. None of a standard symbol.
    pub(crate) vendored: Option<Caution>,
}

impl TextUses {
    /// Counts the places of the name in the text.
    pub(crate) fn count(&self) -> usize {
        self.lines.iter().map(|line| line.tokens.len()).sum()
    }
}

impl UnseenFile {
    fn new(path: ShownPath) -> Self {
        Self { path, count: 0, left_out: 0, named: 0 }
    }

    /// Adds places of text in this state.
    fn count(&mut self, state: TextState, count: usize) {
        self.count += count;
        match state {
            TextState::LeftOut => self.left_out += count,
            TextState::Named => self.named += count,
            TextState::NotLoaded | TextState::Changed | TextState::Unrecorded => {}
        }
    }

    /// Adds what else is known of the file.
    fn add(&mut self, more: &Self) {
        self.count += more.count;
        self.left_out += more.left_out;
        self.named += more.named;
    }
}

/// The symbol to look for, which the image need not have.
#[derive(Debug, Clone)]
pub(crate) struct SoughtSymbol {
    pub(crate) name: String,
    /// Its home package, or the one that it was asked for in.
    pub(crate) package: String,
    pub(crate) symbol: Option<Symbol>,
}

impl SoughtSymbol {
    /// The symbol that was asked for and is not in the image, in `package` if that exists.
    pub(crate) fn missing(index: &Index, asked: &Asked, package: Option<Package>) -> SoughtSymbol {
        let home = package.map(|package| index.package_name(package).into_owned());
        SoughtSymbol {
            name: asked.name.clone(),
            package: home.unwrap_or_else(|| asked.package.clone()),
            symbol: None,
        }
    }

    /// The symbol of `uses`.
    pub(crate) fn of(uses: &SymbolUses<'_>) -> SoughtSymbol {
        let SearchTarget { package, name } = uses.sought().clone();
        SoughtSymbol { name, package, symbol: Some(uses.symbol()) }
    }
}

/// The certainty that a token is the symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Likelihood {
    /// As far as the text tells, it is.
    Certain,
    /// It may be.
    Possible,
}

/// Finds where `target` stands in text that the image does not have. Reads each file with the name.
pub(crate) fn text_uses(
    index: &Index,
    project: &Project,
    now: &Now,
    target: &SoughtSymbol,
    own_only: bool,
) -> TextUses {
    let is_standard = PackageOwner::of(&target.package) != PackageOwner::User;
    let look = if is_standard { Look::Unseen } else { Look::UnseenAndVendored };
    let found = project.named_at(now, &target.name, look, own_only);
    let resolver = TokenResolver::new(index, project, now, target);
    let vendored = resolver.vendored(&found.vendored);
    let mut uses = TextUses { lines: Vec::new(), cautions: not_searched(project, &found), vendored };
    for file in &found.files {
        if resolver.count(file).0 > 0
            && let Some(file) = project.read_named(file)
        {
            resolver.add(project, &file, &mut uses);
        }
    }
    uses
}

/// Counts where `target` stands in text that the image does not have, also outside of the project.
pub(crate) fn text_counts(index: &Index, project: &Project, now: &Now, target: &SoughtSymbol) -> TextCounts {
    let found = project.named_at(now, &target.name, Look::Unseen, false);
    let resolver = TokenResolver::new(index, project, now, target);
    let mut counts = TextCounts { cautions: not_searched(project, &found), ..TextCounts::default() };
    for file in &found.files {
        let (mut uses, mut definitions) = (None, None);
        resolver.count_by_state(file, |state, defines, count| {
            let found = if defines { &mut definitions } else { &mut uses };
            let found = found.get_or_insert_with(|| UnseenFile::new(project.shown_path(&file.path)));
            found.count(state, count);
        });
        counts.uses.extend(uses);
        counts.definitions.extend(definitions);
    }
    counts
}

/// A definition that only the text of a file tells, which the image does not have as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TextDefined {
    /// The name, with the package that is current there.
    pub(crate) symbol: LispName,
    pub(crate) place: Location,
    pub(crate) kind: DefinitionKind,
    /// The line's text.
    pub(crate) context: String,
}

/// Finds where `target`, which the image does not have, is defined in text; where nobody named its package, in any.
pub(crate) fn text_definitions(
    index: &Index,
    project: &Project,
    now: &Now,
    target: &SoughtSymbol,
) -> Vec<TextDefined> {
    let resolver = TokenResolver::new(index, project, now, target);
    let default = index.find_package(DEFAULT_PACKAGE, None);
    let anywhere = default.is_some_and(|default| index.package_name(default) == target.package.as_str());
    let mut found = Vec::new();
    for file in project.named_at(now, &target.name, Look::Unseen, false).files {
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

fn not_searched(project: &Project, found: &NamedTexts<NamedText>) -> Vec<Caution> {
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

/// Counts the places of the symbols, each a package and a name, in text that the image does not have,
/// definitions left out.
pub(crate) fn unseen_uses<'a>(
    context: &QueryContext<'_>,
    symbols: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Unseen {
    let (index, project) = (&context.index, context.project);
    let now = project.now();
    let mut files = Vec::new();
    for (package, name) in symbols {
        let symbol = index.symbol_named(package, name).map(|(symbol, _)| symbol);
        let target = SoughtSymbol { name: name.to_owned(), package: package.to_owned(), symbol };
        files.extend(text_counts(index, project, &now, &target).unseen().files);
    }
    Unseen::new(files)
}

/// Returns the state of a token in a file of this state. `None`: the image has it as a symbol.
fn state_of(state: TextState, token: &TokenClass) -> Option<TextState> {
    if state == TextState::LeftOut { in_seen_file(token) } else { Some(state) }
}

/// What was found of the classes of one list, by number; none of one that was not asked about yet.
type KnownMeanings = Vec<Option<Option<Likelihood>>>;

/// Decides which tokens of a text are the symbol, by the packages of the image and by those that unseen text
/// defines.
pub(crate) struct TokenResolver<'a> {
    index: &'a Index,
    project: &'a Project,
    now: &'a Now,
    target: &'a SoughtSymbol,
    /// The definitions of packages in unseen text that were looked for, by name.
    packages: RefCell<HashMap<String, Rc<[Arc<PackageText>]>>>,
    /// Whether the bare name is the symbol, by the current package.
    bare: RefCell<HashMap<String, Option<Likelihood>>>,
    meanings: RefCell<Meanings>,
}

/// The meanings of the tokens that were counted: for each list of classes, and whether the file defines systems.
#[derive(Debug, Default)]
struct Meanings {
    /// Those of the list that was asked for last, as most files follow others of their list.
    last: KnownMeanings,
    list: Option<ClassList>,
    others: HashMap<ClassList, KnownMeanings>,
}

/// A list of classes, which lives as long as the files that name it: its address stands for it. And whether the file defines systems.
type ClassList = (*const Arc<TokenClass>, bool);

impl Meanings {
    /// Returns the meanings of a list with so many classes.
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
        now: &'a Now,
        target: &'a SoughtSymbol,
    ) -> Self {
        let (packages, bare, meanings) = (RefCell::default(), RefCell::default(), RefCell::default());
        Self { index, project, now, target, packages, bare, meanings }
    }

    /// Counts the uses and the definitions of the symbol in a file, without reading it.
    fn count(&self, file: &NamedText) -> (usize, usize) {
        let (mut uses, mut definitions) = (0, 0);
        self.count_by_state(file, |_, defines, count| {
            *(if defines { &mut definitions } else { &mut uses }) += count;
        });
        (uses, definitions)
    }

    /// Counts the places in vendored files that are not loaded.
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
        // A handful at most.
        let mut counts: Vec<(TextState, bool, usize)> = Vec::new();
        let mut meanings = self.meanings.borrow_mut();
        let meanings = meanings.of((file.classes.as_ptr(), is_system), file.classes.len());
        let mut seen = None;
        for (number, class, lines) in file.runs() {
            let Some(state) = state_of(file.standing, class) else { continue };
            if state == TextState::LeftOut && class.guarded {
                // Once for all runs of the file.
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

    /// Adds the lines of `file` with uses of the symbol.
    fn add(&self, project: &Project, file: &UnseenText, uses: &mut TextUses) {
        let bytes = file.text.as_bytes();
        let (mut last, mut read): (Option<TextUse>, Option<BTreeSet<u32>>) = (None, None);
        for token in file.tokens.named(&self.target.name).iter().filter(|token| !token.defines) {
            let Some(state) = state_of(file.standing, token) else { continue };
            let Some(meaning) = self.meaning(token, defines_systems(&file.path)) else { continue };
            let place = Location::in_text(project.shown(&file.path), &file.lines, bytes, token.span);
            if state == TextState::LeftOut
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

    /// Counts the tokens of a loaded file over which an undecided feature expression decides, and which were not read.
    fn count_guarded(&self, file: &NamedText, add: &mut impl FnMut(TextState, bool, usize)) {
        let Some(text) = self.project.read_named(file) else { return };
        let read = self.places_read(&file.path);
        for token in text.tokens.named(&self.target.name).iter().filter(|token| token.guarded) {
            let is_meant = self.meaning(token, defines_systems(&file.path)).is_some();
            if is_meant
                && in_seen_file(token) == Some(TextState::LeftOut)
                && !read.contains(&token.span.start)
            {
                add(TextState::LeftOut, token.defines, 1);
            }
        }
    }

    /// Returns where SBCL's reader read symbols of the name in a loaded file. For tokens over which a feature expression
    /// decides that the text does not decide.
    pub(crate) fn places_read(&self, path: &Path) -> BTreeSet<u32> {
        let read = || {
            let date = self.project.loaded_date(path)?;
            self.project.positions_at(self.now, path, date).ok()?.places_read(&self.target.name)
        };
        read().unwrap_or_default()
    }

    /// Whether a token reads as the symbol that means something else there: a word of a comment, or a parameter.
    pub(crate) fn reads_as(&self, token: &TokenClass) -> bool {
        let current = token.package.as_deref();
        let found = match (&token.prefix, token.marker) {
            (Some(prefix), _) => self.in_package(prefix, current),
            (None, Marker::None) => current.and_then(|current| self.in_package(current, None)),
            _ => None,
        };
        found == Some(Likelihood::Certain)
    }

    /// Whether `token`, whose name is the symbol's, is the symbol. Comments and words of prose are not.
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
            // The package is found only when the code runs.
            TextContext::Lookup(None) => Some(Likelihood::Possible),
            TextContext::Code => match (token.marker, &token.prefix) {
                (Marker::None, _) => self.here(current),
                // Another implementation's package, of which nothing is known here.
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

    /// Whether neither the image nor any text has a package called `package`.
    fn is_unknown(&self, package: &str, current: Option<&str>) -> bool {
        let within = current.and_then(|current| self.index.find_package(current, None));
        self.nickname(package, current).is_none()
            && package != self.target.package
            && self.index.find_package(package, within).is_none()
            && self.defined(package).is_empty()
    }

    /// Whether the bare name is the symbol where package `current` is current, as far as that is known.
    fn here(&self, current: Option<&str>) -> Option<Likelihood> {
        let Some(current) = current else { return Some(Likelihood::Possible) };
        if let Some(known) = self.bare.borrow().get(current) {
            return *known;
        }
        let found = self.in_package(current, None);
        self.bare.borrow_mut().insert(current.to_owned(), found);
        found
    }

    /// Whether the name is the symbol in the package that is called `package` where `current` is current.
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
            Some((symbol, _)) if Some(symbol) == self.target.symbol => Some(Likelihood::Certain),
            // The symbol does not exist yet, or its package's definition has changed.
            _ if self.target.symbol.is_none() && self.is_home(found) => Some(Likelihood::Certain),
            _ if has_text => by_text(),
            _ => None,
        }
    }

    /// Whether the package that is called `used` exports the symbol, in the image as it is.
    fn exports(&self, used: &str) -> bool {
        let found = self.index.symbol_named(used, &self.target.name);
        found.is_some_and(|(symbol, access)| Some(symbol) == self.target.symbol && access == Access::External)
    }

    /// Whether the package that is called `used` exports the symbol, or may do so by text that the image does
    /// not have.
    fn may_export(&self, used: &str) -> bool {
        let defined = self.defined(used);
        if defined.iter().any(|defined| defined.names.contains(&self.target.package) || defined.is_open) {
            return true;
        }
        match self.index.find_package(used, None) {
            Some(package) => match self.index.find_symbol(&self.target.name, package) {
                Some((symbol, access)) if Some(symbol) == self.target.symbol => access == Access::External,
                _ => self.target.symbol.is_none() && self.is_home(package),
            },
            // A package that is not loaded may export what its text imports.
            None => used == self.target.package || defined.iter().any(|defined| !defined.imports.is_empty()),
        }
    }

    fn is_home(&self, package: Package) -> bool {
        self.index.find_package(&self.target.package, None) == Some(package)
    }

    /// Returns the package that `nickname` is local to `current` for, in unseen text.
    fn nickname(&self, nickname: &str, current: Option<&str>) -> Option<String> {
        self.defined(current?).iter().find_map(|defined| {
            let pair = defined.local_nicknames.iter().find(|(name, _)| name == nickname)?;
            Some(pair.1.clone())
        })
    }

    /// The definitions of `package` in unseen text.
    fn defined(&self, package: &str) -> Rc<[Arc<PackageText>]> {
        if let Some(known) = self.packages.borrow().get(package) {
            return Rc::clone(known);
        }
        let found: Rc<[Arc<PackageText>]> = self.project.unseen_packages(self.now, package).into();
        self.packages.borrow_mut().insert(package.to_owned(), Rc::clone(&found));
        found
    }

    /// Whether a package as `defined` has the symbol.
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
                // It exports what it has imported itself.
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
