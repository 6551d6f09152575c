//! Implements apropos, which finds symbols by name and lists a short description of each symbol.

pub(crate) mod tool;

mod no_match;

use crate::answer::location::as_text;
use crate::answer::{LispKind, LispName, Location, NotFound, SourcePlace};
use regex::{Regex, RegexBuilder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::answer::lookup::find_package;
use crate::answer::package_owner::PackageOwner;
use crate::engine::Control;
use crate::handle::{Error, QueryContext, Question};
pub use no_match::{NoMatch, Widening, Wider};
use steelbank_xref::{Access, Symbol};

/// How a pattern is matched against names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Matching {
    /// The pattern is part of the name.
    #[default]
    Substring,
    /// All words of the pattern are parts of the name, in any order.
    Words,
    /// The pattern is a regular expression that matches part of the name.
    Regex,
}

/// A search for symbols by name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, JsonSchema)]
pub struct AproposRequest {
    /// A part of the name, in any case; `pkg:part` searches one package.
    pub pattern: String,
    /// How the name matches; `words`: all of them, in any order.
    #[serde(default)]
    #[schemars(extend("type" = "string", "enum" = ["substring", "words", "regex"]))]
    pub matching: Matching,
    /// Only these kinds: function, macro, variable, class, …
    #[serde(default)]
    pub kinds: Vec<String>,
    /// Only symbols of these packages.
    #[serde(default)]
    pub packages: Vec<String>,
    /// Only symbols that their home package exports.
    #[serde(default)]
    pub external: bool,
    /// Number of matches to skip.
    #[serde(skip)]
    pub offset: usize,
    /// Maximum number of matches to list.
    #[serde(skip)]
    pub limit: usize,
}

impl AproposRequest {
    /// Creates a search for all symbols with `pattern` as a part of their names.
    pub fn new(pattern: impl Into<String>) -> Self {
        Self {
            pattern: pattern.into(),
            matching: Matching::default(),
            kinds: Vec::new(),
            packages: Vec::new(),
            external: false,
            offset: 0,
            limit: ALL_MATCHES,
        }
    }
}

/// A limit that no search reaches.
const ALL_MATCHES: usize = u32::MAX as usize;

/// Stands for the pattern's package prefix in the list of filters.
const PREFIX: &str = "the prefix";

/// The kinds of definition that a symbol can have.
pub const KINDS: [&str; 14] = [
    "function", "generic-function", "macro", "special-operator", "setf", "variable", "constant",
    "symbol-macro", "class", "structure", "condition", "type", "method-combination", "alien-type",
];

/// Why a search failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AproposError {
    /// The pattern is empty.
    #[error("The pattern is empty. Give a part of the name.")]
    Empty,
    /// The regular expression is invalid.
    #[error("{pattern:?} is not a valid regular expression: {why}")]
    Regex {
        /// The pattern as given.
        pattern: String,
        /// The compiler's error message.
        why: String,
    },
    /// An unknown kind.
    #[error("Unknown kind {kind:?}. The kinds are {}.", KINDS.join(", "))]
    Kind {
        /// The kind as given.
        kind: String,
    },
}

/// The answer to apropos. Exact matches come first, then prefix matches, then other matches.
/// Symbols of SBCL and ASDF come after all other symbols.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct AproposAnswer {
    /// Number of symbols that match and have a definition or, without `kinds`, are exported.
    #[serde(skip_serializing)]
    pub total: usize,
    /// The symbols on this page.
    #[serde(default)]
    pub symbols: Vec<Summary>,
    /// Suggestions, if nothing matches.
    #[serde(skip)]
    pub nothing: Option<NoMatch>,
}

/// A short description of a symbol.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[non_exhaustive]
pub struct Summary {
    /// The symbol.
    pub name: LispName,
    /// The kinds of its definitions; empty if it is only exported.
    #[serde(default)]
    pub kinds: Vec<LispKind>,
    /// The operator's lambda list.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arglist: Option<String>,
    /// The first line of its documentation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub documentation: Option<String>,
    /// Whether its home package exports it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub external: bool,
    /// Its definition: `file:line:column`.
    #[serde(skip_deserializing, skip_serializing_if = "Option::is_none", serialize_with = "as_text")]
    #[schemars(with = "Option<String>")]
    pub place: Option<Location>,
    /// Its definitions.
    #[serde(default, skip_serializing)]
    pub sources: Vec<SourcePlace>,
}

/// A compiled pattern.
enum Matcher {
    Words(Vec<String>),
    Regex(Regex),
}

impl Matcher {
    fn new(pattern: &str, matching: Matching) -> Result<Self, AproposError> {
        if pattern.trim().is_empty() {
            return Err(AproposError::Empty);
        }
        Ok(match matching {
            Matching::Substring => Self::Words(vec![pattern.to_uppercase()]),
            Matching::Words => {
                Self::Words(pattern.to_uppercase().split_whitespace().map(String::from).collect())
            }
            Matching::Regex => {
                let regex = RegexBuilder::new(pattern).case_insensitive(true).size_limit(1 << 20).build();
                Self::Regex(regex.map_err(|error| AproposError::Regex {
                    pattern: pattern.to_owned(),
                    why: error.to_string(),
                })?)
            }
        })
    }

    /// Ranks the match of `name`: 0 is best; `None` if it does not match.
    fn rank(&self, name: &str) -> Option<u8> {
        let name = name.to_uppercase();
        match self {
            Self::Regex(regex) => regex.find(&name).map(|found| match (found.start(), found.end()) {
                (0, end) if end == name.len() => 0,
                (0, _) => 1,
                _ => 2,
            }),
            Self::Words(words) => {
                words.iter().all(|word| name.contains(word)).then(|| match words.as_slice() {
                    [word] if *word == name => 0,
                    [word, ..] if name.starts_with(word) => 1,
                    _ => 2,
                })
            }
        }
    }
}

