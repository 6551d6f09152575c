//! Uses in text that the image does not have as it stands on disk: the place is known, the meaning is not.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use steelbank_reader::Marker;
use steelbank_xref::{Access, Index, Package, Symbol};

#[cfg(feature = "text")]
use super::context::QueryContext;
use super::counted;
use super::lookup::Asked;
use super::uses::SymbolUses;
use crate::answer::Caution;
use crate::answer::location::{Location, as_columns};
pub use crate::project::TextState;
use crate::project::{Look, Now, PackageText, Project, TextContext, TextToken, UnseenText};
use crate::source::positions::SearchTarget;

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
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct UnseenFile {
    /// The file, relative to the project's root if it is below it.
    pub path: String,
    /// How often.
    pub count: usize,
    /// How often of that a feature expression leaves it out of a file that is loaded.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub left_out: usize,
    /// How often of that it is a name from which loaded code makes the symbol when it runs.
    #[serde(skip_serializing_if = "is_zero", default)]
    pub named: usize,
}

fn is_zero(count: &usize) -> bool {
    *count == 0
}

impl Unseen {
    /// Adds up what is known of each file.
    fn new(found: impl IntoIterator<Item = UnseenFile>) -> Unseen {
        let mut files: BTreeMap<String, UnseenFile> = BTreeMap::new();
        for found in found {
            let file = files.entry(found.path.clone()).or_default();
            file.count += found.count;
            file.left_out += found.left_out;
            file.named += found.named;
            file.path = found.path;
        }
        let files: Vec<UnseenFile> = files.into_values().collect();
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
                "of text that the image does not have",
                " What it means there is known once that is loaded.",
            ),
            self.part(|file| file.left_out, "that a feature expression leaves out of what is loaded", ""),
            self.part(|file| file.named, "of loaded text from which code makes the symbol when it runs", ""),
        ];
        parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }

    fn part(&self, count: impl Fn(&UnseenFile) -> usize, what: &str, then: &str) -> Option<String> {
        let files: Vec<_> = self.files.iter().map(|file| (&file.path, count(file))).collect();
        let files: Vec<_> = files.into_iter().filter(|(_, count)| *count > 0).collect();
        let places: usize = files.iter().map(|(_, count)| count).sum();
        let names = some_of(&files, |(path, count)| format!("{path} ({count})"));
        let places = (places > 0).then(|| counted(places, "place", "places"))?;
        Some(format!("The name stands in {places} {what}: {names}.{then}"))
    }
}

/// Lists the first of `files`, and counts the others.
fn some_of<T>(files: &[T], shown: impl Fn(&T) -> String) -> String {
    const SHOWN: usize = 8;
    let mut names: Vec<String> = files.iter().take(SHOWN).map(shown).collect();
    if files.len() > SHOWN {
        names.push(counted(files.len() - SHOWN, "more file", "more files"));
    }
    names.join(", ")
}

/// The uses of a name in text that the image does not have.
#[derive(Debug, Default)]
pub(super) struct TextUses {
    /// By path and line.
    pub(super) lines: Vec<TextUse>,
    /// How often a definition of the name stands in each file.
    definitions: Vec<UnseenFile>,
    /// What could not be searched.
    pub(super) cautions: Vec<Caution>,
}

impl TextUses {
    /// Counts the places of the name in the text.
    pub(super) fn count(&self) -> usize {
        self.lines.iter().map(|line| line.tokens.len()).sum()
    }

    /// Counts the places of the name in each file, definitions left out.
    pub(super) fn unseen(&self) -> Unseen {
        Unseen::new(self.files())
    }

    /// Counts as [`TextUses::unseen`], definitions included.
    pub(super) fn unseen_with_definitions(&self) -> Unseen {
        Unseen::new(self.files().chain(self.definitions.iter().cloned()))
    }

    fn files(&self) -> impl Iterator<Item = UnseenFile> {
        self.lines.iter().map(|line| UnseenFile::new(line.place.file.clone(), line.state, line.tokens.len()))
    }
}

