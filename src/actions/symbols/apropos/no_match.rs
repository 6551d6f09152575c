//! Builds suggestions for a pattern that matches nothing: similar names, and wider searches that
//! find something.

use super::{AproposAnswer, AproposRequest, Matching};
use crate::actions::uses::code_find_references::describe_unloaded;
use crate::answer::lookup::{Asked, DEFAULT_PACKAGE, find_package};
use crate::answer::{LispName, nearest};
use crate::engine::Control;
use crate::handle::{Error, QueryContext};

/// Suggestions for a search that found nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct NoMatch {
    /// The pattern as given.
    pub pattern: String,
    /// Names that are similar to the complete pattern, or else to its words.
    pub near: Vec<String>,
    /// Wider searches that find something.
    pub wider: Vec<Wider>,
    /// A sentence about files that are not loaded and contain the name; empty if there are none.
    pub unseen: String,
}

/// A wider search.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Wider {
    /// How it differs from the original search.
    pub change: Widening,
    /// Number of symbols that it finds.
    pub matches: usize,
    /// The first symbol that it finds.
    pub first: LispName,
}

/// The ways to widen a search.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Widening {
    /// Omits these arguments, or the prefix of the pattern.
    Without(Vec<&'static str>),
    /// Matches the pattern word by word.
    Words,
}

/// Builds suggestions for `request`, which matches nothing.
pub(super) fn no_match(
    request: &AproposRequest,
    context: &QueryContext<'_>,
    control: &Control,
) -> Result<NoMatch, Error> {
    let (prefix, pattern) = request.parts();
    let mut nothing = NoMatch { pattern: request.pattern.clone(), ..NoMatch::default() };
    let filters = request.filters();
    let single = filters.iter().map(|filter| vec![*filter]);
    let all = (filters.len() > 1).then(|| filters.clone());
    for without in single.chain(all) {
        // Drop all filters at once only if dropping any single filter does not help.
        if without.len() > 1 && !nothing.wider.is_empty() {
            break;
        }
        nothing.wider.extend(widened(request, Widening::Without(without), context, control)?);
    }
    if request.matching == Matching::Substring && pattern.contains(char::is_whitespace) {
        nothing.wider.extend(widened(request, Widening::Words, context, control)?);
    }
    let plain = pattern.trim_start_matches('^').trim_end_matches('$');
    let nameable =
        request.matching != Matching::Regex || !plain.contains(|c: char| "\\.[](){}|?".contains(c));
    if nameable {
        let words: Vec<String> = plain.split_whitespace().map(str::to_uppercase).collect();
        if nothing.wider.is_empty() {
            nothing.near = context.project.with_read_symbols(|read| {
                let near = nearest::names(&context.index, read, &words.join("-"), None);
                match near.is_empty() {
                    true => nearest::names_by_words(&context.index, read, plain),
                    false => near,
                }
            });
        }
        // A symbol with exactly this name did not match because it has no definition, so do not
        // suggest it.
        let is_it = |near: &str| {
            near.rsplit(':').next().is_some_and(|name| name.eq_ignore_ascii_case(&words.join("-")))
        };
        nothing.near.retain(|near| !is_it(near));
        let package = prefix.or(request.packages.first().map(String::as_str)).unwrap_or(DEFAULT_PACKAGE);
        let asked = Asked { name: words.join("-"), package: package.to_uppercase() };
        let package = find_package(&context.index, package);
        nothing.unseen = describe_unloaded(&context.index, context.project, &asked, package);
    }
    Ok(nothing)
}

/// Runs the wider search; returns `None` if it finds nothing.
fn widened(
    request: &AproposRequest,
    change: Widening,
    context: &QueryContext<'_>,
    control: &Control,
) -> Result<Option<Wider>, Error> {
    let mut wider = AproposRequest { offset: 0, limit: 1, ..request.clone() };
    match &change {
        Widening::Words => wider.matching = Matching::Words,
        Widening::Without(filters) => {
            for filter in filters {
                match *filter {
                    "external" => wider.external = false,
                    "kinds" => wider.kinds.clear(),
                    _ => {
                        wider.packages.clear();
                        wider.pattern = request.parts().1.to_owned();
                    }
                }
            }
        }
    }
    let found: AproposAnswer = wider.search(context, control)?;
    let first = found.symbols.into_iter().next().map(|symbol| symbol.name);
    Ok(first.map(|first| Wider { change, matches: found.total, first }))
}