impl Question for AproposRequest {
    type Answer = AproposAnswer;

    const REPEATABLE: bool = true;

    fn answer(&self, context: &QueryContext<'_>, control: &Control) -> Result<AproposAnswer, Error> {
        if let Some(kind) = self.kinds.iter().find(|kind| !KINDS.contains(&kind.as_str())) {
            return Err(AproposError::Kind { kind: kind.clone() }.into());
        }
        let mut answer = self.search(context, control)?;
        if answer.total == 0 {
            answer.nothing = Some(no_match::no_match(self, context, control)?);
        }
        let mut places = context.places();
        for symbol in &mut answer.symbols {
            symbol.place = places.first(&mut symbol.sources);
        }
        Ok(answer)
    }
}

impl AproposRequest {
    /// Splits the pattern into its package prefix, if it has a prefix, and the part that names must
    /// match.
    fn parts(&self) -> (Option<&str>, &str) {
        match (self.matching, self.pattern.split_once(':')) {
            (Matching::Substring | Matching::Words, Some((package, rest))) if !package.is_empty() => {
                (Some(package), rest.trim_start_matches(':'))
            }
            _ => (None, self.pattern.as_str()),
        }
    }

    /// Lists the arguments of the request that may have filtered out matching symbols.
    fn filters(&self) -> Vec<&'static str> {
        let given = [
            ("external", self.external),
            ("kinds", !self.kinds.is_empty()),
            ("packages", !self.packages.is_empty()),
            (PREFIX, self.packages.is_empty() && self.parts().0.is_some()),
        ];
        given.into_iter().filter(|(_, given)| *given).map(|(name, _)| name).collect()
    }

    /// Finds the symbols that match and have a definition or are exported, without their positions.
    fn search(&self, context: &QueryContext<'_>, control: &Control) -> Result<AproposAnswer, Error> {
        let index = &context.index;
        let mut arguments = vec![self.kinds.join(","), self.offset.to_string(), self.limit.to_string()];
        for symbol in self.symbols(context)? {
            let home = index.home_name(symbol);
            arguments.extend(home);
            arguments.push(index.symbol_name(symbol).into_owned());
        }
        let mut answer: AproposAnswer = context.ask("apropos", arguments, control)?;
        answer.symbols.iter_mut().for_each(|symbol| symbol.name.write(index));
        Ok(answer)
    }

    /// Finds all symbols that match, in the answer's order, with and without definitions.
    fn symbols(&self, context: &QueryContext<'_>) -> Result<Vec<Symbol>, Error> {
        let index = &context.index;
        let (prefix, pattern) = self.parts();
        let matcher = Matcher::new(pattern, self.matching)?;
        let mut packages = Vec::new();
        for name in prefix.into_iter().chain(self.packages.iter().map(String::as_str)) {
            let unknown = || NotFound::Package(name.to_uppercase());
            packages.push(find_package(index, name).ok_or_else(unknown)?);
        }
        let mut found: Vec<(u8, PackageOwner, String, Symbol)> = Vec::new();
        for symbol in index.symbols() {
            let Some(home) = index.symbol_package(symbol) else { continue };
            if !packages.is_empty() && !packages.contains(&home) {
                continue;
            }
            let name = index.symbol_name(symbol);
            let Some(rank) = matcher.rank(&name) else { continue };
            let owner = PackageOwner::of(&index.package_name(home));
            let external =
                || index.find_symbol(&name, home).is_some_and(|(_, access)| access == Access::External);
            if (owner == PackageOwner::Steelbank) || (self.external && !external()) {
                continue;
            }
            found.push((rank, owner, index.symbol_text(symbol), symbol));
        }
        let key = |(rank, owner, text, _): &(u8, PackageOwner, String, Symbol)| {
            let owner = (*owner).min(PackageOwner::Sbcl);
            (owner == PackageOwner::Sbcl, *rank, owner, text.len(), text.clone())
        };
        found.sort_by_cached_key(key);
        // The index lists a symbol twice if the symbol is both in the export before a load and in
        // the export after the load.
        found.dedup_by(|a, b| a.2 == b.2);
        Ok(found.into_iter().map(|(.., symbol)| symbol).collect())
    }
}

impl From<AproposError> for Error {
    fn from(error: AproposError) -> Self {
        Self::of_request(error, None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matching_ignores_case_and_ranks_exact_first() {
        let rank = |pattern: &str, matching, name: &str| Matcher::new(pattern, matching).unwrap().rank(name);
        assert_eq!(rank("map", Matching::Substring, "MAP"), Some(0));
        assert_eq!(rank("map", Matching::Substring, "MAPCAR"), Some(1));
        assert_eq!(rank("map", Matching::Substring, "|hash-Map|"), Some(2));
        assert_eq!(rank("map", Matching::Substring, "REDUCE"), None);
        assert_eq!(rank("hash map", Matching::Words, "MAPHASH"), Some(2));
        assert_eq!(rank("^map.*r$", Matching::Regex, "MAPCAR"), Some(0));
        assert_eq!(rank("c[ad]+r", Matching::Regex, "CADDR"), Some(0));
        assert!(matches!(Matcher::new("(", Matching::Regex), Err(AproposError::Regex { .. })));
        assert!(matches!(Matcher::new(" ", Matching::Words), Err(AproposError::Empty)));
    }
}