impl UnseenFile {
    fn new(path: String, state: TextState, count: usize) -> Self {
        let if_is = |other| if state == other { count } else { 0 };
        Self { path, count, left_out: if_is(TextState::LeftOut), named: if_is(TextState::Named) }
    }
}

/// The symbol to look for, which the image need not have.
#[derive(Debug, Clone)]
pub(super) struct SoughtSymbol {
    pub(super) name: String,
    /// Its home package, or the one that it was asked for in.
    pub(super) package: String,
    pub(super) symbol: Option<Symbol>,
}

impl SoughtSymbol {
    /// The symbol that was asked for and is not in the image, in `package` if that exists.
    pub(super) fn missing(index: &Index, asked: &Asked, package: Option<Package>) -> SoughtSymbol {
        let home = package.map(|package| index.package_name(package).into_owned());
        SoughtSymbol {
            name: asked.name.clone(),
            package: home.unwrap_or_else(|| asked.package.clone()),
            symbol: None,
        }
    }

    /// The symbol of `uses`.
    pub(super) fn of(uses: &SymbolUses<'_>) -> SoughtSymbol {
        let SearchTarget { package, name } = uses.sought().clone();
        SoughtSymbol { name, package, symbol: Some(uses.symbol()) }
    }
}

/// The certainty that a token is the symbol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Likelihood {
    /// As far as the text tells, it is.
    Certain,
    /// It may be.
    Possible,
}

/// Finds where `target` stands in text that the image does not have.
pub(super) fn text_uses(
    index: &Index,
    project: &Project,
    now: &Now,
    target: &SoughtSymbol,
    own_only: bool,
) -> TextUses {
    let found = project.texts_naming_at(now, &target.name, Look::Unseen, own_only);
    let mut uses = TextUses::default();
    if !found.files.is_empty() {
        let packages = project.unseen_packages_at(now);
        let resolver = TokenResolver { index, packages: &packages, target };
        for file in &found.files {
            resolver.add(project, file, &mut uses);
        }
    }
    if !found.unreadable.is_empty() {
        let files: Vec<String> = found.unreadable.iter().map(|path| project.shown(path)).collect();
        let files = some_of(&files, String::clone);
        uses.cautions.push(Caution::NotSearched(files));
    }
    if found.cut {
        uses.cautions.push(Caution::TooManyFiles);
    }
    uses
}

/// Counts the places of the symbols, each a package and a name, in text that the image does not have,
/// definitions left out.
#[cfg(feature = "text")]
pub(super) fn unseen_uses<'a>(
    context: &QueryContext<'_>,
    symbols: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> Unseen {
    let (index, project) = (&context.index, context.project);
    let now = project.now();
    let mut files = Vec::new();
    for (package, name) in symbols {
        let home = index.find_package(package, None);
        let symbol = home.and_then(|home| index.find_symbol(name, home)).map(|(symbol, _)| symbol);
        let target = SoughtSymbol { name: name.to_owned(), package: package.to_owned(), symbol };
        files.extend(text_uses(index, project, &now, &target, false).unseen().files);
    }
    Unseen::new(files)
}

/// Decides which tokens of a text are the symbol, by the packages of the image and by those that unseen text
/// defines.
pub(super) struct TokenResolver<'a> {
    pub(super) index: &'a Index,
    pub(super) packages: &'a [PackageText],
    pub(super) target: &'a SoughtSymbol,
}

impl TokenResolver<'_> {
    /// Adds the lines of `file` with uses of the symbol.
    fn add(&self, project: &Project, file: &UnseenText, uses: &mut TextUses) {
        let bytes = file.text.as_bytes();
        let mut last: Option<TextUse> = None;
        for token in file.tokens.named(&self.target.name) {
            let state = match file.standing {
                TextState::LeftOut => token.in_seen_file(),
                state => Some(state),
            };
            let Some(state) = state else { continue };
            let is_system = file.path.extension().is_some_and(|ending| ending == "asd");
            let Some(meaning) = self.meaning(token, is_system) else { continue };
            if token.defines {
                uses.definitions.push(UnseenFile::new(project.shown(&file.path), state, 1));
                continue;
            }
            let place = Location::in_text(project.shown(&file.path), &file.lines, bytes, token.span);
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

    /// Whether a word of a comment may be taken for the symbol.
    pub(super) fn of_comment(&self, token: &TextToken) -> bool {
        let current = token.package.as_deref();
        let found = match (&token.prefix, token.marker) {
            (Some(prefix), _) => self.in_package(prefix, current),
            (None, Marker::None) => current.and_then(|current| self.in_package(current, None)),
            _ => None,
        };
        found == Some(Likelihood::Certain)
    }

    /// Whether `token`, whose name is the symbol's, is the symbol. Comments and words of prose are not.
    pub(super) fn meaning(&self, token: &TextToken, is_system: bool) -> Option<Likelihood> {
        let current = token.package.as_deref().or(is_system.then_some("ASDF-USER"));
        let named = |package: &str| self.in_package(package, current);
        let weaker = |meaning: Option<Likelihood>| meaning.map(|_| Likelihood::Possible);
        match &token.context {
            TextContext::Comment => None,
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
        let nickname = current
            .into_iter()
            .flat_map(|current| self.defined(current))
            .any(|defined| defined.local_nicknames.iter().any(|(nickname, _)| nickname == package));
        !nickname
            && package != self.target.package
            && self.index.find_package(package, within).is_none()
            && self.defined(package).next().is_none()
    }

    /// Whether the bare name is the symbol where package `current` is current, as far as that is known.
    fn here(&self, current: Option<&str>) -> Option<Likelihood> {
        match current {
            Some(current) => self.in_package(current, None),
            None => Some(Likelihood::Possible),
        }
    }

    /// Whether the name is the symbol in the package that is called `package` where `current` is current.
    fn in_package(&self, package: &str, current: Option<&str>) -> Option<Likelihood> {
        let index = self.index;
        let within = current.and_then(|current| index.find_package(current, None));
        let nickname = current.into_iter().flat_map(|current| self.defined(current)).find_map(|defined| {
            let pair = defined.local_nicknames.iter().find(|(nickname, _)| nickname == package)?;
            Some(pair.1.as_str())
        });
        let package = nickname.unwrap_or(package);
        let mut by_text = self.defined(package).peekable();
        let has_text = by_text.peek().is_some();
        let by_text = || {
            self.defined(package).filter_map(|defined| self.by_definition(defined)).min_by_key(|m| *m as u8)
        };
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
        let found = self.index.find_package(used, None);
        let found = found.and_then(|package| self.index.find_symbol(&self.target.name, package));
        found.is_some_and(|(symbol, access)| Some(symbol) == self.target.symbol && access == Access::External)
    }

    /// Whether the package that is called `used` exports the symbol, or may do so by text that the image does
    /// not have.
    fn may_export(&self, used: &str) -> bool {
        let defined = || self.defined(used);
        if defined().any(|defined| defined.names.contains(&self.target.package) || defined.is_open) {
            return true;
        }
        match self.index.find_package(used, None) {
            Some(package) => match self.index.find_symbol(&self.target.name, package) {
                Some((symbol, access)) if Some(symbol) == self.target.symbol => access == Access::External,
                _ => self.target.symbol.is_none() && self.is_home(package),
            },
            // A package that is not loaded may export what its text imports.
            None => used == self.target.package || defined().any(|defined| !defined.imports.is_empty()),
        }
    }

    fn is_home(&self, package: Package) -> bool {
        self.index.find_package(&self.target.package, None) == Some(package)
    }

    /// The definitions of `package` in unseen text.
    fn defined<'b>(&'b self, package: &'b str) -> impl Iterator<Item = &'b PackageText> {
        self.packages.iter().filter(move |defined| defined.names.iter().any(|name| name == package))
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
                || self.defined(package).any(|defined| defined.names.contains(home))
        };
        if defined.imports.iter().any(|(imported, from)| imported == name && same(from)) {
            return Some(Likelihood::Certain);
        }
        if defined.uses.iter().any(|used| self.exports(used)) {
            return Some(Likelihood::Certain);
        }
        (defined.uses.iter().any(|used| self.may_export(used)) || defined.is_open)
            .then_some(Likelihood::Possible)
    }
}
